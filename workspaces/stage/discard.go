package stage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// Discarded is what was discarded, and the snapshot that has it.
type Discarded struct {
	SnapshotID string // of all files as they were before
	After      string // the commit with the files afterwards; "" if it could not be stored
	Files      []string
}

// Discard removes parts from the files: it deletes lines shown as new, and restores lines shown as old. It first takes a snapshot of all
// files, and overwrites nothing that is not in it.
func (s *Service) Discard(ctx context.Context, actor accounts.Actor, workspaceID string, r Parts) (Discarded, error) {
	if err := r.check(); err != nil {
		return Discarded{}, err
	}
	r.From = cmp.Or(r.From, "head")
	if r.From == indexRev || r.To == indexRev {
		return Discarded{}, fault.New(fault.Invalid, "revision_invalid", "A discard compares a commit with the files: from and to cannot be index.").With("field", "from")
	}
	w, p, release, err := s.sandboxes.Begin(ctx, workspaceID)
	if err != nil {
		return Discarded{}, err
	}
	defer release()
	files, err := s.FileWriter()
	if err != nil {
		return Discarded{}, err
	}
	v, err := s.shownParts(ctx, p, w, r, actor.User.ID)
	if err != nil {
		return Discarded{}, err
	}
	d := &discarding{s: s, p: p, w: w, v: v, files: files}
	if !s.sandboxes.Asleep(ctx, w) {
		if d.b, err = s.sandboxes.Open(ctx, w); err != nil {
			return Discarded{}, err
		}
		defer d.b.Close(ctx)
		if _, _, err := d.b.Head(ctx); err != nil {
			return Discarded{}, err
		}
		if d.filtered, err = Filtered(ctx, d.b, r.paths()); err != nil {
			return Discarded{}, err
		}
	}
	// Compute everything before writing: if one part cannot be discarded, none is.
	for _, part := range r.List {
		if err := d.plan(ctx, part); err != nil {
			return Discarded{}, err
		}
	}
	snap, err := s.snapshots.Take(ctx, w.ID, snapshot.Request{Kind: "kept", Reason: "discard", Title: git.Plural(len(r.List), "file", "files"), ActorID: actor.User.ID})
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
		failpoint.Reach(failpoint.PartsWriting)
	}
	if len(out.Files) > 0 {
		d.unstage(ctx)
		s.records.Note(context.WithoutCancel(ctx), workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "discard",
			Text: "Discarded changes of " + NamesOf(out.Files), Data: map[string]any{"snapshot_id": snap.ID, "files": len(out.Files)}})
	}
	if err != nil {
		if f, ok := errors.AsType[*fault.Error](err); ok && len(out.Files) > 0 {
			err = f.With("snapshot_id", snap.ID).With("files", git.EncodePaths(out.Files))
		}
		return out, err
	}
	if after, err := s.snapshots.Take(ctx, w.ID, snapshot.Request{Kind: snapshot.SnapPoll}); err == nil {
		out.After = after.Commit
	}
	return out, nil
}

// NamesOf is a short list of files.
func NamesOf(files []string) string {
	if len(files) <= 3 {
		return hostgit.Clean(strings.Join(files, ", "))
	}
	return hostgit.Clean(strings.Join(files[:2], ", ")) + " and " + git.Plural(len(files)-2, "other file", "other files")
}

// discarding is one discard.
type discarding struct {
	s        *Service
	p        workspaces.Project
	w        workspaces.Workspace
	v        shown
	files    Files
	b        *sandboxgit.Sandbox // nil without a running sandbox: then there is no index, and no file has git filters
	filtered map[string]bool
	steps    []discardStep
}

// discardStep is the change to one file.
type discardStep struct {
	name  string
	was   PresentFile
	to    git.FileEntry // new content; without oid it is removed
	text  []byte        // of a part
	whole bool
	part  Part
	old   []string // of a part: both sides as they were shown
	now   []string
	picks []pick
}

func (d *discarding) like() string {
	for _, e := range d.v.old {
		return e.OID
	}
	return d.v.from.Commit
}

