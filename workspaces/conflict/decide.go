package conflict

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/snapshot"
	"github.com/parawork/parawork/workspaces/stage"
)

// Decision is how one conflict is resolved.
type Decision struct {
	Path    string
	Version string // of the conflict as shown to the user
	Take    string // one of its choices; "" with Undo
	Undo    bool   // reopen the conflict
}

// Decisions are applied together.
type Decisions struct {
	List       []Decision
	SnapshotID string // for an undo: restore the files from this snapshot; "" = as git left them
}

// maxDecisions is how many conflicts one request decides.
const maxDecisions = 500

// Decide resolves conflicts of a merge or rebase in progress in the worktree by choosing sides, in the files and in the agent's index,
// where git then counts them as resolved. It first takes a snapshot of all files, and overwrites nothing that is neither in the snapshot
// nor in the repository. Errors: no_operation_in_progress, conflict_changed, choice_invalid, files_in_the_way, part_not_in_snapshots.
func (s *Service) Decide(ctx context.Context, actor accounts.Actor, workspaceID string, r Decisions) (snapshotID string, err error) {
	if len(r.List) == 0 {
		return "", fault.New(fault.Invalid, "nothing_chosen", "No file was chosen.").With("field", "decisions")
	}
	if len(r.List) > maxDecisions {
		return "", fault.New(fault.TooLarge, "too_many_parts", "More than %d conflicts at once: take fewer.", maxDecisions)
	}
	w, p, release, err := s.sandboxes.Begin(ctx, workspaceID)
	if err != nil {
		return "", err
	}
	defer release()
	d := &deciding{s: s, p: p, w: w, actor: actor}
	if d.files, err = s.stage.FileWriter(); err != nil {
		return "", err
	}
	if d.b, err = s.sandboxes.Open(ctx, w); err != nil {
		return "", err
	}
	defer d.b.Close(ctx)
	base, err := s.repo.BranchTarget(ctx, p, w.Base)
	if err != nil {
		return "", err
	}
	cs, err := conflicts(ctx, d.b, base)
	if err != nil {
		return "", err
	}
	if cs.op == "" {
		return "", nothingUnderWay()
	}
	chosen := make([]*OpenConflict, len(r.List))
	for i, one := range r.List {
		if chosen[i], err = cs.chosen(one); err != nil {
			return "", err
		}
	}
	title := "Before deciding " + stage.NamesOf([]string{r.List[0].Path})
	if len(r.List) > 1 {
		title = "Before deciding " + git.Plural(len(r.List), "conflict", "conflicts")
	}
	snap, err := s.snapshots.Take(ctx, w.ID, snapshot.Request{Kind: "kept", Reason: "update", Title: title, ActorID: actor.User.ID})
	if err != nil {
		return "", err
	}
	if r.SnapshotID != "" {
		if d.from, err = s.snapshots.Snap(ctx, w.ID, r.SnapshotID); err != nil {
			return "", err
		}
	}
	d.snap = snap
	// From here on the caller may leave: files and index belong together.
	ctx = context.WithoutCancel(ctx)
	for i, one := range r.List {
		if one.Undo {
			err = d.undo(ctx, chosen[i])
		} else {
			err = d.take(ctx, chosen[i], one.Take)
		}
		if err != nil {
			if f, ok := errors.AsType[*fault.Error](err); ok && i > 0 {
				err = f.With("decided", i)
			}
			break
		}
		d.done = append(d.done, one)
	}
	if len(d.done) > 0 {
		s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "update", Text: decidedWords(d.done, base, w.Branch),
			Data: map[string]any{"snapshot_id": snap.ID, "files": len(d.done)}})
	}
	s.records.PublishWorkspace(ctx, w)
	return snap.ID, err
}

func nothingUnderWay() error {
	return fault.New(fault.Conflict, "no_operation_in_progress", "Neither a merge nor a rebase is under way in the workspace.")
}

