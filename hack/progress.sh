#!/usr/bin/env bash
# progress.sh NAME COMMAND… runs a command and says every 15 seconds that it
# still runs, so that a slow step is never a silent one.
set -euo pipefail

name=$1
shift
start=$SECONDS

# A read that times out is a sleep without a process of its own, which would
# outlive us and hold our output open.
beat() {
	local never
	exec {never}<> <(:)
	while ! read -rt 15 -u "$never"; do
		echo "… $name: $((SECONDS - start)) s" >&2
	done
}

beat &
beat_pid=$!
trap 'kill "$beat_pid" 2>/dev/null || true' EXIT

if "$@"; then
	status=0
else
	status=$?
fi
took=$((SECONDS - start))
if [ "$status" -ne 0 ]; then
	echo "✗ $name failed after $took s" >&2
elif [ "$took" -gt 2 ]; then
	echo "✓ $name: $took s" >&2
fi
exit "$status"
