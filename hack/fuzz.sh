#!/usr/bin/env bash
# fuzz.sh runs every fuzzer of the module in turn, TIME each (30s), and says how
# many executions each had. What a fuzzer finds is kept in its package's
# testdata/fuzz, where plain `go test` repeats it for ever.
#
#   TIME=30s     how long each runs, or how often (20000x)
#   FOCUS=regexp only fuzzers whose package or name matches
set -euo pipefail

cd "$(dirname "$0")/.."
time=${TIME:-30s}
focus=${FOCUS:-.}
status=0
ran=0
total=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# deadline_only says that nothing was found and the one complaint is that the
# time was up. Go before 1.27 now and then takes the end of a run for its failure.
deadline_only() {
	! grep -q 'Failing input written' "$log" &&
		[ "$(sed -n '/^--- FAIL: /,/^FAIL/p' "$log" | grep -vE '^(--- FAIL: |FAIL|exit status)')" = "    context deadline exceeded" ]
}

while IFS=: read -r file name; do
	package=./$(dirname "$file")
	[[ "$package/$name" =~ $focus ]] || continue
	ran=$((ran + 1))
	verdict=passed
	if ! go test "$package" -run '^$' -fuzz "^$name\$" -fuzztime "$time" -fuzzminimizetime 10x >"$log" 2>&1 && ! deadline_only; then
		verdict=FAILED
		status=1
	fi
	executions=$(sed -n 's/^fuzz: elapsed: .*execs: \([0-9]*\).*/\1/p' "$log" | tail -n1)
	total=$((total + ${executions:-0}))
	printf '%-28s %-24s %-7s %12s executions in %s\n' "$package" "$name" "$verdict" "${executions:-0}" "$time"
	[ "$verdict" = passed ] || tail -n 30 "$log"
done < <(grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9]+' runtime sidecar internal controllers cmd | sed -E 's/:[0-9]+:func /:/' | sort)

if [ "$ran" -eq 0 ]; then
	echo "no fuzzer matches FOCUS=$focus" >&2
	exit 2
fi
printf '%d executions in all\n' "$total"
exit "$status"
