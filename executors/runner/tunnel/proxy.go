package tunnel

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"golang.org/x/net/proxy"
)

type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// DialContext adapts a dialFunc to package proxy.
func (d dialFunc) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return d(ctx, network, addr)
}

// Dial satisfies the interface of package proxy, which uses DialContext.
func (d dialFunc) Dial(network, addr string) (net.Conn, error) {
	return d(context.Background(), network, addr)
}

// maxConnect limits the head of a proxy's response.
const maxConnect = 64 << 10

// through dials addr, through a proxy unless it is nil: http, https (CONNECT, with TLS to the proxy in the second) or socks5.
func through(ctx context.Context, dial dialFunc, by *url.URL, outer *tls.Config, network, addr string) (net.Conn, error) {
	if by == nil {
		return dial(ctx, network, addr)
	}
	name := by.Host
	port := by.Port()
	switch by.Scheme {
	case "socks5", "socks5h":
		port = cmp.Or(port, "1080")
		var login *proxy.Auth
		if by.User != nil {
			login = &proxy.Auth{User: by.User.Username()}
			login.Password, _ = by.User.Password()
		}
		d, err := proxy.SOCKS5("tcp", net.JoinHostPort(by.Hostname(), port), login, dial)
		if err != nil {
			return nil, byProxy(name, err)
		}
		c, err := d.(proxy.ContextDialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, byProxy(name, err)
		}
		return c, nil
	case "http", "":
		port = cmp.Or(port, "80")
	case "https":
		port = cmp.Or(port, "443")
	default:
		return nil, &refused{words: "The proxy " + clean(by.Redacted()) + " has an unsupported scheme: use http, https or socks5."}
	}
	c, err := dial(ctx, "tcp", net.JoinHostPort(by.Hostname(), port))
	if err != nil {
		return nil, byProxy(name, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if by.Scheme == "https" {
		conf := outer.Clone()
		conf.ServerName = by.Hostname()
		secure := tls.Client(c, conf)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = c.Close()
			return nil, byProxy(name, err)
		}
		c = secure
	}
	out, err := connect(c, by, addr)
	if err != nil {
		_ = c.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	return out, nil
}

// connect asks a proxy for a tunnel to addr.
func connect(c net.Conn, by *url.URL, addr string) (net.Conn, error) {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: http.Header{}}
	if by.User != nil {
		password, _ := by.User.Password()
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(by.User.Username()+":"+password)))
	}
	if err := req.Write(c); err != nil {
		return nil, byProxy(by.Host, err)
	}
	limited := &head{Conn: c, left: maxConnect}
	r := bufio.NewReader(limited)
	resp, err := http.ReadResponse(r, req)
	if err != nil {
		return nil, byProxy(by.Host, err)
	}
	switch {
	case resp.StatusCode == http.StatusProxyAuthRequired:
		return nil, &refused{words: "The proxy " + clean(by.Host) + " wants a login: write it into the proxy's address, http://user:password@host:port."}
	case resp.StatusCode/100 != 2:
		return nil, &refused{words: fmt.Sprintf("The proxy %s does not let this machine reach %s: it answered %d.", clean(by.Host), clean(addr), resp.StatusCode)}
	case r.Buffered() > 0:
		return nil, byProxy(by.Host, errors.New("it sent bytes too early"))
	}
	return c, nil
}

// head is a connection of which a limited part is read.
type head struct {
	net.Conn
	left int
}

func (h *head) Read(p []byte) (int, error) {
	if h.left <= 0 {
		return 0, errors.New("the answer has no end")
	}
	n, err := h.Conn.Read(p[:min(len(p), h.left)])
	h.left -= n
	return n, err
}

// byProxy marks a failure as the proxy's.
func byProxy(host string, err error) error {
	if r, ok := errors.AsType[*refused](err); ok {
		return r
	}
	return &refused{words: "The proxy " + clean(host) + " cannot be used: " + noWay(clean(host), err)}
}
