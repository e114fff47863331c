package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// Span is what happened to a workspace's files between two snapshots.
type Span struct{ Before, After string }

// MostUndone is how many files are written to undo spans.
const MostUndone = 2000

// PlanUndo returns what to write so that what changed in spans, oldest first, is undone in the present files: a three-way merge, so that
// what changed outside of them stays. It writes nothing but objects. If that contradicts what changed since, the error has the code
// undo_conflict and the places as its detail files.
func (s *Service) PlanUndo(ctx context.Context, workspaceID string, spans []Span) ([]git.ChangedFile, error) {
	w, p, release, err := s.sandboxes.Begin(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	defer release()
	now, err := s.snapshots.Take(ctx, w.ID, snapshot.Request{Kind: snapshot.SnapPoll})
	if err != nil {
		return nil, err
	}
	was, is := map[string]git.FileEntry{}, map[string]git.FileEntry{} // of the files of all spans: now, and when they are undone
	var bad []FileConflict
	for _, span := range slices.Backward(spans) {
		c, err := s.spanChanges(ctx, w.ID, span)
		if err != nil {
			return nil, err
		}
		var names []string
		for _, f := range c {
			if _, known := was[f.Path]; !known {
				names = append(names, f.Path)
			}
		}
		have, err := s.repo.TreeFiles(ctx, p, now.Tree, names)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			was[name], is[name] = have[name], have[name]
		}
		for _, f := range c {
			if slices.ContainsFunc(bad, func(b FileConflict) bool { return b.Path == guest.EncodePath(f.Path) }) {
				continue // what it was before cannot be known
			}
			to, err := s.without(ctx, p, is[f.Path], f)
			switch {
			case fault.CodeOf(err) == "edit_conflict":
				bad = append(bad, conflictOf(f.Path, err))
			case err != nil:
				return nil, err
			default:
				is[f.Path] = to
			}
		}
	}
	if len(bad) > 0 {
		return nil, fault.New(fault.Conflict, "undo_conflict", "Later changes contradict this in %s. Nothing was undone.", git.Plural(len(bad), "file", "files")).
			With("files", bad[:min(len(bad), mostConflicts)]).With("total", len(bad))
	}
	var out []git.ChangedFile
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if a, b := was[name], is[name]; !sameFile(a, b) {
			f := git.ChangedFile{Path: name, OldBlob: a.OID, OldMode: a.Mode, NewBlob: b.OID, Size: b.Size}
			if b.Is() {
				f.Mode = b.Mode
			}
			out = append(out, f)
		}
	}
	if len(out) > MostUndone {
		return nil, fault.New(fault.TooLarge, "too_many_changes", "This changed more than %d files. Restore the snapshot from before it in the timeline.", MostUndone)
	}
	return out, nil
}

const mostConflicts = 50

// FileConflict is a file in which later changes contradict an undo.
type FileConflict struct {
	Path      string `json:"path"` // as in the API
	Message   string `json:"message"`
	Conflicts any    `json:"conflicts,omitempty"` // ContentConflicts
}

func conflictOf(path string, err error) FileConflict {
	c := FileConflict{Path: guest.EncodePath(path), Message: err.Error()}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		c.Message, c.Conflicts = f.Message, f.Details["conflicts"]
	}
	return c
}

// spanChanges are the files that differ between the snapshots of a span.
func (s *Service) spanChanges(ctx context.Context, workspaceID string, span Span) ([]git.ChangedFile, error) {
	var trees [2]git.Tree
	for i, id := range [...]string{span.Before, span.After} {
		sn, err := s.snapshots.Snap(ctx, workspaceID, id)
		if err != nil {
			return nil, gone(err)
		}
		trees[i] = sn.AsTree("", "")
	}
	c, err := s.repo.Compare(ctx, workspaceID, trees[0], trees[1], git.CompareOptions{})
	if err == nil && c.Truncated {
		err = fault.New(fault.TooLarge, "too_many_changes", "More than %d files differ. Restore the snapshot from before it in the timeline.", git.MaxCompared)
	}
	return slices.DeleteFunc(c.Files, func(f git.ChangedFile) bool { return f.Mode == "160000" || f.OldMode == "160000" }), err
}

