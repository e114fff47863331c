package lifecycle

import (
	"bytes"
	"context"
	"fmt"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// FileChange is one change of a file, by what git calls its contents.
type FileChange struct {
	Path, OldPath string // raw bytes; OldPath only if it was renamed
	Before, After git.FileEntry
}

// UndoRequest is the request to undo one change of a file, whatever changed later.
type UndoRequest struct {
	FileChange
	Title            string // of the snapshot before it
	SessionID        string // the session whose agent asks
	DryRun           bool
	EvenWhileWorking bool // even if an agent is working
}

// UndoneChange is how a change was undone.
type UndoneChange struct {
	Kept    snapshot.Snap // taken before; the zero Snap if nothing was written
	Changed bool          // false: the file already is as if the change had been undone
	Merged  bool          // later changes of the file were kept
}

// SnapUndo is the reason of snapshots from before one change is undone.
const SnapUndo = "undo"

// UndoChange applies the inverse of a change to the present file: a three-way merge, so that later changes of the file stay. It takes a
// snapshot first. If later changes contradict it, the error has the code edit_conflict and the places as its detail conflicts, and
// nothing is written.
func (s *Service) UndoChange(ctx context.Context, actor accounts.Actor, workspaceID string, r UndoRequest) (UndoneChange, error) {
	w, p, release, err := s.sandboxes.Begin(ctx, workspaceID)
	if err != nil {
		return UndoneChange{}, err
	}
	defer release()
	if !s.snapshots.HasFiles(w) {
		return UndoneChange{}, fault.New(fault.Conflict, "workspace_not_active", "%s has no files now. Restore the workspace first.", w.Key())
	}
	if !r.DryRun && !r.EvenWhileWorking {
		if err := s.noAgentWorks(ctx, w, "undo"); err != nil {
			return UndoneChange{}, err
		}
	}
	for range 2 { // somebody may write the file in this moment
		var out UndoneChange
		var busy bool
		if out, busy, err = s.undoOnce(ctx, actor, w, p, r); err != nil || !busy {
			return out, err
		}
	}
	return UndoneChange{}, fault.New(fault.Conflict, "file_busy", "Somebody is writing %s. Nothing was undone: try again.", guest.EncodePath(r.Path))
}

// noAgentWorks rejects an operation that changes files under a working agent.
func (s *Service) noAgentWorks(ctx context.Context, w workspaces.Workspace, what string) error {
	_, ss, err := s.records.Connected()
	if err != nil {
		return err
	}
	if k, ok := ss.(snapshot.Worker); ok {
		if busy, err := k.Working(ctx, w.ID); err != nil {
			return err
		} else if busy {
			return fault.New(fault.Conflict, "agent_working", "An agent is working in %s and would not notice that its files changed. Wait until it has finished, or force the %s.", w.Key(), what)
		}
	}
	return nil
}

// undoOnce undoes a change in the files as they are now. busy means that the file changed meanwhile.
func (s *Service) undoOnce(ctx context.Context, actor accounts.Actor, w workspaces.Workspace, p workspaces.Project, r UndoRequest) (out UndoneChange, busy bool, err error) {
	now, err := s.snapshots.Take(ctx, w.ID, snapshot.Request{Kind: snapshot.SnapPoll})
	if err != nil {
		return out, false, err
	}
	files, merged, err := s.Inverse(ctx, p, now.Tree, r.FileChange)
	if err != nil {
		return out, false, err
	}
	out = UndoneChange{Changed: len(files) > 0, Merged: merged}
	if r.DryRun || len(files) == 0 {
		return out, false, nil
	}
	// The timeline takes what follows this snapshot for the undo, so it is taken only when something will be written.
	if out.Kept, err = s.snapshots.Take(ctx, w.ID, snapshot.Request{Reason: SnapUndo, Title: r.Title, ActorID: actor.User.ID, SessionID: r.SessionID}); err != nil {
		return out, false, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workspaces.PutAwayTime)
	defer cancel()
	failpoint.Reach(failpoint.UndoKept)
	for _, f := range files { // what is written goes first, then what is removed
		var done snapshot.Restored
		if err := s.snapshots.Apply(ctx, p, w, []git.ChangedFile{f}, &done); err != nil {
			return out, false, err
		}
		if len(done.Conflicts) > 0 {
			return out, true, nil
		}
		failpoint.Reach(failpoint.UndoWritten)
	}
	s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "edit.undone",
		Text: fmt.Sprintf("Undid an edit of %s", guest.EncodePath(r.Path)), Data: map[string]any{"edit": r.Title, "kept": out.Kept.ID}})
	if _, err := s.snapshots.Take(ctx, w.ID, snapshot.Request{Kind: snapshot.SnapPoll}); err != nil { // so that it shows at once
		s.cfg.Log.WarnContext(ctx, "a file whose edit was undone could not be kept", "workspace_id", w.ID, "error", err)
	}
	s.records.PublishWorkspace(ctx, w)
	return out, false, nil
}

