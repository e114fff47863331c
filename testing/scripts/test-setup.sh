#!/usr/bin/env bash
# Installs what the tests need and is not there yet: Chromium, PostgreSQL, bubblewrap, Docker and a VNC server from Debian, the agents' CLIs and language servers from npm,
# Stripe's own stand-in for its API from the Go proxy.
# Without root the Debian packages are not installed; the tests that need them then say loudly that they were skipped.
set -euo pipefail
cd "$(dirname "$0")/../.."

missing=()
command -v chromium >/dev/null || missing+=(chromium)
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing+=(postgresql)
# Places that isolate, and tests of what must be impossible in them.
command -v bwrap >/dev/null || missing+=(bubblewrap)
command -v dockerd >/dev/null || missing+=(docker.io)
command -v busybox >/dev/null || missing+=(busybox-static)
command -v ip >/dev/null || missing+=(iproute2)
# A host that is reached over SSH.
[[ -x /usr/sbin/sshd ]] || missing+=(openssh-server)
# Desktops of sandboxes, and a program with a window.
command -v Xvnc >/dev/null || missing+=(tigervnc-standalone-server)
command -v openbox >/dev/null || missing+=(openbox)
command -v xterm >/dev/null || missing+=(xterm)
if ((${#missing[@]})); then
  if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    echo "==> installing ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  else
    echo "!!! not installed: ${missing[*]}. Install them (sudo apt-get install ${missing[*]}); tests that need them will be skipped."
  fi
fi

# The agents' command lines, for the tests only; the versions are those their presets were tried with.
agents=.cache/agents
want=$(GOFLAGS=-trimpath go run ./testing/agentpackages)
want=${want//$'\n'/ }
if [[ ! -f $agents/.installed || $(cat "$agents/.installed") != "$want" ]]; then
  if command -v npm >/dev/null; then
    echo "==> installing the agents' CLIs for the tests"
    mkdir -p "$agents"
    [[ -f $agents/package.json ]] || echo '{"private":true}' >"$agents/package.json"
    # shellcheck disable=SC2086
    if npm install --prefix "$agents" --no-audit --no-fund --no-save --silent $want; then
      # Where npm runs no install scripts, Claude Code's own puts its program in place.
      "$agents/node_modules/.bin/claude" --version >/dev/null 2>&1 ||
        (cd "$agents/node_modules/@anthropic-ai/claude-code" && node install.cjs >/dev/null)
      echo "$want" >"$agents/.installed"
    else
      echo "!!! the agents' CLIs could not be installed; their tests will be skipped."
    fi
  else
    echo "!!! npm was not found; the tests of the agents and the browser will be skipped."
  fi
fi

# Language servers, of the versions that the languages were tried with.
servers=.cache/language-servers
want="typescript@7.0.2 pyright@1.1.414"
gopls=v0.22.0
if [[ ! -f $servers/.installed || $(cat "$servers/.installed") != "$want $gopls" ]]; then
  echo "==> installing language servers for the tests"
  mkdir -p "$servers/bin"
  [[ -f $servers/package.json ]] || echo '{"private":true}' >"$servers/package.json"
  # shellcheck disable=SC2086
  if GOBIN=$PWD/$servers/bin go install "golang.org/x/tools/gopls@$gopls" &&
    npm install --prefix "$servers" --no-audit --no-fund --no-save --silent $want; then
    echo "$want $gopls" >"$servers/.installed"
  else
    echo "!!! the language servers could not be installed; their tests will be skipped."
  fi
fi

# Stripe's own stand-in, which knows every parameter of its API; of the version the library speaks. Later ones know other APIs.
mock=v0.185.0
if [[ ! -x .cache/stripe/stripe-mock || $(cat .cache/stripe/.installed 2>/dev/null) != "$mock" ]]; then
  echo "==> installing stripe-mock $mock for the tests"
  mkdir -p .cache/stripe
  if GOBIN="$PWD/.cache/stripe" GOFLAGS=-trimpath go install "github.com/stripe/stripe-mock@$mock"; then
    echo "$mock" >.cache/stripe/.installed
  else
    echo "!!! stripe-mock could not be installed; the test of calls to Stripe will be skipped."
  fi
fi

# A real Kubernetes takes too long to build to be built here.
if [[ ! -x $(testing/scripts/test-kubernetes.sh path) ]]; then
  echo "!!! a real Kubernetes node was not built; its tests will be skipped. make test-kubernetes builds it once (some 12 minutes of processor time)."
fi
