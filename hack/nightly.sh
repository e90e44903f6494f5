#!/usr/bin/env bash
# nightly.sh is the long work: a million seeds, race tests, every benchmark, the
# local cluster's own faults, the whole end-to-end suite, and a soak: the main
# job with many documents and the same kills. A step that is done for this commit is not done again, so a
# run that was broken off goes on where it was. The results go to docs/results,
# to be committed.
#
#   SEEDS=n          seeds in all (1000000), CHUNK=n at a time (50000)
#   SOAK_DOCUMENTS=n documents of the soak (60000)
set -euo pipefail

cd "$(dirname "$0")/.."
commit=$(git rev-parse --short=12 HEAD)
state=${XDG_CACHE_HOME:-$HOME/.cache}/workpulling/nightly/$commit
results=docs/results
seeds=${SEEDS:-1000000}
chunk=${CHUNK:-50000}
soak=${SOAK_DOCUMENTS:-60000}
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
once race make test-race
once bench make bench
once queue-bench go run -C test/bench/queue . -dir "$state"
once cluster make test-cluster
once e2e make test-e2e TIMEOUT=6h
once soak make demo DOCUMENTS="$soak"

# shellcheck disable=SC2016 # the backticks are Markdown
{
	printf '# Nightly run of %s\n\n' "$commit"
	printf '%s\n' "- Simulator: $seeds seeds, no invariant broken."
	printf '%s\n' "- Race tests, the local cluster's own tests, end-to-end suite: passed."
	printf '%s\n\n' "- Soak of $soak documents: passed; its table:"
	printf '```\n%s\n```\n\n' "$(tail -n 40 "$state/soak.log")"
	printf '%s\n\n' "The durable queue beside its peer, and the benchmarks:"
	printf '```\n%s\n```\n\n' "$(cat "$state/queue-bench.log")"
	printf '```\n%s\n```\n' "$(grep -E '^(Benchmark|goos|goarch|cpu|pkg)' "$state/bench.log")"
} >"$results/nightly.md"
echo "wrote $results/nightly.md" >&2
