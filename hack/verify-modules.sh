#!/usr/bin/env bash
# verify-modules.sh fails when a go.mod or go.sum is not what `go mod tidy` makes.
set -euo pipefail

cd "$(dirname "$0")/.."
status=0
while read -r mod; do
	if ! go mod tidy -C "$(dirname "$mod")" -diff; then
		echo "$mod is not tidy" >&2
		status=1
	fi
done < <(git ls-files '*go.mod')
exit "$status"
