#!/usr/bin/env bash
# nightly.sh is the long work: a million seeds, every deliberate bug, every fuzzer,
# ten minutes of killed processes in each of the crash tests, a soak (the main job
# with many documents and some kills), race tests, benchmarks, the local cluster's
# own faults, and the whole end-to-end suite. A step that is done for this commit
# is not done again, so a run that was broken off goes on where it was. After each
# step docs/results/nightly.md says what was done and what was not, and
# docs/results/mutants.md what found each deliberate bug, to be committed.
#
#   SEEDS=n          seeds in all (1000000), CHUNK=n at a time (50000)
#   FUZZ_TIME=t      how long each fuzzer runs (5m)
#   SOAK_DOCUMENTS=n documents of the soak (60000)
#   CRASH_DURATION=t how long each of the four crash tests lasts (10m)
set -euo pipefail

cd "$(dirname "$0")/.."
commit=$(git rev-parse --short=12 HEAD)
state=${XDG_CACHE_HOME:-$HOME/.cache}/workpulling/nightly/$commit
results=docs/results
seeds=${SEEDS:-1000000}
chunk=${CHUNK:-50000}
fuzz=${FUZZ_TIME:-5m}
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
	report
}

# said NAME says whether a step was done.
said() {
	[ -e "$state/$1.done" ] && echo passed || echo "not run yet"
}

# output NAME FILTER… shows what is worth keeping of a step that was done.
output() {
	local name=$1
	shift
	if [ -e "$state/$name.done" ]; then
		# shellcheck disable=SC2016 # the backticks are Markdown
		printf '\n## %s\n\n```\n%s\n```\n' "$name" "$("$@" <"$state/$name.log")"
	fi
}

# report writes the page. A seed chunk counts once it is whole.
report() {
	local file seen=0
	for file in "$state"/seeds-*.done; do
		[ -e "$file" ] && seen=$((seen + chunk))
	done
	{
		printf '# Long runs at %s\n\n' "$commit"
		printf -- '- simulator: %s seeds, no invariant broken\n' "$((seen < seeds ? seen : seeds))"
		printf -- '- deliberate bugs, each found: %s\n' "$(said mutants)"
		printf -- '- fuzzers, %s each: %s\n' "$fuzz" "$(said fuzz)"
		printf -- '- kills of real processes under load: %s\n' "$(said crash)"
		printf -- '- soak of %s documents: %s\n' "$soak" "$(said soak)"
		printf -- '- race tests: %s\n' "$(said race)"
		printf -- '- local cluster, its own faults: %s\n' "$(said cluster)"
		printf -- '- end-to-end suite: %s\n' "$(said e2e)"
		printf -- '- queue beside its peer: %s\n' "$(said queue-bench)"
		printf -- '- benchmarks: %s\n' "$(said bench)"
		output mutants sed -n '/^found \|^without a mutant, seeds/p'
		output fuzz cat
		output crash sed -n '/^--- \|From SIGKILL/p;/faults that hit/,/resident memory/p'
		output soak sed -n '/The proof/,/^  lost 0/p'
		output queue-bench cat
		output bench grep -E '^(Benchmark|goos|goarch|cpu|pkg)'
	} >"$results/nightly.md"
}

for ((start = 1; start <= seeds; start += chunk)); do
	once "seeds-$start" go run ./runtime/simulation/cmd/sim -start "$start" -seeds "$((seeds - start + 1 < chunk ? seeds - start + 1 : chunk))"
done
once mutants make mutants RECORD=1
once fuzz make fuzz TIME="$fuzz"
once crash make crash DURATION="${CRASH_DURATION:-10m}"
once soak make demo DOCUMENTS="$soak"
once race make test-race
once cluster make test-cluster
once e2e make test-e2e TIMEOUT=6h
once queue-bench go run -C test/bench/queue . -dir "$state"
once bench make microbench
report
echo "wrote $results/nightly.md" >&2
