package sso

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// Answer is what a browser comes back with.
type Answer struct {
	Provider string
	Browser  string // the value of its cookie
	State    string
	Code     string
	Error    string // the provider's own word, instead of a code
	Issuer   string // iss, RFC 9207
	UserID   string // who is signed in in this browser, "" = nobody
	Meta     accounts.Meta
}

// Outcome is what came of it. Beside an error only Link and Next are set.
type Outcome struct {
	Link    bool // an account was linked; else somebody signed in
	Next    string
	UserID  string
	Entered signin.Entered // the new login session, or which second factor the sign-in waits for
}

// Finish takes a provider's answer: it signs in who it says somebody is, or links that account to the user who asked for it. Errors have
// codes beginning with sso_, or suspended; nothing of the provider's own words is in them.
func (s *Service) Finish(ctx context.Context, a Answer) (Outcome, error) {
	p, err := s.provider(a.Provider)
	if err != nil {
		return Outcome{}, err
	}
	t, userID, err := s.take(ctx, a.Provider, a.Browser, a.State)
	if err != nil {
		return Outcome{}, err
	}
	out := Outcome{Link: t.Link, Next: t.Next}
	if err := p.saysIssuer(ctx, a.Issuer); err != nil {
		return out, s.refused(ctx, p, person{}, t.Link, err)
	}
	if err := answered(p.settings().Name, a); err != nil {
		return out, s.refused(ctx, p, person{}, t.Link, err)
	}
	who, err := p.finish(ctx, t, a.Code)
	if err != nil {
		return out, s.refused(ctx, p, who, t.Link, err)
	}
	if t.Link {
		if userID == "" || a.UserID != userID {
			return out, s.refused(ctx, p, who, true, fault.New(fault.Forbidden, "sso_other_user", "The account was to be linked to another user than the one signed in here. Start again."))
		}
		if err := s.link(ctx, p.settings(), userID, who); err != nil {
			return out, s.refused(ctx, p, who, true, err)
		}
		out.UserID = userID
		return out, nil
	}
	user, err := s.admit(ctx, p.settings(), who)
	if err != nil {
		return out, s.refused(ctx, p, who, false, err)
	}
	factors := []string{accounts.ProofSSO}
	if who.mfa && p.settings().TrustSecondFactor {
		factors = append(factors, accounts.ProofSSOMFA)
	}
	out.UserID = user.ID
	out.Entered, err = s.cfg.SignIn.Enter(ctx, signin.Request{UserID: user.ID, Factors: factors, Provider: a.Provider, Meta: a.Meta})
	if err != nil {
		return out, s.refused(ctx, p, who, false, err)
	}
	return out, nil
}

// answered says what the provider answered instead of a code.
func answered(name string, a Answer) error {
	switch {
	case a.Error == "access_denied" || a.Error == "consent_required" || a.Error == "interaction_required" || a.Error == "login_required":
		return fault.New(fault.Forbidden, "sso_denied", "%s did not let you in, or you cancelled. Start again.", name)
	case a.Error != "":
		return fault.Wrap(fmt.Errorf("it answered %q", accounts.Clip(a.Error, 60)), fault.Unavailable, "sso_provider_refused", "%s did not accept the sign-in. Start again, or ask an operator of this server.", name)
	case a.Code == "" || len(a.Code) > 4096:
		return invalidAnswer(name, errors.New("it sent no code"))
	}
	return nil
}

// refused remembers that somebody was not let in, and why; it returns err.
func (s *Service) refused(ctx context.Context, p provider, who person, link bool, err error) error {
	s.cfg.Log.WarnContext(ctx, "sign-in by a provider refused", "provider", p.settings().ID, "code", fault.CodeOf(err), "error", err)
	action, result := "user.sign_in", audit.Refused
	if link {
		action = "identity.link"
	}
	if fault.Is(err, fault.Unavailable) || fault.Is(err, fault.Internal) {
		result = audit.Failed
	}
	e := audit.Entry{Chain: audit.Instance, Action: action, Result: result, Code: fault.CodeOf(err), TargetKind: "provider", TargetID: p.settings().ID, TargetName: p.settings().Name}
	if who.subject != "" {
		e.Data = map[string]string{"email": who.email, "subject": who.subject}
	}
	if s.cfg.Audit != nil {
		if bad := s.cfg.Audit.Record(ctx, e, false); bad != nil {
			s.cfg.Log.ErrorContext(ctx, "refused sign-in not recorded", "error", bad)
		}
	}
	return err
}

// note remembers what was done; it belongs into the transaction that does it.
func (s *Service) note(ctx context.Context, e audit.Entry) error {
	if s.cfg.Audit == nil {
		return nil
	}
	return s.cfg.Audit.Append(ctx, e)
}

// admit returns the user who somebody is here, made or linked where the operator says so, with the memberships their groups say.
func (s *Service) admit(ctx context.Context, p Provider, who person) (accounts.User, error) {
	if err := allowedDomain(p, who); err != nil {
		return accounts.User{}, err
	}
	var user accounts.User
	var lost bool
	err := s.store.Tx(ctx, func(ctx context.Context) error {
		var err error
		if user, err = s.userOf(ctx, p, who); err != nil {
			return err
		}
		if user.SuspendedAt != 0 {
			return nil // SignIn says so, and groups change nothing for them
		}
		if lost, err = s.applyGroups(ctx, p, user, who.groups); err != nil {
			return err
		}
		return s.note(asUser(ctx, user), audit.Entry{Chain: audit.Instance, Action: "user.sign_in", TargetKind: "provider", TargetID: p.ID, TargetName: p.Name})
	})
	if err != nil {
		return accounts.User{}, err
	}
	if lost {
		s.changed(user.ID)
	}
	return user, nil
}

