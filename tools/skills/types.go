// Package skills keeps what a team knows about how it works: skills, which are procedures that work was distilled into, and instructions
// that Parawork's own agent reads at the beginning of every conversation. A skill belongs to a project or to the whole team. Each save is a
// version; what an agent saves is a draft until a member accepts it, as it changes what later sessions do.
//
// It starts no goroutine and holds no lock.
package skills

import (
	"context"

	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/textsearch"
	"github.com/parawork/parawork/tools/skills/repository"
	"github.com/parawork/parawork/workspaces"
)

// Skill is a procedure with the content of the version in use, or of the draft while there is none. Times are ms UTC.
type Skill struct {
	ID, TeamID string
	ProjectID  string // "" = of the whole team
	Name       string // lower-case letters, digits and hyphens: unique in its project, or among those of the team
	InUse      int64  // the version that agents read; 0 = none yet
	Draft      int64  // the version that waits for a member; 0 = none
	Latest     int64  // the newest version
	CreatedAt  int64
	UpdatedAt  int64
	Version
}

// Version is what a skill was at one time.
type Version struct {
	Number      int64
	Description string
	Text        string // Markdown
	UserID      string // who saved it, or whose session did
	Agent       string // "" = a person or a script
	SessionID   string
	SavedAt     int64
}

// Instructions are a text that the agent reads at the beginning of every conversation.
type Instructions struct {
	TeamID    string
	ProjectID string // "" = of the whole team
	Text      string
	Accepts   bool // of a team: what agents save is in use at once, not a draft
	UpdatedBy string
	UpdatedAt int64 // 0 = never
}

// Filter selects skills of a team.
type Filter struct {
	ProjectID string // only those of this project, and of the whole team; "" = of all projects
	Query     string // only those that have a word of it; "" = all
	Drafts    bool   // only those with a version that waits for a member
}

// Found is a skill that agents of a project read.
type Found struct {
	Name, Description string
	Text              string // of one that was asked for by its name
	Points            int    // how well it fits a query, as textsearch.Query.Score counts
}

// Bounds.
const (
	MaxSkills       = 200 // of a project, and of a team beside its projects
	MaxDrafts       = 50  // of those, that no member has accepted
	MaxVersions     = 50  // of a skill
	MaxText         = 32 << 10
	MaxDescription  = 400 // characters
	MaxInstructions = 32 << 10
)

// Store stores skills. A missing row is fault.NotFound.
type Store interface {
	// Skills returns a page of a team's skills, the newest first, without texts.
	Skills(ctx context.Context, teamID string, f Filter, p page.Page) ([]Skill, string, error)
	// InUse returns what agents of a project read, by name, without texts and rated by a query. Of two with one name it is that of the
	// project. They are at most twice MaxSkills.
	InUse(ctx context.Context, teamID, projectID string, q textsearch.Query) ([]Found, error)
	// Named returns one of them with its text.
	Named(ctx context.Context, teamID, projectID, name string) (Found, error)
	Skill(ctx context.Context, id string) (Skill, error)
	// Versions returns the versions of a skill, the newest first.
	Versions(ctx context.Context, id string) ([]Version, error)
	// SaveSkill stores s.Version as the next version of the skill that has the team, project and name of s, in use or as its draft. It
	// makes the skill, unless that would be one too many: fault.Conflict, skills_full. mustBe is the newest version that the author
	// knows, 0 for a new skill and -1 for any: another one is fault.Conflict, skill_changed.
	SaveSkill(ctx context.Context, s Skill, draft bool, mustBe int64) (Skill, error)
	// UseVersion puts a version into use, and ends the draft.
	UseVersion(ctx context.Context, id string, version, at int64) error
	DeleteSkill(ctx context.Context, id string) error
}

// Texts stores instructions.
type Texts interface {
	// Instructions returns those of a team, or of a project; they may be empty.
	Instructions(ctx context.Context, teamID, projectID string) (Instructions, error)
	// SetInstructions replaces them, and Accepts unless accepts is nil: then i has it as it is.
	SetInstructions(ctx context.Context, i *Instructions, accepts *bool) error
}

// Workspaces knows workspaces and projects.
type Workspaces interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
	Project(ctx context.Context, id string) (workspaces.Project, error)
}

// Repository reads the skills of a workspace's repository.
type Repository interface {
	Skills(ctx context.Context, workspaceID string) ([]repository.Skill, error)
	Skill(ctx context.Context, workspaceID, name string) (repository.Skill, error)
}
