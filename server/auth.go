package server

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
)

// Names of the session cookie. The __Host- one is Secure and bound to this very host. Where a browser would not keep a Secure
// cookie the plain name is used, and only there is it believed: else a neighbour on the same site could plant one.
const (
	hostCookie  = "__Host-parawork"
	plainCookie = "parawork"
)

// credential is how a request says who asks.
type credential struct {
	cookie string
	bearer string
	ip     string // where it came from
}

func (c credential) none() bool { return c.cookie == "" && c.bearer == "" }

// credentialOf reads the Authorization header, else the session cookie. A header that is there counts alone, so that a page's
// cookie never lends its rights to a script's call.
func (s *Server) credentialOf(r *http.Request) (credential, error) {
	if auth, ok := r.Header["Authorization"]; ok {
		scheme, token, _ := strings.Cut(auth[0], " ")
		token = strings.TrimSpace(token)
		if len(auth) != 1 || !strings.EqualFold(scheme, "Bearer") || token == "" {
			return credential{}, fault.New(fault.Unauthorized, "invalid_token", "The Authorization header must be: Bearer pw_user_...")
		}
		return credential{bearer: token, ip: s.echo.IPExtractor(r)}, nil
	}
	names := []string{hostCookie}
	if !s.secure(r) {
		names = append(names, plainCookie)
	}
	for _, name := range names {
		if c, err := r.Cookie(name); err == nil && c.Value != "" {
			return credential{cookie: c.Value}, nil
		}
	}
	return credential{}, nil
}

// authenticate says whose credential it is; fault.Unauthorized when it is nobody's.
func (s *Server) authenticate(ctx context.Context, c credential) (accounts.Actor, error) {
	var actor accounts.Actor
	var err error
	switch {
	case c.bearer != "":
		actor, err = s.cfg.Accounts.AuthenticateTokenFrom(ctx, c.bearer, c.ip)
	case c.cookie != "":
		actor, err = s.cfg.Accounts.Authenticate(ctx, c.cookie)
	default:
		return accounts.Actor{}, errSignedOut
	}
	if fault.Is(err, fault.NotFound) { // the user is gone
		return accounts.Actor{}, errSignedOut
	}
	return actor, err
}

// signIn gives the browser its session cookie.
func (s *Server) signIn(call *call, cookie string, expiresAt int64) {
	call.begun = cookie
	http.SetCookie(call.writer, s.cookie(call.request, cookie, time.UnixMilli(expiresAt)))
}

// signOut makes the browser forget both cookies.
func (s *Server) signOut(call *call) {
	for _, c := range []*http.Cookie{
		{Name: hostCookie, Secure: true},
		{Name: plainCookie},
	} {
		c.Path, c.HttpOnly, c.SameSite, c.MaxAge = "/", true, http.SameSiteLaxMode, -1
		http.SetCookie(call.writer, c)
	}
}

// cookie returns the session cookie for the browser that asks.
func (s *Server) cookie(r *http.Request, value string, until time.Time) *http.Cookie {
	c := &http.Cookie{Name: hostCookie, Value: value, Path: "/", Expires: until, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if !s.secure(r) && !keepsSecure(r) {
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
func (s *Server) meta(call *call) accounts.Meta {
	return accounts.Meta{IP: s.echo.IPExtractor(call.request), UserAgent: call.request.UserAgent(), Device: s.readCookie(call.request, deviceCookie)}
}
