package secrets_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/testing/testaccounts"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/reclaim"
)

// harness is the service on a real store, with a team that has a project, an admin, a member and an outsider.
type harness struct {
	*secrets.Service
	db                      *store.DB
	team, project           string
	admin, member, outsider accounts.Actor
	masked                  []string
	others                  bool // may work where one's own secrets are given
	clock                   time.Time
}

func each(t *testing.T, fn func(t *testing.T, h *harness)) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) { fn(t, newHarness(t, db)) })
}

func newHarness(t *testing.T, db *store.DB) *harness {
	t.Helper()
	h := &harness{db: db, clock: time.UnixMilli(1_800_000_000_000)}
	ctx := tenant.All(t.Context(), "a test makes its team")
	people := store.NewAccounts(db)
	vault := testaccounts.New(testaccounts.Config{Store: people, Key: bytes.Repeat([]byte{3}, vault.KeyBytes)})
	team := accounts.Team{ID: id.New("tm"), Slug: "t", Name: "T", CreatedAt: 1}
	if _, err := people.InsertTeam(ctx, team); err != nil {
		t.Fatal(err)
	}
	h.team = team.ID
	person := func(name string, role accounts.Role) accounts.Actor {
		u := accounts.User{ID: id.New("usr"), Email: name + "@example.com", Name: name, PasswordHash: "!", CreatedAt: 1}
		if _, err := people.InsertUser(ctx, u); err != nil {
			t.Fatal(err)
		}
		a := accounts.Actor{User: u}
		if role != "" {
			if _, err := people.InsertMember(ctx, team.ID, u.ID, role, 1); err != nil {
				t.Fatal(err)
			}
			a.Memberships = []accounts.Membership{{Team: team, Role: role}}
		}
		return a
	}
	h.admin, h.member, h.outsider = person("admin", accounts.Admin), person("member", accounts.Member), person("outsider", "")
	prj := workspaces.Project{ID: id.New("prj"), TeamID: team.ID, Name: "p", SourceKind: workspaces.SourceSample, State: workspaces.ProjectReady, CreatedBy: h.admin.User.ID, CreatedAt: 1}
	if err := store.NewWorkspaces(db).InsertProject(ctx, prj); err != nil {
		t.Fatal(err)
	}
	h.project = prj.ID
	h.Service = secrets.New(secrets.Config{Store: store.NewSecrets(db), Vault: vault, Now: func() time.Time { return h.clock },
		Others: func(context.Context, string, string) (bool, error) { return h.others, nil },
		Mask:   func(_ secrets.Secret, masks []string) { h.masked = append(h.masked, masks...) }})
	return h
}

func (h *harness) add(t *testing.T, actor accounts.Actor, o secrets.Owner, n secrets.NewSecret) secrets.Secret {
	t.Helper()
	k, err := h.Add(tenant.In(t.Context(), h.team), actor, o, n)
	if err != nil {
		t.Fatalf("adding %s %s: %v", n.Kind, n.Name, err)
	}
	return k
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Errorf("got %v (%s), want %s", err, fault.CodeOf(err), code)
	}
}

