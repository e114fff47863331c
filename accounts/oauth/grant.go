package oauth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/password"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/internal/fault"
)

// refreshPrefix begins refresh tokens, so that scanners of leaked secrets know them.
const refreshPrefix = "pw_refresh_"

var (
	challengeForm = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)
	verifierForm  = regexp.MustCompile(`^[A-Za-z0-9._~-]{43,128}$`)
)

// CheckChallenge refuses a request without PKCE, or with another method than S256. Errors: invalid_request.
func CheckChallenge(challenge, method string) error {
	if method != "S256" || !challengeForm.MatchString(challenge) {
		return refuse("invalid_request", "The application must use PKCE: send code_challenge and code_challenge_method=S256. Update the application.")
	}
	return nil
}

// Allowed is what a person allows a client.
type Allowed struct {
	Client      Client
	RedirectURI string
	Challenge   string
	Scopes      []accounts.Scope
	Team        string // slug of the only team, "" = all of the person's
}

// Allow stores what the actor allows a client and returns the code that the client exchanges for tokens. Errors: invalid_scope,
// confirm_needed and others of signin.IssueToken.
func (s *Service) Allow(ctx context.Context, actor accounts.Actor, a Allowed) (code string, g Grant, err error) {
	if len(a.Scopes) == 0 || slices.ContainsFunc(a.Scopes, func(sc accounts.Scope) bool { return !slices.Contains(Scopes(), sc) }) {
		return "", Grant{}, refuse("invalid_scope", "Choose at least one thing that the application may do.")
	}
	if err := CheckChallenge(a.Challenge, "S256"); err != nil {
		return "", Grant{}, err
	}
	if err := s.Sweep(ctx); err != nil {
		return "", Grant{}, err
	}
	if code, err = password.NewSecret(s.cfg.Rand, 32); err != nil {
		return "", Grant{}, err
	}
	now := s.cfg.Now()
	until := now.Add(codeFor).UnixMilli()
	err = s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		// Nobody learns the token's first value: it is good for nothing until the code is exchanged. It is there already, so that
		// whatever ends this person's tokens in the meantime ends it, too.
		t, _, err := s.cfg.Tokens.IssueToken(ctx, actor, signin.TokenRequest{Name: a.Client.Name, Scopes: a.Scopes, Team: a.Team, ExpiresAt: until})
		if err != nil {
			return err
		}
		g = Grant{TokenID: t.ID, UserID: t.UserID, ClientID: a.Client.ID, Name: t.Name, Scopes: t.Scopes, TeamID: t.TeamID, CodeHash: password.Digest(code), Challenge: a.Challenge,
			RedirectURI: a.RedirectURI, CreatedAt: now.UnixMilli(), ExpiresAt: until}
		return s.cfg.Store.InsertGrant(ctx, g)
	})
	if err != nil {
		return "", Grant{}, fmt.Errorf("storing what was allowed: %w", err)
	}
	return code, g, nil
}

// Issued are the tokens of a grant.
type Issued struct {
	Grant           Grant
	Access, Refresh string
	ExpiresIn       int // seconds, of Access
}

// Reused is the error of a code or a refresh token that was used before: somebody else may hold it, so the grant has ended.
type Reused struct {
	Grant Grant
	error
}

// Unwrap returns the error of OAuth.
func (r *Reused) Unwrap() error { return r.error }

// reuseWindow is how long after a grant a second use of its code revokes it: whoever finds a code in an old log cannot end a connection with
// it.
const reuseWindow = 10 * time.Minute

// Exchange returns the tokens for a code. redirectURI is compared where the client sends it. Errors: invalid_client, invalid_grant; Reused.
func (s *Service) Exchange(ctx context.Context, clientID, code, verifier, redirectURI string) (Issued, error) {
	if _, err := s.client(ctx, clientID); err != nil {
		return Issued{}, err
	}
	const again = "Begin again in the application."
	family, err := password.NewSecret(s.cfg.Rand, 32)
	if err != nil {
		return Issued{}, err
	}
	return s.renew(ctx, ByCode, code, family, func(g Grant) error {
		sum := sha256.Sum256([]byte(verifier))
		switch {
		case g.FamilyHash != "" && s.cfg.Now().UnixMilli() >= g.CreatedAt+reuseWindow.Milliseconds():
			return refuse("invalid_grant", "The code was used before. %s", again)
		case g.FamilyHash != "":
			return &Reused{g, refuse("invalid_grant", "The code was used before. The application's access has been revoked. %s", again)}
		case g.ClientID != clientID:
			return refuse("invalid_grant", "The code was given to another application. %s", again)
		case s.cfg.Now().UnixMilli() >= g.ExpiresAt:
			return refuse("invalid_grant", "The code has expired: it is valid for one minute. %s", again)
		case redirectURI != "" && redirectURI != g.RedirectURI:
			return refuse("invalid_grant", "redirect_uri is not the address that the code was sent to. %s", again)
		case !verifierForm.MatchString(verifier) || subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(g.Challenge)) != 1:
			return refuse("invalid_grant", "code_verifier does not belong to the code_challenge. %s", again)
		}
		return nil
	})
}

