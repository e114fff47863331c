package oauth

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// Bounds of a registration.
const (
	mostRedirects = 10
	longestURI    = 1000
	longestName   = 80
)

// Register stores a client that registers itself (RFC 7591). All are public: they have no secret. Errors: invalid_redirect_uri.
func (s *Service) Register(ctx context.Context, name string, redirectURIs []string) (Client, error) {
	if len(redirectURIs) == 0 || len(redirectURIs) > mostRedirects {
		return Client{}, refuse("invalid_redirect_uri", "Send 1 to %d redirect_uris.", mostRedirects)
	}
	for _, uri := range redirectURIs {
		if err := checkRedirect(uri); err != nil {
			return Client{}, err
		}
	}
	c := Client{ID: id.New("client"), Name: cleanName(name), RedirectURIs: redirectURIs, CreatedAt: s.cfg.Now().UnixMilli()}
	if err := s.cfg.Store.InsertClient(ctx, c); err != nil {
		return Client{}, fmt.Errorf("registering a client: %w", err)
	}
	return c, s.Sweep(ctx)
}

// cleanName makes what a client calls itself fit to be shown: one line of printable text.
func cleanName(s string) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, ""), func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if utf8.RuneCountInString(s) > longestName {
		s = strings.TrimSpace(string([]rune(s)[:longestName-1])) + "…"
	}
	if s == "" {
		return "An application without a name"
	}
	return s
}

// schemes are those that known applications have claimed for themselves without a dot, beside the reversed domain names of RFC 8252.
var schemes = []string{"cursor", "vscode", "vscode-insiders", "vscodium", "windsurf", "zed", "claude", "codex", "goose", "raycast", "warp", "kiro", "trae"}

var schemeForm = regexp.MustCompile(`^[a-z][a-z0-9+-]*(\.[a-z0-9+-]+)+$`)

// checkRedirect refuses addresses that codes must not be sent to.
func checkRedirect(uri string) error {
	u, err := url.Parse(uri)
	odd := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\\\"<>", r) }
	// A host that is written with escapes would be shown as other characters than those of its name.
	if err != nil || len(uri) > longestURI || strings.ContainsFunc(uri, odd) || strings.ContainsFunc(u.Host, odd) || strings.Contains(u.Host, "%") || strings.Contains(uri, "#") || u.User != nil {
		return refuse("invalid_redirect_uri", "A redirect URI is a plain address of at most %d characters, without a fragment, a user name or spaces.", longestURI)
	}
	switch {
	case u.Scheme == "https" && u.Hostname() != "", u.Scheme == "http" && loopback(u.Hostname()):
		return nil
	case (slices.Contains(schemes, u.Scheme) || schemeForm.MatchString(u.Scheme)) && u.Opaque == "":
		return nil
	}
	return refuse("invalid_redirect_uri", "A redirect URI begins with https://, with http://127.0.0.1, http://[::1] or http://localhost, or with the scheme of an application such as com.example.app:/ or vscode://.")
}

// loopback reports whether a host name is this very machine's.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// Loopback reports whether a redirect leads to the person's own machine.
func Loopback(uri string) bool {
	u, err := url.Parse(uri)
	return err == nil && u.Scheme == "http" && loopback(u.Hostname())
}

// sends reports whether codes of the client may be sent to an address: it is one of those registered, at whatever port where it is on the
// person's own machine (RFC 8252, section 7.3).
func (c Client) sends(uri string) bool {
	if slices.Contains(c.RedirectURIs, uri) {
		return true
	}
	if checkRedirect(uri) != nil || !Loopback(uri) {
		return false
	}
	return slices.ContainsFunc(c.RedirectURIs, func(own string) bool { return Loopback(own) && withoutPort(own) == withoutPort(uri) })
}

func withoutPort(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return uri
	}
	u.Host = u.Hostname()
	return u.String()
}

// ClientFor returns a client and makes sure that a person may be sent back to this address of it. Until it has succeeded nobody must be.
// Errors: invalid_client, invalid_redirect_uri.
func (s *Service) ClientFor(ctx context.Context, clientID, redirectURI string) (Client, error) {
	c, err := s.client(ctx, clientID)
	if err != nil {
		return Client{}, err
	}
	if !c.sends(redirectURI) {
		return Client{}, refuse("invalid_redirect_uri", "The application asks to be answered at an address that it has not registered. Register it again with that redirect URI.")
	}
	return c, nil
}

func (s *Service) client(ctx context.Context, clientID string) (Client, error) {
	c, err := s.cfg.Store.Client(ctx, clientID)
	if fault.Is(err, fault.NotFound) {
		return Client{}, fault.New(fault.Unauthorized, "invalid_client", "This application is not registered here, or its registration has expired. Remove the connection in the application and connect again.")
	}
	if err != nil {
		return Client{}, fmt.Errorf("reading a client: %w", err)
	}
	return c, nil
}
