#!/usr/bin/env bash
# verify.sh is `make verify`: regenerate everything, run the read-only checks, and
# demand a clean tree without untracked files. It reports every failure, not only
# the first.
set -euo pipefail

cd "$(dirname "$0")/.."
hack/setup.sh go verify

failed=()
step() {
	local name=$1
	shift
	echo "── $name"
	if ! "$@"; then
		failed+=("$name")
	fi
}

# 1. Regenerate.
step "generate" make generate
step "manifests" make manifests
step "proto" make proto
step "docs" make docs
step "format" make fmt

# 2. Check.
step "modules" hack/verify-modules.sh
step "wire schema" make proto-lint
step "lint" make lint
step "API lint" make lint-api
step "charts" make chart-lint
step "shell" hack/verify-shell.sh
step "names" hack/verify-names.sh

# 3. Demand a clean tree.
step "clean tree" hack/verify-clean.sh

if [ ${#failed[@]} -gt 0 ]; then
	printf 'verify failed: %s\n' "$(IFS=,; echo "${failed[*]}")" >&2
	exit 1
fi
echo "verify: all good"
