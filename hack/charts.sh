#!/usr/bin/env bash
# charts.sh brings the charts' copies of generated files up to date: the CRDs and the operator's role.
set -euo pipefail

cd "$(dirname "$0")/.."
mkdir -p charts/workpulling-crds/files charts/workpulling/files
rm -f charts/workpulling-crds/files/*.yaml
cp config/crd/bases/*.yaml charts/workpulling-crds/files/
cp config/rbac/role.yaml charts/workpulling/files/role.yaml