// asUser says in the audit who it was, known only now.
func asUser(ctx context.Context, u accounts.User) context.Context {
	by := audit.SourceOf(ctx)
	by.Kind, by.ActorID, by.ActorName = audit.ByUser, u.ID, u.Email
	return audit.By(ctx, by)
}

// allowedDomain refuses a user without a verified address in one of the allowed domains.
func allowedDomain(p Provider, who person) error {
	if len(p.AllowedDomains) == 0 {
		return nil
	}
	if !who.verified || who.email == "" {
		return unverified(p)
	}
	_, domain, _ := strings.Cut(who.email, "@")
	if !slices.ContainsFunc(p.AllowedDomains, func(d string) bool { return strings.EqualFold(d, domain) }) {
		return fault.New(fault.Forbidden, "sso_domain_not_allowed", "Addresses of your mail domain may not sign in here with %s. Ask an operator of this server.", p.Name)
	}
	return nil
}

func unverified(p Provider) error {
	return fault.New(fault.Forbidden, "sso_email_unverified", "%s does not vouch for your e-mail address. Verify it there, and start again.", p.Name)
}

// userOf finds the user who somebody is here, or makes one where the operator allows it.
func (s *Service) userOf(ctx context.Context, p Provider, who person) (accounts.User, error) {
	known, err := s.store.IdentityBySubject(ctx, who.issuer, who.subject)
	if err == nil {
		known.Email, known.Name, known.LastUsedAt, known.Provider = who.email, who.name, s.now(), p.ID
		if err := s.store.TouchIdentity(ctx, known); err != nil {
			return accounts.User{}, err
		}
		user, err := s.store.UserByID(ctx, known.UserID)
		if err != nil || !user.EmailUnverified || !who.verified || who.email != user.Email {
			return user, err
		}
		user.EmailUnverified = false
		return user, s.store.VerifyEmail(ctx, user.ID)
	}
	if !fault.Is(err, fault.NotFound) {
		return accounts.User{}, fmt.Errorf("reading an identity: %w", err)
	}
	if !who.verified || who.email == "" {
		if !p.CreateUsers && !p.LinkByEmail {
			return accounts.User{}, noAccount(p)
		}
		return accounts.User{}, unverified(p)
	}
	user, err := s.store.UserByEmail(ctx, who.email)
	switch {
	case err == nil && !p.LinkByEmail:
		return accounts.User{}, linkFirst(p)
	case fault.Is(err, fault.NotFound) && !p.CreateUsers:
		return accounts.User{}, noAccount(p)
	case fault.Is(err, fault.NotFound):
		if user, err = s.newUser(ctx, who); err != nil {
			return accounts.User{}, err
		}
	case err != nil:
		return accounts.User{}, fmt.Errorf("reading a user: %w", err)
	default: // somebody else may have taken the address, and waits with a password of their own for what its owner will be given
		if user.EmailUnverified {
			return accounts.User{}, linkFirst(p)
		}
	}
	return user, s.insert(asUser(ctx, user), p, user.ID, who)
}

func linkFirst(p Provider) error {
	return fault.New(fault.Conflict, "sso_link_first", "There is a user with your e-mail address already. Sign in as before, and link %s under Settings, Security.", p.Name)
}

func noAccount(p Provider) error {
	return fault.New(fault.Forbidden, "sso_no_account", "Nobody here is linked to this account of %s. Ask for an invite, or sign in as before and link it under Settings, Security.", p.Name)
}

// newUser makes a user of who signs in for the first time. The very first user of a server is its operator, and is made by the setup
// link alone.
func (s *Service) newUser(ctx context.Context, who person) (accounts.User, error) {
	if first, err := s.cfg.Directory.SetupNeeded(ctx); err != nil {
		return accounts.User{}, err
	} else if first {
		return accounts.User{}, fault.New(fault.Conflict, "sso_setup_first", "This server is not set up yet. Open the setup link it printed when it started.")
	}
	user, err := s.cfg.Directory.CreateOutsideUser(ctx, who.email, who.name)
	if err != nil {
		return accounts.User{}, err
	}
	return user, s.note(asUser(ctx, user), audit.Entry{Chain: audit.Instance, Action: "user.create", TargetKind: "user", TargetID: user.ID, TargetName: user.Name, Data: map[string]string{"by": "sso"}})
}

// insert stores an identity of a user.
func (s *Service) insert(ctx context.Context, p Provider, userID string, who person) error {
	now := s.now()
	i := Identity{ID: id.New("idn"), UserID: userID, Provider: p.ID, Issuer: who.issuer, Subject: who.subject, Email: who.email, Name: who.name, CreatedAt: now, LastUsedAt: now}
	ok, err := s.store.InsertIdentity(ctx, i)
	if err != nil {
		return fmt.Errorf("storing an identity: %w", err)
	}
	if !ok {
		return fault.New(fault.Conflict, "sso_linked_elsewhere", "This account of %s is linked to another user here. That user unlinks it first.", p.Name)
	}
	return s.note(ctx, audit.Entry{Chain: audit.Instance, Action: "identity.link", TargetKind: "identity", TargetID: i.ID, TargetName: who.email, Data: map[string]string{"provider": p.ID}})
}