// The narrower scope has precedence: the team's, then the project's, then the user's own. A secret that a list of agents excludes is masked all the same.
func TestWhoIsGivenWhat(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := tenant.In(t.Context(), h.team)
		team, project, own := secrets.Owner{TeamID: h.team}, secrets.Owner{TeamID: h.team, ProjectID: h.project}, secrets.Owner{UserID: h.member.User.ID}
		env := func(name, value string, agents ...string) secrets.NewSecret {
			return secrets.NewSecret{Kind: secrets.Env, Name: name, Value: value, Agents: agents}
		}
		h.add(t, h.admin, team, env("ALPHA", "team-alpha-value"))
		h.add(t, h.admin, team, env("BETA", "team-beta-value"))
		h.add(t, h.admin, project, env("BETA", "project-beta-value"))
		h.add(t, h.admin, project, env("GAMMA", "project-gamma-value", "codex"))
		h.add(t, h.member, own, env("ALPHA", "own-alpha-value"))
		h.add(t, h.admin, project, secrets.NewSecret{Kind: secrets.File, Name: "dotenv", Target: ".env", Value: "API_KEY=\"quoted-api-key\"\nDEBUG=1\n"})
		h.add(t, h.admin, team, secrets.NewSecret{Kind: secrets.Git, Name: "forge", Target: "Git.Example.com:443", Username: "bot", Value: "git-token-1"})
		h.add(t, h.admin, project, secrets.NewSecret{Kind: secrets.Git, Name: "inside", Target: "other.example.com", Value: "git-token-2", InSandbox: true})

		g, err := h.For(ctx, secrets.Ask{TeamID: h.team, ProjectID: h.project, UserID: h.member.User.ID, Agent: "claude-code"})
		if err != nil {
			t.Fatal(err)
		}
		if g.Env["ALPHA"] != "own-alpha-value" || g.Env["BETA"] != "project-beta-value" || len(g.Env) != 2 {
			t.Errorf("environment: %v", g.Env)
		}
		if len(g.Files) != 1 || g.Files[0].Path != ".env" || g.Files[0].Home {
			t.Errorf("files: %+v", g.Files)
		}
		if len(g.Git) != 1 || g.Git[0].Host != "other.example.com" {
			t.Errorf("only what the project lets in may be in a sandbox: %+v", g.Git)
		}
		for _, v := range []string{"team-alpha-value", "team-beta-value", "project-gamma-value", "own-alpha-value", "git-token-1", "git-token-2", "quoted-api-key"} {
			if !slices.Contains(g.Masks, v) {
				t.Errorf("%s would be shown", v)
			}
		}
		// Somebody else is given nothing of the member's own.
		if g, err = h.For(ctx, secrets.Ask{TeamID: h.team, ProjectID: h.project, UserID: h.admin.User.ID, Agent: "codex"}); err != nil || g.Env["ALPHA"] != "team-alpha-value" || g.Env["GAMMA"] == "" {
			t.Errorf("the admin's session: %v, %v", g.Env, err)
		}
		// Commands are given variables, no files.
		if g, err = h.For(ctx, secrets.Ask{TeamID: h.team, ProjectID: h.project, UserID: h.admin.User.ID, Agent: secrets.Commands}); err != nil || len(g.Files) != 0 || len(g.Env) != 2 {
			t.Errorf("a command: %v %v, %v", g.Env, g.Files, err)
		}
		// Another team is given nothing at all.
		if g, err = h.For(tenant.All(ctx, "a test"), secrets.Ask{TeamID: "tm_other", ProjectID: h.project, UserID: h.outsider.User.ID, Agent: "codex"}); err != nil || len(g.Env)+len(g.Files)+len(g.Git)+len(g.Masks) != 0 {
			t.Errorf("another team: %+v, %v", g, err)
		}
	})
}

// The server's own credential is for exactly one host; a project's comes before the team's.
func TestCredentialOfTheHost(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := tenant.In(t.Context(), h.team)
		git := func(target, value string) secrets.NewSecret {
			return secrets.NewSecret{Kind: secrets.Git, Name: "c", Target: target, Value: value}
		}
		h.add(t, h.admin, secrets.Owner{TeamID: h.team}, git("example.com", "team-token"))
		h.add(t, h.admin, secrets.Owner{TeamID: h.team}, git("example.com:8443", "port-token"))
		h.add(t, h.admin, secrets.Owner{TeamID: h.team, ProjectID: h.project}, git("example.com", "project-token"))
		for host, want := range map[string]string{"example.com": "project-token", "EXAMPLE.com:443": "project-token", "example.com:8443": "port-token",
			"example.com:80": "", "www.example.com": "", "example.com.evil.example": "", "evilexample.com": "", "example.com@evil": "", "": ""} {
			c, ok, err := h.Credential(ctx, h.team, h.project, host)
			if err != nil || ok != (want != "") || c.Token != want {
				t.Errorf("%q: %q %v, %v; want %q", host, c.Token, ok, err, want)
			}
		}
		// A person's own is for what they ask for themselves, never for what the server does by itself.
		h.add(t, h.member, secrets.Owner{UserID: h.member.User.ID}, git("example.com", "own-token"))
		for user, want := range map[string]string{h.member.User.ID: "own-token", h.admin.User.ID: "project-token", "": "project-token"} {
			if c, _, err := h.CredentialFor(ctx, user, h.team, h.project, "example.com"); err != nil || c.Token != want {
				t.Errorf("for %q: %q, %v", user, c.Token, err)
			}
		}
		if c, _, _ := h.Credential(ctx, h.team, h.project, "example.com"); c.Token != "project-token" {
			t.Errorf("the server itself is given %q", c.Token)
		}
		if c, _, _ := h.Credential(ctx, h.team, "prj_other", "example.com"); c.Token != "team-token" {
			t.Errorf("another project gets %q", c.Token)
		}
		if err := h.KeepCredential(ctx, h.team, h.project, "example.com", "u", "from-the-url", h.admin.User.ID); err != nil {
			t.Fatal(err)
		}
		if c, _, _ := h.Credential(ctx, h.team, h.project, "example.com"); c.Token != "project-token" {
			t.Errorf("what was entered is replaced by what came with the URL: %q", c.Token)
		}
	})
}

