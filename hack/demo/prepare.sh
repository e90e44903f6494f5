#!/usr/bin/env bash
# Makes a Kubernetes with the images in it ready, and prints what a program needs to use it: KUBECONFIG, KUBECTL and HELM, one a
# line. Progress goes to standard error.
#
#   KUBECONFIG=file        use this cluster instead of the local one. Its nodes must have the two images: give LOAD_IMAGE, or
#                          load or push the images that hack/images.sh builds first
#   LOAD_IMAGE='command'   brings an archive to the nodes, for example 'kind load image-archive'
#   CLUSTER_NAME=name      name of the local cluster (workpulling)
#   NODES=n                nodes of the local cluster (as many as it has, or 1)
set -euo pipefail
cd "$(dirname "$0")/../.."

step() { printf '\n\033[1m── %s\033[0m\n' "$*" >&2; }

if [[ -z ${HELM:-} ]]; then
  HELM=$PWD/bin/helm
  hack/progress.sh "building helm" go build -C hack/tools -trimpath -o "$HELM" helm.sh/helm/v3/cmd/helm >&2
fi

if [[ -z ${KUBECONFIG:-} ]]; then
  step "A local Kubernetes"
  cluster=${WORKPULLING_CLUSTER_BIN:-$PWD/bin/cluster}
  if [[ -z ${WORKPULLING_CLUSTER_BIN:-} ]]; then
    hack/progress.sh "building the cluster command" go build -C hack/cluster -trimpath -o "$cluster" ./cmd/cluster >&2
  fi
  name=${CLUSTER_NAME:-workpulling}
  nodes=${NODES:-$("$cluster" status --name "$name" | grep -c '^node-.* kubelet ' || true)}
  KUBECONFIG=$("$cluster" up --name "$name" --nodes "$((nodes > 0 ? nodes : 1))")
  KUBECTL=${KUBECTL:-$("$cluster" assets)/kubectl}
  LOAD_IMAGE=${LOAD_IMAGE:-$cluster load-image --name $name}
elif [[ -z ${LOAD_IMAGE:-} ]]; then
  echo "Using the cluster of $KUBECONFIG. LOAD_IMAGE is not set, so its nodes must have the images of dist/images.env already." >&2
fi

step "The images"
hack/images.sh >&2
if [[ -n ${LOAD_IMAGE:-} ]]; then
  for archive in dist/workpulling.tar dist/sample-app.tar; do
    # A command with arguments, so it is split on purpose.
    # shellcheck disable=SC2086
    hack/progress.sh "loading $archive" $LOAD_IMAGE "$archive" >&2
  done
fi

printf 'KUBECONFIG=%s\nKUBECTL=%s\nHELM=%s\n' "$KUBECONFIG" "${KUBECTL:-kubectl}" "$HELM"
