package stage

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
)

// commitIndex updates the agent's index for a commit, and undoes that.
type commitIndex struct {
	b     *sandboxgit.Sandbox
	whole bool     // everything, or paths
	paths []string // of whole; none = everything
	none  bool     // no update is needed

	// For parts: the entries before and after. Other staged changes stay.
	said     string
	old, new map[string]git.FileEntry
}

// notify updates the index to what commit has.
func (i commitIndex) update(ctx context.Context, commit string, tries int) error {
	switch {
	case i.none:
		return nil
	case i.whole:
		return Refresh(ctx, i.b, commit, i.paths, tries)
	}
	return i.set(ctx, i.new, tries)
}

// takeBack undoes tell.
func (i commitIndex) takeBack(ctx context.Context) error {
	switch {
	case i.none:
		return nil
	case i.whole:
		return Refresh(ctx, i.b, "HEAD", i.paths, IndexTries)
	}
	_, said, err := i.b.OwnIndex(ctx, i.names())
	if err != nil {
		return err
	}
	i.said = said
	return i.set(ctx, i.old, IndexTries)
}

func (i commitIndex) names() []string { return slices.Sorted(maps.Keys(i.new)) }

// set changes the entries. If the agent changed one of them since, that one is updated as for a whole file.
func (i commitIndex) set(ctx context.Context, entries map[string]git.FileEntry, tries int) error {
	err := i.b.SetIndex(ctx, i.names(), i.said, entries, tries)
	if !errors.Is(err, sandboxgit.ErrIndexMoved) {
		return err
	}
	_, said, err := i.b.OwnIndex(ctx, i.names())
	if err != nil {
		return err
	}
	if said == i.said {
		return sandboxgit.ErrIndexMoved
	}
	now := make(map[string]git.FileEntry)
	if err := sandboxgit.ParseIndex(said, now); err != nil {
		return err
	}
	// Skip an entry that already has the wanted value; any other value is the agent's own, newer choice and stays.
	left := make(map[string]git.FileEntry)
	was := make(map[string]git.FileEntry)
	if err := sandboxgit.ParseIndex(i.said, was); err != nil {
		return err
	}
	for name, e := range entries {
		if now[name] == was[name] {
			left[name] = e
		}
	}
	return i.b.SetIndex(ctx, i.names(), said, left, tries)
}

// commitFiles makes the tree of a commit.
func (s *Service) commitFiles(ctx context.Context, actor accounts.Actor, p workspaces.Project, w workspaces.Workspace, b *sandboxgit.Sandbox, r CommitRequest) (string, commitIndex, error) {
	index := commitIndex{b: b, whole: true, paths: r.Paths}
	switch {
	case r.Staged:
		tree, err := stagedTree(ctx, b)
		return tree, commitIndex{b: b, none: true}, err
	case len(r.Parts.List) > 0:
		return s.commitParts(ctx, actor, p, w, b, r.Parts)
	}
	tree, err := stage(ctx, b, r.Paths)
	return tree, index, err
}

// stagedTree is the tree of the index.
func stagedTree(ctx context.Context, b *sandboxgit.Sandbox) (string, error) {
	if err := resolved(ctx, b); err != nil {
		return "", err
	}
	if err := copyIndex(ctx, b); err != nil {
		return "", err
	}
	tree, err := changedTree(ctx, b)
	if fault.CodeOf(err) == "nothing_to_commit" {
		err = fault.New(fault.Conflict, "nothing_to_commit", "Nothing to commit: nothing is staged.")
	}
	return tree, err
}

// commitParts makes the tree of HEAD with the chosen parts.
func (s *Service) commitParts(ctx context.Context, actor accounts.Actor, p workspaces.Project, w workspaces.Workspace, b *sandboxgit.Sandbox, r Parts) (string, commitIndex, error) {
	var none commitIndex
	if err := r.check(); err != nil {
		return "", none, err
	}
	r.From = cmp.Or(r.From, "head")
	v, err := s.shownParts(ctx, p, w, r, actor.User.ID)
	if err != nil {
		return "", none, err
	}
	if err := resolved(ctx, b); err != nil {
		return "", none, err
	}
	own, said, err := b.OwnIndex(ctx, r.paths())
	if err != nil {
		return "", none, err
	}
	head, err := treeEntries(ctx, b, "HEAD", r.paths())
	if err != nil {
		return "", none, err
	}
	// Only the agent's index lists files that were staged manually although they are ignored.
	if err := copyIndex(ctx, b); err != nil {
		return "", none, err
	}
	set, err := s.takeParts(ctx, p, w, b, r, v, own, head)
	if err != nil {
		return "", none, err
	}
	if err := b.Fresh(ctx); err != nil {
		return "", none, err
	}
	if err := b.PutEntries(ctx, set); err != nil {
		return "", none, err
	}
	tree, err := changedTree(ctx, b)
	if err != nil {
		return "", none, err
	}
	index := commitIndex{b: b, said: said, old: make(map[string]git.FileEntry), new: make(map[string]git.FileEntry)}
	for _, part := range r.List {
		name := part.Path
		index.old[name], index.new[name] = own[name], set[name]
		if part.whole() || own[name].OID == head[name].OID && own[name].Mode == head[name].Mode {
			continue
		}
		// Other lines of it are staged: they stay so, in addition to what is committed.
		if e, err := alsoIn(ctx, b, name, head[name], set[name], own[name]); err != nil {
			return "", none, err
		} else if e.Is() {
			index.new[name] = e
		}
	}
	return tree, index, nil
}

// alsoIn applies what a commit changed to what the agent has staged of a file; the zero entry if they conflict.
func alsoIn(ctx context.Context, b *sandboxgit.Sandbox, name string, before, after, staged git.FileEntry) (git.FileEntry, error) {
	var text [3][]byte
	for i, e := range [...]git.FileEntry{before, after, staged} {
		t, err := b.OwnBlob(ctx, name, e)
		if fault.CodeOf(err) == "part_whole_only" {
			return git.FileEntry{}, nil
		}
		if err != nil {
			return git.FileEntry{}, err
		}
		text[i] = t
	}
	if !staged.Is() || !after.Is() {
		return git.FileEntry{}, nil
	}
	old, now := git.SplitLines(text[0]), git.SplitLines(text[1])
	var picks []pick
	for _, x := range git.DiffLines(old, now) {
		picks = append(picks, pick{LineBlock: x})
	}
	made, err := takeForward(name, picks, old, now, git.SplitLines(text[2]))
	if err != nil { // they overlap: the commit counts, the rest is still in the file
		return git.FileEntry{}, nil //nolint:nilerr // no entry: as above
	}
	e := git.FileEntry{Mode: staged.Mode}
	e.OID, err = b.PutBlob(ctx, made)
	return e, err
}
