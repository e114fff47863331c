// Package skills keeps what a team knows about how it works: skills, which are procedures that work was distilled into, and instructions
// that Parawork's own agent reads at the beginning of every conversation. A skill belongs to a project or to the whole team. Each save is a
// version; what an agent saves is a draft until a member accepts it, as it changes what later sessions do.
//
// It starts no goroutine and holds no lock.
package skills

import (
	"context"

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
	UpdatedBy string
	UpdatedAt int64 // 0 = never
}

// Bounds.
const (
	MaxSkills       = 200 // of a project, and of a team beside its projects
	MaxDrafts       = 50  // of those, that no member has accepted
	MaxVersions     = 50  // of a skill
	MaxText         = 32 << 10
	MaxDescription  = 400 // characters
	MaxInstructions = 32 << 10
	mostRead        = 1000 // skills that a search looks at
)

// Store stores skills and instructions. A missing row is fault.NotFound.
type Store interface {
	// Skills returns the skills of a team and of one project, or of all with "", the newest first, at most limit.
	Skills(ctx context.Context, teamID, projectID string, limit int) ([]Skill, error)
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
	// Instructions returns those of a team, or of a project; they may be empty.
	Instructions(ctx context.Context, teamID, projectID string) (Instructions, error)
	SetInstructions(ctx context.Context, i Instructions) error
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
