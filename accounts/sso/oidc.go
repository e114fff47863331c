package sso

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/fault"
)

// How long what a provider says about itself is believed, and how long after a failure it is not asked again.
const (
	discoveryFor   = time.Hour
	discoveryAgain = 5 * time.Second
)

// oidcProvider speaks OpenID Connect: the code flow with PKCE.
type oidcProvider struct {
	cfg    Provider
	client *http.Client
	now    func() time.Time

	mu    sync.Mutex
	known *discovered // what was read last, kept when it cannot be read again
	at    time.Time   // when it was asked for
	err   error       // of the last try
}

// discovered is what a provider says about itself.
type discovered struct {
	*oidc.Provider
	extra struct {
		AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
		Challenges  []string `json:"code_challenge_methods_supported"`
		SaysIssuer  bool     `json:"authorization_response_iss_parameter_supported"` // RFC 9207
		UserInfo    string   `json:"userinfo_endpoint"`
	}
}

func (p *oidcProvider) settings() Provider { return p.cfg }

// discover returns what the provider says about itself.
func (p *oidcProvider) discover(ctx context.Context) (*discovered, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	switch age := now.Sub(p.at); {
	case p.known != nil && age < discoveryFor && age >= 0:
		return p.known, nil
	case p.known == nil && p.err != nil && age < discoveryAgain && age >= 0:
		return nil, p.err
	}
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.cfg.Issuer)
	d := &discovered{Provider: found}
	if err == nil {
		err = found.Claims(&d.extra)
	}
	if err == nil {
		err = d.check(p.cfg.Issuer)
	}
	if err != nil && ctx.Err() != nil {
		return nil, unreachable(p.cfg.Name, err) // who asked has left: that says nothing about the provider
	}
	p.at, p.err = now, nil
	if err == nil {
		p.known = d
		return d, nil
	}
	if p.known != nil {
		return p.known, nil // the next try comes in an hour; signatures are checked against its keys in any case
	}
	p.err = discoveryFault(p.cfg.Name, err)
	return nil, p.err
}

// check refuses a provider that would be spoken to in clear although its issuer is not.
func (d *discovered) check(issuer string) error {
	if strings.HasPrefix(issuer, "http://") {
		return nil
	}
	e := d.Endpoint()
	for _, u := range []string{e.AuthURL, e.TokenURL, d.extra.UserInfo} {
		if u != "" && !strings.HasPrefix(u, "https://") {
			return fmt.Errorf("its discovery document names an address that is not https: %s", u)
		}
	}
	if e.AuthURL == "" || e.TokenURL == "" {
		return errors.New("its discovery document names no authorization or token address")
	}
	return nil
}

func discoveryFault(name string, err error) error {
	if m, ok := errors.AsType[*oidc.IssuerMismatchError](err); ok {
		return fault.Wrap(err, fault.Unavailable, "sso_provider_unreachable", "%s says its issuer is %q, and config.json says %q: an operator makes them the same, to the letter.", name, accounts.Clip(m.Discovered, 200), m.Provided)
	}
	return unreachable(name, err)
}

func unreachable(name string, err error) error {
	return fault.Wrap(err, fault.Unavailable, "sso_provider_unreachable", "%s could not be asked: %s. Try again, or ask an operator of this server.", name, egress.Words(err))
}

// oauth is the client as this provider takes it.
func (p *oidcProvider) oauth(d *discovered, redirect string) *oauth2.Config {
	e := d.Endpoint()
	// Said, not found out: a code that was sent the wrong way once is used up.
	e.AuthStyle = oauth2.AuthStyleInHeader
	methods := d.extra.AuthMethods
	if p.cfg.ClientSecret == "" || len(methods) > 0 && !slices.Contains(methods, "client_secret_basic") {
		e.AuthStyle = oauth2.AuthStyleInParams
	}
	scopes := []string{oidc.ScopeOpenID}
	for _, s := range append([]string{"email", "profile"}, p.cfg.Scopes...) {
		if !slices.Contains(scopes, s) {
			scopes = append(scopes, s)
		}
	}
	return &oauth2.Config{ClientID: p.cfg.ClientID, ClientSecret: p.cfg.ClientSecret, Endpoint: e, RedirectURL: redirect, Scopes: scopes}
}

func (p *oidcProvider) ready(ctx context.Context) error {
	_, err := p.discover(ctx)
	return err
}

func (p *oidcProvider) begin(ctx context.Context, t trip) (string, error) {
	d, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	return p.oauth(d, t.Redirect).AuthCodeURL(t.state, oidc.Nonce(t.Nonce), oauth2.S256ChallengeOption(t.Verifier)), nil
}

