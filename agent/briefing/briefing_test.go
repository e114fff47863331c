package briefing_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/briefing"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/testing/testguest"
	"github.com/parawork/parawork/tools/skills/repository"
	"github.com/parawork/parawork/workspaces"
)

// guestPath is the guest binary, built once.
var guestPath string

func TestMain(m *testing.M) { os.Exit(testguest.Run(m, &guestPath)) }

type rows struct{}

func (rows) Workspace(_ context.Context, id string) (workspaces.Workspace, error) {
	return workspaces.Workspace{ID: id, Name: "Fix\nlogin", Branch: "pw/fix", Base: "main", Executor: "local"}, nil
}

func (rows) Project(_ context.Context, id string) (workspaces.Project, error) {
	return workspaces.Project{ID: id, Name: "shop"}, nil
}

// kept are the instructions and skills of a team.
type kept struct{}

func (kept) Texts(context.Context, string, string) (team, project string, err error) {
	return "be kind", "", nil
}

func (kept) InUse(context.Context, string, string) ([]repository.Skill, error) {
	return []repository.Skill{{Name: "release", Description: "The team's way"}}, nil
}

func (kept) Named(_ context.Context, _, _, name string) (repository.Skill, error) {
	if name != "release" {
		return repository.Skill{}, fault.New(fault.NotFound, "skill_not_found", "There is none.")
	}
	return repository.Skill{Name: "release", Text: "the team's text"}, nil
}

func TestWhatAConversationBeginsWith(t *testing.T) {
	t.Parallel()
	one := testguest.Sandbox(t, executors.Local, guestPath, map[string]string{
		"AGENTS.md":                       "use make",
		".parawork/AGENTS.md":             "for Parawork",
		".claude/skills/deploy/SKILL.md":  "---\ndescription: How to deploy\n---\nsteps",
		".claude/skills/release/SKILL.md": "the repository's text",
		".claude/commands/fix.md":         "Fix $ARGUMENTS",
		".parawork/commands/deploy.md":    "the command",
	})
	g := briefing.New(briefing.Config{Repository: repository.New(repository.Config{Sandboxes: one}), Workspaces: rows{}, Sandboxes: one, Instructions: kept{}, Skills: kept{},
		Changed: func(context.Context, string) ([]string, error) { return []string{"a.go", "b.go"}, nil }, Now: func() time.Time { return time.Date(2026, 11, 27, 23, 0, 0, 0, time.UTC) }})
	th := agent.Thread{TeamID: "team_1", ProjectID: "prj_1", WorkspaceID: one.At.WorkspaceID}
	sections, err := g.Sections(t.Context(), th)
	var titles []string
	all := map[string]string{}
	for _, s := range sections {
		titles = append(titles, s.Title)
		all[s.Title] = s.Text
	}
	if got := strings.Join(titles, ", "); err != nil || got != "Where you work, Today, Instructions of the team, Instructions of the repository, Skills" {
		t.Fatalf("%s, %v", got, err)
	}
	for title, want := range map[string]string{
		"Where you work":                 "Project shop, workspace Fixlogin, in a sandbox of kind local",
		"Today":                          "It is Friday, 27 November 2026 (UTC).",
		"Instructions of the team":       "be kind",
		"Instructions of the repository": "<instructions file=\"AGENTS.md\">\nuse make\n</instructions>\n<instructions file=\".parawork/AGENTS.md\">\nfor Parawork\n</instructions>",
		"Skills":                         "- release: The team's way\n- deploy: How to deploy (.claude/skills/deploy/SKILL.md)",
	} {
		if !strings.Contains(all[title], want) {
			t.Errorf("%s: %q, not %q", title, all[title], want)
		}
	}
	if !strings.Contains(all["Where you work"], "a.go, b.go") || !sections[0].Moving {
		t.Errorf("%+v", sections[0])
	}

	commands, err := g.Commands(t.Context(), th)
	var names []string
	for _, c := range commands {
		names = append(names, c.Name+" "+string(c.Source))
	}
	if got := strings.Join(names, ", "); err != nil || got != "deploy repository, fix repository, release skill" {
		t.Errorf("%s, %v", got, err)
	}
	for name, want := range map[string]string{"deploy": "the command", "release": "the team's text", "fix": "Fix $ARGUMENTS"} {
		if c, ok, err := g.Command(t.Context(), th, name); err != nil || !ok || c.Text != want {
			t.Errorf("%+v, %v, %v", c, ok, err)
		}
	}
	if _, ok, err := g.Command(t.Context(), th, "none"); ok || err != nil {
		t.Errorf("%v %v", ok, err)
	}
}
