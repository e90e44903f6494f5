#!/usr/bin/env bash
# build-progress.sh PACKAGES… compiles packages and counts what has been compiled:
# from a cold cache the Kubernetes libraries take minutes.
set -euo pipefail

total=$(go list -deps "$@" | wc -l)
start=$SECONDS
tty=0
[ -t 2 ] && tty=1

# -v names each package that had to be compiled; the rest of the output are errors.
go build -v -o /dev/null "$@" 2>&1 | awk -v total="$total" -v tty="$tty" '
	/^#/ || /[: ]/ { print > "/dev/stderr"; next }
	{
		n++
		if (tty) printf "\rcompiled %d of at most %d packages", n, total > "/dev/stderr"
		else if (n % 100 == 0) printf "compiled %d of at most %d packages\n", n, total > "/dev/stderr"
	}
	END { if (tty && n) print "" > "/dev/stderr" }'

took=$((SECONDS - start))
[ "$took" -le 2 ] || echo "✓ compiled in $took s" >&2
