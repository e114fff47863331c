package sso

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/oauth2"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
)

// gitHub speaks to GitHub, which signs nothing: who somebody is says its API, asked with the token the code was exchanged for.
type gitHub struct {
	cfg    Provider
	client *http.Client
	web    string // where people are
	api    string
}

func newGitHub(cfg Provider, client *http.Client) *gitHub {
	g := &gitHub{cfg: cfg, client: client, web: "https://github.com", api: "https://api.github.com"}
	if cfg.BaseURL != "" {
		g.web = strings.TrimRight(cfg.BaseURL, "/")
		g.api = g.web + "/api/v3"
		// Enterprise Cloud with data residency has its API beside, not below.
		if u, err := url.Parse(g.web); err == nil && strings.HasSuffix(u.Hostname(), ".ghe.com") {
			g.api = u.Scheme + "://api." + u.Host
		}
	}
	return g
}

func (g *gitHub) settings() Provider { return g.cfg }

func (g *gitHub) oauth(redirect string) *oauth2.Config {
	scopes := []string{"read:user", "user:email"}
	if len(g.cfg.AllowedOrganizations) > 0 || len(g.cfg.Groups) > 0 {
		scopes = append(scopes, "read:org")
	}
	for _, s := range g.cfg.Scopes {
		if !slices.Contains(scopes, s) {
			scopes = append(scopes, s)
		}
	}
	return &oauth2.Config{ClientID: g.cfg.ClientID, ClientSecret: g.cfg.ClientSecret, RedirectURL: redirect, Scopes: scopes,
		Endpoint: oauth2.Endpoint{AuthURL: g.web + "/login/oauth/authorize", TokenURL: g.web + "/login/oauth/access_token", AuthStyle: oauth2.AuthStyleInParams}}
}

func (g *gitHub) ready(context.Context) error { return nil }

// saysIssuer believes GitHub's answer as it comes: it names no issuer, and each provider has a callback of its own.
func (g *gitHub) saysIssuer(context.Context, string) error { return nil }

func (g *gitHub) begin(_ context.Context, t trip) (string, error) {
	return g.oauth(t.Redirect).AuthCodeURL(t.state, oauth2.S256ChallengeOption(t.Verifier)), nil
}

func (g *gitHub) finish(ctx context.Context, t trip, code string) (person, error) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, g.client)
	token, err := g.oauth(t.Redirect).Exchange(ctx, code, oauth2.VerifierOption(t.Verifier))
	if err != nil {
		return person{}, exchangeFault(g.cfg.Name, err)
	}
	var user struct {
		ID          int64
		Login, Name string
	}
	if err := g.get(ctx, token, "/user", &user); err != nil {
		return person{}, g.fault(err)
	}
	if user.ID <= 0 {
		return person{}, invalidAnswer(g.cfg.Name, errors.New("it names nobody"))
	}
	who := person{issuer: g.web, subject: strconv.FormatInt(user.ID, 10), name: accounts.Clip(strings.TrimSpace(user.Name), 255)}
	if who.name == "" {
		who.name = accounts.Clip(user.Login, 255)
	}
	var mails []struct {
		Email             string
		Primary, Verified bool
	}
	if err := g.get(ctx, token, "/user/emails", &mails); err != nil {
		return person{}, g.fault(err)
	}
	for _, m := range mails {
		if m.Primary {
			who.email, who.verified = strings.ToLower(accounts.Clip(m.Email, 255)), m.Verified
		}
	}
	if err := g.checkOrganizations(ctx, token); err != nil {
		return person{}, err
	}
	if len(g.cfg.Groups) > 0 {
		if who.groups, err = g.groups(ctx, token); err != nil {
			return person{}, g.fault(err)
		}
	}
	return who, nil
}

// checkOrganizations refuses a user who is not an active member of any of the allowed organisations.
func (g *gitHub) checkOrganizations(ctx context.Context, token *oauth2.Token) error {
	if len(g.cfg.AllowedOrganizations) == 0 {
		return nil
	}
	for _, org := range g.cfg.AllowedOrganizations {
		var m struct{ State string }
		err := g.get(ctx, token, "/user/memberships/orgs/"+url.PathEscape(org), &m)
		if err == nil && m.State == "active" {
			return nil
		}
		if no, ok := errors.AsType[*statusError](err); err != nil && (!ok || no.code != http.StatusNotFound && no.code != http.StatusForbidden) {
			return g.fault(err)
		}
	}
	return fault.New(fault.Forbidden, "sso_organization_required",
		"You are in none of the organisations of %s that may sign in here, or did not let this application see it. Grant it access to your organisation there, and start again.", g.cfg.Name)
}

// mostTeams bounds the teams that are read of somebody.
const mostTeams = 1000

// groups are the organisations somebody is in, as "organisation", and their teams, as "organisation/team".
func (g *gitHub) groups(ctx context.Context, token *oauth2.Token) ([]string, error) {
	var out []string
	for page := 1; page <= mostTeams/100; page++ {
		var orgs []struct{ Organization struct{ Login string } }
		if err := g.get(ctx, token, "/user/memberships/orgs?state=active&per_page=100&page="+strconv.Itoa(page), &orgs); err != nil {
			return nil, err
		}
		for _, o := range orgs {
			out = append(out, o.Organization.Login)
		}
		if len(orgs) < 100 {
			break
		}
	}
	for page := 1; page <= mostTeams/100; page++ {
		var teams []struct {
			Slug         string
			Organization struct{ Login string }
		}
		if err := g.get(ctx, token, "/user/teams?per_page=100&page="+strconv.Itoa(page), &teams); err != nil {
			return nil, err
		}
		for _, t := range teams {
			out = append(out, t.Organization.Login+"/"+t.Slug)
		}
		if len(teams) < 100 {
			break
		}
	}
	return out, nil
}

// statusError is an answer of GitHub's API that is not a success.
type statusError struct {
	path string
	code int
}

func (e *statusError) Error() string { return fmt.Sprintf("GET %s answered %d", e.path, e.code) }

// get reads one thing of the API.
func (g *gitHub) get(ctx context.Context, token *oauth2.Token, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.api+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	token.SetAuthHeader(req)
	resp, err := g.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return &statusError{strings.SplitN(path, "?", 2)[0], resp.StatusCode}
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

func (g *gitHub) fault(err error) error {
	var sent *url.Error
	if _, ok := errors.AsType[*statusError](err); ok {
		return fault.Wrap(err, fault.Unavailable, "sso_provider_refused", "%s did not say who you are. Start again.", g.cfg.Name)
	}
	if errors.As(err, &sent) {
		return unreachable(g.cfg.Name, err)
	}
	return invalidAnswer(g.cfg.Name, err)
}

// try asks for the sign-in page: anything but an error will do.
func (g *gitHub) try(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, g.web+"/login", nil)
	if err != nil {
		return unreachable(g.cfg.Name, err)
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return unreachable(g.cfg.Name, err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode >= 500 {
		return unreachable(g.cfg.Name, &statusError{"/login", resp.StatusCode})
	}
	return nil
}
