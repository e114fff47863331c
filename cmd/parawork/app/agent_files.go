package app

import (
	"context"
	"encoding/json"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/state"
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
