#!/bin/sh
# Installs in an image what Parawork needs and the image lacks. It runs as root while a derived image is built, one step each:
#
#   install.sh tools                    a shell, git and what agents and people reach for
#   install.sh system PACKAGE...        packages that the machine's owner asks for
#   install.sh node                     Node.js and npm, which the agents' command lines run on
#   install.sh agent PROGRAM PACKAGE    one agent's command line, from npm
#
# What goes wrong is printed in words, the reason last.
set -u

# From npm's registry, for that is needed anyway. The sums are those npm published for these versions.
NODE_VERSION=22.23.3
NODE_X64=a879f3e6d16c1e88ff58cfae4443558d638d8b9855be6c2b82af00e15efa2a9b95340738fa3c0af31e20c1ba1b13d06d1cd83f00a476e7cdde628acb17f73b9e
NODE_ARM64=9770c01d9adeca5a3ea7d4170edb0eae31b625726a5736179c01a621034e50d01170ca694ced9c99ec1540ffb7ead8c99d213e773a4c36d816f9cde8883bd7b4
NPM_VERSION=10.9.9
NPM_SUM=d60fba8cb42f688b81e33c2f1cbef2ad7b977166700ec0ad057f1b6d60ea6ef2524abf673e20c35931cd8305d1dbb8887134d6eefdc0e7b8435bd458bf65b862
REGISTRY=${NPM_CONFIG_REGISTRY:-https://registry.npmjs.org}
REGISTRY=${REGISTRY%/}

PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH DEBIAN_FRONTEND=noninteractive

# Certificates this machine trusts beside the usual ones, as where a proxy reads along.
CA=/opt/parawork-install/ca.pem
if [ -s "$CA" ]; then
	export NODE_EXTRA_CA_CERTS="$CA"
fi

have() { command -v "$1" >/dev/null 2>&1; }
fail() { echo "parawork: $*"; exit 1; }

packages() {
	if have apt-get; then
		apt-get update && apt-get install -y --no-install-recommends "$@" && rm -rf /var/lib/apt/lists/*
	elif have apk; then
		apk add --no-cache "$@"
	elif have dnf; then
		dnf install -y --setopt=install_weak_deps=False "$@" && dnf clean all
	elif have microdnf; then
		microdnf install -y "$@" && microdnf clean all
	elif have yum; then
		yum install -y "$@" && yum clean all
	elif have zypper; then
		zypper --non-interactive install --no-recommends "$@" && zypper clean --all
	elif have pacman; then
		pacman -Sy --noconfirm --needed "$@" && rm -rf /var/cache/pacman/pkg
	else
		fail "the image has no package manager that is known here (apt-get, apk, dnf, microdnf, yum, zypper, pacman)"
	fi
}

install_tools() {
	if have apt-get; then
		packages bash ca-certificates curl git gzip less openssh-client procps tar
	elif have apk; then
		packages bash ca-certificates coreutils curl git gzip less libstdc++ openssh-client procps tar
	elif have pacman; then
		packages bash ca-certificates curl git gzip less openssh procps-ng tar
	elif have zypper; then
		packages bash ca-certificates curl git gzip less openssh-clients procps tar
	else
		packages bash ca-certificates git gzip less openssh-clients procps-ng tar && { have curl || packages curl; }
	fi || fail "the package manager could not install the tools"
	have git || fail "the package manager installed no git"
}

# trust has the image's programs trust what this machine trusts, once.
trust() {
	[ -s "$CA" ] || return 0
	for bundle in /etc/ssl/certs/ca-certificates.crt /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem /etc/ssl/ca-bundle.pem; do
		if [ -f "$bundle" ] && ! grep -q "^# parawork$" "$bundle"; then
			{ echo; echo "# parawork"; cat "$CA"; } >>"$bundle"
		fi
	done
}

# fetch URL FILE SUM
fetch() {
	if have curl; then
		curl -fsSL --retry 3 -o "$2" "$1"
	elif have wget; then
		wget -q -O "$2" "$1"
	else
		packages curl ca-certificates && trust && curl -fsSL --retry 3 -o "$2" "$1"
	fi || fail "$1 could not be fetched"
	echo "$3  $2" | sha512sum -c - >/dev/null || fail "$1 is not what it was when this was written"
}

install_node() {
	if have node && have npm && [ "$(node -p 'process.versions.node.split(".")[0]' 2>/dev/null || echo 0)" -ge 20 ]; then
		return
	fi
	for loader in /lib/ld-musl-*; do
		if [ -e "$loader" ]; then
			packages nodejs npm || fail "the package manager could not install Node.js"
			return
		fi
	done
	case $(uname -m) in
	x86_64 | amd64) arch=x64 sum=$NODE_X64 ;;
	aarch64 | arm64) arch=arm64 sum=$NODE_ARM64 ;;
	*) fail "there is no Node.js for $(uname -m) here" ;;
	esac
	mkdir -p /tmp/parawork-node /usr/local/bin /usr/local/lib/node_modules && cd /tmp/parawork-node || exit 1
	fetch "$REGISTRY/node-linux-$arch/-/node-linux-$arch-$NODE_VERSION.tgz" node.tgz "$sum"
	fetch "$REGISTRY/npm/-/npm-$NPM_VERSION.tgz" npm.tgz "$NPM_SUM"
	tar -xzf node.tgz package/bin/node && install_file package/bin/node /usr/local/bin/node || fail "Node.js could not be unpacked"
	rm -rf package /usr/local/lib/node_modules/npm
	tar -xzf npm.tgz && mv package /usr/local/lib/node_modules/npm || fail "npm could not be unpacked"
	ln -sf ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
	ln -sf ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx
	chmod 755 /usr/local/lib/node_modules/npm/bin/npm-cli.js /usr/local/lib/node_modules/npm/bin/npx-cli.js
	cd / && rm -rf /tmp/parawork-node
	/usr/local/bin/npm --version >/dev/null || fail "Node.js does not run in this image"
}

install_file() { cp "$1" "$2" && chown 0:0 "$2" && chmod 755 "$2"; }

install_agent() {
	npm install --global --prefix /usr/local --no-audit --no-fund --no-update-notifier "$2" || fail "npm could not install $2"
	npm cache clean --force >/dev/null 2>&1
	have "$1" || fail "$2 brought no $1"
}

case ${1:-} in
tools) install_tools && trust ;;
system) shift && packages "$@" || fail "the package manager could not install $*" ;;
node) trust && install_node ;;
agent) install_agent "$2" "$3" ;;
*) fail "tools, system, node or agent is needed" ;;
esac
