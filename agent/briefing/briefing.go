// Package briefing says what Parawork's own agent reads beside people's prompts: where it works, the instructions of the team, the
// project and the repository, which skills there are, and what people can call by name.
//
// It starts no goroutine and holds no lock.
package briefing

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/tools/skills/repository"
	"github.com/parawork/parawork/workspaces"
)

// Config configures a Guide. Repository, Workspaces and Sandboxes are required.
type Config struct {
	Repository *repository.Reader
	Workspaces Workspaces
	Sandboxes  Sandboxes
	// Changed returns the paths that differ from the workspace's base. Nil: unknown.
	Changed func(ctx context.Context, workspaceID string) ([]string, error)
	// Instructions are those of a team and of a project. Nil: there are none.
	Instructions Instructions
	// Skills are those of a team and of a project. Nil: there are none.
	Skills Skills
	Now    func() time.Time
}

// Workspaces knows workspaces and projects.
type Workspaces interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
	Project(ctx context.Context, id string) (workspaces.Project, error)
}

// Sandboxes finds and makes sandboxes.
type Sandboxes interface {
	// Ensure returns the workspace's live sandbox, and wakes or makes it when there is none.
	Ensure(ctx context.Context, workspaceID string) (*executors.Place, error)
}

// Instructions are what people of a team wrote for agents.
type Instructions interface {
	Texts(ctx context.Context, teamID, projectID string) (team, project string, err error)
}

// Skills are procedures that a team has collected.
type Skills interface {
	// InUse returns what agents of a project may read, without texts: of two with one name that of the project.
	InUse(ctx context.Context, teamID, projectID string) ([]repository.Skill, error)
	// Named returns one of them with its text. Errors: skill_not_found.
	Named(ctx context.Context, teamID, projectID, name string) (repository.Skill, error)
}

// Guide implements agent.Guide. Safe for concurrent use.
type Guide struct{ cfg Config }

var _ agent.Guide = (*Guide)(nil)