func TestRotationAndDeletion(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := tenant.In(t.Context(), h.team)
		k := h.add(t, h.admin, secrets.Owner{TeamID: h.team}, secrets.NewSecret{Kind: secrets.Env, Name: "TOKEN", Value: "the-first-long-value"})
		if k.LastFour != "alue" || k.RotatedAt != 0 || !slices.Contains(h.masked, "the-first-long-value") {
			t.Errorf("kept: %+v, masked %q", k, h.masked)
		}
		value := "the-second-long-valve"
		after, err := h.Change(ctx, h.admin, k.ID, secrets.Change{Value: &value})
		if err != nil || after.Version() <= k.Version() || after.LastFour != "alve" || !slices.Contains(h.masked, value) {
			t.Errorf("rotated in the same millisecond: %+v, %v", after, err)
		}
		if n := h.values(t); n != 1 {
			t.Errorf("%d values are kept, want the new one alone", n)
		}
		_, err = h.Change(ctx, h.member, k.ID, secrets.Change{Value: &value})
		wantCode(t, err, "forbidden")
		_, err = h.Change(ctx, h.outsider, k.ID, secrets.Change{Value: &value})
		wantCode(t, err, "secret_not_found")
		_, err = h.Delete(ctx, h.outsider, k.ID)
		wantCode(t, err, "secret_not_found")
		if _, err = h.Delete(ctx, h.admin, k.ID); err != nil || h.values(t) != 0 {
			t.Errorf("deleted: %v, %d values left", err, h.values(t))
		}
		own := h.add(t, h.member, secrets.Owner{UserID: h.member.User.ID}, secrets.NewSecret{Kind: secrets.Env, Name: "MINE", Value: "mine and nobody's"})
		_, err = h.Change(ctx, h.admin, own.ID, secrets.Change{Value: &value})
		wantCode(t, err, "secret_not_found")
		_, err = h.Add(ctx, h.admin, secrets.Owner{UserID: h.member.User.ID}, secrets.NewSecret{Kind: secrets.Env, Name: "X", Value: "y"})
		wantCode(t, err, "secret_not_found")
	})
}

// values counts the sealed values there are.
func (h *harness) values(t *testing.T) (n int) {
	t.Helper()
	if err := h.db.QueryRow(t.Context(), `SELECT COUNT(*) FROM secrets`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// The token of a credential does not follow its host to another: whoever may change the host would have it sent there.
func TestHostChangesOnlyWithTheToken(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := tenant.In(t.Context(), h.team)
		k := h.add(t, h.admin, secrets.Owner{TeamID: h.team}, secrets.NewSecret{Kind: secrets.Git, Name: "c", Target: "git.example.com", Value: "git-token-1"})
		other, token := "git.evil.example", "git-token-2"
		_, err := h.Change(ctx, h.admin, k.ID, secrets.Change{Target: &other})
		wantCode(t, err, "invalid_secret")
		if _, err = h.Change(ctx, h.admin, k.ID, secrets.Change{Target: &other, Value: &token}); err != nil {
			t.Error(err)
		}
	})
}

