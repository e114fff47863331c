package server

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
)

// Names of the session cookie. The __Host- one is Secure and bound to this very host. Where a browser would not keep a Secure
// cookie the plain name is used, and only there is it believed: else a neighbour on the same site could plant one.
const (
	hostCookie  = "__Host-parawork"
	plainCookie = "parawork"
)

// Cookies beside that of the login session: what a sign-in under way goes on with, and what says that somebody signed in with this
// browser before. Each has its plain name where a browser would not keep a Secure one.
const (
	loginCookie  = "parawork-login"
	deviceCookie = "parawork-device"
	hostPrefix   = "__Host-"
)

// browsers knows how browsers reach the server, and gives them its cookies. It does not change; safe for concurrent use.
type browsers struct {
	public *url.URL                   // the address people use, nil = whatever they ask for
	trusts []netip.Prefix             // whose X-Forwarded-Proto is believed
	ip     func(*http.Request) string // where a request comes from
}

// newBrowsers makes a browsers; ip says where a request comes from.
func newBrowsers(public *url.URL, trusts []netip.Prefix, ip func(*http.Request) string) *browsers {
	return &browsers{public: public, trusts: trusts, ip: ip}
}

// addressOf is where a request comes from.
func (b *browsers) addressOf(r *http.Request) string { return b.ip(r) }

// hostName is the name in a Host header, without port and brackets, in lower case.
func hostName(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(host, "]"), "["), "."))
}

// loopbackHost reports whether a Host header names this very machine.
func loopbackHost(host string) bool {
	name := hostName(host)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(name)
	return err == nil && a.Unmap().IsLoopback()
}

// trusted reports whether the request's peer is a proxy that config.json names.
func (b *browsers) trusted(r *http.Request) bool {
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

// secure reports whether the browser spoke https, to us or to the proxy before us.
func (b *browsers) secure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	if b.trusted(r) {
		switch strings.ToLower(r.Header.Get("X-Forwarded-Proto")) {
		case "https":
			return true
		case "http":
			return false
		}
	}
	return b.public != nil && b.public.Scheme == "https" && strings.EqualFold(r.Host, b.public.Host)
}

// here is the address machines are told to call: server.publicUrl, else the one the browser used.
func (b *browsers) here(r *http.Request) string {
	switch {
	case b.public != nil:
		return b.public.Scheme + "://" + b.public.Host
	case b.secure(r):
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// signIn gives the browser its session cookie.
func (b *browsers) signIn(call *call, cookie string, expiresAt int64) {
	call.begun = cookie
	http.SetCookie(call.writer, b.cookie(call.request, cookie, time.UnixMilli(expiresAt)))
}

// signOut makes the browser forget both cookies.
func (b *browsers) signOut(call *call) {
	for _, c := range []*http.Cookie{
		{Name: hostCookie, Secure: true},
		{Name: plainCookie},
	} {
		c.Path, c.HttpOnly, c.SameSite, c.MaxAge = "/", true, http.SameSiteLaxMode, -1
		http.SetCookie(call.writer, c)
	}
}

// cookie returns the session cookie for the browser that asks.
func (b *browsers) cookie(r *http.Request, value string, until time.Time) *http.Cookie {
	c := &http.Cookie{Name: hostCookie, Value: value, Path: "/", Expires: until, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if !b.secure(r) && !keepsSecure(r) {
		c.Name, c.Secure = plainCookie, false
	}
	return c
}

// keepsSecure reports whether a browser that came over plain http keeps a Secure cookie: Chromium and Firefox do on loopback,
// which nobody can listen to; Safari does not.
func keepsSecure(r *http.Request) bool {
	if !loopbackHost(r.Host) {
		return false
	}
	ua := r.UserAgent()
	safari := strings.Contains(ua, "Safari/") && !strings.Contains(ua, "Chrome/") && !strings.Contains(ua, "Chromium/")
	return !safari
}

// meta says where a login comes from.
func (b *browsers) meta(call *call) accounts.Meta {
	return accounts.Meta{IP: b.ip(call.request), UserAgent: call.request.UserAgent(), Device: b.readCookie(call.request, deviceCookie)}
}

// readCookie returns the value of one of our cookies.
func (b *browsers) readCookie(r *http.Request, name string) string {
	names := []string{hostPrefix + name}
	if !b.secure(r) {
		names = append(names, name)
	}
	for _, n := range names {
		if c, err := r.Cookie(n); err == nil && c.Value != "" {
			return c.Value
		}
	}
	return ""
}

// setCookie gives the browser one of our cookies; pages of other sites never have it sent along.
func (b *browsers) setCookie(call *call, name, value string, until time.Time) {
	c := b.cookie(call.request, value, until)
	if c.Secure {
		name = hostPrefix + name
	}
	c.Name, c.SameSite = name, http.SameSiteStrictMode
	http.SetCookie(call.writer, c)
}

// dropCookie makes the browser forget one of our cookies.
func (b *browsers) dropCookie(call *call, name string) {
	if b.readCookie(call.request, name) == "" {
		return
	}
	for _, c := range []*http.Cookie{{Name: hostPrefix + name, Secure: true}, {Name: name}} {
		c.Path, c.HttpOnly, c.SameSite, c.MaxAge = "/", true, http.SameSiteStrictMode, -1
		http.SetCookie(call.writer, c)
	}
}

// site is where passkeys made on this page belong: to the host of publicUrl, or to this machine by its name. None where browsers would
// not let it be: by address, or over plain http from elsewhere.
func (b *browsers) site(r *http.Request) accounts.Site {
	host, scheme := hostName(r.Host), "http"
	if b.secure(r) {
		scheme = "https"
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return accounts.Site{}
	}
	if loopbackHost(r.Host) {
		return accounts.Site{Host: host, Origin: scheme + "://" + plainPort(r.Host, scheme)}
	}
	if b.public == nil || b.public.Scheme != "https" {
		return accounts.Site{}
	}
	return accounts.Site{Host: hostName(b.public.Host), Origin: b.public.Scheme + "://" + plainPort(b.public.Host, b.public.Scheme)}
}

// plainPort is a host as browsers write it in an origin: in lower case, without the port that the scheme has anyway.
func plainPort(host, scheme string) string {
	host = strings.ToLower(host)
	if name, port, err := net.SplitHostPort(host); err == nil && (scheme == "https" && port == "443" || scheme == "http" && port == "80") {
		return name
	}
	return host
}