// decidedWords is the text for the timeline.
func decidedWords(list []Decision, base, branch string) string {
	one := list[0]
	if len(list) > 1 {
		return "Decided " + git.Plural(len(list), "conflict", "conflicts")
	}
	name := stage.NamesOf([]string{one.Path})
	if one.Undo {
		return "Undid the decision about " + name
	}
	return map[string]string{TakeBranch: "Took " + name + " as it is on " + branch, TakeBase: "Took " + name + " as it is on " + base, TakeBoth: "Kept both versions of " + name,
		TakeKeep: "Kept " + name, TakeDelete: "Deleted " + name, TakeNow: "Took " + name + " as it lies in the folder"}[one.Take]
}

// chosen finds the conflict a decision is about, unchanged since it was shown.
func (cs *conflictSet) chosen(one Decision) (*OpenConflict, error) {
	c := cs.named(one.Path)
	if c == nil || c.Version != one.Version {
		return nil, fault.New(fault.Conflict, "conflict_changed", "%q is no longer in conflict as you saw it: the agent or somebody else changed it. Nothing was changed: look again, then decide.", one.Path).
			With("path", guest.EncodePath(one.Path))
	}
	switch {
	case one.Undo && !c.Decided:
		return nil, fault.New(fault.Conflict, "conflict_changed", "%q is in conflict: there is nothing to undo.", one.Path).With("path", guest.EncodePath(one.Path))
	case !one.Undo && !slices.Contains(c.Choices, one.Take):
		return nil, fault.New(fault.Invalid, "choice_invalid", "For %q choose one of: %s.", one.Path, strings.Join(c.Choices, ", ")).With("field", "take")
	}
	return c, nil
}

// deciding is the state of one call of Decide.
type deciding struct {
	s     *Service
	p     workspaces.Project
	w     workspaces.Workspace
	b     *sandboxgit.Sandbox
	files stage.Files
	actor accounts.Actor
	snap  snapshot.Snap // the state before
	from  snapshot.Snap // what an undo restores
	done  []Decision
}

// take applies a choice to files and index. Files come first: if interrupted, the conflict is still open and can be decided again.
func (d *deciding) take(ctx context.Context, c *OpenConflict, take string) error {
	names := c.touched()
	said, err := indexSaid(ctx, d.b, names)
	if err != nil {
		return err
	}
	want := c.result(take)
	if take == TakeNow {
		if want, err = d.lying(ctx, c); err != nil {
			return err
		}
	} else if err := d.write(ctx, c, names, func(name string) (git.FileEntry, func(context.Context, bool) ([]byte, error)) {
		e := want[name]
		e.Size = max(sizeOf(c, e), 0)
		return e, func(ctx context.Context, filtered bool) ([]byte, error) {
			return conflictBlob(ctx, d.b, name, e, filtered)
		}
	}); err != nil {
		return err
	}
	entries := make(map[string]git.FileEntry, len(names))
	for _, name := range names {
		entries[name] = want[name]
	}
	return d.index(c, d.b.SetIndex(ctx, names, said, entries, stage.IndexTries))
}

func (d *deciding) index(c *OpenConflict, err error) error {
	if errors.Is(err, sandboxgit.ErrIndexMoved) {
		return fault.New(fault.Conflict, "conflict_changed", "The agent staged %q at the same moment. Look again, then decide. The files as they were are in the timeline.", c.Path).
			With("path", guest.EncodePath(c.Path)).With("snapshot_id", d.snap.ID)
	}
	return err
}

func sizeOf(c *OpenConflict, e git.FileEntry) int64 {
	for _, side := range []*ConflictSide{c.Was, c.Branch, c.Base} {
		if side != nil && side.OID == e.OID {
			return side.Size
		}
	}
	return e.Size
}

// lying stages a conflict's file as it is in the folder.
func (d *deciding) lying(ctx context.Context, c *OpenConflict) (map[string]git.FileEntry, error) {
	pr, err := d.s.stage.Present(ctx, d.files, d.w, c.Path, d.b.Like, false)
	if err != nil {
		return nil, err
	}
	if pr.What != "file" {
		return nil, fault.New(fault.Conflict, "part_unsupported", "There is no file %q in the folder now: take one of the two, or delete it.", c.Path).With("path", guest.EncodePath(c.Path))
	}
	out, err := d.b.Git(ctx, nil, "hash-object", "-w", "--", c.Path)
	oid := strings.TrimSpace(out)
	if err != nil || !git.IsCommitID(oid) {
		return nil, git.SandboxFault(err, "stage_failed", "Taking the file as it lies")
	}
	return map[string]git.FileEntry{c.Path: {Mode: pr.Mode, OID: oid, Size: pr.Size}}, nil
}

