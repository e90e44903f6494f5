#!/usr/bin/env bash
# Builds the images and writes them into dist/ as archives that `cluster load-image`, `docker load` and `ctr images import`
# read: workpulling.tar and sample-app.tar. dist/images.env says how they are called.
#
#   TAG=...    tag of both images; default: git's description of a clean tree, else dev-<hash of the binaries>
#   BASE=...   base image; default scratch
#   GOARCH=... architecture; default that of this machine
#   BUILDER=docker|buildah; default the first that works
set -euo pipefail
cd "$(dirname "$0")/.."

repository=workpulling
dist=dist
arch=${GOARCH:-$(go env GOARCH)}
bin=$dist/bin/linux-$arch
base=${BASE:-scratch}

step() { printf '==> %s\n' "$*" >&2; }

builder() {
  if [[ -n ${BUILDER:-} ]]; then echo "$BUILDER"
  elif docker info >/dev/null 2>&1; then echo docker
  elif command -v buildah >/dev/null; then echo buildah
  elif [[ $(id -u) = 0 ]] && command -v apt-get >/dev/null; then
    step "installing buildah from Debian's packages"
    { apt-get update -q && apt-get install -y -q --no-install-recommends buildah; } >&2
    echo buildah
  else
    echo "hack/images.sh: neither a running docker nor buildah is here; install one of them" >&2
    exit 1
  fi
}

# compile OUT PACKAGE...
compile() {
  local out=$1
  shift
  mkdir -p "$out"
  hack/progress.sh "compiling $*" env CGO_ENABLED=0 GOOS=linux GOARCH="$arch" \
    go build -trimpath -buildvcs=false -ldflags "-s -w ${LDFLAGS:-}" -o "$out/" "$@"
}

# tag prints what the binaries should be called: the same binaries always have the same tag.
tag() {
  local described
  if [[ -n ${TAG:-} ]]; then echo "$TAG"
  elif [[ -z $(git status --porcelain 2>/dev/null || echo none) ]] && described=$(git describe --tags --always 2>/dev/null); then
    echo "$described"
  else
    echo "dev-$({ find "$bin" -type f -print0 | sort -z | xargs -0 cat; echo "$base"; } | sha256sum | cut -c1-12)"
  fi
}

# image NAME DOCKERFILE CONTEXT ARCHIVE
image() {
  local name=$1 dockerfile=$2 context=$3 archive=$4
  if [[ -f $archive && -f $archive.name && $(<"$archive.name") = "$name" ]]; then
    step "$archive is up to date ($name)"
    return
  fi
  step "image $name"
  rm -f "$archive" "$archive.name"
  case $builder in
  docker)
    docker build -q --platform "linux/$arch" --build-arg "BASE=$base" -t "$name" -f "$dockerfile" "$context" >/dev/null
    docker save -o "$archive" "$name"
    ;;
  buildah)
    # vfs and chroot need neither overlay mounts nor user namespaces, so this also works inside a container.
    buildah --storage-driver vfs bud -q --isolation chroot --arch "$arch" --build-arg "BASE=$base" -t "$name" -f "$dockerfile" "$context" >/dev/null
    buildah --storage-driver vfs push -q "$name" "docker-archive:$archive:$name"
    buildah --storage-driver vfs rmi "$name" >/dev/null
    ;;
  *)
    echo "hack/images.sh: BUILDER is $builder; docker or buildah" >&2
    exit 1
    ;;
  esac
  echo "$name" >"$archive.name"
}

step "binaries for linux/$arch"
rm -rf "$bin"
compile "$bin/workpulling" ./cmd/operator ./cmd/prestop ./cmd/sidecar
compile "$bin/app" ./config/samples/app
tag=$(tag)
builder=$(builder)
image "$repository/workpulling:$tag" Dockerfile "$bin/workpulling" "$dist/workpulling.tar"
image "$repository/sample-app:$tag" config/samples/app/Dockerfile "$bin/app" "$dist/sample-app.tar"

cat >"$dist/images.env" <<ENV
IMAGE_REPOSITORY=$repository/workpulling
APP_REPOSITORY=$repository/sample-app
IMAGE_TAG=$tag
ENV
step "archives are in $dist: $repository/workpulling:$tag and $repository/sample-app:$tag"
