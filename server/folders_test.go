package server

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/bubblewrap"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/executors/local"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/workspaces"
)

// Only users who can use the server's folders see their paths.
func TestFoldersOfTheServerAreShownToThoseWhoUseThem(t *testing.T) {
	t.Parallel()
	var own []executors.Executor // as the server has them, whose agents see its folders or do not
	for _, d := range []executors.Descriptor{local.Descriptor(), bubblewrap.Descriptor(), docker.Descriptor()} {
		v := d.Settings.Defaults()
		e, err := d.New(executors.Deps{Dir: t.TempDir(), GuestPath: "/bin/true", Settings: v, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		own = append(own, e)
	}
	h := newHarness(t, func(c *Config) { c.Choice = choice.New(choice.Config{Executors: executors.NewRegistry(own)}) })
	h.serve()
	p := h.people(t)
	kept := store.NewWorkspaces(h.db)
	prj := workspaces.Project{ID: id.New("prj"), TeamID: p.team.ID, Name: "folder", SourceKind: workspaces.SourcePath, Source: "/srv/secret-place", State: workspaces.ProjectReady, CreatedAt: 1}
	if err := kept.InsertProject(t.Context(), prj); err != nil {
		t.Fatal(err)
	}
	of := func(who string) string {
		var me api.Me
		h.do("GET", "/api/v1/me", "", bearer(p.tokens[who])...).into(t, &me)
		return me.User.Id
	}
	made := make(map[string]workspaces.Workspace)
	for _, kind := range []string{string(executors.Local), "bubblewrap", "docker"} {
		ws := workspaces.Workspace{ID: id.New("ws"), TeamID: p.team.ID, ProjectID: prj.ID, Name: kind, Branch: kind, Base: "main", Executor: kind,
			State: workspaces.Ready, CreatedBy: of("member"), CreatedAt: 1, UpdatedAt: 1, Path: "/srv/worktrees/" + kind}
		if _, err := kept.InsertWorkspace(t.Context(), ws); err != nil {
			t.Fatal(err)
		}
		made[kind] = ws
	}
	shown := func(who, kind string) bool {
		var one api.Workspace
		h.do("GET", "/api/v1/workspaces/"+made[kind].ID, "", bearer(p.tokens[who])...).into(t, &one)
		var all api.WorkspaceList
		r := h.do("GET", "/api/v1/teams/"+p.team.Slug+"/workspaces", "", bearer(p.tokens[who])...)
		r.into(t, &all)
		if (one.Path != nil) != strings.Contains(string(r.body), made[kind].Path+`"`) {
			t.Errorf("%s sees the folder in %s alone", who, kind)
		}
		return one.Path != nil && *one.Path == made[kind].Path
	}
	check := func(who string, workspaces map[string]bool, source bool) {
		t.Helper()
		for kind := range made {
			if shown(who, kind) != workspaces[kind] {
				t.Errorf("%s of the folder in %s: shown is %v", who, kind, !workspaces[kind])
			}
		}
		for _, at := range []string{"/api/v1/projects/" + prj.ID, "/api/v1/teams/" + p.team.Slug + "/projects"} {
			if r := h.do("GET", at, "", bearer(p.tokens[who])...); r.StatusCode != 200 || strings.Contains(string(r.body), prj.Source) != source {
				t.Errorf("%s of the project's folder at %s: %d, shown is %v", who, at, r.StatusCode, !source)
			}
		}
	}
	check("viewer", nil, false)
	check("member", map[string]bool{"local": true, "bubblewrap": true}, false)
	check("admin", nil, true)
	yes := true
	if _, err := h.accounts.UpdateUser(t.Context(), of("viewer"), directory.UserChange{Operator: &yes}); err != nil {
		t.Fatal(err)
	}
	check("viewer", map[string]bool{"local": true, "bubblewrap": true, "docker": true}, true)
}
