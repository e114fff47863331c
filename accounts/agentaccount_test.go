package accounts_test

import (
	"strings"
	"testing"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
)

const agentKey = "sk-ant-api03-secret-value-WXYZ"

func ptr[T any](v T) *T { return &v }

// The default account of a user, chosen by agent alone.
func TestChosenAgentAccount(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, _ := h.first(t)
		bob := h.actor(t, h.user(t, "bob@example.com").ID)
		get := func(who accounts.Actor, agent string) (accounts.AgentAccount, string, error) {
			return h.AgentAccountFor(ctx, who, "", agent, "")
		}
		if _, _, err := get(bob, "codex"); !fault.Is(err, fault.NotFound) {
			t.Errorf("none chosen: %v", err)
		}
		a, err := h.SetAgentAccount(ctx, bob, accounts.NewAgentAccount{Agent: "claude-code", Kind: accounts.APIKey, Secret: " " + agentKey + "\n", BaseURL: "http://127.0.0.1:9/v1"})
		if err != nil || a.LastFour != "WXYZ" || !a.Default || !a.InHome || a.Name == "" {
			t.Fatalf("SetAgentAccount: %+v, %v", a, err)
		}
		got, secret, err := get(bob, "claude-code")
		if err != nil || secret != agentKey || got != a {
			t.Errorf("AgentAccountFor = %+v, %q, %v", got, secret, err)
		}
		// A key that is kept goes to the address it was kept for, and nowhere else: not to another host, scheme or port, nor to the usual one.
		for _, to := range []string{"https://127.0.0.1:9/v1", "http://127.0.0.1:10/v1", "http://evil.example.com/v1", ""} {
			_, err := h.SetAgentAccount(ctx, bob, accounts.NewAgentAccount{Agent: "claude-code", Kind: accounts.APIKey, BaseURL: to})
			wantCode(t, err, "missing_key")
			_, err = h.ChangeAgentAccount(ctx, bob, a.ID, accounts.AgentAccountChange{BaseURL: &to})
			wantCode(t, err, "missing_key")
		}
		if _, err := h.SetAgentAccount(ctx, bob, accounts.NewAgentAccount{Agent: "claude-code", Kind: accounts.APIKey, BaseURL: "http://127.0.0.1:9/v1/"}); err != nil {
			t.Error(err)
		}
		if got, secret, _ := get(bob, "claude-code"); secret != agentKey || got.BaseURL != "http://127.0.0.1:9/v1/" || got.LastFour != "WXYZ" || got.ID != a.ID {
			t.Errorf("after changing the URL: %+v, %q", got, secret)
		}
		for code, req := range map[string]accounts.NewAgentAccount{
			"invalid_agent":    {Agent: "../x", Kind: accounts.Terminal},
			"agent_unknown":    {Agent: "nobody", Kind: accounts.Terminal},
			"missing_key":      {Agent: "codex", Kind: accounts.APIKey},
			"invalid_key":      {Agent: "codex", Kind: accounts.APIKey, Secret: "with space in it"},
			"invalid_kind":     {Agent: "codex", Kind: "magic"},
			"invalid_base_url": {Agent: "codex", Kind: accounts.APIKey, Secret: agentKey, BaseURL: "ftp://x"},
			"operators_only":   {Agent: "codex", Kind: accounts.ExistingLogin},
		} {
			_, err := h.SetAgentAccount(ctx, bob, req)
			wantCode(t, err, code)
			_, err = h.AddAgentAccount(ctx, bob, accounts.OfUser(bob.User.ID), req)
			wantCode(t, err, code)
		}
		if _, err := h.SetAgentAccount(ctx, ada, accounts.NewAgentAccount{Agent: "codex", Kind: accounts.ExistingLogin}); err != nil {
			t.Errorf("an operator's existing login: %v", err)
		}
		// Choosing another kind forgets the key.
		if _, err := h.SetAgentAccount(ctx, bob, accounts.NewAgentAccount{Agent: "claude-code", Kind: accounts.Terminal}); err != nil {
			t.Fatal(err)
		}
		if got, secret, err := get(bob, "claude-code"); err != nil || secret != "" || got.LastFour != "" || got.Kind != accounts.Terminal {
			t.Errorf("terminal: %+v, %q, %v", got, secret, err)
		}
		var kept int
		if err := h.db.QueryRow(ctx, `SELECT COUNT(*) FROM secrets`).Scan(&kept); err != nil || kept != 0 {
			t.Errorf("%d secrets are kept without use, %v", kept, err)
		}
		for range 2 {
			if _, err := h.DeleteAgentAccount(ctx, bob, "claude-code"); err != nil {
				t.Error(err)
			}
		}
		if list, err := h.AgentAccounts(ctx, bob, accounts.OfUser(bob.User.ID)); err != nil || len(list) != 0 {
			t.Errorf("AgentAccounts = %+v, %v", list, err)
		}
	})
}