func TestDeletedProjectTakesItsSecrets(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := tenant.In(t.Context(), h.team)
		h.add(t, h.admin, secrets.Owner{TeamID: h.team, ProjectID: h.project}, secrets.NewSecret{Kind: secrets.Env, Name: "A", Value: "value-of-a"})
		h.add(t, h.admin, secrets.Owner{TeamID: h.team}, secrets.NewSecret{Kind: secrets.Env, Name: "B", Value: "value-of-b"})
		if err := store.NewWorkspaces(h.db).DeleteProject(ctx, h.project, "usr_1", 5); err != nil {
			t.Fatal(err)
		}
		// From the trash it comes back with its secrets.
		if err := h.Sweep(tenant.All(ctx, "a test")); err != nil || h.values(t) != 2 {
			t.Errorf("%v, %d values left", err, h.values(t))
		}
		if err := store.NewTrash(h.db).BeginPurge(ctx, reclaim.TrashProject, h.project, 9); err != nil {
			t.Fatal(err)
		}
		if err := h.Sweep(tenant.All(ctx, "a test")); err != nil || h.values(t) != 1 {
			t.Errorf("%v, %d values left", err, h.values(t))
		}
	})
}

func TestWhatIsRefused(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := tenant.In(t.Context(), h.team)
		team := secrets.Owner{TeamID: h.team}
		own := secrets.Owner{UserID: h.member.User.ID}
		for what, c := range map[string]struct {
			o secrets.Owner
			n secrets.NewSecret
		}{
			"no kind":             {team, secrets.NewSecret{Kind: "x", Name: "A", Value: "v"}},
			"no value":            {team, secrets.NewSecret{Kind: secrets.Env, Name: "A"}},
			"a name with a space": {team, secrets.NewSecret{Kind: secrets.Env, Name: "A B", Value: "v"}},
			"PATH":                {team, secrets.NewSecret{Kind: secrets.Env, Name: "PATH", Value: "v"}},
			"LD_PRELOAD":          {team, secrets.NewSecret{Kind: secrets.Env, Name: "LD_PRELOAD", Value: "v"}},
			"PROMPT_COMMAND":      {team, secrets.NewSecret{Kind: secrets.Env, Name: "PROMPT_COMMAND", Value: "v"}},
			"PERL5OPT":            {team, secrets.NewSecret{Kind: secrets.Env, Name: "PERL5OPT", Value: "v"}},
			"GIT_CONFIG_GLOBAL":   {team, secrets.NewSecret{Kind: secrets.Env, Name: "GIT_CONFIG_GLOBAL", Value: "v"}},
			"GIT_EXTERNAL_DIFF":   {team, secrets.NewSecret{Kind: secrets.Env, Name: "GIT_EXTERNAL_DIFF", Value: "v"}},
			"PARAWORK_GUEST":      {team, secrets.NewSecret{Kind: secrets.Env, Name: "PARAWORK_GUEST", Value: "v"}},
			"NUL":                 {team, secrets.NewSecret{Kind: secrets.Env, Name: "A", Value: "a\x00b"}},
			"too long":            {team, secrets.NewSecret{Kind: secrets.Env, Name: "A", Value: strings.Repeat("x", secrets.MaxValue+1)}},
			"a way out":           {team, secrets.NewSecret{Kind: secrets.File, Name: "f", Target: "../x", Value: "v"}},
			"a way out of home":   {team, secrets.NewSecret{Kind: secrets.File, Name: "f", Target: "~/../x", Value: "v"}},
			"absolute":            {team, secrets.NewSecret{Kind: secrets.File, Name: "f", Target: "/etc/passwd", Value: "v"}},
			"git's own folder":    {team, secrets.NewSecret{Kind: secrets.File, Name: "f", Target: "a/.GIT/config", Value: "v"}},
			"a folder":            {team, secrets.NewSecret{Kind: secrets.File, Name: "f", Target: "a/", Value: "v"}},
			"one's own, for all":  {own, secrets.NewSecret{Kind: secrets.File, Name: "f", Target: ".env", Value: "v"}},
			"one's own git boxes": {own, secrets.NewSecret{Kind: secrets.Git, Name: "g", Target: "github.com", Value: "v", InSandbox: true}},
			"a URL as host":       {team, secrets.NewSecret{Kind: secrets.Git, Name: "g", Target: "https://github.com/x", Value: "v"}},
			"a user in the host":  {team, secrets.NewSecret{Kind: secrets.Git, Name: "g", Target: "a@github.com", Value: "v"}},
			"all projects' boxes": {team, secrets.NewSecret{Kind: secrets.Git, Name: "g", Target: "github.com", Value: "v", InSandbox: true}},
			"two lines of token":  {team, secrets.NewSecret{Kind: secrets.Git, Name: "g", Target: "github.com", Value: "v\nhost=evil.example"}},
			"two lines of user":   {team, secrets.NewSecret{Kind: secrets.Git, Name: "g", Target: "github.com", Username: "u\nhost=evil", Value: "v"}},
		} {
			actor := h.admin
			if c.o.UserID != "" {
				actor = h.member
			}
			if _, err := h.Add(ctx, actor, c.o, c.n); fault.CodeOf(err) != "invalid_secret" {
				t.Errorf("%s: %v", what, err)
			}
		}
		h.add(t, h.admin, team, secrets.NewSecret{Kind: secrets.Env, Name: "A", Value: "v"})
		_, err := h.Add(ctx, h.admin, team, secrets.NewSecret{Kind: secrets.Env, Name: "A", Value: "w"})
		wantCode(t, err, "secret_exists")
		if n := h.values(t); n != 1 {
			t.Errorf("%d values are kept, want one", n)
		}
	})
}

