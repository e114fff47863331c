package skills_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/skills"
	"github.com/parawork/parawork/tools/skills/repository"
	"github.com/parawork/parawork/tools/tooltest"
	"github.com/parawork/parawork/workspaces"
)

// rows knows workspaces by names such as ws:team/project.
type rows struct{}

func (rows) Workspace(ctx context.Context, id string) (workspaces.Workspace, error) {
	scope, ok := tenant.Of(ctx)
	team, project, found := strings.Cut(strings.TrimPrefix(id, "ws:"), "/")
	if !ok || !found || !slices.Equal(scope.Teams(), []string{team}) {
		return workspaces.Workspace{}, fault.New(fault.NotFound, "workspace_not_found", "There is none.")
	}
	return workspaces.Workspace{ID: id, TeamID: team, ProjectID: project}, nil
}

func (rows) Project(_ context.Context, id string) (workspaces.Project, error) {
	return workspaces.Project{ID: id}, nil
}

// repo is the repository of every workspace.
type repo struct{}

var own = repository.Skill{Name: "deploy", Description: "How to deploy", Path: ".claude/skills/deploy/SKILL.md", Text: "deploy it"}

func (repo) Skills(context.Context, string) ([]repository.Skill, error) {
	return []repository.Skill{own}, nil
}

func (repo) Skill(_ context.Context, _, name string) (repository.Skill, error) {
	if name == own.Name {
		return own, nil
	}
	return repository.Skill{}, fault.New(fault.NotFound, "skill_not_found", "There is no skill %q.", name)
}

type hidden string

func (h hidden) InAnswers(context.Context, string) (*redact.Finder, error) {
	return redact.NewJSONFinder(string(h)), nil
}

const secret = "correct-horse-battery"