// Inverse returns what to write and then to remove to undo a change in a tree, and whether later changes are kept. It writes nothing but
// objects.
func (s *Service) Inverse(ctx context.Context, p workspaces.Project, tree string, c FileChange) (files []git.ChangedFile, merged bool, err error) {
	paths := []string{c.Path}
	if c.OldPath != "" {
		paths = append(paths, c.OldPath)
	}
	have, err := s.repo.TreeFiles(ctx, p, tree, paths)
	if err != nil {
		return nil, false, err
	}
	return s.inverse(ctx, p, have, c)
}

// inverse is Inverse where the present files are have.
func (s *Service) inverse(ctx context.Context, p workspaces.Project, have map[string]git.FileEntry, c FileChange) (files []git.ChangedFile, merged bool, err error) {
	now, old := have[c.Path], have[c.OldPath]
	name := guest.EncodePath(c.Path)
	to := git.FileEntry{Mode: now.Mode, OID: c.Before.OID, Size: c.Before.Size}
	if now.Mode == c.After.Mode || !now.Is() {
		to.Mode = c.Before.Mode
	}
	switch {
	case c.OldPath != "" && !now.Is() && sameFile(old, c.Before):
		return nil, false, nil
	case c.OldPath == "" && now.OID == c.Before.OID && (now.Mode == to.Mode || !now.Is()):
		return nil, false, nil // it already is as before
	case now.OID == c.After.OID: // nothing came later
	case !now.Is():
		return nil, false, fault.New(fault.Conflict, "edit_conflict", "%s does not exist any more. Nothing was undone.", name)
	default:
		if to, err = s.mergeInverse(ctx, p, name, now, c); err != nil {
			return nil, false, err
		}
		merged = true
	}
	switch {
	case c.OldPath == "" && sameFile(to, now):
		return nil, false, nil
	case c.OldPath != "" && old.Is() && !sameFile(to, old):
		return nil, false, fault.New(fault.Conflict, "edit_conflict", "There is another file at %s, where %s was before. Nothing was undone.", guest.EncodePath(c.OldPath), name)
	}
	if to.Is() {
		if to.Size, err = s.contents().BlobSize(ctx, p, to.OID); err != nil {
			return nil, false, gone(err)
		}
	}
	was := git.ChangedFile{Path: c.Path, OldBlob: now.OID, OldMode: now.Mode}
	if c.OldPath == "" {
		if was.NewBlob, was.Size = to.OID, to.Size; to.Is() {
			was.Mode = to.Mode
		}
		return []git.ChangedFile{was}, merged, nil
	}
	if old.Is() { // an undo that did not end has written it
		return []git.ChangedFile{was}, merged, nil
	}
	return []git.ChangedFile{{Path: c.OldPath, NewBlob: to.OID, Mode: to.Mode, Size: to.Size}, was}, merged, nil
}

func sameFile(a, b git.FileEntry) bool { return a.OID == b.OID && a.Mode == b.Mode }

// mergeInverse merges the inverse of a change into a file that changed later.
func (s *Service) mergeInverse(ctx context.Context, p workspaces.Project, name string, now git.FileEntry, c FileChange) (to git.FileEntry, err error) {
	later := fault.New(fault.Conflict, "edit_conflict", "%s changed since, and cannot be merged line by line. Nothing was undone.", name)
	var texts [3][]byte
	for i, e := range [...]git.FileEntry{now, c.After, c.Before} {
		if !e.Is() {
			continue
		}
		if !e.Plain() {
			return to, later
		}
		if texts[i], err = s.contents().Blob(ctx, p, e.OID, git.MaxMerged); fault.Is(err, fault.TooLarge) {
			return to, later
		} else if err != nil {
			return to, gone(err)
		}
		if bytes.IndexByte(texts[i], 0) >= 0 {
			return to, later
		}
	}
	m, err := s.contents().MergeTexts(ctx, p, texts[0], texts[1], texts[2])
	if err != nil {
		return to, err
	}
	if m.Total > 0 {
		return to, fault.New(fault.Conflict, "edit_conflict", "Later changes of %s contradict this at %s. Nothing was undone.", name, git.Plural(m.Total, "place", "places")).
			With("conflicts", conflictsOf(m)).With("total", m.Total)
	}
	if len(m.Text) == 0 && !c.Before.Is() {
		return git.FileEntry{}, nil
	}
	oid, err := s.contents().PutBlob(ctx, p, m.Text)
	return git.FileEntry{Mode: now.Mode, OID: oid, Size: int64(len(m.Text))}, err
}

// ContentConflict is a place at which undoing a change contradicts what the file has now.
type ContentConflict struct {
	Line    int    `json:"line"`    // of the present file
	Present string `json:"present"` // what it has now
	Edited  string `json:"edited"`  // what the change had made of it
	Before  string `json:"before"`  // what it was before the change
}

func conflictsOf(m git.Merged) []ContentConflict {
	out := make([]ContentConflict, len(m.Hunks))
	for i, h := range m.Hunks {
		out[i] = ContentConflict{h.Line, toText(h.Ours), toText(h.Base), toText(h.Theirs)}
	}
	return out
}

func toText(s string) string { return string(bytes.ToValidUTF8([]byte(s), []byte("\uFFFD"))) }

func (s *Service) contents() git.Contents { return git.Contents{Repo: s.repo} }

// gone says that a content is not there any more.
func gone(err error) error {
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.Conflict, "edit_expired", "The server no longer stores what the file was: its snapshots have expired.")
	}
	return err
}