// What a workspace was given is known for as long as there is the workspace: not as long as the secret has this value.
func TestAWorkspaceKnowsWhatItWasGiven(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := tenant.In(t.Context(), h.team)
		w, err := store.NewWorkspaces(h.db).InsertWorkspace(ctx, workspaces.Workspace{ID: id.New("ws"), TeamID: h.team, ProjectID: h.project, Name: "w", State: workspaces.Ready, CreatedBy: h.member.User.ID, CreatedAt: 1})
		if err != nil {
			t.Fatal(err)
		}
		team := h.add(t, h.admin, secrets.Owner{TeamID: h.team}, secrets.NewSecret{Kind: secrets.Env, Name: "TOKEN", Value: "the-first-value-of-it"})
		h.add(t, h.member, secrets.Owner{UserID: h.member.User.ID}, secrets.NewSecret{Kind: secrets.File, Name: "f", Target: "~/.netrc", Value: "machine x login y password a-long-password-here\n"})
		if k, err := h.Known(ctx, w.ID); err != nil || k.Find != nil || len(k.Files) != 0 {
			t.Fatalf("known before anything was given: %+v, %v", k, err)
		}
		g, err := h.For(ctx, secrets.Ask{TeamID: h.team, ProjectID: h.project, UserID: h.member.User.ID, Agent: "shell"})
		if err != nil {
			t.Fatal(err)
		}
		file := secrets.KnownFile{Path: "conf/x", Sum: "s", Blob: "b", Blob256: "c"}
		for range 2 {
			if err := h.Remember(ctx, h.team, w.ID, []secrets.KnownFile{file}, g.Uses); err != nil {
				t.Fatal(err)
			}
		}
		knows := func(when string, of *secrets.Service, values ...string) {
			t.Helper()
			k, err := of.Known(ctx, w.ID)
			if err != nil || len(k.Files) != 1 || k.Files[0] != file {
				t.Fatalf("%s: %+v, %v", when, k, err)
			}
			for _, v := range values {
				if !k.Find.In([]byte("x"+v+"y"), nil) || k.Masker.Text(v) == v {
					t.Errorf("%s: %q is not known", when, v)
				}
			}
		}
		knows("given", h.Service, "the-first-value-of-it", "a-long-password-here")
		second := "the-second-value-of-it"
		if _, err := h.Change(ctx, h.admin, team.ID, secrets.Change{Value: &second}); err != nil {
			t.Fatal(err)
		}
		if err := h.Remember(ctx, h.team, w.ID, nil, []secrets.Use{{ID: team.ID, Sealed: "sec_gone", TeamID: h.team, Kind: secrets.Env}}); fault.CodeOf(err) != "secret_changed" {
			t.Errorf("a value that is gone was remembered: %v", err)
		}
		if g, err = h.For(ctx, secrets.Ask{TeamID: h.team, UserID: h.member.User.ID, Agent: "shell"}); err != nil {
			t.Fatal(err)
		}
		if err := h.Remember(ctx, h.team, w.ID, nil, g.Uses); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Delete(ctx, h.admin, team.ID); err != nil {
			t.Fatal(err)
		}
		if err := h.Sweep(tenant.All(ctx, "a test")); err != nil {
			t.Fatal(err)
		}
		other, err := store.NewWorkspaces(h.db).InsertWorkspace(ctx, workspaces.Workspace{ID: id.New("ws"), TeamID: h.team, ProjectID: h.project, Name: "restored", State: workspaces.Ready, CreatedBy: h.member.User.ID, CreatedAt: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Pass(ctx, h.team, w.ID, other.ID); err != nil {
			t.Fatal(err)
		}
		if k, err := h.Known(ctx, other.ID); err != nil || len(k.Files) != 1 || !k.Find.In([]byte("the-first-value-of-it"), nil) {
			t.Errorf("the other workspace knows %+v, %v", k, err)
		}
		again := newService(h)
		for when, of := range map[string]*secrets.Service{"deleted": h.Service, "in another server": again} {
			knows(when, of, "the-first-value-of-it", second, "a-long-password-here")
		}
		// With the workspace it is forgotten.
		trash := store.NewTrash(h.db)
		for _, err := range []error{deleteWorkspace(ctx, h.db, w.ID), deleteWorkspace(ctx, h.db, other.ID), trash.BeginPurge(ctx, reclaim.TrashWorkspace, w.ID, 9), trash.EndPurge(ctx, reclaim.TrashWorkspace, w.ID),
			trash.BeginPurge(ctx, reclaim.TrashWorkspace, other.ID, 9), trash.EndPurge(ctx, reclaim.TrashWorkspace, other.ID),
			h.Sweep(tenant.All(ctx, "a test"))} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if n := h.values(t); n != 1 {
			t.Errorf("%d values are left, want the person's own", n)
		}
		if k, err := newService(h).Known(ctx, w.ID); err != nil || k.Find != nil || len(k.Files) > 0 {
			t.Errorf("still known: %+v, %v", k, err)
		}
	})
}