// bench is the service on a database, with its tools.
type bench struct {
	*testing.T
	*skills.Service
	ctx  context.Context
	set  *tools.Set
	bus  *events.Bus
	team string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	db, bus := storetest.SQLite(t), events.New()
	_, team := storetest.Seed(t, db)
	b := &bench{T: t, team: team.ID, bus: bus, ctx: tenant.In(t.Context(), team.ID), Service: skills.New(skills.Config{Store: toolstore.NewSkills(db), Texts: toolstore.NewSkills(db), Events: bus, Workspaces: rows{}, Repository: repo{}, Secrets: hidden(secret)})}
	var err error
	if b.set, err = tools.New(tools.Config{Tools: b.Tools()}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) agent(project string) tools.Caller {
	return tools.Caller{TeamID: b.team, WorkspaceID: "ws:" + b.team + "/" + project, SessionID: "ses_1", UserID: "usr_1", Agent: "codex"}
}

func (b *bench) call(c tools.Caller, name, args string) (string, error) {
	b.Helper()
	r, err := b.set.Call(b.ctx, c, name, json.RawMessage(args))
	if err != nil {
		return "", err
	}
	return r.Content[0].Text, nil
}

func TestSkillsFollowTheRulesOfTools(t *testing.T) {
	b := newBench(t)
	if _, err := b.Create(b.ctx, skills.Skill{TeamID: b.team, Name: "long", Version: skills.Version{Description: "long", Text: strings.Repeat("line of text\n", 2400), UserID: "usr_1"}}); err != nil {
		t.Fatal(err)
	}
	stranger := tools.Caller{TeamID: "team_other", WorkspaceID: "ws:" + b.team + "/p", UserID: "usr_2"}
	for i, args := range []string{`{"query":"long"}`, `{"name":"long"}`, `{"name":"made","description":"d","text":"t"}`} {
		tool := b.Tools()[i]
		t.Run(tool.Spec().Name, func(t *testing.T) {
			tooltest.Run(t, tooltest.Subject{Tool: tool, Caller: b.agent("p"), Stranger: stranger, Quick: json.RawMessage(args)})
		})
	}
}

// What an agent saves is a draft until a member accepts it, for its own project alone, and what is in use stays in use meanwhile.
func TestAMemberAcceptsWhatAgentsSave(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if words, err := b.call(b.agent("p"), "skill_save", `{"name":"release","description":"How to release","text":"1. tag `+secret+`"}`); err != nil || !strings.Contains(words, "draft") {
		t.Fatalf("%q %v", words, err)
	}
	reads := func(project, want string) {
		t.Helper()
		if got, _ := b.call(b.agent(project), "skill_read", `{"name":"release"}`); !strings.Contains(got, want) || want == "" && got != "" || strings.Contains(got, secret) {
			t.Errorf("in %s %q is read, not %q", project, got, want)
		}
	}
	reads("p", "")
	all, _, err := b.List(b.ctx, b.team, skills.Filter{ProjectID: "p", Query: "tag", Drafts: true}, page.Page{})
	if err != nil || len(all) != 1 || all[0].InUse != 0 || all[0].Draft != 1 || all[0].Agent != "codex" {
		t.Fatalf("%+v %v", all, err)
	}
	k, err := b.Use(b.ctx, all[0], 1)
	if err != nil || k.InUse != 1 || k.Draft != 0 {
		t.Fatalf("%+v %v", k, err)
	}
	reads("p", "1. tag")
	reads("q", "")
	if _, err := b.call(b.agent("p"), "skill_save", `{"name":"release","description":"How to release","text":"rm -rf"}`); err != nil {
		t.Fatal(err)
	}
	reads("p", "1. tag")
	if k, err = b.Use(b.ctx, k, k.InUse); err != nil || k.Draft != 0 || k.InUse != 1 {
		t.Errorf("a draft that was rejected: %+v %v", k, err)
	}
	if _, err := b.Use(b.ctx, k, 7); fault.CodeOf(err) != "skill_version_not_found" {
		t.Errorf("a version that is not there: %v", err)
	}
	k.Text, k.Agent = "2. push", ""
	if _, err := b.Save(b.ctx, k, 1); fault.CodeOf(err) != "skill_changed" {
		t.Errorf("on top of another version: %v", err)
	}
	if k, err = b.Save(b.ctx, k, 2); err != nil || k.InUse != 3 {
		t.Fatalf("%+v %v", k, err)
	}
	reads("p", "2. push")
	if v, err := b.Versions(b.ctx, k.ID); err != nil || len(v) != 3 || v[0].Number != 3 || v[1].Text != "rm -rf" {
		t.Errorf("%+v %v", v, err)
	}
	if _, err := b.Create(b.ctx, skills.Skill{TeamID: b.team, Name: "release", Version: skills.Version{Description: "d", Text: "of the team", UserID: "usr_1"}}); err != nil {
		t.Fatal(err)
	}
	reads("p", "2. push")
	reads("q", "of the team")
	if err := b.Delete(b.ctx, k); err != nil {
		t.Fatal(err)
	}
	reads("p", "of the team")
	if got, err := b.call(b.agent("p"), "skill_search", `{}`); err != nil || got != "deploy: How to deploy\nrelease: d" {
		t.Errorf("%q %v", got, err)
	}
	if got, err := b.call(b.agent("p"), "skill_read", `{"name":"deploy"}`); err != nil || !strings.Contains(got, "deploy it") {
		t.Errorf("%q %v", got, err)
	}
}

// A team that accepts them reads what agents save at once. A change of instructions is an event, and leaves that as it is.
func TestATeamMayAcceptWhatAgentsSave(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sub := b.bus.Subscribe(b.team, 0)
	defer sub.Close()
	yes := true
	if i, err := b.SetInstructions(b.ctx, skills.Instructions{TeamID: b.team, UpdatedBy: "usr_1"}, &yes); err != nil || !i.Accepts {
		t.Fatalf("%+v %v", i, err)
	}
	if e := <-sub.C; e.Type != skills.Changed || e.ID != b.team {
		t.Errorf("%+v", e)
	}
	if i, err := b.SetInstructions(b.ctx, skills.Instructions{TeamID: b.team, Text: "Use tabs.", UpdatedBy: "usr_1"}, nil); err != nil || !i.Accepts {
		t.Fatalf("%+v %v", i, err)
	}
	if _, err := b.SetInstructions(b.ctx, skills.Instructions{TeamID: b.team, ProjectID: "p"}, &yes); fault.CodeOf(err) != "instructions_invalid" {
		t.Errorf("of a project: %v", err)
	}
	if words, err := b.call(b.agent("p"), "skill_save", `{"name":"release","description":"d","text":"tag it"}`); err != nil || strings.Contains(words, "draft") {
		t.Fatalf("%q %v", words, err)
	}
	if got, err := b.call(b.agent("p"), "skill_read", `{"name":"release"}`); err != nil || !strings.Contains(got, "tag it") {
		t.Errorf("%q %v", got, err)
	}
}

// The best match comes first, whether its words are in a name or a text, and of two with one name only the project's counts.
func TestSearchOfSkills(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, k := range []skills.Skill{{Name: "release-it", Version: skills.Version{Description: "Ship", Text: "push tags"}}, {Name: "notes", Version: skills.Version{Description: "Write", Text: "for a releaseCandidate, in 日本語の文"}},
		{Name: "other", Version: skills.Version{Description: "Else", Text: "nothing"}}, {ProjectID: "p", Name: "release-it", Version: skills.Version{Description: "Elsewhere", Text: "another way"}}} {
		k.TeamID, k.UserID = b.team, "usr_1"
		if _, err := b.Save(b.ctx, k, 0); err != nil {
			t.Fatal(err)
		}
	}
	for query, want := range map[string]string{"release": "release-it: Ship\nnotes: Write", "RELEASE candidate": "release-it: Ship\nnotes: Write", "本語": "notes: Write", "%_": "There is no skill for this.", "elease": "There is no skill for this."} {
		if got, err := b.call(b.agent("q"), "skill_search", `{"query":"`+query+`"}`); err != nil || got != want {
			t.Errorf("%s: %q %v", query, got, err)
		}
	}
	if got, err := b.call(b.agent("p"), "skill_search", `{"query":"push"}`); err != nil || got != "There is no skill for this." {
		t.Errorf("the team's text of a skill that the project replaces: %q %v", got, err)
	}
}

func TestWhatIsNoSkill(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	good := skills.Version{Description: "d", Text: "t", UserID: "usr_1"}
	for _, k := range []skills.Skill{{Name: "Bad Name", Version: good}, {Name: "a", Version: skills.Version{Text: "t"}}, {Name: "a", Version: skills.Version{Description: "d", Text: strings.Repeat("x", skills.MaxText+1)}}} {
		k.TeamID = b.team
		if _, err := b.Create(b.ctx, k); fault.CodeOf(err) != "skill_invalid" {
			t.Errorf("%s: %v", k.Name, err)
		}
	}
	for i := range skills.MaxDrafts + 1 {
		_, err := b.Save(b.ctx, skills.Skill{TeamID: b.team, ProjectID: "p", Name: "s" + strings.Repeat("x", i), Version: skills.Version{Description: "d", Text: "t", UserID: "usr_1", Agent: "codex"}}, -1)
		if (i < skills.MaxDrafts) != (err == nil) {
			t.Errorf("draft %d: %v", i+1, err)
		}
	}
	if _, err := b.Create(b.ctx, skills.Skill{TeamID: b.team, ProjectID: "p", Name: "s", Version: good}); err == nil {
		t.Error("a project of another team has a skill of this one")
	}
	if i, err := b.SetInstructions(b.ctx, skills.Instructions{TeamID: b.team, Text: " use tabs, not " + secret, UpdatedBy: "usr_1"}, nil); err != nil || strings.Contains(i.Text, secret) {
		t.Errorf("%+v %v", i, err)
	}
	if team, project, err := b.Texts(b.ctx, b.team, "p"); !strings.HasPrefix(team, "use tabs") || project != "" || err != nil {
		t.Errorf("%q %q %v", team, project, err)
	}
	if _, err := b.SetInstructions(b.ctx, skills.Instructions{TeamID: b.team, Text: strings.Repeat("x", skills.MaxInstructions+1)}, nil); fault.CodeOf(err) != "instructions_too_long" {
		t.Errorf("%v", err)
	}
}