func TestSeveralAgentAccountsSideBySide(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, _ := h.first(t)
		own := accounts.OfUser(ada.User.ID)
		add := func(req accounts.NewAgentAccount) accounts.AgentAccount {
			t.Helper()
			req.Agent = "claude-code"
			a, err := h.AddAgentAccount(ctx, ada, own, req)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		one := add(accounts.NewAgentAccount{Kind: accounts.Terminal})
		two := add(accounts.NewAgentAccount{Kind: accounts.Terminal, Name: "Work"})
		three := add(accounts.NewAgentAccount{Kind: accounts.APIKey, Secret: agentKey, Default: true})
		if one.Name != "My account" || three.Name != "My account 2" || !one.InHome || two.InHome || three.InHome || !one.Default || two.Default || !three.Default {
			t.Fatalf("%+v\n%+v\n%+v", one, two, three)
		}
		if got, secret, err := h.AgentAccountFor(ctx, ada, "", "claude-code", ""); err != nil || got.ID != three.ID || secret != agentKey {
			t.Errorf("the default: %+v, %q, %v", got, secret, err)
		}
		if got, secret, err := h.AgentAccountFor(ctx, ada, "", "claude-code", two.ID); err != nil || got.ID != two.ID || secret != "" {
			t.Errorf("one by id: %+v, %q, %v", got, secret, err)
		}
		for agent, id := range map[string]string{"codex": two.ID, "claude-code": "acc_nothing"} {
			if _, _, err := h.AgentAccountFor(ctx, ada, "", agent, id); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s with %s: %v", agent, id, err)
			}
		}
		_, err := h.AddAgentAccount(ctx, ada, own, accounts.NewAgentAccount{Agent: "claude-code", Kind: accounts.Terminal, Name: " Work "})
		wantCode(t, err, "account_name_taken")
		_, err = h.ChangeAgentAccount(ctx, ada, one.ID, accounts.AgentAccountChange{Name: ptr("Work")})
		wantCode(t, err, "account_name_taken")
		for _, name := range []string{"", " ", "a\nb", strings.Repeat("x", 101)} {
			_, err = h.ChangeAgentAccount(ctx, ada, one.ID, accounts.AgentAccountChange{Name: &name})
			wantCode(t, err, "invalid_name")
		}
		if a, err := h.ChangeAgentAccount(ctx, ada, two.ID, accounts.AgentAccountChange{Name: ptr("Play"), Default: ptr(true)}); err != nil || a.Name != "Play" || !a.Default {
			t.Errorf("%+v, %v", a, err)
		}
		if a, err := h.ChangeAgentAccount(ctx, ada, three.ID, accounts.AgentAccountChange{Secret: ptr("another-key-0123456789")}); err != nil || a.LastFour != "6789" || a.Default {
			t.Errorf("%+v, %v", a, err)
		}
		_, err = h.ChangeAgentAccount(ctx, ada, two.ID, accounts.AgentAccountChange{Secret: ptr("another-key-0123456789")})
		wantCode(t, err, "invalid_key")

		// Sessions that run with an account keep it, unless somebody insists.
		ws := h.runningSession(t, ada, two.ID)
		_, err = h.RemoveAgentAccount(ctx, ada, two.ID, false)
		wantCode(t, err, "account_in_use")
		if gone, err := h.RemoveAgentAccount(ctx, ada, two.ID, true); err != nil || gone.ID != two.ID {
			t.Errorf("%+v, %v (%s)", gone, err, ws)
		}
		all, err := h.AgentAccounts(ctx, ada, own)
		if err != nil || len(all) != 2 || !all[0].Default || all[0].ID != one.ID {
			t.Errorf("after the default was deleted the oldest follows: %+v, %v", all, err)
		}
		if _, err := h.RemoveAgentAccount(ctx, ada, one.ID, false); err != nil {
			t.Error(err)
		}
		if again := add(accounts.NewAgentAccount{Kind: accounts.Terminal, Name: "Again"}); !again.InHome || again.Default {
			t.Errorf("the home is free again: %+v", again)
		}
		_, err = h.RemoveAgentAccount(ctx, ada, one.ID, false)
		wantCode(t, err, "agent_account_not_found")
	})
}

