#!/usr/bin/env bash
# verify-shell.sh checks every shell script in the repository.
set -euo pipefail

cd "$(dirname "$0")/.."
if ! command -v shellcheck >/dev/null 2>&1; then
	echo "shellcheck is missing: only the syntax is checked" >&2
fi
status=0
while read -r script; do
	head -1 "$script" | grep -qE '^#!.*\b(ba)?sh\b' || continue
	bash -n "$script" || status=1
	if command -v shellcheck >/dev/null 2>&1; then
		shellcheck -x "$script" || status=1
	fi
done < <(git ls-files '*.sh' '.ci/*' 'hack/*' | sort -u)
exit "$status"