// Refresh replaces a refresh token and the access token of its grant. Errors: invalid_client, invalid_grant, invalid_scope; Reused.
func (s *Service) Refresh(ctx context.Context, clientID, token string, scopes []string) (Issued, error) {
	if _, err := s.client(ctx, clientID); err != nil {
		return Issued{}, err
	}
	family, secret := split(token)
	return s.renew(ctx, ByFamily, family, family, func(g Grant) error {
		switch {
		case g.ClientID != clientID:
			return refuse("invalid_grant", "The refresh token was given to another application. Connect this one again.")
		case subtle.ConstantTimeCompare([]byte(password.Digest(secret)), []byte(g.RefreshHash)) != 1:
			return &Reused{g, refuse("invalid_grant", "The refresh token was used before. The application's access has been revoked, because somebody else may hold the token. Connect it again.")}
		case s.cfg.Now().UnixMilli() >= g.ExpiresAt:
			return refuse("invalid_grant", "The refresh token has expired: it was not used for 30 days. Connect the application again.")
		}
		for _, sc := range scopes {
			if !slices.Contains(g.Scopes, accounts.Scope(sc)) {
				return refuse("invalid_scope", "The application asks for more than it was allowed. Connect it again to allow more.")
			}
		}
		return nil
	})
}

// renew gives the grant that a value leads to new tokens of a family where check has nothing against it, and ends a grant whose code or
// refresh token was used before.
func (s *Service) renew(ctx context.Context, by By, value, family string, check func(Grant) error) (Issued, error) {
	secret, err := password.NewSecret(s.cfg.Rand, 32)
	if err != nil {
		return Issued{}, err
	}
	access, err := signin.NewTokenValue(s.cfg.Rand)
	if err != nil {
		return Issued{}, err
	}
	var out Issued
	err = s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		g, err := s.cfg.Store.Grant(ctx, by, password.Digest(value))
		if fault.Is(err, fault.NotFound) {
			return refuse("invalid_grant", "The application's access has ended or was revoked. Connect it again.")
		}
		if err != nil {
			return err
		}
		if err := check(g); err != nil {
			return err
		}
		now := s.cfg.Now()
		from := g.RefreshHash
		out = Issued{Access: access, Refresh: refreshPrefix + family + "." + secret, ExpiresIn: int(accessFor.Seconds())}
		g.FamilyHash, g.RefreshHash, g.ExpiresAt = password.Digest(family), password.Digest(secret), now.Add(refreshFor).UnixMilli()
		out.Grant = g
		ok, err := s.cfg.Store.Renew(ctx, g, from, Access{Hash: password.Digest(access), At: now.UnixMilli(), Until: now.Add(accessFor).UnixMilli()})
		if err == nil && !ok {
			err = refuse("invalid_grant", "The application's access was renewed by somebody else just now. Connect it again.")
		}
		return err
	})
	if r, ok := errors.AsType[*Reused](err); ok {
		if derr := s.cfg.Tokens.DeleteToken(ctx, r.Grant.UserID, r.Grant.TokenID); derr != nil && !fault.Is(derr, fault.NotFound) {
			return Issued{}, fmt.Errorf("ending a grant whose token was used twice: %w", derr)
		}
	}
	return out, err
}

// split returns the parts of a refresh token; a string that is none has no family that anybody knows.
func split(token string) (family, secret string) {
	token, ok := strings.CutPrefix(token, refreshPrefix)
	if !ok {
		return "", ""
	}
	family, secret, _ = strings.Cut(token, ".")
	return family, secret
}

// Revoke ends the grant that a client's access or refresh token belongs to (RFC 7009), and returns it. A token that nobody knows has ended
// already: the grant is then empty. Errors: invalid_client, invalid_grant.
func (s *Service) Revoke(ctx context.Context, clientID, token string) (Grant, error) {
	if _, err := s.client(ctx, clientID); err != nil {
		return Grant{}, err
	}
	by, hash := ByAccess, password.Digest(token)
	if family, _ := split(token); family != "" {
		by, hash = ByFamily, password.Digest(family)
	}
	g, err := s.cfg.Store.Grant(ctx, by, hash)
	if fault.Is(err, fault.NotFound) {
		return Grant{}, nil
	}
	if err != nil {
		return Grant{}, fmt.Errorf("reading a grant: %w", err)
	}
	if g.ClientID != clientID {
		return Grant{}, refuse("invalid_grant", "The token was given to another application.")
	}
	if err := s.cfg.Tokens.DeleteToken(ctx, g.UserID, g.TokenID); err != nil && !fault.Is(err, fault.NotFound) {
		return Grant{}, fmt.Errorf("ending a grant: %w", err)
	}
	return g, nil
}
