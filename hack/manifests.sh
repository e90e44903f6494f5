#!/usr/bin/env bash
# manifests.sh generates the CRDs and the operator's roles from the code, and the
# copies of the CRDs in their chart.
set -euo pipefail

cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$CONTROLLER_GEN" crd:generateEmbeddedObjectMeta=true paths=./api/... "output:crd:dir=$scratch"
go run ./hack/crdtrim -in "$scratch" -out config/crd/bases
"$CONTROLLER_GEN" rbac:roleName=workpulling-operator paths=./controllers/... paths=./internal/... paths=./cmd/... output:rbac:dir=config/rbac
go run ./hack/namespacedrole <config/rbac/role.yaml >config/namespaced/rights/role.yaml
hack/charts.sh
