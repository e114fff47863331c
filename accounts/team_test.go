package accounts_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/internal/fault"
)

// matrix is who may do what, written down a second time.
var matrix = map[accounts.Action]string{
	accounts.ViewTeam:        "owner admin member viewer",
	accounts.ViewProject:     "owner admin member viewer",
	accounts.ViewWorkspace:   "owner admin member viewer",
	accounts.ViewTerminal:    "owner admin member viewer",
	accounts.CreateWorkspace: "owner admin member",
	accounts.EditWorkspace:   "owner admin member",
	accounts.MergeWorkspace:  "owner admin member",
	accounts.TypeTerminal:    "owner admin member",
	accounts.AnswerQuestion:  "owner admin member",
	accounts.ManageProject:   "owner admin",
	accounts.AllowHost:       "owner admin",
	accounts.ManageTeam:      "owner admin",
	accounts.TakeTerminal:    "owner admin",
	accounts.ShareSession:    "owner admin member",
	accounts.ConnectRunner:   "owner admin member",
	accounts.ViewCosts:       "owner admin member",
	accounts.ManageQuotas:    "owner admin",
	accounts.InviteMember:    "owner admin",
	accounts.ManageMember:    "owner admin",
	accounts.ManageSecrets:   "owner admin",
	accounts.ReadAudit:       "owner admin",
	"team.destroy":           "", // unknown: nobody's
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	as := func(role accounts.Role, team string) accounts.Actor {
		return accounts.Actor{User: accounts.User{ID: "usr_1", Operator: true}, Memberships: []accounts.Membership{{Team: accounts.Team{ID: team}, Role: role}}}
	}
	for _, role := range []accounts.Role{accounts.Owner, accounts.Admin, accounts.Member, accounts.Viewer} {
		for action, who := range matrix {
			err := accounts.Can(as(role, "team_1"), action, accounts.InTeam("team_1"))
			if slices.Contains(strings.Fields(who), string(role)) {
				if err != nil {
					t.Errorf("%s %s: %v", role, action, err)
				}
				if !slices.Contains(accounts.Actions(role), action) {
					t.Errorf("Actions(%s) lacks %s", role, action)
				}
			} else if !fault.Is(err, fault.Forbidden) || slices.Contains(accounts.Actions(role), action) {
				t.Errorf("%s %s: %v", role, action, err)
			}
			// To outsiders, operators included, there is no such team.
			for _, actor := range []accounts.Actor{as(role, "team_2"), {}, as("", "team_1"), as("emperor", "team_1")} {
				if err := accounts.Can(actor, action, accounts.InTeam("team_1")); !fault.Is(err, fault.NotFound) {
					t.Errorf("outsider %s: %v", action, err)
				}
			}
			if err := accounts.Can(as(role, ""), action, accounts.Object{}); !fault.Is(err, fault.NotFound) {
				t.Errorf("no team %s: %v", action, err)
			}
		}
	}
}

func TestTeamsAndTheirSlugs(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, first := h.first(t)
		if first.Slug != "analytical-engines" {
			t.Errorf("slug %q", first.Slug)
		}
		for name, want := range map[string]string{"Analytical  Engines!": "analytical-engines-2", "日本": "team", strings.Repeat("a", 60): strings.Repeat("a", 40), "--x--": "x"} {
			team, err := h.CreateTeam(ctx, ada, name, "")
			if err != nil || team.Slug != want {
				t.Errorf("%q: %q, %v", name, team.Slug, err)
			}
		}
		if team, err := h.CreateTeam(ctx, ada, strings.Repeat("a", 60), ""); err != nil || len(team.Slug) > 40 || !strings.HasSuffix(team.Slug, "-2") {
			t.Errorf("a long name twice: %q, %v", team.Slug, err)
		}
		_, err := h.CreateTeam(ctx, ada, "Other", "analytical-engines")
		wantCode(t, err, "slug_taken")
		// The web app's own pages lie beside the teams'.
		_, err = h.CreateTeam(ctx, ada, "Other", "login")
		wantCode(t, err, "slug_taken")
		if team, err := h.CreateTeam(ctx, ada, "Reset", ""); err != nil || team.Slug != "reset-2" {
			t.Errorf("a team named as a page: %q, %v", team.Slug, err)
		}
		for _, bad := range []string{"A", "a b", "-a", "a-", "ä", strings.Repeat("a", 41), "a/b", ".."} {
			_, err := h.CreateTeam(ctx, ada, "Other", bad)
			wantCode(t, err, "invalid_slug")
		}
		if team, err := h.CreateTeam(ctx, ada, "Other", "own"); err != nil || team.Slug != "own" {
			t.Errorf("own slug: %+v, %v", team, err)
		}
		ada = h.actor(t, ada.User.ID)
		if len(ada.Memberships) != 8 {
			t.Errorf("%d memberships", len(ada.Memberships))
		}
		if _, ok := ada.TeamBySlug("own"); !ok {
			t.Error("the owner does not find the team")
		}
		team, err := h.UpdateTeam(ctx, ada, first.ID, " New name ")
		if err != nil || team.Name != "New name" || team.Slug != first.Slug {
			t.Errorf("UpdateTeam: %+v, %v", team, err)
		}
		bob := h.actor(t, h.user(t, "bob@example.com").ID)
		if _, err := h.UpdateTeam(ctx, bob, first.ID, "x"); !fault.Is(err, fault.NotFound) {
			t.Errorf("an outsider: %v", err)
		}
		if _, err := h.Team(ctx, bob, first.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("an outsider: %v", err)
		}
	})
}

