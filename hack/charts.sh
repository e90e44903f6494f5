#!/usr/bin/env bash
# charts.sh brings the charts' copies of files of config up to date: the CRDs, the operator's roles, the admission policy and the alerts.
set -euo pipefail

cd "$(dirname "$0")/.."
mkdir -p charts/workpulling-crds/files charts/workpulling/files
rm -f charts/workpulling-crds/files/*.yaml
cp config/crd/bases/*.yaml charts/workpulling-crds/files/
cp config/rbac/role.yaml charts/workpulling/files/role.yaml
cp config/namespaced/rights/role.yaml charts/workpulling/files/namespace-role.yaml
cp config/admission/worker_leases.yaml charts/workpulling/files/worker-lease-policy.yaml
mkdir -p charts/workpulling/files/alerts
rm -f charts/workpulling/files/alerts/*.yaml
grep -l '^kind: PrometheusRule$' config/prometheus/*.yaml | xargs cp -t charts/workpulling/files/alerts
