package workspaces

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/killpoint"
)

// Discarded says what was discarded, and where it is kept.
type Discarded struct {
	SnapshotID string // of all files as they were before
	After      string // the commit that stands for them afterwards; "" where it could not be kept
	Files      []string
}

// Discard takes parts out of the files: what was shown as new goes, what was shown as old comes back. All files are kept in a snapshot first,
// and nothing is written over that is not in it.
func (s *Service) Discard(ctx context.Context, actor accounts.Actor, workspaceID string, r Parts) (Discarded, error) {
	if err := r.check(); err != nil {
		return Discarded{}, err
	}
	if r.From == "" {
		r.From = "head"
	}
	if r.From == indexRev || r.To == indexRev {
		return Discarded{}, fault.New(fault.Invalid, "revision_invalid", "What is discarded is told by a commit and by the files.").With("field", "from")
	}
	w, p, release, err := s.Begin(ctx, workspaceID)
	if err != nil {
		return Discarded{}, err
	}
	defer release()
	files, err := s.filesRoom()
	if err != nil {
		return Discarded{}, err
	}
	v, err := s.shownParts(ctx, p, w, r, actor.User.ID)
	if err != nil {
		return Discarded{}, err
	}
	d := &discarding{s: s, p: p, w: w, v: v, files: files}
	if !s.asleep(ctx, w) {
		if d.b, err = s.openBox(ctx, w); err != nil {
			return Discarded{}, err
		}
		defer d.b.close(ctx)
		if _, _, err := d.b.head(ctx); err != nil {
			return Discarded{}, err
		}
		if d.filtered, err = d.b.filtered(ctx, r.paths()); err != nil {
			return Discarded{}, err
		}
	}
	// All is worked out before anything is written: one part that cannot be discarded discards nothing.
	for _, part := range r.List {
		if err := d.plan(ctx, part); err != nil {
			return Discarded{}, err
		}
	}
	snap, err := s.Keep(ctx, w.ID, KeepFor{Kind: "kept", Reason: "discard", Title: Plural(len(r.List), "file", "files"), ActorID: actor.User.ID})
	if err != nil {
		return Discarded{}, err
	}
	if err := d.checkKept(ctx, snap); err != nil {
		return Discarded{}, err
	}
	out := Discarded{SnapshotID: snap.ID}
	for _, step := range d.steps {
		if err = d.write(ctx, step); err != nil {
			break
		}
		out.Files = append(out.Files, step.name)
		killpoint.Reach(killpoint.PartsWriting)
	}
	if len(out.Files) > 0 {
		d.unstage(ctx)
		s.Note(context.WithoutCancel(ctx), Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "discard",
			Text: "Discarded changes of " + namesOf(out.Files), Data: map[string]any{"snapshot_id": snap.ID, "files": len(out.Files)}})
	}
	if err != nil {
		if f, ok := errors.AsType[*fault.Error](err); ok && len(out.Files) > 0 {
			err = f.With("snapshot_id", snap.ID).With("files", wirePaths(out.Files))
		}
		return out, err
	}
	if after, err := s.Keep(ctx, w.ID, KeepFor{Kind: SnapPoll}); err == nil {
		out.After = after.Commit
	}
	return out, nil
}

// namesOf is a short list of files.
func namesOf(files []string) string {
	if len(files) <= 3 {
		return hostgit.Clean(strings.Join(files, ", "))
	}
	return hostgit.Clean(strings.Join(files[:2], ", ")) + " and " + Plural(len(files)-2, "other file", "other files")
}

// discarding is one discard.
type discarding struct {
	s        *Service
	p        Project
	w        Workspace
	v        shown
	files    Files
	b        *Sandbox // nil where no sandbox runs: then there is no index, and git changes nothing on its way
	filtered map[string]bool
	steps    []discardStep
}

// discardStep is what is written of one file.
type discardStep struct {
	name  string
	was   presentFile
	to    fileEntry // what it becomes; without oid it goes
	text  []byte    // of a part
	whole bool
	part  Part
	old   []string // of a part: both sides as they were shown
	now   []string
	picks []pick
}

func (d *discarding) like() string {
	for _, e := range d.v.old {
		return e.oid
	}
	return d.v.from.Commit
}

