package stage

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
)

// indexLook bounds one read of the index.
const indexLook = 30 * time.Second

// stageTries is how often staging starts over because the agent changed its index meanwhile.
const stageTries = 5

// Stage puts parts into the agent's index as they were shown, or with unstage removes them from it. The files stay as they are.
func (s *Service) Stage(ctx context.Context, actor accounts.Actor, workspaceID string, r Parts, unstage bool) error {
	if err := r.check(); err != nil {
		return err
	}
	w, p, release, err := s.sandboxes.Begin(ctx, workspaceID)
	if err != nil {
		return err
	}
	defer release()
	switch {
	case unstage && r.From == "":
		r.From = "head"
	case r.From == "":
		r.From = indexRev
	}
	if unstage {
		if r.To != "" && r.To != indexRev {
			return fault.New(fault.Invalid, "revision_invalid", "Unstaging compares with the index: to must be index.").With("field", "to")
		}
		r.To = indexRev
	} else if r.To == indexRev {
		return fault.New(fault.Invalid, "revision_invalid", "What is in the index is already staged.").With("field", "to")
	}
	v, err := s.shownParts(ctx, p, w, r, actor.User.ID)
	if err != nil {
		return err
	}
	b, err := s.sandboxes.Open(ctx, w)
	if err != nil {
		return err
	}
	defer b.Close(ctx)
	if _, _, err := b.Head(ctx); err != nil {
		return err
	}
	for range stageTries {
		if unstage {
			err = s.unstageOnce(ctx, p, b, r, v)
		} else {
			err = s.stageOnce(ctx, p, w, b, r, v)
		}
		if !errors.Is(err, sandboxgit.ErrIndexMoved) {
			return err
		}
	}
	return fault.New(fault.Conflict, "index_busy", "The agent keeps changing what is staged. Try again in a moment.")
}

func (s *Service) unstageOnce(ctx context.Context, p workspaces.Project, b *sandboxgit.Sandbox, r Parts, v shown) error {
	own, said, err := b.OwnIndex(ctx, r.paths())
	if err != nil {
		return err
	}
	head, err := treeEntries(ctx, b, "HEAD", r.paths())
	if err != nil {
		return err
	}
	set := make(map[string]git.FileEntry)
	for _, part := range r.List {
		i, h := own[part.Path], head[part.Path]
		if part.whole() {
			set[part.Path] = h
			continue
		}
		old := h
		oldText, err := s.partOld(ctx, p, b, v, part.Path, old)
		if err != nil {
			return err
		}
		text, err := b.OwnBlob(ctx, part.Path, i)
		if err != nil {
			return err
		}
		a, c := git.SplitLines(oldText), git.SplitLines(text)
		picks, err := part.picks(a, c)
		if err != nil {
			return err
		}
		left, ok := takeBack(picks, a, c, c, true)
		if !ok {
			return movedFault(part.Path)
		}
		if len(left) == 0 && !h.Is() {
			set[part.Path] = git.FileEntry{}
			continue
		}
		e := git.FileEntry{Mode: i.Mode}
		if !i.Is() {
			e.Mode = h.Mode
		}
		if e.OID, err = b.PutBlob(ctx, left); err != nil {
			return err
		}
		set[part.Path] = e
	}
	maps.DeleteFunc(set, func(name string, e git.FileEntry) bool { return own[name].OID == e.OID && own[name].Mode == e.Mode })
	return b.SetIndex(ctx, r.paths(), said, set, IndexTries)
}

// partOld reads the older side of a part: of the named revision, or of the agent's last commit.
func (s *Service) partOld(ctx context.Context, p workspaces.Project, b *sandboxgit.Sandbox, v shown, name string, head git.FileEntry) ([]byte, error) {
	if v.from.Commit != "" {
		return s.blobText(ctx, p, name, v.old[name])
	}
	return b.OwnBlob(ctx, name, head)
}

func (s *Service) stageOnce(ctx context.Context, p workspaces.Project, w workspaces.Workspace, b *sandboxgit.Sandbox, r Parts, v shown) error {
	own, said, err := b.OwnIndex(ctx, r.paths())
	if err != nil {
		return err
	}
	if err := copyIndex(ctx, b); err != nil {
		return err
	}
	set, err := s.takeParts(ctx, p, w, b, r, v, own, own)
	if err != nil {
		return err
	}
	maps.DeleteFunc(set, func(name string, e git.FileEntry) bool { return own[name].OID == e.OID && own[name].Mode == e.Mode })
	return b.SetIndex(ctx, r.paths(), said, set, IndexTries)
}

