#!/usr/bin/env bash
# Runs the main job on a real Kubernetes: the local one of `make cluster-up`, which it starts, or the one of $KUBECONFIG; see
# prepare.sh for that. DOCUMENTS=n says how many documents (6000).
set -euo pipefail
cd "$(dirname "$0")/../.."

start=$SECONDS
prepared=$(hack/demo/prepare.sh)
while IFS='=' read -r name value; do
  export "$name=$value"
done <<<"$prepared"
go run ./hack/demo -documents "${DOCUMENTS:-6000}"
printf '\nAll of it took %d s.\n' $((SECONDS - start))
