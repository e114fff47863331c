package sso_test

import (
	"testing"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/accounts/sso"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
)

// Whom groups remove or make less has left no way back behind: neither an invite nor a token for the team.
func TestASVS_8_3_2_GroupsEndInvitesAndTokens(t *testing.T) {
	each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db, func(corp, _ *sso.Provider) {
			corp.Groups = map[string][]sso.Place{"leads": {{"engines", accounts.Admin}}, "staff": {{"engines", accounts.Member}}}
		})
		_, team := h.owner("owner@example.com")
		in := func(groups ...string) accounts.Actor {
			t.Helper()
			p := ada()
			p.Claims = map[string]any{"groups": groups}
			h.issuer.Know(p)
			out, err := h.signIn(&browser{}, "corp", p.Subject)
			if err != nil {
				t.Fatal(err)
			}
			a, err := h.accounts.Authenticate(t.Context(), out.Entered.Cookie)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		for _, less := range [][]string{{"staff"}, {}} {
			a := in("leads")
			_, invite, err := h.accounts.CreateInvite(h.all(), a, team.ID, accounts.NewInvite{Role: accounts.Admin})
			if err != nil {
				t.Fatal(err)
			}
			_, token, err := h.accounts.IssueToken(h.all(), a, signin.TokenRequest{Name: "t", Team: team.Slug})
			if err != nil {
				t.Fatal(err)
			}
			a = in(less...)
			if _, err := h.accounts.Join(h.all(), a, invite); fault.CodeOf(err) != "invite_ended" {
				t.Errorf("groups %q: an invite of before: %v", less, err)
			}
			if _, err := h.accounts.AuthenticateToken(h.all(), token); len(less) == 0 && fault.CodeOf(err) != "invalid_token" {
				t.Errorf("groups %q: a token of before: %v", less, err)
			}
		}
	})
}

// Who has a second factor shows it before an account elsewhere that may stand in for it is linked, or unlinked.
func TestASVS_7_5_1_LinksNeedTheSecondFactor(t *testing.T) {
	each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
		u, _ := h.owner("owner@example.com")
		cookie, _, err := h.accounts.SignIn(t.Context(), signin.Request{UserID: u.ID, Factors: []string{accounts.ProofPassword}, Meta: meta})
		if err != nil {
			t.Fatal(err)
		}
		old, err := h.accounts.Authenticate(t.Context(), cookie)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.store.PutTOTP(t.Context(), accounts.TOTP{UserID: u.ID, ConfirmedAt: 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := h.sso.BeginLink(t.Context(), old, sso.BeginRequest{Provider: "corp", Base: base, Meta: meta}); fault.CodeOf(err) != "confirm_needed" {
			t.Errorf("linking: %v", err)
		}
		if err := h.sso.Unlink(t.Context(), old, "idn_1"); fault.CodeOf(err) != "confirm_needed" {
			t.Errorf("unlinking: %v", err)
		}
	})
}

// Who takes somebody's address by an invite is not linked to what its owner is at the provider, and gets nothing by the owner's groups.
func TestASVS_6_8_1_TypedAddressesAreNotLinked(t *testing.T) {
	each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db, func(corp, _ *sso.Provider) {
			corp.LinkByEmail = true
			corp.Groups = map[string][]sso.Place{"leads": {{"engines", accounts.Owner}}}
		})
		h.owner("owner@example.com")
		eve, err := h.accounts.CreateOutsideUser(h.all(), "eve@example.com", "Eve")
		if err != nil {
			t.Fatal(err)
		}
		looms, err := h.accounts.CreateTeam(h.all(), accounts.Actor{User: eve}, "Looms", "looms")
		if err != nil {
			t.Fatal(err)
		}
		actor, err := h.accounts.Actor(h.all(), eve.ID)
		if err != nil {
			t.Fatal(err)
		}
		_, invite, err := h.accounts.CreateInvite(h.all(), actor, looms.ID, accounts.NewInvite{Role: accounts.Member})
		if err != nil {
			t.Fatal(err)
		}
		fake, _, err := h.accounts.SignUp(h.all(), invite, accounts.NewUser{Email: "ada@example.com", Name: "Ada", Password: "nine lives and a hat"}, meta)
		if err != nil {
			t.Fatal(err)
		}
		p := ada()
		p.Claims = map[string]any{"groups": []string{"leads"}}
		h.issuer.Know(p)
		if _, err := h.signIn(&browser{}, "corp", p.Subject); fault.CodeOf(err) != "sso_link_first" {
			t.Errorf("the owner of the address: %v", err)
		}
		if got := h.roles(fake.ID); len(got) != 1 {
			t.Errorf("who took the address: %v", got)
		}
		// Who joins a team by an invite as a user that was there before is linked as ever.
		p.Subject, p.Email = "4712", eve.Email
		h.issuer.Know(p)
		if out, err := h.signIn(&browser{}, "corp", p.Subject); err != nil || out.UserID != eve.ID {
			t.Errorf("a user of before: %v", err)
		}
	})
}
