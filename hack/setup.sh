#!/usr/bin/env bash
# setup.sh go|race|cluster|verify|postgres|bench|apps… makes sure that the programs a step needs are
# there. As root on Debian it installs what is missing; elsewhere it names it.
set -euo pipefail

cd "$(dirname "$0")/.."

# want COMMAND PACKAGE… notes the packages that bring a missing command.
missing_commands=()
missing_packages=()
no_postgres_cluster=false
no_services=false
want() {
	local command=$1
	shift
	if ! PATH="$PATH:/usr/sbin:/sbin" command -v "$command" >/dev/null 2>&1; then
		missing_commands+=("$command")
		missing_packages+=("$@")
	fi
}

want_file() {
	local file=$1
	shift
	if [ ! -e "$file" ]; then
		missing_commands+=("$file")
		missing_packages+=("$@")
	fi
}

# want_python MODULE PACKAGE… looks into every python3 of the PATH: the first need not be the one that has Debian's modules.
want_python() {
	local module=$1 python
	shift
	for python in $(type -ap python3); do
		if "$python" -c "import $module" 2>/dev/null; then
			return
		fi
	done
	missing_commands+=("the Python module $module")
	missing_packages+=("$@")
}

for need in "$@"; do
	case $need in
	go)
		want go golang-go
		want git git
		want_file /etc/ssl/certs/ca-certificates.crt ca-certificates
		;;
	race)
		want go golang-go
		want gcc gcc libc6-dev
		;;
	verify)
		want git git
		want shellcheck shellcheck
		;;
	postgres)
		# Tests run servers of their own; the one that the package would start by itself is not wanted.
		if ! compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null; then
			missing_commands+=(postgres)
			missing_packages+=(postgresql-common postgresql)
			no_postgres_cluster=true
		fi
		;;
	bench)
		# The benchmark starts servers of its own; those that the packages would start by themselves are not wanted.
		want rabbitmq-server rabbitmq-server
		want redis-server redis-server
		no_services=true
		;;
	apps)
		# The interpreters of the sample apps, and the libraries of those that take jobs over gRPC.
		want python3 python3
		want_python grpc python3-grpcio
		want_python google.protobuf python3-protobuf
		want node nodejs
		want npm npm
		;;
	cluster)
		want go golang-go
		want containerd containerd
		want runc runc
		want ip iproute2
		want iptables iptables
		want conntrack conntrack
		want nsenter util-linux
		want mount mount
		want buildah buildah
		want_file /usr/lib/cni/bridge containernetworking-plugins
		want_file /etc/ssl/certs/ca-certificates.crt ca-certificates
		;;
	*)
		echo "setup.sh: unknown need $need" >&2
		exit 2
		;;
	esac
done

if [ ${#missing_packages[@]} -gt 0 ]; then
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
		echo "Missing: ${missing_commands[*]}" >&2
		echo "On Debian, as root: apt-get install ${missing_packages[*]}" >&2
		exit 1
	fi
	echo "Installing ${missing_packages[*]}" >&2
	export DEBIAN_FRONTEND=noninteractive
	hack/progress.sh "apt-get update" apt-get update -qq
	if $no_postgres_cluster; then
		hack/progress.sh "apt-get install postgresql-common" apt-get install -y -qq --no-install-recommends postgresql-common >/dev/null
		sed -ri 's/^#? *create_main_cluster .*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf
	fi
	policy=/usr/sbin/policy-rc.d
	if $no_services && [ ! -e "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod +x "$policy"
		trap 'rm -f "$policy"' EXIT
	fi
	hack/progress.sh "apt-get install" apt-get install -y -qq --no-install-recommends "${missing_packages[@]}" >/dev/null
fi

if [[ " $* " == *" apps "* ]]; then
	(cd examples/node-grpc && ../../hack/progress.sh "npm ci" npm ci --ignore-scripts --no-audit --no-fund)
fi

# Any Go from 1.21 on fetches the version that go.mod names by itself. An older one, such as that of Debian 12, can fetch it as the
# module that it is; the Makefile has its directory in the PATH.
bootstrap_go() {
	local version platform dir empty progress=$PWD/hack/progress.sh
	version=$(sed -n 's/^go //p' go.mod)
	platform=$(go env GOOS)-$(go env GOARCH)
	empty=$(mktemp -d)
	echo "$(go version) is older than 1.21: fetching Go $version" >&2
	dir=$(cd "$empty" && "$progress" "fetching Go $version" env GO111MODULE=on GOFLAGS=-modcacherw \
		go mod download -json "golang.org/toolchain@v0.0.1-go$version.$platform" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	rmdir "$empty"
	chmod -R a+x "$dir/bin" "$dir/pkg/tool"
	mkdir -p "$cache"
	ln -sfn "$dir" "$cache/go"
}

cache=${XDG_CACHE_HOME:-$HOME/.cache}/workpulling
PATH=$cache/go/bin:$PATH
if [[ " $* " == *" go "* || " $* " == *" race "* || " $* " == *" cluster "* ]] && go version 2>/dev/null | grep -qE ' go1\.(1?[0-9]|20)(\.| )'; then
	bootstrap_go
fi
if [[ " $* " == *" go "* || " $* " == *" race "* || " $* " == *" cluster "* ]]; then
	if ! go version >/dev/null 2>&1 || ! go list -m >/dev/null 2>&1; then
		echo "This needs Go $(sed -n 's/^go //p' go.mod) or later (any Go from 1.21 on with GOTOOLCHAIN=auto); found: $(go version 2>&1 | head -1)" >&2
		exit 1
	fi
fi
