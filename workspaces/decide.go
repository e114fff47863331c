package workspaces

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// Decision says what becomes of one conflict.
type Decision struct {
	Path    string
	Version string // of the conflict as it was shown
	Take    string // one of its choices; "" with Undo
	Undo    bool   // it is in conflict again
}

// Decisions are decided together.
type Decisions struct {
	List       []Decision
	SnapshotID string // of an undo: the files come back as this snapshot has them; "" = as git left them
}

// maxDecisions is how many conflicts are decided at once.
const maxDecisions = 500

// Decide takes sides in conflicts of a merge or rebase that is under way in the worktree: in the files, and in the agent's index, by which git
// counts them as resolved. All files are kept in a snapshot first, and nothing is written over that is not in it or in the repository. Errors:
// nothing_under_way, conflict_changed, choice_invalid, files_in_the_way, part_not_kept.
func (s *Service) Decide(ctx context.Context, actor accounts.Actor, workspaceID string, r Decisions) (snapshotID string, err error) {
	if len(r.List) == 0 {
		return "", fault.New(fault.Invalid, "nothing_chosen", "No file was chosen.").With("field", "decisions")
	}
	if len(r.List) > maxDecisions {
		return "", fault.New(fault.TooLarge, "too_many_parts", "More than %d conflicts at once: take fewer.", maxDecisions)
	}
	w, p, release, err := s.Begin(ctx, workspaceID)
	if err != nil {
		return "", err
	}
	defer release()
	d := &deciding{s: s, p: p, w: w, actor: actor}
	if d.files, err = s.filesRoom(); err != nil {
		return "", err
	}
	if d.b, err = s.openBox(ctx, w); err != nil {
		return "", err
	}
	defer d.b.close(ctx)
	base, err := s.BranchTarget(ctx, p, w.Base)
	if err != nil {
		return "", err
	}
	cs, err := d.b.conflicts(ctx, base)
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
	title := "Before deciding " + namesOf([]string{r.List[0].Path})
	if len(r.List) > 1 {
		title = "Before deciding " + Plural(len(r.List), "conflict", "conflicts")
	}
	snap, err := s.Keep(ctx, w.ID, KeepFor{Kind: "kept", Reason: "update", Title: title, ActorID: actor.User.ID})
	if err != nil {
		return "", err
	}
	if r.SnapshotID != "" {
		if d.from, err = s.Snap(ctx, w.ID, r.SnapshotID); err != nil {
			return "", err
		}
	}
	d.snap = snap
	// From here on who asked may go: files and index belong together.
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
		s.Note(ctx, Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "update", Text: decidedWords(d.done, base, w.Branch),
			Data: map[string]any{"snapshot_id": snap.ID, "files": len(d.done)}})
	}
	s.PublishWorkspace(ctx, w)
	return snap.ID, err
}

func nothingUnderWay() error {
	return fault.New(fault.Conflict, "nothing_under_way", "Neither a merge nor a rebase is under way in the workspace.")
}

// decidedWords is what the timeline says.
func decidedWords(list []Decision, base, branch string) string {
	one := list[0]
	if len(list) > 1 {
		return "Decided " + Plural(len(list), "conflict", "conflicts")
	}
	name := namesOf([]string{one.Path})
	if one.Undo {
		return "Took back what was decided of " + name
	}
	return map[string]string{TakeBranch: "Took " + name + " as it is on " + branch, TakeBase: "Took " + name + " as it is on " + base, TakeBoth: "Kept both versions of " + name,
		TakeKeep: "Kept " + name, TakeDelete: "Deleted " + name, TakeNow: "Took " + name + " as it lies in the folder"}[one.Take]
}

// chosen finds what a decision is about, as it was shown.
func (cs *conflictSet) chosen(one Decision) (*OpenConflict, error) {
	c := cs.named(one.Path)
	if c == nil || c.Version != one.Version {
		return nil, fault.New(fault.Conflict, "conflict_changed", "%q is not in conflict as you saw it any more: the agent or somebody else was at it. Nothing was changed: look again, then decide.", one.Path).
			With("path", guest.EncodePath(one.Path))
	}
	switch {
	case one.Undo && !c.Decided:
		return nil, fault.New(fault.Conflict, "conflict_changed", "%q is in conflict: there is nothing to take back.", one.Path).With("path", guest.EncodePath(one.Path))
	case !one.Undo && !slices.Contains(c.Choices, one.Take):
		return nil, fault.New(fault.Invalid, "choice_invalid", "Of %q may be taken: %s.", one.Path, strings.Join(c.Choices, ", ")).With("field", "take")
	}
	return c, nil
}

// deciding is one call of Decide.
type deciding struct {
	s     *Service
	p     Project
	w     Workspace
	b     *Sandbox
	files Files
	actor accounts.Actor
	snap  Snap // as it was before
	from  Snap // what an undo brings back
	done  []Decision
}

// take makes files and index what a choice says. Files first: cut in between, it is in conflict still, and may be decided anew.
func (d *deciding) take(ctx context.Context, c *OpenConflict, take string) error {
	names := c.touched()
	said, err := d.b.indexSaid(ctx, names)
	if err != nil {
		return err
	}
	want := c.result(take)
	if take == TakeNow {
		if want, err = d.lying(ctx, c); err != nil {
			return err
		}
	} else if err := d.write(ctx, c, names, func(name string) (fileEntry, func(context.Context, bool) ([]byte, error)) {
		e := want[name]
		e.size = max(sizeOf(c, e), 0)
		return e, func(ctx context.Context, filtered bool) ([]byte, error) {
			return d.b.conflictBlob(ctx, name, e, filtered)
		}
	}); err != nil {
		return err
	}
	entries := make(map[string]fileEntry, len(names))
	for _, name := range names {
		entries[name] = want[name]
	}
	return d.index(c, d.b.setIndex(ctx, names, said, entries, indexTries))
}