func TestMembers(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, team := h.first(t)
		users := map[accounts.Role]accounts.User{}
		for _, r := range []accounts.Role{accounts.Admin, accounts.Member, accounts.Viewer} {
			u := h.user(t, string(r)+"@example.com")
			users[r] = u
			m, err := h.PutMember(ctx, team.ID, strings.ToUpper(u.Email), r)
			if err != nil || m.User.ID != u.ID || m.User.PasswordHash != "" || m.Role != r {
				t.Fatalf("PutMember: %+v, %v", m, err)
			}
		}
		admin := h.actor(t, users[accounts.Admin].ID)
		member := h.actor(t, users[accounts.Member].ID)

		_, err := h.PutMember(ctx, team.ID, "admin@example.com", accounts.Viewer)
		wantCode(t, err, "already_member")
		_, err = h.PutMember(ctx, team.ID, "nobody@example.com", accounts.Viewer)
		wantCode(t, err, "user_not_found")
		_, err = h.PutMember(ctx, team.ID, "admin@example.com", "emperor")
		wantCode(t, err, "invalid_role")
		_, _, err = h.CreateInvite(ctx, member, team.ID, accounts.NewInvite{Email: "x@example.com", Role: accounts.Viewer})
		wantCode(t, err, "forbidden")
		_, _, err = h.CreateInvite(ctx, admin, team.ID, accounts.NewInvite{Email: "x@example.com", Role: accounts.Owner})
		wantCode(t, err, "forbidden")

		// An admin cannot touch an owner, nor become one.
		_, err = h.SetRole(ctx, admin, team.ID, ada.User.ID, accounts.Viewer)
		wantCode(t, err, "forbidden")
		_, err = h.SetRole(ctx, admin, team.ID, admin.User.ID, accounts.Owner)
		wantCode(t, err, "forbidden")
		wantCode(t, h.RemoveMember(ctx, admin, team.ID, ada.User.ID), "forbidden")
		wantCode(t, h.RemoveMember(ctx, member, team.ID, users[accounts.Viewer].ID), "forbidden")

		// The last owner stays one.
		_, err = h.SetRole(ctx, ada, team.ID, ada.User.ID, accounts.Admin)
		wantCode(t, err, "last_owner")
		wantCode(t, h.RemoveMember(ctx, ada, team.ID, ada.User.ID), "last_owner")

		h.took("")
		m, err := h.SetRole(ctx, admin, team.ID, users[accounts.Viewer].ID, accounts.Member)
		if err != nil || m.Role != accounts.Member || !h.took(m.User.ID) || h.actor(t, m.User.ID).RoleIn(team.ID) != accounts.Member {
			t.Errorf("SetRole: %+v, %v", m, err)
		}
		if err := h.RemoveMember(ctx, admin, team.ID, m.User.ID); err != nil || !h.took(m.User.ID) {
			t.Errorf("RemoveMember: %v", err)
		}
		wantCode(t, h.RemoveMember(ctx, admin, team.ID, m.User.ID), "member_not_found")
		if err := h.RemoveMember(ctx, member, team.ID, member.User.ID); err != nil {
			t.Errorf("leaving: %v", err)
		}
		all, err := h.Members(ctx, team.ID)
		if err != nil || len(all) != 2 || all[0].User.ID != ada.User.ID || all[0].User.PasswordHash != "" {
			t.Errorf("Members = %+v, %v", all, err)
		}
	})
}

// Two owners who step down at the same time: one must stay.
func TestTheLastOwnerStaysUnderRaces(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		ada, team := h.first(t)
		bob := h.user(t, "bob@example.com")
		if _, err := h.PutMember(ctx, team.ID, bob.Email, accounts.Owner); err != nil {
			t.Fatal(err)
		}
		for round := range 5 {
			var wg sync.WaitGroup
			for _, id := range []string{ada.User.ID, bob.ID} {
				wg.Go(func() { h.SetRole(ctx, h.actor(t, id), team.ID, id, accounts.Member) })
			}
			wg.Wait()
			all, err := h.Members(ctx, team.ID)
			if err != nil {
				t.Fatal(err)
			}
			var owners, others []string
			for _, m := range all {
				if m.Role == accounts.Owner {
					owners = append(owners, m.User.ID)
				} else {
					others = append(others, m.User.ID)
				}
			}
			if len(owners) == 0 {
				t.Fatalf("round %d: nobody owns the team", round)
			}
			for _, id := range others {
				if _, err := h.SetRole(ctx, h.actor(t, owners[0]), team.ID, id, accounts.Owner); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

func TestOpenKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data", "secret.key")
	var wg sync.WaitGroup
	keys := make([][]byte, 8)
	for i := range keys {
		wg.Go(func() {
			k, err := vault.OpenKey(path)
			if err != nil {
				t.Errorf("OpenKey: %v", err)
			}
			keys[i] = k
		})
	}
	wg.Wait()
	for _, k := range keys {
		if len(k) != vault.KeyBytes || !slices.Equal(k, keys[0]) {
			t.Fatal("several keys were given out")
		}
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	os.Chmod(path, 0o644)
	_, err = vault.OpenKey(path)
	wantCode(t, err, "key_readable")
	os.Chmod(path, 0o600)
	os.WriteFile(path, []byte("short"), 0o600)
	_, err = vault.OpenKey(path)
	wantCode(t, err, "key_damaged")
}