func (d *discarding) plan(ctx context.Context, part Part) error {
	name := part.Path
	old := d.v.old[name]
	pr, err := d.s.Present(ctx, d.files, d.w, name, d.like(), !part.whole())
	if err != nil {
		return err
	}
	if pr.What == "dir" || pr.What == "other" || old.Module() || pr.Module() {
		return fault.New(fault.Conflict, "part_unsupported", "%q is a folder, a submodule or a special file: change it in a terminal.", name).With("path", guest.EncodePath(name))
	}
	step := discardStep{name: name, was: pr, to: old, part: part, whole: part.whole()}
	if part.whole() {
		if err := d.asShown(ctx, name, pr); err != nil {
			return err
		}
		if pr.OID == old.OID && pr.Mode == old.Mode {
			return nil
		}
		d.steps = append(d.steps, step)
		return nil
	}
	if d.filtered[name] {
		return sandboxgit.WholeOnly(name, "git changes it on its way into the repository (line ends, or a filter)")
	}
	now, nowText := d.v.now[name], []byte(nil)
	if d.v.anyNow {
		now, nowText = pr.FileEntry, pr.text
		err = errors.Join(sandboxgit.RefuseBinary(name, now), sandboxgit.TextOnly(name, nowText))
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
	step.old, step.now = git.SplitLines(oldText), git.SplitLines(nowText)
	if step.picks, err = part.picks(step.old, step.now); err != nil {
		return err
	}
	if now.Is() != pr.Is() || pr.Is() && pr.What != "file" {
		return movedFault(name)
	}
	left, ok := takeBack(step.picks, step.old, step.now, git.SplitLines(pr.text), true)
	if !ok {
		return movedFault(name)
	}
	step.text = left
	step.to = git.FileEntry{Mode: pr.Mode, OID: git.GitName(d.like(), left), Size: int64(len(left))}
	if !pr.Is() {
		step.to.Mode = old.Mode
	}
	if len(left) == 0 && !old.Is() {
		step.to = git.FileEntry{}
	}
	d.steps = append(d.steps, step)
	return nil
}

// asShown rejects a file that is not the one shown.
func (d *discarding) asShown(ctx context.Context, name string, pr PresentFile) error {
	n := d.v.now[name]
	if d.v.anyNow || n.OID == pr.OID && (n.Mode == pr.Mode || !pr.Is()) {
		return nil
	}
	if d.b != nil && d.filtered[name] && pr.What == "file" && n.Plain() {
		out, err := d.b.Git(ctx, nil, "hash-object", "--", name)
		if err == nil && strings.TrimSpace(out) == n.OID {
			return nil
		}
	}
	return sandboxgit.ChangedFault(name)
}

// checkKept makes sure that the snapshot has what is about to be overwritten.
func (d *discarding) checkKept(ctx context.Context, snap snapshot.Snap) error {
	var names []string
	for _, st := range d.steps {
		if st.was.Is() {
			names = append(names, st.name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	kept, err := d.s.repo.TreeFiles(ctx, d.p, snap.Commit, names)
	if err != nil {
		return err
	}
	for _, st := range d.steps {
		k := kept[st.name]
		if !st.was.Is() || k.OID == st.was.OID {
			continue
		}
		if d.b != nil && d.filtered[st.name] && k.Is() { // a snapshot taken by git has it in the repository's form
			if out, err := d.b.Git(ctx, nil, "hash-object", "--", st.name); err == nil && strings.TrimSpace(out) == k.OID {
				continue
			}
		}
		if !k.Is() {
			return fault.New(fault.Conflict, "part_not_in_snapshots", "%q is in no snapshot (it is ignored, or too large), so it is not discarded. Change it in a terminal.", st.name).With("path", guest.EncodePath(st.name))
		}
		return sandboxgit.ChangedFault(st.name)
	}
	return nil
}

// write changes one file, unless it has changed meanwhile.
func (d *discarding) write(ctx context.Context, st discardStep) error {
	err := d.write1(ctx, st)
	if fault.Is(err, fault.Precondition) || fault.CodeOf(err) == "file_exists" {
		return sandboxgit.ChangedFault(st.name)
	}
	return err
}

func (d *discarding) write1(ctx context.Context, st discardStep) error {
	switch {
	case !st.to.Is():
		return RemoveFile(ctx, d.files, d.w.ID, st.name, st.was)
	case !st.whole:
		return PutFile(ctx, d.files, d.w.ID, st.name, bytes.NewReader(st.text), st.was, st.to)
	}
	return d.s.putEntry(ctx, EntryPut{p: d.p, Workspace: d.w, Sandbox: d.b, Files: d.files, Name: st.name, Was: st.was, to: st.to, filtered: d.filtered[st.name]})
}

// RemoveFile removes a file unless it has changed, and then its empty parent folders.
func RemoveFile(ctx context.Context, files Files, workspaceID, name string, was PresentFile) error {
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

// PutFile writes a file through Files, unless it has changed.
func PutFile(ctx context.Context, files Files, workspaceID, name string, r io.Reader, was PresentFile, to git.FileEntry) error {
	if was.Link() { // a link is not written through
		if err := files.RemoveIf(ctx, workspaceID, guest.EncodePath(name), ""); err != nil {
			return err
		}
		was = PresentFile{}
	}
	mode := to.Perm()
	if was.Is() && was.Mode == to.Mode {
		mode = 0 // its permissions stay
	}
	_, err := files.Put(ctx, workspaceID, guest.EncodePath(name), r, was.hash, mode)
	return err
}

// EntryPut is a file of the repository to be written to a worktree.
type EntryPut struct {
	p         workspaces.Project // whose repository has it
	Workspace workspaces.Workspace
	Sandbox   *sandboxgit.Sandbox // nil: no file has git filters
	Files     Files
	Name      string
	Was       PresentFile
	to        git.FileEntry
	filtered  bool
}

// MaxFiltered bounds the size of a file that git's filters change when it is checked out, in bytes.
const MaxFiltered = 48 << 20

func (s *Service) putEntry(ctx context.Context, e EntryPut) error {
	if e.to.Link() {
		return s.putLink(ctx, e)
	}
	if e.filtered && e.Sandbox != nil && e.to.Size <= MaxFiltered {
		var text bytes.Buffer
		if err := s.CommitBlob(ctx, e.p, e.to, func(r io.Reader) error { _, err := io.Copy(&text, r); return err }); err != nil {
			return err
		}
		oid, err := e.Sandbox.PutBlob(ctx, text.Bytes())
		if err != nil {
			return err
		}
		out, err := e.Sandbox.Git(ctx, nil, "cat-file", "--filters", "--path="+e.Name, oid)
		if err != nil {
			return git.SandboxFault(err, "discard_failed", "Having git write "+e.Name)
		}
		return PutFile(ctx, e.Files, e.Workspace.ID, e.Name, strings.NewReader(out), e.Was, e.to)
	}
	return s.CommitBlob(ctx, e.p, e.to, func(r io.Reader) error {
		return PutFile(ctx, e.Files, e.Workspace.ID, e.Name, r, e.Was, e.to)
	})
}

// CommitBlob passes on a file of a commit.
func (s *Service) CommitBlob(ctx context.Context, p workspaces.Project, e git.FileEntry, fn func(io.Reader) error) error {
	return s.repo.CommitBlobs(ctx, p.ID, []hostgit.TreeFile{{Size: e.Size, OID: e.OID}}, func(_ hostgit.TreeFile, r io.Reader) error { return fn(r) })
}

// putLink makes a symbolic link where the agent works.
func (s *Service) putLink(ctx context.Context, e EntryPut) error {
	if e.Sandbox == nil {
		return fault.New(fault.Conflict, "sandbox_suspended", "%q is a symbolic link, which is made in the sandbox: wake the workspace first.", e.Name)
	}
	var to bytes.Buffer
	if err := s.CommitBlob(ctx, e.p, e.to, func(r io.Reader) error { _, err := io.Copy(&to, io.LimitReader(r, 4096)); return err }); err != nil {
		return err
	}
	return MakeLink(ctx, e, to.String())
}

// MakeLink makes a symbolic link, replacing what was there.
func MakeLink(ctx context.Context, e EntryPut, to string) error {
	if e.Was.Is() {
		if err := e.Files.RemoveIf(ctx, e.Workspace.ID, guest.EncodePath(e.Name), e.Was.hash); err != nil {
			return err
		}
	}
	_, err := e.Sandbox.Sh(ctx, `mkdir -p -- "$(dirname -- "./$2")" && ln -s -- "$1" "./$2"`, to, e.Name)
	return err
}

// unstage also removes what was discarded from the index, if it is staged: else the next commit would bring it back. Other staged content
// stays. Nothing depends on its success.
func (d *discarding) unstage(ctx context.Context) {
	if d.b == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	for range stageTries {
		err := d.unstageOnce(ctx)
		if errors.Is(err, sandboxgit.ErrIndexMoved) {
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
	own, said, err := d.b.OwnIndex(ctx, names)
	if err != nil {
		return err
	}
	head, err := treeEntries(ctx, d.b, "HEAD", names)
	if err != nil {
		return err
	}
	set := make(map[string]git.FileEntry)
	for _, st := range d.steps {
		i, h := own[st.name], head[st.name]
		if i.OID == h.OID && i.Mode == h.Mode {
			continue
		}
		if st.whole {
			if i.OID == st.was.OID || d.filtered[st.name] {
				set[st.name] = h
			}
			continue
		}
		text, err := d.b.OwnBlob(ctx, st.name, i)
		if err != nil {
			continue
		}
		left, ok := takeBack(st.picks, st.old, st.now, git.SplitLines(text), false)
		if !ok || bytes.Equal(left, text) {
			continue
		}
		if len(left) == 0 && !h.Is() {
			set[st.name] = git.FileEntry{}
			continue
		}
		e := git.FileEntry{Mode: i.Mode}
		if e.OID, err = d.b.PutBlob(ctx, left); err != nil {
			return fmt.Errorf("unstaging %q: %w", st.name, err)
		}
		set[st.name] = e
	}
	return d.b.SetIndex(ctx, names, said, set, IndexTries)
}
