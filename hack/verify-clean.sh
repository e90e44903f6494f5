#!/usr/bin/env bash
# verify-clean.sh fails when the tree differs from the last commit, untracked
# files included: what is generated must be committed.
set -euo pipefail

cd "$(dirname "$0")/.."
changes=$(git status --porcelain --untracked-files=all)
if [ -n "$changes" ]; then
	echo "$changes"
	git --no-pager diff --stat
	echo "the tree is not clean: commit what was generated, ignore or delete the rest" >&2
	exit 1
fi