// New returns a Guide. It panics if a dependency is missing.
func New(cfg Config) *Guide {
	if cfg.Repository == nil || cfg.Workspaces == nil || cfg.Sandboxes == nil {
		panic("briefing: Repository, Workspaces and Sandboxes are required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Guide{cfg}
}

const (
	takes       = 10 * time.Second // reading what a conversation begins with
	shownPaths  = 20               // changed files that are named
	shownSkills = 60
	shownAbout  = 240 // characters of a skill's description
)

// Sections implements agent.Guide.
func (g *Guide) Sections(ctx context.Context, t agent.Thread) ([]agent.Section, error) {
	ctx, cancel := context.WithTimeout(ctx, takes)
	defer cancel()
	here, err := g.environment(ctx, t)
	if err != nil {
		return nil, err
	}
	out := []agent.Section{{Title: "Where you work", Text: here, Moving: true}, {Title: "Today", Text: g.cfg.Now().UTC().Format("It is Monday, 2 January 2006 (UTC).")}}
	if g.cfg.Instructions != nil {
		team, project, err := g.cfg.Instructions.Texts(ctx, t.TeamID, t.ProjectID)
		if err != nil {
			return nil, err
		}
		out = append(out, agent.Section{Title: "Instructions of the team", Text: team}, agent.Section{Title: "Instructions of the project", Text: project})
	}
	files, err := g.cfg.Repository.Instructions(ctx, t.WorkspaceID, "")
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, f := range files {
		fmt.Fprintf(&b, "<instructions file=%q>\n%s\n</instructions>\n", f.Path, f.Text)
	}
	out = append(out, agent.Section{Title: "Instructions of the repository", Text: strings.TrimSpace(b.String())})
	all, err := g.skills(ctx, t)
	if err != nil {
		return nil, err
	}
	out = append(out, agent.Section{Title: "Skills", Text: listed(all)})
	n := 0
	for _, s := range out {
		if s.Text != "" {
			out[n] = s
			n++
		}
	}
	return out[:n], nil
}

// environment describes the sandbox and the worktree.
func (g *Guide) environment(ctx context.Context, t agent.Thread) (string, error) {
	w, err := g.cfg.Workspaces.Workspace(ctx, t.WorkspaceID)
	if err != nil {
		return "", err
	}
	p, err := g.cfg.Workspaces.Project(ctx, t.ProjectID)
	if err != nil {
		return "", err
	}
	place, err := g.cfg.Sandboxes.Ensure(ctx, t.WorkspaceID)
	if err != nil {
		return "", err
	}
	h := place.Hello
	lines := []string{
		fmt.Sprintf("Project %s, workspace %s, in a sandbox of kind %s (%s/%s).", line(p.Name), line(w.Name), line(w.Executor), line(h.OS), line(h.Arch)),
		fmt.Sprintf("The worktree is %s, on the branch %s, which began at %s.", line(h.Root), line(w.Branch), line(w.Base)),
	}
	if g.cfg.Changed != nil {
		if paths, err := g.cfg.Changed(ctx, t.WorkspaceID); err == nil { // it is only of interest
			lines = append(lines, changes(paths))
		}
	}
	return strings.Join(lines, "\n"), nil
}

// line is a name that others chose, without what could look like another line.
func line(s string) string { return safetext.Line(s) }

func changes(paths []string) string {
	if len(paths) == 0 {
		return "At the beginning of this conversation no file differed from the base."
	}
	named := make([]string, 0, shownPaths)
	for _, p := range paths[:min(len(paths), shownPaths)] {
		named = append(named, line(p))
	}
	more := ""
	if n := len(paths) - len(named); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return "At the beginning of this conversation these files differed from the base: " + strings.Join(named, ", ") + more + "."
}

// skills are those of the project and the team, and then those of the repository.
func (g *Guide) skills(ctx context.Context, t agent.Thread) (all []repository.Skill, err error) {
	if g.cfg.Skills != nil {
		if all, err = g.cfg.Skills.InUse(ctx, t.TeamID, t.ProjectID); err != nil {
			return nil, err
		}
	}
	own, err := g.cfg.Repository.Skills(ctx, t.WorkspaceID)
	return unique(append(all, own...)), err
}

// unique leaves out those whose name an earlier one has.
func unique(all []repository.Skill) (out []repository.Skill) {
	seen := map[string]bool{}
	for _, s := range all {
		if !seen[s.Name] {
			seen[s.Name] = true
			out = append(out, s)
		}
	}
	return out
}

func listed(all []repository.Skill) string {
	if len(all) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("Procedures that work here. Read one with skill_read before you do what it is about.\n")
	for _, s := range all[:min(len(all), shownSkills)] {
		fmt.Fprintf(&b, "- %s: %s", s.Name, safetext.Cut(s.Description, shownAbout))
		if s.Path != "" {
			fmt.Fprintf(&b, " (%s)", line(s.Path))
		}
		b.WriteByte('\n')
	}
	if n := len(all) - shownSkills; n > 0 {
		fmt.Fprintf(&b, "%d more are found by skill_search.\n", n)
	}
	return strings.TrimSpace(b.String())
}

// Near implements agent.Guide.
func (g *Guide) Near(ctx context.Context, workspaceID string, paths []string, claim func(folder string) bool) ([]agent.Instruction, error) {
	files, err := g.cfg.Repository.Near(ctx, workspaceID, paths, claim)
	out := make([]agent.Instruction, len(files))
	for i, f := range files {
		out[i] = agent.Instruction{Path: f.Path, Text: f.Text}
	}
	return out, err
}

// Commands implements agent.Guide.
func (g *Guide) Commands(ctx context.Context, t agent.Thread) ([]agent.Command, error) {
	ctx, cancel := context.WithTimeout(ctx, takes)
	defer cancel()
	var stored []repository.Skill
	if g.cfg.Skills != nil {
		var err error
		if stored, err = g.cfg.Skills.InUse(ctx, t.TeamID, t.ProjectID); err != nil {
			return nil, err
		}
	}
	own, err := g.cfg.Repository.Commands(ctx, t.WorkspaceID)
	n := 0
	for n < len(own) && own[n].Command {
		n++
	}
	all := append(append(append([]repository.Skill{}, own[:n]...), stored...), own[n:]...)
	var out []agent.Command
	for _, s := range unique(all) {
		out = append(out, commandOf(s))
	}
	return out, err
}

// Command implements agent.Guide.
func (g *Guide) Command(ctx context.Context, t agent.Thread, name string) (agent.Command, bool, error) {
	if !repository.GoodName(name) {
		return agent.Command{}, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, takes)
	defer cancel()
	own, err := g.cfg.Repository.Command(ctx, t.WorkspaceID, name)
	if err != nil && fault.CodeOf(err) != "skill_not_found" {
		return agent.Command{}, false, err
	}
	if (err != nil || !own.Command) && g.cfg.Skills != nil {
		stored, missing := g.cfg.Skills.Named(ctx, t.TeamID, t.ProjectID, name)
		switch {
		case missing == nil:
			own, err = stored, nil
		case fault.CodeOf(missing) != "skill_not_found":
			return agent.Command{}, false, missing
		}
	}
	return commandOf(own), err == nil, nil
}

func commandOf(s repository.Skill) agent.Command {
	c := agent.Command{Name: s.Name, Description: s.Description, Hint: s.Hint, Text: s.Text, Source: agent.Skill}
	if s.Command {
		c.Source = agent.Repository
	}
	return c
}
