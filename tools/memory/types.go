// Package memory keeps facts for later: what an agent remembers for its project, or for its session alone, and finds again by words, and by meaning
// where the team's provider makes vectors. The
// number of facts is bounded, so that a search looks at all of a project and works the same on both databases, whatever the words are.
package memory

import (
	"context"
	"time"

	"github.com/parawork/parawork/workspaces"
)

// Fact is something remembered. Times are ms UTC.
type Fact struct {
	ID, TeamID, ProjectID string

	SessionID string // the session that alone recalls it; "" = the whole project
	Key       string // a name that the next fact with it replaces; "" = none
	Text      string
	Tags      []string
	UserID    string // who remembered it, or whose session did
	Agent     string
	CreatedAt int64
	ExpiresAt int64 // 0 = never
}

// Bounds.
const (
	MaxFacts        = 1000 // of a project
	MaxSessionFacts = 200  // of a session
	MaxText         = 8 << 10
	MaxKey          = 100 // characters
	MaxTags         = 10
	MaxTag          = 50 // characters
	MaxDays         = 3650
	sessionFactsFor = 30 * 24 * time.Hour // unless it says otherwise
)

// Store stores facts.
type Store interface {
	// Remember stores a fact in place of the one with its key. It refuses one more than most that have not expired, with fault.Quota.
	Remember(ctx context.Context, f Fact, most int) error
	// Facts returns what a session may recall: the project's facts and its own, the newest first, without those that expired.
	Facts(ctx context.Context, projectID, sessionID string, now int64) ([]Fact, error)
	// Fact returns a fact; fault.NotFound when there is none.
	Fact(ctx context.Context, id string) (Fact, error)
	// Forget deletes the facts with an id or a key that a session may recall, and reports how many there were.
	Forget(ctx context.Context, projectID, sessionID, id, key string) (int64, error)
	// WithoutVector returns facts of a project, its sessions' too, that have no vector of a model, at most so many.
	WithoutVector(ctx context.Context, projectID, model string, most int) ([]Fact, error)
	// SetVectors stores what a model made of facts. One that was forgotten meanwhile is left out.
	SetVectors(ctx context.Context, model string, vectors []Vector) error
	// Vectors returns those of a model for what a session may recall.
	Vectors(ctx context.Context, projectID, sessionID, model string) ([]Vector, error)
	// DropExpired deletes what expired before a time.
	DropExpired(ctx context.Context, before int64) error
}

// Workspaces knows to which project a workspace belongs.
type Workspaces interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
}