func deleteWorkspace(ctx context.Context, db *store.DB, id string) error {
	_, err := db.Exec(ctx, `UPDATE workspaces SET deleted_at = 5 WHERE id = ?`, id)
	return err
}

// newService is another server over the same database.
func newService(h *harness) *secrets.Service {
	vault := testaccounts.New(testaccounts.Config{Store: store.NewAccounts(h.db), Key: bytes.Repeat([]byte{3}, vault.KeyBytes)})
	return secrets.New(secrets.Config{Store: store.NewSecrets(h.db), Vault: vault})
}

// What is one's own is given where nobody else may work, or where one has agreed; it is masked all the same, and the team's is for all.
func TestOnesOwnSecretsWhereOthersWork(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := tenant.In(t.Context(), h.team)
		user := h.member.User.ID
		h.add(t, h.admin, secrets.Owner{TeamID: h.team}, secrets.NewSecret{Kind: secrets.Env, Name: "OURS", Value: "team-value-1"})
		h.add(t, h.member, secrets.Owner{UserID: user}, secrets.NewSecret{Kind: secrets.Env, Name: "MINE", Value: "own-value-22"})
		h.add(t, h.member, secrets.Owner{UserID: user}, secrets.NewSecret{Kind: secrets.File, Name: "npm", Target: "~/.npmrc", Value: "own-file-333"})
		ws := id.New("ws")
		w := workspaces.Workspace{ID: ws, TeamID: h.team, ProjectID: h.project, Name: "w", Branch: "b", Base: "main", Executor: "local", State: workspaces.Ready, CreatedBy: user, CreatedAt: 1, UpdatedAt: 1}
		if _, err := store.NewWorkspaces(h.db).InsertWorkspace(ctx, w); err != nil {
			t.Fatal(err)
		}
		ask := secrets.Ask{TeamID: h.team, ProjectID: h.project, UserID: user, Agent: "codex", WorkspaceID: ws}
		given := func(when string, want bool, a secrets.Ask) {
			t.Helper()
			g, err := h.For(ctx, a)
			if err != nil {
				t.Fatal(err)
			}
			_, mine := g.Env["MINE"]
			if mine != want || len(g.Files) == 1 != want || g.Personal != want || (g.Withheld == 0) != want || g.Env["OURS"] == "" {
				t.Errorf("%s: %+v", when, g)
			}
			if !slices.Contains(g.Masks, "own-value-22") || !slices.Contains(g.Masks, "own-file-333") {
				t.Errorf("%s: not masked: %v", when, g.Masks)
			}
		}
		given("alone", true, ask)
		h.others = true
		given("beside others", false, ask)
		private := ask
		private.Private = true
		given("in a private workspace", true, private)
		if err := h.Agree(ctx, ask, true); err != nil {
			t.Fatal(err)
		}
		given("having agreed", true, ask)
		elsewhere := ask
		elsewhere.WorkspaceID = "ws_other"
		given("in another workspace", false, elsewhere)
		if o, err := h.Own(ctx, ask); err != nil || o != (secrets.Own{Count: 2, Others: true, Agreed: true}) || !o.Given() {
			t.Errorf("%+v, %v", o, err)
		}
		if err := h.Agree(ctx, ask, false); err != nil {
			t.Fatal(err)
		}
		given("having taken it back", false, ask)
		if o, err := h.Own(ctx, ask); err != nil || o.Given() {
			t.Errorf("%+v, %v", o, err)
		}
	})
}

