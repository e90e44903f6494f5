#!/usr/bin/env bash
# verify-names.sh fails when a file names something of one machine: a home or
# checkout directory, or the host of a package registry or mirror.
set -euo pipefail

cd "$(dirname "$0")/.."
machine='(^|[^A-Za-z0-9_./-])/(root|work|home/[a-z]+|Users)/'
registry='GOPROXY=http|proxy\.golang\.org|registry\.npmjs|pypi\.org|deb\.debian\.org|docker\.io/|ghcr\.io/|quay\.io/|registry\.k8s\.io'

status=0
if git grep -nIE "$machine" -- . ':!hack/verify-names.sh' ':!*go.sum'; then
	echo "the lines above name a directory of one machine" >&2
	status=1
fi
if git grep -nIE "$registry" -- . ':!hack/verify-names.sh' ':!*go.sum'; then
	echo "the lines above name a registry" >&2
	status=1
fi
exit "$status"