func (d *discarding) plan(ctx context.Context, part Part) error {
	name := part.Path
	old := d.v.old[name]
	pr, err := d.s.present(ctx, d.files, d.w, name, d.like(), !part.whole())
	if err != nil {
		return err
	}
	if pr.what == "dir" || pr.what == "other" || old.module() || pr.module() {
		return fault.New(fault.Conflict, "part_unsupported", "%q is a folder, a submodule or a special file: change it in a terminal.", name).With("path", guest.EncodePath(name))
	}
	step := discardStep{name: name, was: pr, to: old, part: part, whole: part.whole()}
	if part.whole() {
		if err := d.asShown(ctx, name, pr); err != nil {
			return err
		}
		if pr.oid == old.oid && pr.mode == old.mode {
			return nil
		}
		d.steps = append(d.steps, step)
		return nil
	}
	if d.filtered[name] {
		return wholeOnly(name, "git changes it on its way into the repository (line ends, or a filter)")
	}
	now, nowText := d.v.now[name], []byte(nil)
	if d.v.anyNow {
		now, nowText = pr.fileEntry, pr.text
		err = errors.Join(apart(name, now), textOnly(name, nowText))
	} else {
		nowText, err = d.s.blobText(ctx, d.p, name, now)
	}
	if err != nil {
		return err
	}
	oldText, err := d.s.blobText(ctx, d.p, name, old)
	if err != nil {
		return err
	}
	step.old, step.now = splitLines(oldText), splitLines(nowText)
	if step.picks, err = part.picks(step.old, step.now); err != nil {
		return err
	}
	if now.is() != pr.is() || pr.is() && pr.what != "file" {
		return movedFault(name)
	}
	left, ok := takeBack(step.picks, step.old, step.now, splitLines(pr.text), true)
	if !ok {
		return movedFault(name)
	}
	step.text = left
	step.to = fileEntry{mode: pr.mode, oid: gitName(d.like(), left), size: int64(len(left))}
	if !pr.is() {
		step.to.mode = old.mode
	}
	if len(left) == 0 && !old.is() {
		step.to = fileEntry{}
	}
	d.steps = append(d.steps, step)
	return nil
}

// asShown refuses a file that is not what was shown.
func (d *discarding) asShown(ctx context.Context, name string, pr presentFile) error {
	n := d.v.now[name]
	if d.v.anyNow || n.oid == pr.oid && (n.mode == pr.mode || !pr.is()) {
		return nil
	}
	if d.b != nil && d.filtered[name] && pr.what == "file" && n.plain() {
		out, err := d.b.Git(ctx, nil, "hash-object", "--", name)
		if err == nil && strings.TrimSpace(out) == n.oid {
			return nil
		}
	}
	return changedFault(name)
}

