package rest

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/signin"
)

// Names of the session cookie. The __Host- one is Secure and bound to this very host. Where a browser would not keep a Secure
// cookie the plain name is used, and only there is it believed: else a neighbour on the same site could plant one.
const (
	HostCookie  = "__Host-parawork"
	PlainCookie = "parawork"
)

// Cookies beside that of the login session: what a sign-in under way goes on with, and what says that somebody signed in with this
// browser before. Each has its plain name where a browser would not keep a Secure one.
const (
	LoginCookie  = "parawork-login"
	DeviceCookie = "parawork-device"
	hostPrefix   = "__Host-"
)

// Browsers knows how browsers reach the server, and gives them its cookies. It does not change; safe for concurrent use.
type Browsers struct {
	public *url.URL                   // the address people use, nil = whatever they ask for
	trusts []netip.Prefix             // whose X-Forwarded-Proto is believed
	ip     func(*http.Request) string // where a request comes from
}

// NewBrowsers makes a browsers; ip says where a request comes from.
func NewBrowsers(public *url.URL, trusts []netip.Prefix, ip func(*http.Request) string) *Browsers {
	return &Browsers{public: public, trusts: trusts, ip: ip}
}

// AddressOf is where a request comes from.
func (b *Browsers) AddressOf(r *http.Request) string { return b.ip(r) }

// HostName is the name in a Host header, without port and brackets, in lower case.
func HostName(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(host, "]"), "["), "."))
}

// LoopbackHost reports whether a Host header names this very machine.
func LoopbackHost(host string) bool {
	name := HostName(host)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(name)
	return err == nil && a.Unmap().IsLoopback()
}

// Trusted reports whether the request's peer is a proxy that config.json names.
func (b *Browsers) Trusted(r *http.Request) bool {
	if len(b.trusts) == 0 {
		return false
	}
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	a := ap.Addr().Unmap()
	for _, p := range b.trusts {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// Secure reports whether the browser spoke https, to us or to the proxy before us.
func (b *Browsers) Secure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	if b.Trusted(r) {
		switch strings.ToLower(r.Header.Get("X-Forwarded-Proto")) {
		case "https":
			return true
		case "http":
			return false
		}
	}
	return b.public != nil && b.public.Scheme == "https" && strings.EqualFold(r.Host, b.public.Host)
}

// Here is the address machines connect to: server.publicUrl, else the one the browser used.
func (b *Browsers) Here(r *http.Request) string {
	switch {
	case b.public != nil:
		return b.public.Scheme + "://" + b.public.Host
	case b.Secure(r):
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// Issuer is Here where the server is sure of it: server.publicUrl, else an address of this very machine. What a stranger's Host header says
// must not become an address that tokens are sent to.
func (b *Browsers) Issuer(r *http.Request) (string, bool) {
	return b.Here(r), b.public != nil || LoopbackHost(r.Host)
}

// SignIn gives the browser its session cookie.
func (b *Browsers) SignIn(call *Call, cookie string, expiresAt int64) {
	call.Begun = cookie
	http.SetCookie(call.Writer, b.Cookie(call.Request, cookie, time.UnixMilli(expiresAt)))
}

// SignOut makes the browser forget both cookies.
func (b *Browsers) SignOut(call *Call) {
	for _, c := range []*http.Cookie{
		{Name: HostCookie, Secure: true},
		{Name: PlainCookie},
	} {
		c.Path, c.HttpOnly, c.SameSite, c.MaxAge = "/", true, http.SameSiteLaxMode, -1
		http.SetCookie(call.Writer, c)
	}
}

// Cookie returns the session cookie for the browser that asks.
func (b *Browsers) Cookie(r *http.Request, value string, until time.Time) *http.Cookie {
	c := &http.Cookie{Name: HostCookie, Value: value, Path: "/", Expires: until, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if !b.Secure(r) && !keepsSecure(r) {
		c.Name, c.Secure = PlainCookie, false
	}
	return c
}

// keepsSecure reports whether a browser that came over plain http keeps a Secure cookie: Chromium and Firefox do on loopback,
// which nobody can listen to; Safari does not.
func keepsSecure(r *http.Request) bool {
	if !LoopbackHost(r.Host) {
		return false
	}
	ua := r.UserAgent()
	safari := strings.Contains(ua, "Safari/") && !strings.Contains(ua, "Chrome/") && !strings.Contains(ua, "Chromium/")
	return !safari
}

// Meta says where a login comes from.
func (b *Browsers) Meta(call *Call) accounts.Meta {
	return accounts.Meta{IP: b.ip(call.Request), UserAgent: call.Request.UserAgent(), Device: b.ReadCookie(call.Request, DeviceCookie)}
}

// ReadCookie returns the value of one of our cookies.
func (b *Browsers) ReadCookie(r *http.Request, name string) string {
	names := []string{hostPrefix + name}
	if !b.Secure(r) {
		names = append(names, name)
	}
	for _, n := range names {
		if c, err := r.Cookie(n); err == nil && c.Value != "" {
			return c.Value
		}
	}
	return ""
}

// SetCookie gives the browser one of our cookies; pages of other sites never have it sent along.
func (b *Browsers) SetCookie(call *Call, name, value string, until time.Time) {
	c := b.Cookie(call.Request, value, until)
	if c.Secure {
		name = hostPrefix + name
	}
	c.Name, c.SameSite = name, http.SameSiteStrictMode
	http.SetCookie(call.Writer, c)
}

// DropCookie makes the browser forget one of our cookies.
func (b *Browsers) DropCookie(call *Call, name string) {
	if b.ReadCookie(call.Request, name) == "" {
		return
	}
	for _, c := range []*http.Cookie{{Name: hostPrefix + name, Secure: true}, {Name: name}} {
		c.Path, c.HttpOnly, c.SameSite, c.MaxAge = "/", true, http.SameSiteStrictMode, -1
		http.SetCookie(call.Writer, c)
	}
}

// Site is where passkeys made on this page belong: to the host of publicUrl, or to this machine by its name. None where browsers would
// not let it be: by address, or over plain http from elsewhere.
func (b *Browsers) Site(r *http.Request) signin.Site {
	host, scheme := HostName(r.Host), "http"
	if b.Secure(r) {
		scheme = "https"
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return signin.Site{}
	}
	if LoopbackHost(r.Host) {
		return signin.Site{Host: host, Origin: scheme + "://" + plainPort(r.Host, scheme)}
	}
	if b.public == nil || b.public.Scheme != "https" {
		return signin.Site{}
	}
	return signin.Site{Host: HostName(b.public.Host), Origin: b.public.Scheme + "://" + plainPort(b.public.Host, b.public.Scheme)}
}

// plainPort is a host as browsers write it in an origin: in lower case, without the port that the scheme has anyway.
func plainPort(host, scheme string) string {
	host = strings.ToLower(host)
	if name, port, err := net.SplitHostPort(host); err == nil && (scheme == "https" && port == "443" || scheme == "http" && port == "80") {
		return name
	}
	return host
}