// saysIssuer checks the issuer in the address the browser came back with (RFC 9207): an answer of another provider is refused before
// the code is sent anywhere.
func (p *oidcProvider) saysIssuer(ctx context.Context, iss string) error {
	d, err := p.discover(ctx)
	if err != nil {
		return err
	}
	if iss == "" && !d.extra.SaysIssuer || iss == p.cfg.Issuer {
		return nil
	}
	return invalidAnswer(p.cfg.Name, fmt.Errorf("the answer says it is of issuer %q", accounts.Clip(iss, 200)))
}

func invalidAnswer(name string, err error) error {
	return fault.Wrap(err, fault.Unauthorized, "sso_answer_invalid", "The answer of %s is not one this server may believe. Start again; an operator finds the reason in the server's log.", name)
}

func (p *oidcProvider) finish(ctx context.Context, t trip, code string) (person, error) {
	d, err := p.discover(ctx)
	if err != nil {
		return person{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := p.oauth(d, t.Redirect).Exchange(ctx, code, oauth2.VerifierOption(t.Verifier))
	if err != nil {
		return person{}, exchangeFault(p.cfg.Name, err)
	}
	raw, _ := token.Extra("id_token").(string)
	if raw == "" {
		return person{}, invalidAnswer(p.cfg.Name, errors.New("it sent no ID token"))
	}
	id, err := d.Verifier(&oidc.Config{ClientID: p.cfg.ClientID, Now: p.now}).Verify(ctx, raw)
	if err != nil {
		return person{}, invalidAnswer(p.cfg.Name, err)
	}
	said := claims{}
	if err := id.Claims(&said); err != nil {
		return person{}, invalidAnswer(p.cfg.Name, err)
	}
	azp := said.text("azp")
	switch {
	case subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(t.Nonce)) != 1:
		err = errors.New("the ID token is for another sign-in (nonce)")
	case azp != "" && azp != p.cfg.ClientID || len(id.Audience) > 1 && azp == "":
		err = errors.New("the ID token is for another client (azp)")
	case id.Subject == "" || len(id.Subject) > 255:
		err = errors.New("the ID token names nobody")
	case id.AccessTokenHash != "":
		err = id.VerifyAccessToken(token.AccessToken)
	}
	if err != nil {
		return person{}, invalidAnswer(p.cfg.Name, err)
	}
	if p.wantsMore(said) && d.extra.UserInfo != "" {
		if err := p.ask(ctx, d, token, id.Subject, said); err != nil {
			return person{}, err
		}
	}
	return p.person(id, said)
}

// wantsMore reports whether the ID token lacks what the provider may tell when it is asked.
func (p *oidcProvider) wantsMore(said claims) bool {
	_, groups := said.find(p.groupsClaim())
	return said.text("email") == "" || said.text("name") == "" || len(p.cfg.Groups) > 0 && !groups
}

func (p *oidcProvider) groupsClaim() string {
	return cmp.Or(p.cfg.GroupsClaim, "groups")
}

// ask adds what the provider's user-info address says of the same person. What is signed stands.
func (p *oidcProvider) ask(ctx context.Context, d *discovered, token *oauth2.Token, subject string, said claims) error {
	info, err := d.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return unreachable(p.cfg.Name, err)
	}
	if info.Subject != subject {
		return invalidAnswer(p.cfg.Name, errors.New("its user-info address speaks of somebody else"))
	}
	more := claims{}
	if err := info.Claims(&more); err != nil {
		return invalidAnswer(p.cfg.Name, err)
	}
	_, signedEmail := said["email"]
	for k, v := range more {
		if _, there := said[k]; there || signedEmail && k == "email_verified" {
			continue // of another address, for all we know
		}
		said[k] = v
	}
	return nil
}

func (p *oidcProvider) person(id *oidc.IDToken, said claims) (person, error) {
	who := person{issuer: id.Issuer, subject: id.Subject, email: strings.ToLower(said.text("email")), name: said.text("name"), mfa: said.mfa()}
	if who.name == "" {
		who.name = strings.TrimSpace(said.text("given_name") + " " + said.text("family_name"))
	}
	if who.name == "" {
		who.name = said.text("preferred_username")
	}
	who.verified = said.yes("email_verified") || entra(id.Issuer) && said.yes("xms_edov")
	if len(p.cfg.Groups) == 0 {
		return who, nil
	}
	if said.elsewhere(p.groupsClaim()) {
		return person{}, fault.New(fault.Forbidden, "sso_groups_missing", "%s did not send your groups, because you are in too many of them. An operator has it send only those assigned to this application.", p.cfg.Name)
	}
	list, _ := said.find(p.groupsClaim())
	who.groups = texts(list)
	return who, nil
}