func (d *deciding) index(c *OpenConflict, err error) error {
	if errors.Is(err, errIndexMoved) {
		return fault.New(fault.Conflict, "conflict_changed", "The agent staged %q at the same moment. Look again, then decide. The files as they were are in the timeline.", c.Path).
			With("path", guest.EncodePath(c.Path)).With("snapshot_id", d.snap.ID)
	}
	return err
}

func sizeOf(c *OpenConflict, e fileEntry) int64 {
	for _, side := range []*ConflictSide{c.Was, c.Branch, c.Base} {
		if side != nil && side.OID == e.oid {
			return side.Size
		}
	}
	return e.size
}

// lying stages a conflict's file as it lies in the folder.
func (d *deciding) lying(ctx context.Context, c *OpenConflict) (map[string]fileEntry, error) {
	pr, err := d.s.present(ctx, d.files, d.w, c.Path, d.b.like, false)
	if err != nil {
		return nil, err
	}
	if pr.what != "file" {
		return nil, fault.New(fault.Conflict, "part_unsupported", "There is no file %q in the folder now: take one of the two, or delete it.", c.Path).With("path", guest.EncodePath(c.Path))
	}
	out, err := d.b.Git(ctx, nil, "hash-object", "-w", "--", c.Path)
	oid := strings.TrimSpace(out)
	if err != nil || !IsCommitID(oid) {
		return nil, SandboxFault(err, "stage_failed", "Taking the file as it lies")
	}
	return map[string]fileEntry{c.Path: {mode: pr.mode, oid: oid, size: pr.size}}, nil
}

// write makes the files of a conflict what they are to be. All is looked at before the first is written.
func (d *deciding) write(ctx context.Context, c *OpenConflict, names []string, to func(name string) (fileEntry, func(context.Context, bool) ([]byte, error))) error {
	filtered, err := d.b.filtered(ctx, names)
	if err != nil {
		return err
	}
	now := make(map[string]presentFile, len(names))
	for _, name := range names {
		pr, err := d.s.present(ctx, d.files, d.w, name, d.b.like, false)
		if err != nil {
			return err
		}
		now[name] = pr
		want, _ := to(name)
		switch {
		case want.module() || !want.is() && (pr.what == "dir" || !pr.is()):
			continue // a submodule's folder stays as it is
		case pr.what == "dir" || pr.what == "other":
			return inTheWayOf(name, "a folder or a special file")
		case pr.is() && !slices.Contains(c.paths, name) && pr.oid != want.oid && !d.before(c, name):
			return inTheWayOf(name, "a file of its own")
		}
		if err := d.kept(ctx, c, name, pr, filtered[name]); err != nil {
			return err
		}
	}
	for _, name := range names {
		want, read := to(name)
		pr := now[name]
		if want.module() || !want.is() && !pr.is() || pr.what == "dir" || want.is() && want.oid == pr.oid && want.mode == pr.mode {
			continue
		}
		if err := d.write1(ctx, name, pr, want, filtered[name], read); err != nil {
			if fault.Is(err, fault.Precondition) || fault.CodeOf(err) == "file_exists" {
				return changedFault(name)
			}
			return err
		}
	}
	return nil
}

// before reports whether an earlier decision made the file, which this one replaces.
func (d *deciding) before(c *OpenConflict, name string) bool {
	return c.Decided && name == c.Other && c.Taken != "other"
}

func inTheWayOf(name, what string) error {
	return fault.New(fault.Conflict, "files_in_the_way", "%q is %s: move it away first, then decide.", name, what).With("paths", EncodePaths([]string{name}))
}

// kept makes sure that what is written over is in the snapshot, or is a side of the conflict, which git has.
func (d *deciding) kept(ctx context.Context, c *OpenConflict, name string, pr presentFile, filtered bool) error {
	if !pr.is() {
		return nil
	}
	for _, st := range c.stages {
		for _, e := range st {
			if e.oid == pr.oid {
				return nil
			}
		}
	}
	have, err := d.s.treeFiles(ctx, d.p, d.snap.Commit, []string{name})
	if err != nil {
		return err
	}
	if have[name].oid == pr.oid {
		return nil
	}
	if filtered && have[name].is() {
		if out, err := d.b.Git(ctx, nil, "hash-object", "--", name); err == nil && strings.TrimSpace(out) == have[name].oid {
			return nil
		}
	}
	if have[name].is() {
		return changedFault(name)
	}
	return fault.New(fault.Conflict, "part_not_kept", "%q is not kept by snapshots (it is ignored, or too large), so nothing is written over it. Decide it in a terminal.", name).With("path", guest.EncodePath(name))
}

func (d *deciding) write1(ctx context.Context, name string, was presentFile, to fileEntry, filtered bool, read func(context.Context, bool) ([]byte, error)) error {
	if !to.is() {
		return removeFile(ctx, d.files, d.w.ID, name, was)
	}
	raw, err := read(ctx, filtered && to.plain())
	if err != nil {
		return err
	}
	if to.link() {
		return makeLink(ctx, entryPut{w: d.w, b: d.b, files: d.files, name: name, was: was}, string(raw))
	}
	return putFile(ctx, d.files, d.w.ID, name, bytes.NewReader(raw), was, to)
}