// without is what a file becomes when one change of it is undone.
func (s *Service) without(ctx context.Context, p workspaces.Project, now git.FileEntry, f git.ChangedFile) (git.FileEntry, error) {
	change := FileChange{Path: f.Path, Before: git.FileEntry{Mode: f.OldMode, OID: f.OldBlob, Size: -1}, After: git.FileEntry{Mode: f.Mode, OID: f.NewBlob}}
	files, _, err := s.inverse(ctx, p, map[string]git.FileEntry{f.Path: now}, change)
	if err != nil || len(files) == 0 {
		return now, err
	}
	return git.FileEntry{Mode: files[0].Mode, OID: files[0].NewBlob, Size: files[0].Size}, nil
}

// ApplyUndo writes what PlanUndo returned, all of it or nothing, and takes a snapshot first. What is written already, because an earlier
// server was killed, stays. If somebody writes one of the files in this moment, the error has the code file_busy.
func (s *Service) ApplyUndo(ctx context.Context, actor accounts.Actor, workspaceID string, files []git.ChangedFile) (out snapshot.Restored, err error) {
	w, p, release, err := s.sandboxes.Begin(ctx, workspaceID)
	if err != nil {
		return out, err
	}
	defer release()
	if !s.snapshots.HasFiles(w) {
		return out, fault.New(fault.Conflict, "workspace_not_active", "%s has no files now. Restore the workspace first.", w.Key())
	}
	if out.Kept, err = s.snapshots.Take(ctx, w.ID, snapshot.Request{Reason: "restore", ActorID: actor.User.ID}); err != nil {
		return out, err
	}
	left, err := s.notYet(ctx, p, out.Kept.Tree, files)
	if err != nil {
		return out, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workspaces.PutAwayTime)
	defer cancel()
	failpoint.Reach(failpoint.UndoKept)
	err = s.snapshots.Apply(ctx, p, w, left, &out)
	if err != nil || len(out.Conflicts) > 0 {
		busy := fault.New(fault.Conflict, "file_busy", "Somebody is writing files that this changes. Nothing was undone: try again.").With("files", encoded(out.Conflicts))
		if err == nil {
			err = busy
		}
		return out, cmp.Or(s.takeBack(ctx, p, w, files), err)
	}
	s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "edit.undone",
		Text: fmt.Sprintf("Undid a turn's changes of %s", git.Plural(len(files), "file", "files")), Data: map[string]any{"kept": out.Kept.ID}})
	if _, err := s.snapshots.Take(ctx, w.ID, snapshot.Request{Kind: snapshot.SnapPoll}); err != nil { // so that it shows at once
		s.cfg.Log.WarnContext(ctx, "files whose changes were undone could not be kept", "workspace_id", w.ID, "error", err)
	}
	s.records.PublishWorkspace(ctx, w)
	return out, nil
}

// notYet leaves out the files that are as they are to become.
func (s *Service) notYet(ctx context.Context, p workspaces.Project, tree string, files []git.ChangedFile) ([]git.ChangedFile, error) {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Path
	}
	have, err := s.repo.TreeFiles(ctx, p, tree, names)
	return slices.DeleteFunc(slices.Clone(files), func(f git.ChangedFile) bool { return have[f.Path].OID == f.NewBlob && have[f.Path].Mode == f.Mode }), err
}

// takeBack takes changes of files back where they were made. It leaves alone what was not changed, or by others.
func (s *Service) takeBack(ctx context.Context, p workspaces.Project, w workspaces.Workspace, files []git.ChangedFile) error {
	back := make([]git.ChangedFile, len(files))
	for i, f := range files {
		back[i] = git.ChangedFile{Path: f.Path, OldBlob: f.NewBlob, OldMode: f.Mode, NewBlob: f.OldBlob, Mode: f.OldMode}
		if f.OldBlob != "" {
			size, err := s.contents().BlobSize(ctx, p, f.OldBlob)
			if err != nil {
				return err
			}
			back[i].Size = size
		}
	}
	var done snapshot.Restored
	return s.snapshots.Apply(ctx, p, w, back, &done)
}

func encoded(paths []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = guest.EncodePath(p)
	}
	return out
}