// entra reports whether an issuer is Microsoft's: it says by a claim of its own that a mail domain is the organisation's
// (https://learn.microsoft.com/entra/identity-platform/optional-claims-reference, xms_edov).
func entra(issuer string) bool {
	u, err := url.Parse(issuer)
	return err == nil && slices.Contains([]string{"login.microsoftonline.com", "login.microsoftonline.us", "login.partner.microsoftonline.cn", "sts.windows.net"}, u.Host)
}

func (p *oidcProvider) try(ctx context.Context) error {
	d, err := p.discover(ctx)
	if err != nil {
		return err
	}
	if ch := d.extra.Challenges; len(ch) > 0 && !slices.Contains(ch, "S256") {
		return fault.New(fault.Unavailable, "sso_provider_unreachable", "%s says that it takes no PKCE with S256, which this server always sends.", p.cfg.Name)
	}
	return nil
}

// exchangeFault says why a code was not taken, without a word of the provider's that may hold it.
func exchangeFault(name string, err error) error {
	if r, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		cause := fmt.Errorf("the token address answered %d, error %q", r.Response.StatusCode, accounts.Clip(r.ErrorCode, 60))
		if r.ErrorCode == "invalid_client" || r.ErrorCode == "unauthorized_client" || r.ErrorCode == "incorrect_client_credentials" {
			return fault.Wrap(cause, fault.Unavailable, "sso_provider_refused", "%s does not accept this server's client id or secret. Ask an operator of this server.", name)
		}
		return fault.Wrap(cause, fault.Unauthorized, "sso_provider_refused", "%s did not accept the sign-in. Start again.", name)
	}
	var typed *url.Error
	if errors.As(err, &typed) {
		return unreachable(name, err)
	}
	return invalidAnswer(name, errors.New("its token address answered something that is no token"))
}

// claims are what a provider says of somebody.
type claims map[string]json.RawMessage

// text is a claim that is a text, cleaned.
func (c claims) text(name string) string {
	var s string
	if json.Unmarshal(c[name], &s) != nil {
		return ""
	}
	return accounts.Clip(strings.TrimSpace(s), 255)
}

// yes reports whether a claim is true; some providers write it as a text or a number.
func (c claims) yes(name string) bool {
	switch strings.ToLower(strings.Trim(string(c[name]), `"`)) {
	case "true", "1":
		return true
	}
	return false
}

// find returns a claim by its name, or by the way to it: realm_access.roles.
func (c claims) find(path string) (json.RawMessage, bool) {
	if v, ok := c[path]; ok {
		return v, true
	}
	head, rest, deeper := strings.Cut(path, ".")
	v, ok := c[head]
	if !ok || !deeper {
		return nil, false
	}
	inner := claims{}
	if json.Unmarshal(v, &inner) != nil {
		return nil, false
	}
	return inner.find(rest)
}

// elsewhere reports whether a claim was left out because it is too long (OpenID Connect Core 5.6.2; Microsoft's groups overage).
func (c claims) elsewhere(name string) bool {
	names := claims{}
	if json.Unmarshal(c["_claim_names"], &names) != nil {
		return c.yes("hasgroups")
	}
	_, there := names[name]
	return there
}

// Words of acr that mean more than one factor: REFEDS, the OpenID PAPE policy, phishing-resistant (OpenID EAP ACR Values 1.0), Okta.
var strongACR = []string{"https://refeds.org/profile/mfa", "http://schemas.openid.net/pape/policies/2007/06/multi-factor", "phr", "phrh", "urn:okta:loa:2fa:any"}

// mfa reports whether the provider says that it asked for more than one factor: by acr, or by amr in the words of RFC 8176.
func (c claims) mfa() bool {
	if slices.Contains(strongACR, c.text("acr")) {
		return true
	}
	knows, has := false, false
	for _, m := range texts(c["amr"]) {
		switch m {
		case "mfa":
			return true
		case "pwd", "pin", "kba":
			knows = true
		case "otp", "hwk", "swk", "sc", "sms", "tel", "pop", "fpt", "face", "iris", "retina", "vbm":
			has = true
		}
	}
	return knows && has
}

// texts reads a list of texts, or one text.
func texts(raw json.RawMessage) []string {
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		return list
	}
	var one string
	if json.Unmarshal(raw, &one) == nil && one != "" {
		return []string{one}
	}
	return nil
}
