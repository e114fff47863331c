package sso

import (
	"context"
	"crypto/subtle"
	"net/url"
	"regexp"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/internal/fault"
)

// tripTime is how long the way to a provider and back may take.
const tripTime = 10 * time.Minute

// ceremony is the stored state of a round trip to a provider.
const ceremony = "sso"

// trip is a way to a provider and back. It is known by its state, which comes back in the address.
type trip struct {
	state string

	Provider string `json:"provider"`
	Browser  string `json:"browser"` // hash of what the browser's cookie holds
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"` // PKCE
	Redirect string `json:"redirect"`
	Next     string `json:"next"`
	Link     bool   `json:"link"` // a user links an account to their own
}

// BeginRequest asks for a way to a provider.
type BeginRequest struct {
	Provider string
	Base     string // the address people use, such as https://parawork.example.com
	Next     string // the page to come back to
	Browser  string // the value of the browser's cookie, "" = none yet
	UserID   string // who links an account; "" = somebody signs in
	Meta     accounts.Meta
}

// Begun is a way to a provider.
type Begun struct {
	URL       string // where to send the browser
	Browser   string // what its cookie shall hold
	ExpiresAt int64  // ms UTC, of the cookie
}

var browserForm = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// Callback is the address below base that a provider sends browsers back to.
func Callback(base, providerID string) string {
	return base + "/api/v1/login/providers/" + providerID + "/callback"
}

// Begin begins the way to a provider: what comes back is believed once, within ten minutes, and only from the browser that holds the
// cookie.
func (s *Service) Begin(ctx context.Context, req BeginRequest) (Begun, error) {
	p, err := s.provider(req.Provider)
	if err != nil {
		return Begun{}, err
	}
	if err := s.limits.take(req.Meta.IP); err != nil {
		return Begun{}, err
	}
	t := trip{Provider: req.Provider, Redirect: Callback(req.Base, req.Provider), Next: CleanNext(req.Next), Verifier: oauth2.GenerateVerifier(), Link: req.UserID != ""}
	if t.Nonce, err = s.secret(); err != nil {
		return Begun{}, err
	}
	browser := req.Browser
	if !browserForm.MatchString(browser) { // another tab of this browser may be on its way: then it is kept
		if browser, err = s.secret(); err != nil {
			return Begun{}, err
		}
	}
	t.Browser = hashOf(browser)
	if err := p.ready(ctx); err != nil {
		return Begun{}, err
	}
	var expires int64
	if t.state, expires, err = s.cfg.SignIn.BeginCeremony(ctx, signin.CeremonyRequest{Kind: ceremony, UserID: req.UserID, Data: t, Life: tripTime}); err != nil {
		return Begun{}, err
	}
	to, err := p.begin(ctx, t)
	if err != nil {
		return Begun{}, err
	}
	return Begun{URL: to, Browser: browser, ExpiresAt: expires}, nil
}

// take returns the trip that comes back, and whose it is, once: neither what the address holds nor what the browser holds finds it alone.
func (s *Service) take(ctx context.Context, providerID, browser, state string) (trip, string, error) {
	out := fault.New(fault.Invalid, "sso_expired", "The sign-in took too long, was finished already, or was begun in another browser. Start again.")
	var t trip
	c, err := s.cfg.SignIn.ReadCeremony(ctx, ceremony, state, &t)
	if fault.Is(err, fault.Unauthorized) {
		return trip{}, "", out
	}
	if err != nil {
		return trip{}, "", err
	}
	if t.Provider != providerID || subtle.ConstantTimeCompare([]byte(hashOf(browser)), []byte(t.Browser)) != 1 {
		return trip{}, "", out
	}
	if err := s.cfg.SignIn.EndCeremony(ctx, c); fault.Is(err, fault.Unauthorized) {
		return trip{}, "", out
	} else if err != nil {
		return trip{}, "", err
	}
	t.state = state
	return t, c.UserID, nil
}

// longestNext bounds a page to come back to, with its query: the longest is a request of an OAuth client.
const longestNext = 4000

// CleanNext returns a page of this server to go to, "/" for everything that leads elsewhere.
func CleanNext(next string) string {
	u, err := url.Parse(next)
	odd := func(r rune) bool { return r <= ' ' || r == '\\' || r == 0x7f }
	if err != nil || len(next) > longestNext || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsFunc(next, odd) ||
		u.Host != "" || u.Scheme != "" || strings.HasPrefix(u.Path, "/api/") || strings.HasPrefix(u.Path, "//") {
		return "/"
	}
	return next
}
