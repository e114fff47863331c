// Package egress makes the HTTP client for addresses that people, not the operator, choose: webhooks, push services, the base URLs of
// agents' accounts. It reaches only the public internet: it refuses an address inside the server's own network after the name was resolved,
// when it connects, so that neither a name nor a redirect nor a second answer of a name server leads there.
package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// Config configures a client. Zero times mean the defaults.
type Config struct {
	Allow   []netip.Prefix // networks that may be reached although they are not public, and over plain http
	Timeout time.Duration  // of a whole request; default 15 s
	// Streams says that responses may last arbitrarily long: callers bound them with a context. Responses come as they were sent, compressed
	// or not, and connections are reused for a minute: an address was judged when its connection was made.
	Streams bool
}

// Client sends requests to addresses people chose. Safe for concurrent use.
type Client struct {
	*http.Client
	guard Guard
}

// ErrRefused is the cause when an address is not one the server may reach.
var ErrRefused = errors.New("the address is inside a network this server does not reach out to")

// New returns a client. It follows no redirect, uses no proxy of the environment, stores no cookies, and unless it streams reuses no
// connection: requests are rare, and one sent on a connection that was just closed could not be repeated.
func New(cfg Config) *Client {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 15 * time.Second
	}
	c := &Client{}
	for _, p := range cfg.Allow {
		c.guard.Allow = append(c.guard.Allow, Exception{Prefix: p})
	}
	dialer := &net.Dialer{Timeout: min(cfg.Timeout, 10*time.Second), ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		return c.mayDial(address)
	}}
	c.Client = &http.Client{
		Timeout:       cfg.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{DialContext: dialer.DialContext, ForceAttemptHTTP2: true, DisableKeepAlives: true, TLSHandshakeTimeout: 10 * time.Second,
			ResponseHeaderTimeout: cfg.Timeout, MaxResponseHeaderBytes: 64 << 10},
	}
	if cfg.Streams {
		c.Client.Timeout = 0
		c.Client.Transport = &http.Transport{DialContext: dialer.DialContext, ForceAttemptHTTP2: true, DisableCompression: true, TLSHandshakeTimeout: 10 * time.Second,
			MaxIdleConns: 256, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10, ReadBufferSize: 32 << 10, WriteBufferSize: 32 << 10}
	}
	return c
}

// mayDial judges the address a name was resolved to.
func (c *Client) mayDial(address string) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %s", ErrRefused, address)
	}
	return c.guard.Check(ap)
}

func (c *Client) allowed(ip netip.Addr) bool { return c.guard.allows(netip.AddrPortFrom(ip, 0)) }

// Check judges a URL that a person entered, before anything is sent: it must be https, or http to an allowed network, have a host, and
// contain nothing that hides where it leads. A name is judged again each time it is dialed. Errors: invalid_url, url_not_public.
func (c *Client) Check(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || len(raw) > 2048 || u.Hostname() == "" || u.Opaque != "":
		return fault.New(fault.Invalid, "invalid_url", "Enter an address such as https://example.com/hook.")
	case u.User != nil:
		return fault.New(fault.Invalid, "invalid_url", "Leave user name and password out of the address.")
	case u.Fragment != "":
		return fault.New(fault.Invalid, "invalid_url", "Leave the part after # out of the address.")
	case u.Scheme != "https" && u.Scheme != "http":
		return fault.New(fault.Invalid, "invalid_url", "The address must begin with https://.")
	}
	ip, err := netip.ParseAddr(u.Hostname())
	literal := err == nil
	switch {
	case literal && c.allowed(ip.Unmap()):
	case literal && !Public(ip):
		return fault.New(fault.Invalid, "url_not_public", "%s is inside a network this server does not reach out to. An operator can allow it with outgoing.allow.", u.Hostname())
	case u.Scheme == "http" && len(c.guard.Allow) == 0:
		return fault.New(fault.Invalid, "invalid_url", "The address must begin with https://.")
	}
	return nil
}

// Words converts the error of a request to a text for whoever chose the address.
func Words(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	var timeout interface{ Timeout() bool }
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrRefused):
		return "the address is inside a network this server does not reach out to"
	case errors.As(err, &dns):
		return "the name " + dns.Name + " could not be resolved"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "there was no answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection was refused"
	case errors.As(err, &op) && op.Op == "remote error":
		return "the connection could not be secured (TLS)"
	}
	return "the connection failed"
}