func (h *harness) runningSession(t *testing.T, who accounts.Actor, account string) string {
	t.Helper()
	team := who.Memberships[0].Team.ID
	for _, q := range []string{
		`INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, state, created_by, created_at) VALUES ('p', '` + team + `', 'p', 'sample', '', '', 'ready', 'x', 1)`,
		`INSERT INTO workspaces (id, team_id, project_id, num, name, branch, base, executor, state, created_by, created_at, updated_at)
			VALUES ('w', '` + team + `', 'p', 1, 'w', 'b', 'main', 'fake', 'ready', 'x', 1, 1)`,
		`INSERT INTO sessions (id, team_id, workspace_id, agent, account_id, state, state_at, cols, rows, created_by, started_at)
			VALUES ('s', '` + team + `', 'w', 'claude-code', '` + account + `', 'idle', 1, 80, 24, 'x', 1)`,
	} {
		if _, err := h.db.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	return "s"
}

func TestTeamAgentAccounts(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, team := h.first(t)
		shared := accounts.OfTeam(team.ID)
		people := map[string]accounts.Actor{}
		for _, role := range []accounts.Role{accounts.Admin, accounts.Member, accounts.Viewer} {
			u := h.user(t, string(role)+"@example.com")
			if _, err := h.PutMember(ctx, team.ID, u.Email, role); err != nil {
				t.Fatal(err)
			}
			people[string(role)] = h.actor(t, u.ID)
		}
		outsider := h.actor(t, h.user(t, "out@example.com").ID)
		admin, member, viewer := people["admin"], people["member"], people["viewer"]
		req := accounts.NewAgentAccount{Agent: "codex", Kind: accounts.APIKey, Secret: agentKey, BaseURL: "https://models.example.com/v1"}
		for who, code := range map[string]string{"member": "forbidden", "viewer": "forbidden"} {
			_, err := h.AddAgentAccount(ctx, people[who], shared, req)
			wantCode(t, err, code)
		}
		if _, err := h.AddAgentAccount(ctx, outsider, shared, req); !fault.Is(err, fault.NotFound) {
			t.Errorf("an outsider: %v", err)
		}
		if _, err := h.AddAgentAccount(ctx, member, accounts.OfUser(admin.User.ID), req); !fault.Is(err, fault.NotFound) {
			t.Errorf("for somebody else: %v", err)
		}
		for _, kind := range []accounts.AccountKind{accounts.Terminal, accounts.ExistingLogin} {
			_, err := h.AddAgentAccount(ctx, ada, shared, accounts.NewAgentAccount{Agent: "codex", Kind: kind})
			wantCode(t, err, "invalid_kind")
		}
		a, err := h.AddAgentAccount(ctx, admin, shared, req)
		if err != nil || a.TeamID != team.ID || a.UserID != "" || !a.Default || a.InHome || a.Name != "Team account" {
			t.Fatalf("%+v, %v", a, err)
		}
		// A member works with it; who may not start sessions, and who is no member, does not.
		if got, secret, err := h.AgentAccountFor(ctx, member, team.ID, "codex", ""); err != nil || got.ID != a.ID || secret != agentKey {
			t.Errorf("a member: %+v, %q, %v", got, secret, err)
		}
		for _, who := range []accounts.Actor{viewer, outsider} {
			for _, id := range []string{"", a.ID} {
				if _, secret, err := h.AgentAccountFor(ctx, who, team.ID, "codex", id); !fault.Is(err, fault.NotFound) || secret != "" {
					t.Errorf("%s: %q, %v", who.User.Email, secret, err)
				}
			}
		}
		other, err := h.CreateTeam(ctx, ada, "Other", "other")
		if err != nil {
			t.Fatal(err)
		}
		ada = h.actor(t, ada.User.ID)
		if _, _, err := h.AgentAccountFor(ctx, ada, other.ID, "codex", a.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("in another team: %v", err)
		}
		// Their own default comes before the team's.
		mine, err := h.AddAgentAccount(ctx, member, accounts.OfUser(member.User.ID), accounts.NewAgentAccount{Agent: "codex", Kind: accounts.APIKey, Secret: "sk-own-0123456789abcdef"})
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := h.AgentAccountFor(ctx, member, team.ID, "codex", ""); err != nil || got.ID != mine.ID {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := h.ChangeAgentAccount(ctx, member, mine.ID, accounts.AgentAccountChange{Default: ptr(false)}); err != nil {
			t.Fatal(err)
		}
		if got, _, err := h.AgentAccountFor(ctx, member, team.ID, "codex", ""); err != nil || got.ID != a.ID {
			t.Errorf("without a default of their own: %+v, %v", got, err)
		}
		// Nobody but its owner sees a member's account; a team's is managed by admins.
		for _, who := range []accounts.Actor{ada, admin, viewer, outsider} {
			_, err := h.ChangeAgentAccount(ctx, who, mine.ID, accounts.AgentAccountChange{Name: ptr("Mine now")})
			wantCode(t, err, "agent_account_not_found")
			_, err = h.RemoveAgentAccount(ctx, who, mine.ID, true)
			wantCode(t, err, "agent_account_not_found")
			_, _, err = h.ManagedAgentAccount(ctx, who, mine.ID)
			wantCode(t, err, "agent_account_not_found")
			if _, err := h.AgentAccounts(ctx, who, accounts.OfUser(member.User.ID)); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s lists a member's accounts: %v", who.User.Email, err)
			}
		}
		for _, who := range []accounts.Actor{member, viewer} {
			_, err := h.ChangeAgentAccount(ctx, who, a.ID, accounts.AgentAccountChange{BaseURL: ptr("https://evil.example.com")})
			wantCode(t, err, "forbidden")
			_, _, err = h.ManagedAgentAccount(ctx, who, a.ID)
			wantCode(t, err, "forbidden")
			if all, err := h.AgentAccounts(ctx, who, shared); err != nil || len(all) != 1 {
				t.Errorf("%s does not see what the team shares: %+v, %v", who.User.Email, all, err)
			}
		}
		_, err = h.ChangeAgentAccount(ctx, outsider, a.ID, accounts.AgentAccountChange{})
		wantCode(t, err, "agent_account_not_found")
		// A team's key goes nowhere else without being entered again.
		_, err = h.ChangeAgentAccount(ctx, admin, a.ID, accounts.AgentAccountChange{BaseURL: ptr("https://evil.example.com")})
		wantCode(t, err, "missing_key")
		if got, err := h.ChangeAgentAccount(ctx, admin, a.ID, accounts.AgentAccountChange{BaseURL: ptr("https://new.example.com"), Secret: ptr("sk-new-0123456789abcdef")}); err != nil || got.LastFour != "cdef" {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := h.RemoveAgentAccount(ctx, admin, a.ID, false); err != nil {
			t.Error(err)
		}
	})
}

