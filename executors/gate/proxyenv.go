package gate

import (
	"fmt"
	"net/url"

	"golang.org/x/net/http/httpproxy"
)

// Upstream says which proxy the server itself goes out through for a host; nil when there is none at all. proxy is what config.json says: an
// address, none, which is no proxy, or "" for what the environment says.
func Upstream(proxy, none string, env func(string) string) (func(*url.URL) (*url.URL, error), error) {
	either := func(upper, lower string) string {
		if v := env(upper); v != "" {
			return v
		}
		return env(lower)
	}
	c := httpproxy.Config{HTTPProxy: proxy, HTTPSProxy: proxy, NoProxy: either("NO_PROXY", "no_proxy")}
	switch proxy {
	case none:
		return nil, nil
	case "":
		c.HTTPProxy, c.HTTPSProxy = either("HTTP_PROXY", "http_proxy"), either("HTTPS_PROXY", "https_proxy")
	}
	if c.HTTPProxy == "" && c.HTTPSProxy == "" {
		return nil, nil
	}
	ask := c.ProxyFunc()
	for _, scheme := range []string{"http", "https"} {
		u, err := ask(&url.URL{Scheme: scheme, Host: "example.com"})
		if err != nil || u != nil && u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("the proxy for %s (sandboxing.network.proxy, or the environment) must be an http:// or https:// address", scheme)
		}
	}
	return ask, nil
}
