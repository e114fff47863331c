// Package events is the bus: messages that say "look again" and carry only ids and versions. The receiver reads the state from the store.
// Terminal bytes never go over it.
package events

import "context"

// Event says that something of a team changed.
type Event struct {
	Type        string `json:"type"` // e.g. "workspace.updated", "changes.updated", "session.updated", "project.updated"
	ID          string `json:"id"`   // of the thing
	WorkspaceID string `json:"workspace_id,omitempty"`
	Version     int64  `json:"version"` // the thing's version, or ms UTC of the change
	TeamID      string `json:"-"`
	Seq         int64  `json:"seq"` // per process, growing; what ?since= resumes from
}

// Publisher is the part of the bus that other packages need.
type Publisher interface {
	// Publish never blocks on a slow receiver and never fails because of one.
	Publish(ctx context.Context, e Event)
}
