#!/usr/bin/env bash
# chart-lint.sh lints and renders every chart, under a release name and in a
# namespace that no template can have guessed.
set -euo pipefail

cd "$(dirname "$0")/.."

# The oldest Kubernetes that is supported.
oldest=1.33.0
for chart in charts/*/; do
	"$HELM" lint --strict --kube-version "$oldest" "$chart"
	"$HELM" template an-odd-release "$chart" --namespace an-odd-namespace --kube-version "$oldest" >/dev/null
done
