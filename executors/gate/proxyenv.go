package gate

import (
	"fmt"
	"net/url"

	"golang.org/x/net/http/httpproxy"
)

// Upstream returns the function that names the proxy through which the server itself reaches a host; nil when there is no proxy. proxy comes
// from config.json: an address, none for no proxy, or "" for the environment's.
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
