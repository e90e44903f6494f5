#!/usr/bin/env bash
# Runs the main job on a real Kubernetes: the local one of `make cluster-up`, which it starts, or the one of $KUBECONFIG.
#
#   DOCUMENTS=n            how many documents (5000)
#   KUBECONFIG=file        use this cluster. Its nodes must have the two images: give LOAD_IMAGE, or load or push them first
#   LOAD_IMAGE='command'   brings an archive to the nodes, for example 'kind load image-archive'
set -euo pipefail
cd "$(dirname "$0")/../.."

step() { printf '\n\033[1m── %s\033[0m\n' "$*"; }
start=$SECONDS

if [[ -z ${HELM:-} ]]; then
  HELM=$PWD/bin/helm
  hack/progress.sh "building helm" go build -C hack/tools -trimpath -o "$HELM" helm.sh/helm/v3/cmd/helm
fi
export HELM

if [[ -z ${KUBECONFIG:-} ]]; then
  step "A local Kubernetes"
  hack/progress.sh "building the cluster command" go build -C hack/cluster -trimpath -o "$PWD/bin/cluster" ./cmd/cluster
  bin/cluster up
  KUBECONFIG=$(bin/cluster kubeconfig)
  LOAD_IMAGE=${LOAD_IMAGE:-bin/cluster load-image}
elif [[ -z ${LOAD_IMAGE:-} ]]; then
  echo "Using the cluster of $KUBECONFIG. LOAD_IMAGE is not set, so its nodes must have the images of dist/images.env already." >&2
fi
export KUBECONFIG

step "The images"
hack/images.sh
if [[ -n ${LOAD_IMAGE:-} ]]; then
  for archive in dist/workpulling.tar dist/sample-app.tar; do
    # A command with arguments, so it is split on purpose.
    # shellcheck disable=SC2086
    hack/progress.sh "loading $archive" $LOAD_IMAGE "$archive"
  done
fi

go run ./hack/demo -documents "${DOCUMENTS:-5000}"
printf '\nAll of it took %d s.\n' $((SECONDS - start))
