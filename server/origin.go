package server

import (
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/rest"
)

// checkHost refuses names that do not belong to a server that listens on loopback: a page whose name was pointed at 127.0.0.1
// would otherwise speak to it as if from its own origin.
func (s *Server) checkHost(r *http.Request) error {
	if !s.cfg.Loopback || rest.LoopbackHost(r.Host) || s.public != nil && rest.HostName(r.Host) == rest.HostName(s.public.Host) {
		return nil
	}
	return fault.New(fault.Forbidden, "host_not_allowed",
		"This server listens on this machine only and does not answer to that host name. Behind a proxy, set server.publicUrl to the address people use.")
}

// sameOrigin reports whether an Origin header names this server: the host of the request itself, or publicUrl.
func (s *Server) sameOrigin(r *http.Request, origin string) bool {
	o, err := url.Parse(origin)
	if err != nil || o.Host == "" || o.Scheme != "http" && o.Scheme != "https" || o.Path != "" || o.RawQuery != "" || o.User != nil {
		return false
	}
	scheme := "http"
	if s.Secure(r) {
		scheme = "https"
	}
	return hostPort(o.Host, o.Scheme) == hostPort(r.Host, schemeFor(r.Host, o.Scheme, scheme)) ||
		s.public != nil && o.Scheme == s.public.Scheme && hostPort(o.Host, o.Scheme) == hostPort(s.public.Host, s.public.Scheme)
}

// schemeFor returns the scheme that implies the port of a host without one. A proxy that is not configured may have terminated
// TLS: then the browser's scheme counts, since only the host must match.
func schemeFor(host, browsers, ours string) string {
	if _, _, err := net.SplitHostPort(host); err != nil && ours == "http" {
		return browsers
	}
	return ours
}

// hostPort is a host with its port, which follows from the scheme when it is not written.
func hostPort(host, scheme string) string {
	host = strings.ToLower(host)
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	port := "80"
	if scheme == "https" {
		port = "443"
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// checkSocket refuses a WebSocket that a foreign page opens: browsers send cookies with it and keep no page from it. A request
// without an Origin comes from no page and must show a token.
func (s *Server) checkSocket(r *http.Request, cred rest.Credential) error {
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		if cred.Cookie == "" { // a token, or nobody: checked next
			return nil
		}
		return fault.New(fault.Forbidden, "origin_missing", "A socket without an Origin header needs Authorization: Bearer.")
	}
	if len(origins) == 1 && s.sameOrigin(r, origins[0]) {
		return nil
	}
	return fault.New(fault.Forbidden, "origin_not_allowed",
		"This page's origin may not open sockets here. Behind a proxy, set server.publicUrl to the address people use.")
}

// pulled reports whether a page of another origin has the browser fetch this: as an image, a script, a frame or with fetch. It could not
// read the answer, but it could have something done by asking, or measure how long that takes. A link that a person follows is no such
// request. Browsers too old to say what a request is for send no cookie with such ones: it is SameSite.
func pulled(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
	}
	return false
}

// checkCrossOrigin refuses what a foreign page has fetched, and changes that a foreign page asks for with a person's cookie, signing in included. A token is not sent
// by browsers on their own: a call with one is from who holds it.
func (s *Server) checkCrossOrigin(r *http.Request, cred rest.Credential) error {
	if cred.Bearer != "" {
		return nil
	}
	if cred.Cookie != "" && pulled(r) {
		return fault.New(fault.Forbidden, "cross_origin", "Pages of another origin are not allowed to do this. Behind a proxy, set server.publicUrl to the address people use.")
	}
	if err := s.crossOrigin.Check(r); err != nil {
		return fault.Wrap(err, fault.Forbidden, "cross_origin", "Pages of another origin are not allowed to do this. Behind a proxy, set server.publicUrl to the address people use.")
	}
	return nil
}
