#!/usr/bin/env bash
# test-kubernetes.sh [path|build|flags of go test]
# Builds, once, the programs of a Kubernetes node from their Go module, and runs the tests that want a real one. Building takes some 12 minutes
# of processor time and nothing of it is in Parawork's own module.
set -euo pipefail
cd "$(dirname "$0")/../.."

source=testing/testkubernetes/node
version=$(<$source/version)
# What testing/testkubernetes looks for: another version or another main is another program.
dir=.cache/kubernetes/$version-$(sha256sum $source/main.go.in | cut -c1-12)
if [[ ${1:-} == path ]]; then
  echo "$dir/node"
  exit
fi

missing=()
command -v containerd >/dev/null || missing+=(containerd)
command -v runc >/dev/null || missing+=(runc)
[[ -x /usr/lib/cni/bridge || -x /opt/cni/bin/bridge ]] || missing+=(containernetworking-plugins)
command -v gcc >/dev/null || missing+=(gcc libc6-dev)
if ((${#missing[@]})); then
  if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
    echo "!!! not installed: ${missing[*]}; a node cannot be started without them" >&2
    exit 1
  fi
  echo "==> installing ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

if [[ ! -x $dir/node ]]; then
  echo "==> building a Kubernetes node, version $version (some 12 minutes of processor time, once)"
  module=$(mktemp -d)
  trap 'rm -rf "$module"' EXIT
  cp $source/main.go.in "$module/main.go"
  (
    cd "$module"
    export GOFLAGS="-mod=mod -trimpath"
    staging=v0.${version#1.}
    gomod=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
    # Its own go.mod takes the parts that are published by themselves from folders beside it, which nobody else has: they are of the same version.
    {
      printf 'module node\n\ngo 1.26\n\nrequire k8s.io/kubernetes v%s\n\nreplace (\n' "$version"
      sed -nE "s|^\s+(k8s.io/[a-z-]+) v0\.0\.0$|\t\1 => \1 $staging|p" "$gomod"
      echo ")"
    } >go.mod
    flags="-s -w"
    for p in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
      flags+=" -X $p.gitVersion=v$version -X $p.gitMajor=1 -X $p.gitMinor=$(cut -d. -f2 <<<"$version") -X $p.gitTreeState=clean"
    done
    nice -n 10 go build -ldflags "$flags" -o node .
  )
  mkdir -p "$dir"
  mv "$module/node" "$dir/node"
fi
[[ ${1:-} == build ]] && exit
# As root, on a machine with control groups and overlayfs; where there can be none, the tests fail and say why.
PARAWORK_TEST_KUBERNETES=1 go test ./testing/testkubernetes ./executors/kubernetes/... -count=1 -timeout 20m -run Kubernetes "$@"