// A secret opens in its own row only: for its owner, its account, its agent.
func TestSecretsOpenInTheirOwnRowOnly(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, team := h.first(t)
		bob := h.actor(t, h.user(t, "bob@example.com").ID)
		add := func(who accounts.Actor, o accounts.Holder, key string) accounts.AgentAccount {
			t.Helper()
			a, err := h.AddAgentAccount(ctx, who, o, accounts.NewAgentAccount{Agent: "codex", Kind: accounts.APIKey, Secret: key})
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		exec := func(query string, args ...any) {
			t.Helper()
			if _, err := h.db.Exec(ctx, query, args...); err != nil {
				t.Fatal(err)
			}
		}
		hers, his, ours := add(ada, accounts.OfUser(ada.User.ID), agentKey), add(bob, accounts.OfUser(bob.User.ID), "sk-of-bob-0123456789"), add(ada, accounts.OfTeam(team.ID), "sk-of-team-0123456789")
		var sealed []byte
		if err := h.db.QueryRow(ctx, `SELECT sealed FROM secrets WHERE id = ?`, hers.SecretID).Scan(&sealed); err != nil || strings.Contains(string(sealed), "secret") {
			t.Errorf("sealed %q, %v", sealed, err)
		}
		unreadable := func(what string) {
			t.Helper()
			if _, secret, err := h.AgentAccountFor(ctx, bob, "", "codex", his.ID); fault.CodeOf(err) != "secret_unreadable" || secret != "" {
				t.Errorf("%s: %q, %v", what, secret, err)
			}
		}
		for _, from := range []accounts.AgentAccount{hers, ours} {
			exec(`UPDATE agent_accounts SET secret_id = ? WHERE id = ?`, from.SecretID, his.ID)
			unreadable("his account points to another's secret")
			exec(`UPDATE secrets SET user_id = ?, team_id = NULL WHERE id = ?`, bob.User.ID, from.SecretID)
			unreadable("and the secret was given to him")
			exec(`UPDATE secrets SET key_version = 0 WHERE id = ?`, from.SecretID)
			unreadable("and is said to be an old one")
			exec(`UPDATE secrets SET key_version = 7 WHERE id = ?`, from.SecretID)
			unreadable("or one of a key that is not there")
		}
		exec(`UPDATE agent_accounts SET secret_id = ? WHERE id = ?`, his.SecretID, his.ID)
		if _, secret, err := h.AgentAccountFor(ctx, bob, "", "codex", his.ID); err != nil || secret != "sk-of-bob-0123456789" {
			t.Errorf("his own: %q, %v", secret, err)
		}
		exec(`UPDATE secrets SET sealed = ? WHERE id = ?`, sealed, his.SecretID)
		unreadable("the sealed bytes were swapped")
		h.key = []byte("another key of thirty-two bytes!")
		if _, _, err := h.service().AgentAccountFor(ctx, bob, "", "codex", his.ID); fault.CodeOf(err) != "secret_unreadable" {
			t.Errorf("with another key: %v", err)
		}
	})
}