// checkKept makes sure that the snapshot holds what is about to be written over.
func (d *discarding) checkKept(ctx context.Context, snap Snap) error {
	var names []string
	for _, st := range d.steps {
		if st.was.is() {
			names = append(names, st.name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	kept, err := d.s.treeFiles(ctx, d.p, snap.Commit, names)
	if err != nil {
		return err
	}
	for _, st := range d.steps {
		k := kept[st.name]
		if !st.was.is() || k.oid == st.was.oid {
			continue
		}
		if d.b != nil && d.filtered[st.name] && k.is() { // a snapshot taken by git has it as the repository would
			if out, err := d.b.Git(ctx, nil, "hash-object", "--", st.name); err == nil && strings.TrimSpace(out) == k.oid {
				continue
			}
		}
		if !k.is() {
			return fault.New(fault.Conflict, "part_not_kept", "%q is not kept by snapshots (it is ignored, or too large), so it is not discarded. Change it in a terminal.", st.name).With("path", guest.EncodePath(st.name))
		}
		return changedFault(st.name)
	}
	return nil
}

// write makes one file what it becomes, if it is still what it was.
func (d *discarding) write(ctx context.Context, st discardStep) error {
	err := d.write1(ctx, st)
	if fault.Is(err, fault.Precondition) || fault.CodeOf(err) == "file_exists" {
		return changedFault(st.name)
	}
	return err
}

func (d *discarding) write1(ctx context.Context, st discardStep) error {
	switch {
	case !st.to.is():
		return removeFile(ctx, d.files, d.w.ID, st.name, st.was)
	case !st.whole:
		return putFile(ctx, d.files, d.w.ID, st.name, bytes.NewReader(st.text), st.was, st.to)
	}
	return d.s.putEntry(ctx, entryPut{p: d.p, w: d.w, b: d.b, files: d.files, name: st.name, was: st.was, to: st.to, filtered: d.filtered[st.name]})
}

// removeFile removes a file that is still what it was, and the folders that are empty then.
func removeFile(ctx context.Context, files Files, workspaceID, name string, was presentFile) error {
	if err := files.RemoveIf(ctx, workspaceID, guest.EncodePath(name), was.hash); err != nil {
		return err
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if files.RemoveIf(ctx, workspaceID, guest.EncodePath(dir), "") != nil {
			break
		}
	}
	return nil
}

func putFile(ctx context.Context, files Files, workspaceID, name string, r io.Reader, was presentFile, to fileEntry) error {
	if was.link() { // a link is not written through
		if err := files.RemoveIf(ctx, workspaceID, guest.EncodePath(name), ""); err != nil {
			return err
		}
		was = presentFile{}
	}
	mode := to.perm()
	if was.is() && was.mode == to.mode {
		mode = 0 // its own rights stay
	}
	_, err := files.Put(ctx, workspaceID, guest.EncodePath(name), r, was.hash, mode)
	return err
}

// entryPut is a file of the repository that becomes one of a worktree.
type entryPut struct {
	p        Project // whose repository has it
	w        Workspace
	b        *Sandbox // nil: git changes nothing on its way
	files    Files
	name     string
	was      presentFile
	to       fileEntry
	filtered bool
}

// maxFiltered bounds a file that git changes on its way out, in bytes.
const maxFiltered = 48 << 20

func (s *Service) putEntry(ctx context.Context, e entryPut) error {
	if e.to.link() {
		return s.putLink(ctx, e)
	}
	if e.filtered && e.b != nil && e.to.size <= maxFiltered {
		var text bytes.Buffer
		if err := s.commitBlob(ctx, e.p, e.to, func(r io.Reader) error { _, err := io.Copy(&text, r); return err }); err != nil {
			return err
		}
		oid, err := e.b.putBlob(ctx, text.Bytes())
		if err != nil {
			return err
		}
		out, err := e.b.Git(ctx, nil, "cat-file", "--filters", "--path="+e.name, oid)
		if err != nil {
			return SandboxFault(err, "discard_failed", "Having git write "+e.name)
		}
		return putFile(ctx, e.files, e.w.ID, e.name, strings.NewReader(out), e.was, e.to)
	}
	return s.commitBlob(ctx, e.p, e.to, func(r io.Reader) error {
		return putFile(ctx, e.files, e.w.ID, e.name, r, e.was, e.to)
	})
}

func (s *Service) commitBlob(ctx context.Context, p Project, e fileEntry, fn func(io.Reader) error) error {
	return s.CommitBlobs(ctx, p.ID, []hostgit.TreeFile{{Size: e.size, OID: e.oid}}, func(_ hostgit.TreeFile, r io.Reader) error { return fn(r) })
}

// putLink makes a symbolic link where the agent works.
func (s *Service) putLink(ctx context.Context, e entryPut) error {
	if e.b == nil {
		return fault.New(fault.Conflict, "sandbox_asleep", "%q is a symbolic link, which is made in the sandbox: wake the workspace first.", e.name)
	}
	var to bytes.Buffer
	if err := s.commitBlob(ctx, e.p, e.to, func(r io.Reader) error { _, err := io.Copy(&to, io.LimitReader(r, 4096)); return err }); err != nil {
		return err
	}
	return makeLink(ctx, e, to.String())
}

// makeLink makes a symbolic link in the place of what was there.
func makeLink(ctx context.Context, e entryPut, to string) error {
	if e.was.is() {
		if err := e.files.RemoveIf(ctx, e.w.ID, guest.EncodePath(e.name), e.was.hash); err != nil {
			return err
		}
	}
	_, err := e.b.sh(ctx, `mkdir -p -- "$(dirname -- "./$2")" && ln -s -- "$1" "./$2"`, to, e.name)
	return err
}

// unstage takes what was discarded out of the index, too, where the same is staged: else the next commit would bring it back. What differs
// there stays. Nothing depends on it.
func (d *discarding) unstage(ctx context.Context) {
	if d.b == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	for range stageTries {
		err := d.unstageOnce(ctx)
		if errors.Is(err, errIndexMoved) {
			continue
		}
		if err != nil {
			d.s.cfg.Log.WarnContext(ctx, "what was discarded may still be staged", "workspace_id", d.w.ID, "error", err)
		}
		return
	}
}

func (d *discarding) unstageOnce(ctx context.Context) error {
	var names []string
	for _, st := range d.steps {
		names = append(names, st.name)
	}
	own, said, err := d.b.ownIndex(ctx, names)
	if err != nil {
		return err
	}
	head, err := d.b.treeEntries(ctx, "HEAD", names)
	if err != nil {
		return err
	}
	set := make(map[string]fileEntry)
	for _, st := range d.steps {
		i, h := own[st.name], head[st.name]
		if i.oid == h.oid && i.mode == h.mode {
			continue
		}
		if st.whole {
			if i.oid == st.was.oid || d.filtered[st.name] {
				set[st.name] = h
			}
			continue
		}
		text, err := d.b.ownBlob(ctx, st.name, i)
		if err != nil {
			continue
		}
		left, ok := takeBack(st.picks, st.old, st.now, splitLines(text), false)
		if !ok || bytes.Equal(left, text) {
			continue
		}
		if len(left) == 0 && !h.is() {
			set[st.name] = fileEntry{}
			continue
		}
		e := fileEntry{mode: i.mode}
		if e.oid, err = d.b.putBlob(ctx, left); err != nil {
			return fmt.Errorf("unstaging %q: %w", st.name, err)
		}
		set[st.name] = e
	}
	return d.b.setIndex(ctx, names, said, set, indexTries)
}
