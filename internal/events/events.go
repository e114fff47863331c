// Package events is the bus: messages that say "look again" and carry ids and versions only. The receiver reads the truth
// from the store. Terminal bytes never ride it.
package events

import "context"

// Event says that something of a team changed.
type Event struct {
	Type        string `json:"type"` // e.g. "workspace.updated", "changes.updated", "session.updated", "project.updated"
	ID          string `json:"id"`   // of the thing
	WorkspaceID string `json:"workspace_id,omitempty"`
	Version     int64  `json:"version"` // the thing's version, or ms UTC of the change
	TeamID      string `json:"-"`
	Seq         int64  `json:"seq"` // of this process, growing; what ?since= resumes from
}

// Publisher is what rooms need of the bus.
type Publisher interface {
	// Publish never blocks on a slow receiver and never fails for its sake.
	Publish(ctx context.Context, e Event)
}
