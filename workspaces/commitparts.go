package workspaces

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
)

// commitIndex is how the agent's index learns of a commit, and forgets it again.
type commitIndex struct {
	b     *Sandbox
	whole bool     // everything, or paths
	paths []string // of whole; none = everything
	none  bool     // it needs to learn nothing

	// Of parts: what the entries were and become. What else is staged stays.
	said     string
	old, new map[string]fileEntry
}

// tell makes the index know what commit holds.
func (i commitIndex) tell(ctx context.Context, commit string, tries int) error {
	switch {
	case i.none:
		return nil
	case i.whole:
		return i.b.refresh(ctx, commit, i.paths, tries)
	}
	return i.set(ctx, i.new, tries)
}

// takeBack makes the index forget it.
func (i commitIndex) takeBack(ctx context.Context) error {
	switch {
	case i.none:
		return nil
	case i.whole:
		return i.b.refresh(ctx, "HEAD", i.paths, indexTries)
	}
	_, said, err := i.b.ownIndex(ctx, i.names())
	if err != nil {
		return err
	}
	i.said = said
	return i.set(ctx, i.old, indexTries)
}

func (i commitIndex) names() []string { return slices.Sorted(maps.Keys(i.new)) }

// set changes the entries. Where the agent changed one of them since, it learns of the commit as of a whole file's.
func (i commitIndex) set(ctx context.Context, entries map[string]fileEntry, tries int) error {
	err := i.b.setIndex(ctx, i.names(), i.said, entries, tries)
	if !errors.Is(err, errIndexMoved) {
		return err
	}
	_, said, err := i.b.ownIndex(ctx, i.names())
	if err != nil {
		return err
	}
	if said == i.said {
		return errIndexMoved
	}
	now := make(map[string]fileEntry)
	if err := parseIndex(said, now); err != nil {
		return err
	}
	// An entry that is as wished already needs nothing; another one is the agent's own, newer choice and stays.
	left := make(map[string]fileEntry)
	was := make(map[string]fileEntry)
	if err := parseIndex(i.said, was); err != nil {
		return err
	}
	for name, e := range entries {
		if now[name] == was[name] {
			left[name] = e
		}
	}
	return i.b.setIndex(ctx, i.names(), said, left, tries)
}

// commitFiles builds the tree of a commit.
func (s *Service) commitFiles(ctx context.Context, actor accounts.Actor, p Project, w Workspace, b *Sandbox, r CommitRequest) (string, commitIndex, error) {
	index := commitIndex{b: b, whole: true, paths: r.Paths}
	switch {
	case r.Staged:
		tree, err := b.stagedTree(ctx)
		return tree, commitIndex{b: b, none: true}, err
	case len(r.Parts.List) > 0:
		return s.commitParts(ctx, actor, p, w, b, r.Parts)
	}
	tree, err := b.stage(ctx, r.Paths)
	return tree, index, err
}

// stagedTree is the tree of what is staged.
func (b *Sandbox) stagedTree(ctx context.Context) (string, error) {
	if err := b.resolved(ctx); err != nil {
		return "", err
	}
	if err := b.copyIndex(ctx); err != nil {
		return "", err
	}
	tree, err := b.changedTree(ctx)
	if fault.CodeOf(err) == "nothing_to_commit" {
		err = fault.New(fault.Conflict, "nothing_to_commit", "Nothing to commit: nothing is staged.")
	}
	return tree, err
}

// commitParts builds the tree of HEAD with parts of what differs.
func (s *Service) commitParts(ctx context.Context, actor accounts.Actor, p Project, w Workspace, b *Sandbox, r Parts) (string, commitIndex, error) {
	var none commitIndex
	if err := r.check(); err != nil {
		return "", none, err
	}
	if r.From == "" {
		r.From = "head"
	}
	v, err := s.shownParts(ctx, p, w, r, actor.User.ID)
	if err != nil {
		return "", none, err
	}
	if err := b.resolved(ctx); err != nil {
		return "", none, err
	}
	own, said, err := b.ownIndex(ctx, r.paths())
	if err != nil {
		return "", none, err
	}
	head, err := b.treeEntries(ctx, "HEAD", r.paths())
	if err != nil {
		return "", none, err
	}
	// Files that were staged by hand although they are ignored are found by the agent's index only.
	if err := b.copyIndex(ctx); err != nil {
		return "", none, err
	}
	set, err := s.takeParts(ctx, p, w, b, r, v, own, head)
	if err != nil {
		return "", none, err
	}
	if err := b.fresh(ctx); err != nil {
		return "", none, err
	}
	if err := b.putEntries(ctx, set); err != nil {
		return "", none, err
	}
	tree, err := b.changedTree(ctx)
	if err != nil {
		return "", none, err
	}
	index := commitIndex{b: b, said: said, old: make(map[string]fileEntry), new: make(map[string]fileEntry)}
	for _, part := range r.List {
		name := part.Path
		index.old[name], index.new[name] = own[name], set[name]
		if part.whole() || own[name].oid == head[name].oid && own[name].mode == head[name].mode {
			continue
		}
		// Other lines of it are staged: they stay so, beside what is committed.
		if e, err := b.alsoIn(ctx, name, head[name], set[name], own[name]); err != nil {
			return "", none, err
		} else if e.is() {
			index.new[name] = e
		}
	}
	return tree, index, nil
}

// alsoIn is what the agent has staged of a file with what became of another by a commit; the zero entry where the two cannot be had together.
func (b *Sandbox) alsoIn(ctx context.Context, name string, before, after, staged fileEntry) (fileEntry, error) {
	var text [3][]byte
	for i, e := range [...]fileEntry{before, after, staged} {
		t, err := b.ownBlob(ctx, name, e)
		if fault.CodeOf(err) == "part_whole_only" {
			return fileEntry{}, nil
		}
		if err != nil {
			return fileEntry{}, err
		}
		text[i] = t
	}
	if !staged.is() || !after.is() {
		return fileEntry{}, nil
	}
	old, now := splitLines(text[0]), splitLines(text[1])
	var picks []pick
	for _, x := range diffLines(old, now) {
		picks = append(picks, pick{lineBlock: x})
	}
	made, err := takeForward(name, picks, old, now, splitLines(text[2]))
	if err != nil { // they overlap: what is committed counts, the rest is still in the file
		return fileEntry{}, nil //nolint:nilerr // no entry: as above
	}
	e := fileEntry{mode: staged.mode}
	e.oid, err = b.putBlob(ctx, made)
	return e, err
}

// putEntries puts entries into the temporary index.
func (b *Sandbox) putEntries(ctx context.Context, set map[string]fileEntry) error {
	in := indexInfo(set)
	_, err := b.indexGit(ctx, in, "update-index", "--add", "--remove", "--replace", "-z", "--index-info")
	return SandboxFault(err, "commit_failed", "Collecting the changes")
}

// indexInfo is what update-index --index-info reads. What goes is told first: a file may stand where a folder was.
func indexInfo(set map[string]fileEntry) []byte {
	var in bytes.Buffer
	like := 40
	for _, e := range set {
		if e.is() {
			like = len(e.oid)
		}
	}
	for name, e := range set {
		if !e.is() {
			fmt.Fprintf(&in, "0 %s\t%s\x00", strings.Repeat("0", like), name)
		}
	}
	for name, e := range set {
		if e.is() {
			fmt.Fprintf(&in, "%s %s\t%s\x00", e.mode, e.oid, name)
		}
	}
	return in.Bytes()
}
