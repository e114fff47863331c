package app

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/lifecycle"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// turnFiles undoes what turns of the agent change in files, by the timeline.
type turnFiles struct{ a *App }

// Snapshot implements agent.Files.
func (f turnFiles) Snapshot(ctx context.Context, workspaceID string) (string, error) {
	sn, err := f.a.workspaces.Snapshots.Take(ctx, workspaceID, snapshot.Request{Kind: snapshot.SnapPoll})
	return sn.ID, err
}

// plannedFile is a file that an undo writes.
type plannedFile struct {
	Path    string `json:"path"` // as in the API
	From    string `json:"from,omitempty"`
	Was     string `json:"was,omitempty"` // its mode
	To      string `json:"to,omitempty"`
	Becomes string `json:"becomes,omitempty"` // its mode
	Size    int64  `json:"size,omitempty"`
}

// Plan implements agent.Files.
func (f turnFiles) Plan(ctx context.Context, workspaceID string, spans []agent.Span) (json.RawMessage, []string, error) {
	all := make([]lifecycle.Span, len(spans))
	for i, s := range spans {
		all[i] = lifecycle.Span(s)
	}
	files, err := f.a.workspaces.Lifecycle.PlanUndo(ctx, workspaceID, all)
	if err != nil || len(files) == 0 {
		return nil, nil, err
	}
	plan, paths := make([]plannedFile, len(files)), make([]string, len(files))
	for i, c := range files {
		plan[i] = plannedFile{guest.EncodePath(c.Path), c.OldBlob, c.OldMode, c.NewBlob, c.Mode, c.Size}
		paths[i] = plan[i].Path
	}
	raw, err := json.Marshal(plan)
	return raw, paths, err
}

// Write implements agent.Files.
func (f turnFiles) Write(ctx context.Context, userID, workspaceID, sessionID string, raw json.RawMessage, force bool) (string, error) {
	var plan []plannedFile
	if err := json.Unmarshal(raw, &plan); err != nil {
		return "", err
	}
	if !force {
		if err := f.othersWork(ctx, workspaceID, sessionID); err != nil {
			return "", err
		}
	}
	actor, err := f.a.directory.Actor(ctx, userID)
	if err != nil {
		return "", err
	}
	files := make([]git.ChangedFile, len(plan))
	for i, c := range plan {
		files[i] = git.ChangedFile{Path: guest.DecodePath(c.Path), OldBlob: c.From, OldMode: c.Was, NewBlob: c.To, Mode: c.Becomes, Size: c.Size}
	}
	done, err := f.a.workspaces.Lifecycle.ApplyUndo(ctx, actor, workspaceID, files)
	return done.Kept.ID, err
}

// othersWork refuses while an agent of another session works in the workspace.
func (f turnFiles) othersWork(ctx context.Context, workspaceID, sessionID string) error {
	all, err := f.a.sessions.List(ctx, workspaceID)
	for _, row := range all {
		if row.ID != sessionID && row.State == state.Working {
			return fault.New(fault.Conflict, "agent_working", "Another agent is working in this workspace and would not notice that its files changed. Wait until it has finished, or force the undo.")
		}
	}
	return err
}

// Make implements agent.Siblings.
func (f turnFiles) Make(ctx context.Context, actor accounts.Actor, workspaceID string, at agent.FilesAt, name string) (string, error) {
	of, err := f.a.workspaces.Records.Workspace(ctx, workspaceID)
	if err != nil {
		return "", err
	}
	sn, err := f.at(ctx, workspaceID, at)
	if err != nil {
		return "", err
	}
	made, err := f.a.workspaces.Lifecycle.RestoreSnapshot(ctx, actor, sn, snapshot.RestoreRequest{New: true, Name: cmp.Or(name, of.Name+" (fork)"), Ignored: true})
	if err != nil {
		return "", err
	}
	w := made.Workspace
	for w.State == workspaces.Creating || w.State == workspaces.SettingUp {
		if !tasks.Sleep(ctx, 100*time.Millisecond) {
			err = context.Cause(ctx)
		} else {
			w, err = f.a.workspaces.Records.Workspace(ctx, w.ID)
		}
		if err != nil {
			break
		}
	}
	if err == nil && w.State != workspaces.Ready {
		err = fault.New(fault.Conflict, "workspace_not_made", "The fork's workspace could not be made: %s", w.StateReason)
	}
	if err != nil {
		f.Remove(context.WithoutCancel(ctx), actor, w.ID)
		return "", err
	}
	return w.ID, nil
}

// at returns a state of a workspace's files.
func (f turnFiles) at(ctx context.Context, workspaceID string, at agent.FilesAt) (sn snapshot.Snap, err error) {
	snapshots := f.a.workspaces.Snapshots
	switch {
	case at.Snapshot != "":
		sn, err = snapshots.Snap(ctx, workspaceID, at.Snapshot)
	case at.Before != 0:
		sn, err = store.NewWorkspaces(f.a.db).SnapshotBefore(ctx, workspaceID, at.Before)
	default:
		sn, err = snapshots.Take(ctx, workspaceID, snapshot.Request{Kind: snapshot.SnapPoll})
	}
	if fault.Is(err, fault.NotFound) || err == nil && sn.ID == "" {
		err = fault.New(fault.Conflict, "files_unknown", "No snapshot from then is kept, so what the files were is not known. Fork the conversation in the same workspace.")
	}
	return sn, err
}

// Remove implements agent.Siblings.
func (f turnFiles) Remove(ctx context.Context, actor accounts.Actor, workspaceID string) {
	ctx, cancel := context.WithTimeout(ctx, workspaces.PutAwayTime)
	defer cancel()
	if _, err := f.a.workspaces.Lifecycle.Delete(ctx, actor, workspaceID); err != nil {
		f.a.logOf("agent").Warn("the workspace of a fork that did not start could not be removed", "workspace_id", workspaceID, "error", err)
	}
}