// write writes the files a conflict's choice results in. It checks all of them before it writes the first.
func (d *deciding) write(ctx context.Context, c *OpenConflict, names []string, to func(name string) (git.FileEntry, func(context.Context, bool) ([]byte, error))) error {
	filtered, err := stage.Filtered(ctx, d.b, names)
	if err != nil {
		return err
	}
	now := make(map[string]stage.PresentFile, len(names))
	for _, name := range names {
		pr, err := d.s.stage.Present(ctx, d.files, d.w, name, d.b.Like, false)
		if err != nil {
			return err
		}
		now[name] = pr
		want, _ := to(name)
		switch {
		case want.Module() || !want.Is() && (pr.What == "dir" || !pr.Is()):
			continue // a submodule's folder stays as it is
		case pr.What == "dir" || pr.What == "other":
			return inTheWayOf(name, "a folder or a special file")
		case pr.Is() && !slices.Contains(c.paths, name) && pr.OID != want.OID && !d.before(c, name):
			return inTheWayOf(name, "a file of its own")
		}
		if err := d.kept(ctx, c, name, pr, filtered[name]); err != nil {
			return err
		}
	}
	for _, name := range names {
		want, read := to(name)
		pr := now[name]
		if want.Module() || !want.Is() && !pr.Is() || pr.What == "dir" || want.Is() && want.OID == pr.OID && want.Mode == pr.Mode {
			continue
		}
		if err := d.write1(ctx, name, pr, want, filtered[name], read); err != nil {
			if fault.Is(err, fault.Precondition) || fault.CodeOf(err) == "file_exists" {
				return sandboxgit.ChangedFault(name)
			}
			return err
		}
	}
	return nil
}

// before reports whether an earlier decision wrote the file, which this one replaces.
func (d *deciding) before(c *OpenConflict, name string) bool {
	return c.Decided && name == c.Other && c.Taken != "other"
}

func inTheWayOf(name, what string) error {
	return fault.New(fault.Conflict, "files_in_the_way", "%q is %s: move it away first, then decide.", name, what).With("paths", git.EncodePaths([]string{name}))
}

// kept makes sure that what is overwritten is in the snapshot, or is a side of the conflict, which git has.
func (d *deciding) kept(ctx context.Context, c *OpenConflict, name string, pr stage.PresentFile, filtered bool) error {
	if !pr.Is() {
		return nil
	}
	for _, st := range c.stages {
		for _, e := range st {
			if e.OID == pr.OID {
				return nil
			}
		}
	}
	have, err := d.s.repo.TreeFiles(ctx, d.p, d.snap.Commit, []string{name})
	if err != nil {
		return err
	}
	if have[name].OID == pr.OID {
		return nil
	}
	if filtered && have[name].Is() {
		if out, err := d.b.Git(ctx, nil, "hash-object", "--", name); err == nil && strings.TrimSpace(out) == have[name].OID {
			return nil
		}
	}
	if have[name].Is() {
		return sandboxgit.ChangedFault(name)
	}
	return fault.New(fault.Conflict, "part_not_in_snapshots", "%q is in no snapshot (it is ignored, or too large), so it is not overwritten. Decide it in a terminal.", name).With("path", guest.EncodePath(name))
}

func (d *deciding) write1(ctx context.Context, name string, was stage.PresentFile, to git.FileEntry, filtered bool, read func(context.Context, bool) ([]byte, error)) error {
	if !to.Is() {
		return stage.RemoveFile(ctx, d.files, d.w.ID, name, was)
	}
	raw, err := read(ctx, filtered && to.Plain())
	if err != nil {
		return err
	}
	if to.Link() {
		return stage.MakeLink(ctx, stage.EntryPut{Workspace: d.w, Sandbox: d.b, Files: d.files, Name: name, Was: was}, string(raw))
	}
	return stage.PutFile(ctx, d.files, d.w.ID, name, bytes.NewReader(raw), was, to)
}
