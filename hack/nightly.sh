#!/usr/bin/env bash
# nightly.sh is the long work: a million seeds, every benchmark, the whole
# end-to-end suite. A step that is done for this commit is not done again, so a
# run that was broken off goes on where it was. The results go to docs/results,
# to be committed.
#
#   SEEDS=n   seeds in all (1000000), CHUNK=n at a time (50000)
set -euo pipefail

cd "$(dirname "$0")/.."
commit=$(git rev-parse --short=12 HEAD)
state=${XDG_CACHE_HOME:-$HOME/.cache}/workpulling/nightly/$commit
results=docs/results
seeds=${SEEDS:-1000000}
chunk=${CHUNK:-50000}
mkdir -p "$state" "$results"

# once NAME COMMAND… runs a step unless this commit has passed it, and keeps its
# output.
once() {
	local name=$1
	shift
	if [ -e "$state/$name.done" ]; then
		echo "✓ $name was done before" >&2
		return
	fi
	hack/progress.sh "$name" "$@" | tee "$state/$name.log"
	touch "$state/$name.done"
}

for ((start = 1; start <= seeds; start += chunk)); do
	once "seeds-$start" go run ./runtime/simulation/cmd/sim -start "$start" -seeds "$((seeds - start + 1 < chunk ? seeds - start + 1 : chunk))"
done
once bench make bench
once e2e make test-e2e TIMEOUT=6h

{
	printf '# Nightly run of %s\n\n' "$commit"
	printf '%s\n' "- Simulator: $seeds seeds, no invariant broken."
	printf '%s\n\n' "- End-to-end suite: passed."
	# shellcheck disable=SC2016 # the backticks are Markdown
	printf '```\n%s\n```\n' "$(grep -E '^(Benchmark|goos|goarch|cpu|pkg)' "$state/bench.log")"
} >"$results/nightly.md"
echo "wrote $results/nightly.md" >&2
