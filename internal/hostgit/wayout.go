package hostgit

import (
	"context"
	"net/url"
	"slices"

	"golang.org/x/net/http/httpproxy"

	"github.com/parawork/parawork/internal/egress"
)

// connectorEnv is the environment variable with the Connector's path.
const connectorEnv = "PARAWORK_CONNECTOR"

// proxyVariables are the server's environment variables that name its proxy.
var proxyVariables = []string{"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"}

// RefusedError says that a call tried to connect to an address that it may not reach. It is an egress.ErrRefused.
type RefusedError struct{ Host string }

func (e *RefusedError) Error() string { return e.Host + ": " + egress.ErrRefused.Error() }

// Unwrap makes it an egress.ErrRefused.
func (e *RefusedError) Unwrap() error { return egress.ErrRefused }

// wayOut is the network access of one call: its own tunnel, which ends with the call.
type wayOut struct {
	tunnel *egress.Tunnel // nil = no network, or unrestricted
	env    []string
}

// wayOut opens the network access of a call. Whatever leads git to an address (a name, a redirect, a name server's second answer), the
// tunnel judges the address that is dialed.
func (g *Git) wayOut(ctx context.Context, c Call) (wayOut, error) {
	if !c.Network || g.cfg.Outgoing == nil {
		return wayOut{}, nil
	}
	t, err := egress.OpenTunnel(ctx, egress.TunnelConfig{Guard: *g.cfg.Outgoing, Proxy: g.proxy()})
	if err != nil {
		return wayOut{}, err
	}
	at := t.URL()
	env := []string{"http_proxy=" + at, "https_proxy=" + at, "HTTPS_PROXY=" + at, "all_proxy=" + at, "ALL_PROXY=" + at, "no_proxy=", "NO_PROXY=",
		"GIT_HTTP_PROXY_AUTHMETHOD=basic", egress.TunnelEnv + "=" + at, connectorEnv + "=" + g.cfg.Connector, "GIT_PROXY_COMMAND=" + g.cfg.Connector}
	return wayOut{t, env}, nil
}

// Close ends the way out.
func (w wayOut) Close() {
	if w.tunnel != nil {
		w.tunnel.Close()
	}
}

// refused is the host that was refused, "" when none was.
func (w wayOut) refused() string {
	if w.tunnel == nil {
		return ""
	}
	return w.tunnel.Refused()
}

// proxy returns the server's own proxy, from its environment.
func (g *Git) proxy() func(*url.URL) (*url.URL, error) {
	first := func(names ...string) string {
		for _, n := range names {
			if v := g.cfg.Env(n); v != "" {
				return v
			}
		}
		return ""
	}
	cfg := httpproxy.Config{HTTPProxy: first("http_proxy", "all_proxy", "ALL_PROXY"), HTTPSProxy: first("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"), NoProxy: first("no_proxy", "NO_PROXY")}
	return cfg.ProxyFunc()
}

// protocols returns those that a network call may use: where addresses are judged, only those whose connections go through the tunnel.
func (g *Git) protocols(c Call) []string {
	if c.Folders {
		return append([]string{"none"}, c.Also...)
	}
	out := slices.Clone(g.cfg.Protocols)
	if g.cfg.Outgoing != nil && g.cfg.Connector == "" {
		out = slices.DeleteFunc(out, func(p string) bool { return p == "ssh" || p == "git" })
	}
	return append(out, c.Also...)
}