// takeParts computes what the temporary index, and the changes from it, must have for the parts: whole files as git adds them, for others
// target with what was chosen. It rejects parts that are not as they were shown.
func (s *Service) takeParts(ctx context.Context, p workspaces.Project, w workspaces.Workspace, b *sandboxgit.Sandbox, r Parts, v shown, own, target map[string]git.FileEntry) (map[string]git.FileEntry, error) {
	out := make(map[string]git.FileEntry)
	var whole, some []Part
	for _, part := range r.List {
		if part.whole() {
			whole = append(whole, part)
		} else {
			some = append(some, part)
		}
	}
	if len(whole) > 0 {
		added, err := s.addShown(ctx, w, b, whole, v)
		if err != nil {
			return nil, err
		}
		maps.Copy(out, added)
	}
	if len(some) == 0 {
		return out, nil
	}
	paths := Parts{List: some}.paths()
	filtered, err := Filtered(ctx, b, paths)
	if err != nil {
		return nil, err
	}
	files, err := s.FileWriter()
	if err != nil {
		return nil, err
	}
	for _, part := range some {
		if filtered[part.Path] {
			return nil, sandboxgit.WholeOnly(part.Path, "git changes it on its way into the repository (line ends, or a filter)")
		}
		e, err := s.takeSome(ctx, p, w, b, files, part, v, own[part.Path], target[part.Path])
		if err != nil {
			return nil, err
		}
		out[part.Path] = e
	}
	return out, nil
}

// takeSome applies the chosen lines of one file to target.
func (s *Service) takeSome(ctx context.Context, p workspaces.Project, w workspaces.Workspace, b *sandboxgit.Sandbox, files Files, part Part, v shown, own, target git.FileEntry) (git.FileEntry, error) {
	name := part.Path
	old := v.old[name]
	if v.fromOwn {
		old = own
	}
	oldText, err := s.partText(ctx, p, b, v.fromOwn, name, old)
	if err != nil {
		return git.FileEntry{}, err
	}
	pr, err := s.Present(ctx, files, w, name, b.Like, true)
	if err != nil {
		return git.FileEntry{}, err
	}
	now, nowText := v.now[name], []byte(nil)
	switch {
	case v.toOwn:
		now = own
		nowText, err = b.OwnBlob(ctx, name, now)
	case v.anyNow:
		now, nowText = pr.FileEntry, pr.text
		err = errors.Join(sandboxgit.RefuseBinary(name, now), sandboxgit.TextOnly(name, nowText))
	default:
		nowText, err = s.blobText(ctx, p, name, now)
	}
	if err != nil {
		return git.FileEntry{}, err
	}
	a, c := git.SplitLines(oldText), git.SplitLines(nowText)
	picks, err := part.picks(a, c)
	if err != nil {
		return git.FileEntry{}, err
	}
	if !v.toOwn && pr.OID != now.OID && !(pr.What == "file" && unmoved(picks, c, git.SplitLines(pr.text))) {
		return git.FileEntry{}, movedFault(name)
	}
	text, err := s.targetText(ctx, p, b, name, target)
	if err != nil {
		return git.FileEntry{}, err
	}
	made, err := takeForward(name, picks, a, c, git.SplitLines(text))
	if err != nil {
		return git.FileEntry{}, err
	}
	if len(made) == 0 && !now.Is() {
		return git.FileEntry{}, nil
	}
	e := git.FileEntry{Mode: target.Mode, Size: int64(len(made))}
	if !target.Is() {
		e.Mode = now.Mode
	}
	e.OID, err = b.PutBlob(ctx, made)
	return e, err
}

// targetText reads the text to which a part is applied: an entry of the agent's index or of its last commit.
func (s *Service) targetText(ctx context.Context, _ workspaces.Project, b *sandboxgit.Sandbox, name string, e git.FileEntry) ([]byte, error) {
	return b.OwnBlob(ctx, name, e)
}