// Of a file of settings the secrets are looked for, and not what is in everybody's code: it would keep honest commits from coming home.
func TestWhatOfAFileIsASecret(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		ctx := tenant.In(t.Context(), h.team)
		w, err := store.NewWorkspaces(h.db).InsertWorkspace(ctx, workspaces.Workspace{ID: id.New("ws"), TeamID: h.team, ProjectID: h.project, Name: "w", State: workspaces.Ready, CreatedBy: h.member.User.ID, CreatedAt: 1})
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"env":         "DB_HOST=localhost:5432\nDB=db.internal.example.com\nAPI=https://api.example.com/v1\nDATABASE_URL=postgres://app:pass-of-the-database@db/app\nKEY=correct-horse-battery\n",
			"npmrc":       "registry=https://registry.npmjs.org/\n//registry.npmjs.org/:_authToken=npm_0123456789abcdefXYZ\n",
			"gcp":         "{\n  \"type\": \"service_account\",\n  \"universe_domain\": \"googleapis.com\",\n  \"private_key_id\": \"3f2a9c77d1e04b5586aa\"\n}\n",
			"credentials": "https://me:ghp_0123456789abcdefghij@github.com\n",
		} {
			h.add(t, h.admin, secrets.Owner{TeamID: h.team}, secrets.NewSecret{Kind: secrets.File, Name: name, Target: "~/." + name, Value: value})
		}
		g, err := h.For(ctx, secrets.Ask{TeamID: h.team, ProjectID: h.project, UserID: h.member.User.ID, Agent: "shell"})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Remember(ctx, h.team, w.ID, nil, g.Uses); err != nil {
			t.Fatal(err)
		}
		k, err := h.Known(ctx, w.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, open := range []string{"localhost:5432", "db.internal.example.com", "https://api.example.com/v1", "https://registry.npmjs.org/", "service_account", "googleapis.com"} {
			if k.Find.In([]byte(`x := "`+open+`"`), nil) {
				t.Errorf("%q is taken for a secret", open)
			}
		}
		for _, secret := range []string{"pass-of-the-database", "correct-horse-battery", "npm_0123456789abcdefXYZ", "3f2a9c77d1e04b5586aa", "ghp_0123456789abcdefghij"} {
			if !k.Find.In([]byte(`x := "`+secret+`"`), nil) {
				t.Errorf("%q is not looked for", secret)
			}
		}
	})
}
