package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// SignInProvider is somebody elsewhere who vouches for people: an OpenID Connect provider, or GitHub.
type SignInProvider struct {
	Enabled          bool     `json:"enabled"`
	Kind             string   `json:"kind"` // oidc or github
	Name             string   `json:"name"` // on its button; "" = the key
	Issuer           string   `json:"issuer"`
	ClientID         string   `json:"clientId"`
	ClientSecret     string   `json:"clientSecret" secret:"all"`
	ClientSecretFile string   `json:"clientSecretFile" file:"clientSecret"`
	Scopes           []string `json:"scopes"`

	AllowedDomains    []string `json:"allowedDomains"` // of verified e-mail addresses
	CreateUsers       bool     `json:"createUsers"`
	LinkByEmail       bool     `json:"linkByEmail"`
	TrustSecondFactor bool     `json:"trustSecondFactor"`

	GroupsClaim string                  `json:"groupsClaim"`
	Groups      map[string][]GroupPlace `json:"groups"` // what a group of the provider is here

	AllowedOrganizations []string `json:"allowedOrganizations"` // GitHub
	BaseURL              string   `json:"baseUrl"`              // of a GitHub of one's own
}

// GroupPlace is a role in a team.
type GroupPlace struct {
	Team string `json:"team"`
	Role string `json:"role"`
}

// newSignInProvider is what an entry that says nothing is.
func newSignInProvider() SignInProvider {
	return SignInProvider{Enabled: true, Kind: "oidc", Scopes: []string{}, AllowedDomains: []string{}, GroupsClaim: "groups", Groups: map[string][]GroupPlace{}, AllowedOrganizations: []string{}}
}

// NamedProvider is a provider that is switched on, with its key.
type NamedProvider struct {
	ID string
	SignInProvider
}

// SignIn returns the providers that are switched on, in the order they are shown: by name.
func (a Accounts) SignIn() []NamedProvider {
	var out []NamedProvider
	for id, p := range a.Providers {
		if p.Enabled {
			out = append(out, NamedProvider{id, p})
		}
	}
	slices.SortFunc(out, func(a, b NamedProvider) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return out
}

var (
	providerID = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)
	scopeForm  = regexp.MustCompile(`^[\x21\x23-\x5b\x5d-\x7e]{1,100}$`) // RFC 6749, 3.3
	orgForm    = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})$`)
	teamForm   = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$`)
)

// checkSignIn checks the providers, and gives those without a name theirs.
func (d *decoder) checkSignIn(a *Accounts) {
	for _, id := range slices.Sorted(maps.Keys(a.Providers)) {
		p := a.Providers[id]
		path := "accounts.providers." + id
		if !providerID.MatchString(id) {
			d.problem(path, "a provider's key must have 1 to 40 lower-case letters, digits and dashes: it becomes part of a URL")
		}
		p.Name = cmp.Or(strings.TrimSpace(p.Name), id)
		if p.Enabled {
			d.checkProvider(path, &p)
		}
		a.Providers[id] = p
	}
	if !a.Password && !a.Passkeys && len(a.SignIn()) == 0 {
		d.problem("accounts.password", "nobody could sign in: enable accounts.password, accounts.passkeys or a provider")
	}
}

func (d *decoder) checkProvider(path string, p *SignInProvider) {
	d.checkOneOf(path+".kind", p.Kind, "oidc", "github")
	if len(p.Name) > 60 {
		d.problem(path+".name", "must be at most 60 bytes: it is the text of a button")
	}
	if p.ClientID == "" {
		d.problem(path+".clientId", "is required: it identifies this server to the provider")
	}
	github := p.Kind == "github"
	switch {
	case github && p.ClientSecret == "":
		d.problem(path+".clientSecret", "is required for GitHub")
	case github && p.Issuer != "":
		d.problem(path+".issuer", "is for kind oidc; for GitHub Enterprise set baseUrl")
	case github && p.TrustSecondFactor:
		d.problem(path+".trustSecondFactor", "GitHub does not report whether a user signed in with a second factor")
	case !github && p.Issuer == "":
		d.problem(path+".issuer", "is required: the base of /.well-known/openid-configuration")
	case !github && (p.BaseURL != "" || len(p.AllowedOrganizations) > 0):
		d.problem(path, "baseUrl and allowedOrganizations are for kind github")
	}
	d.checkIssuer(path+".issuer", p.Issuer)
	d.checkIssuer(path+".baseUrl", p.BaseURL)
	for _, s := range p.Scopes {
		if !scopeForm.MatchString(s) {
			d.problem(path+".scopes", "%q is not a scope: each scope is one word", s)
		}
	}
	for _, h := range p.AllowedDomains {
		if !hostName.MatchString(h) || strings.Contains(h, ":") {
			d.problem(path+".allowedDomains", "%q must be a mail domain such as example.com", h)
		}
	}
	for _, o := range p.AllowedOrganizations {
		if !orgForm.MatchString(o) {
			d.problem(path+".allowedOrganizations", "%q must be the name of an organisation as in its URL", o)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(p.Groups)) {
		for i, g := range p.Groups[group] {
			at := fmt.Sprintf("%s.groups.%s[%d]", path, group, i)
			if !teamForm.MatchString(g.Team) {
				d.problem(at+".team", "must be the slug of a team, as in its URL")
			}
			d.checkOneOf(at+".role", g.Role, "owner", "admin", "member", "viewer")
		}
	}
}

// checkIssuer checks an optional address that vouches for people: https, or this machine.
func (d *decoder) checkIssuer(path, value string) {
	if value == "" {
		return
	}
	d.checkURL(path, value, true)
	if u, err := url.Parse(value); err == nil && (u.RawQuery != "" || u.Fragment != "") {
		d.problem(path, "must be an address without ? and #")
	}
}
