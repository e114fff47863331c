package app

import (
	"context"
	"io"
	"time"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/sessions"
	filesync "github.com/parawork/parawork/sync"
	"github.com/parawork/parawork/workspaces"
)

// watcher shows workspaces what differs in their files.
type watcher struct{ files *filesync.Service }

// Look looks at a workspace's files where its sandbox runs.
func (w watcher) Look(ctx context.Context, workspaceID string) (workspaces.Seen, bool, error) {
	a, ok, err := w.files.LookAround(ctx, workspaceID)
	return workspaces.Seen{Base: a.Base, Paths: a.Paths, Kept: a.Kept}, ok, err
}

// Elsewhere reports whether the files people work with lie in a sandbox that runs.
func (w watcher) Elsewhere(ctx context.Context, workspaceID string) (bool, error) {
	return w.files.Elsewhere(ctx, workspaceID)
}

// Put writes a file in a sandbox.
func (w watcher) Put(ctx context.Context, workspaceID, path string, r io.Reader, ifMatch string, mode uint32) error {
	_, err := w.files.Put(ctx, workspaceID, guest.EncodePath(path), r, ifMatch, mode)
	return err
}

// Remove removes a file in a sandbox.
func (w watcher) Remove(ctx context.Context, workspaceID, path, ifMatch string) error {
	return w.files.RemoveIf(ctx, workspaceID, guest.EncodePath(path), ifMatch)
}

// keepFiles has every version of workspaces' files kept that somebody sees: when they change and when an agent's turn ends.
func (h *App) keepFiles() {
	w := watcher{h.files}
	h.workspaces.Watch(w)
	h.workspaces.ConnectSandboxed(w)
}

// turnEnded has a workspace's files kept when an agent has finished a turn.
func (h *App) turnEnded(s sessions.Session, prompt string) {
	h.workspaces.TurnEnded(s.WorkspaceID, s.ID, prompt)
}

// snapshotsKept says how long snapshots are kept.
func snapshotsKept(c config.Snapshots) func() workspaces.Retention {
	const day = 24 * time.Hour
	return func() workspaces.Retention {
		return workspaces.Retention{Polls: time.Duration(c.PollDays) * day, Others: time.Duration(c.KeepDays) * day}
	}
}