// addShown has git add whole files to the temporary index, and rejects those that are not as they were shown.
func (s *Service) addShown(ctx context.Context, w workspaces.Workspace, b *sandboxgit.Sandbox, parts []Part, v shown) (map[string]git.FileEntry, error) {
	paths := Parts{List: parts}.paths()
	gone, err := addThere(ctx, b, w, paths)
	if err != nil {
		return nil, err
	}
	list := ""
	err = git.EachBatch(paths, func(some []string) error {
		out, err := b.IndexGit(ctx, nil, append([]string{"ls-files", "-s", "-z", "--"}, some...)...)
		list += out
		return git.SandboxFault(err, "worktree_unreadable", "Reading the index")
	})
	if err != nil {
		return nil, err
	}
	out := make(map[string]git.FileEntry, len(paths))
	for _, name := range paths {
		out[name] = git.FileEntry{}
	}
	found := make(map[string]git.FileEntry)
	if err := sandboxgit.ParseIndex(list, found); err != nil {
		return nil, err
	}
	var odd []string
	for name, e := range found {
		if _, asked := out[name]; !asked {
			return nil, fault.New(fault.Invalid, "is_a_folder", "%q is in a folder that was named as a file. Choose its files.", name)
		}
		out[name] = e
	}
	if v.anyNow {
		return out, nil
	}
	for _, name := range paths {
		e, n := out[name], v.now[name]
		switch {
		case e.Mode == n.Mode && e.OID == n.OID:
		case gone[name] || e.Mode != n.Mode || !e.Plain():
			return nil, sandboxgit.ChangedFault(name)
		default:
			odd = append(odd, name)
		}
	}
	// git may have filtered it: then the file itself is what was shown.
	raw, err := rawNames(ctx, b, odd)
	if err != nil {
		return nil, err
	}
	for i, name := range odd {
		if raw[i] != v.now[name].OID {
			return nil, sandboxgit.ChangedFault(name)
		}
	}
	return out, nil
}

// addThere adds files to the temporary index, and removes missing ones, which it returns.
func addThere(ctx context.Context, b *sandboxgit.Sandbox, w workspaces.Workspace, paths []string) (map[string]bool, error) {
	gone := make(map[string]bool)
	err := addPaths(ctx, b, paths)
	if fault.CodeOf(err) != "path_unknown" {
		return gone, err
	}
	// Some are neither on the disk nor in the index: they are gone, as requested.
	var rest []string
	for _, name := range paths {
		switch err := addPaths(ctx, b, []string{name}); {
		case fault.CodeOf(err) == "path_unknown":
			gone[name] = true
		case err != nil:
			return nil, err
		default:
			rest = append(rest, name)
		}
	}
	if len(rest) == 0 && len(gone) == len(paths) && len(paths) == 1 {
		return nil, err
	}
	return gone, nil
}

// rawNames are git's object ids of files' bytes, unfiltered.
func rawNames(ctx context.Context, b *sandboxgit.Sandbox, paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	for _, p := range paths {
		if strings.ContainsAny(p, "\n\"") { // hash-object reads lines
			return nil, sandboxgit.ChangedFault(p)
		}
	}
	out, err := b.Git(ctx, []byte(strings.Join(paths, "\n")+"\n"), "hash-object", "--no-filters", "--stdin-paths")
	if err != nil {
		return nil, git.SandboxFault(err, "worktree_unreadable", "Reading files")
	}
	names := strings.Fields(out)
	if len(names) != len(paths) || slices.ContainsFunc(names, func(n string) bool { return !git.IsCommitID(n) }) {
		return nil, errors.New("sandbox: hash-object answered something else")
	}
	return names, nil
}

// treeEntries looks paths up in a commit of the agent's git.
func treeEntries(ctx context.Context, b *sandboxgit.Sandbox, commit string, paths []string) (map[string]git.FileEntry, error) {
	out := make(map[string]git.FileEntry)
	err := git.EachBatch(paths, func(some []string) error {
		list, err := b.Git(ctx, nil, append([]string{"ls-tree", "-z", "-l", "--full-tree", commit, "--"}, some...)...)
		if err != nil {
			return git.SandboxFault(err, "worktree_unreadable", "Reading the last commit")
		}
		return git.ParseTree(list, out)
	})
	return out, err
}

// copyIndex copies the agent's index to the temporary index.
func copyIndex(ctx context.Context, b *sandboxgit.Sandbox) error {
	b.NewIndex()
	_, err := b.Sh(ctx, `if [ -e "$1/index" ]; then cp "$1/index" "$2"; fi`, b.GitDir, b.Index)
	return err
}
