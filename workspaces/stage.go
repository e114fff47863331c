package workspaces

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// indexLook bounds a look at what is staged.
const indexLook = 30 * time.Second

// stageTries is how often staging begins anew because the agent changed its index meanwhile.
const stageTries = 5

func SplitZero(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == 0 })
}

// Stage puts parts into the agent's index as they were shown, or with unstage takes them out of it. The files stay as they are.
func (s *Service) Stage(ctx context.Context, actor accounts.Actor, workspaceID string, r Parts, unstage bool) error {
	if err := r.check(); err != nil {
		return err
	}
	w, p, release, err := s.Begin(ctx, workspaceID)
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
			return fault.New(fault.Invalid, "revision_invalid", "What is taken out of the index is told by what is in it: to must be index.").With("field", "to")
		}
		r.To = indexRev
	} else if r.To == indexRev {
		return fault.New(fault.Invalid, "revision_invalid", "What is in the index is staged already.").With("field", "to")
	}
	v, err := s.shownParts(ctx, p, w, r, actor.User.ID)
	if err != nil {
		return err
	}
	b, err := s.openBox(ctx, w)
	if err != nil {
		return err
	}
	defer b.close(ctx)
	if _, _, err := b.head(ctx); err != nil {
		return err
	}
	for range stageTries {
		if unstage {
			err = s.unstageOnce(ctx, p, b, r, v)
		} else {
			err = s.stageOnce(ctx, p, w, b, r, v)
		}
		if !errors.Is(err, errIndexMoved) {
			return err
		}
	}
	return fault.New(fault.Conflict, "index_busy", "The agent keeps changing what is staged. Try again in a moment.")
}

func (s *Service) unstageOnce(ctx context.Context, p Project, b *Sandbox, r Parts, v shown) error {
	own, said, err := b.ownIndex(ctx, r.paths())
	if err != nil {
		return err
	}
	head, err := b.treeEntries(ctx, "HEAD", r.paths())
	if err != nil {
		return err
	}
	set := make(map[string]fileEntry)
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
		text, err := b.ownBlob(ctx, part.Path, i)
		if err != nil {
			return err
		}
		a, c := splitLines(oldText), splitLines(text)
		picks, err := part.picks(a, c)
		if err != nil {
			return err
		}
		left, ok := takeBack(picks, a, c, c, true)
		if !ok {
			return movedFault(part.Path)
		}
		if len(left) == 0 && !h.is() {
			set[part.Path] = fileEntry{}
			continue
		}
		e := fileEntry{mode: i.mode}
		if !i.is() {
			e.mode = h.mode
		}
		if e.oid, err = b.putBlob(ctx, left); err != nil {
			return err
		}
		set[part.Path] = e
	}
	maps.DeleteFunc(set, func(name string, e fileEntry) bool { return own[name].oid == e.oid && own[name].mode == e.mode })
	return b.setIndex(ctx, r.paths(), said, set, indexTries)
}

// partOld reads the older side of a part: of what was named, or of the agent's last commit.
func (s *Service) partOld(ctx context.Context, p Project, b *Sandbox, v shown, name string, head fileEntry) ([]byte, error) {
	if v.from.Commit != "" {
		return s.blobText(ctx, p, name, v.old[name])
	}
	return b.ownBlob(ctx, name, head)
}

func (s *Service) stageOnce(ctx context.Context, p Project, w Workspace, b *Sandbox, r Parts, v shown) error {
	own, said, err := b.ownIndex(ctx, r.paths())
	if err != nil {
		return err
	}
	if err := b.copyIndex(ctx); err != nil {
		return err
	}
	set, err := s.takeParts(ctx, p, w, b, r, v, own, own)
	if err != nil {
		return err
	}
	maps.DeleteFunc(set, func(name string, e fileEntry) bool { return own[name].oid == e.oid && own[name].mode == e.mode })
	return b.setIndex(ctx, r.paths(), said, set, indexTries)
}

// takeParts works out what the temporary index, and what goes out from it, must have for the parts: whole files as git adds them, of others
// target with what was chosen. Nothing is taken that is not as it was shown.
func (s *Service) takeParts(ctx context.Context, p Project, w Workspace, b *Sandbox, r Parts, v shown, own, target map[string]fileEntry) (map[string]fileEntry, error) {
	out := make(map[string]fileEntry)
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
	filtered, err := b.filtered(ctx, paths)
	if err != nil {
		return nil, err
	}
	files, err := s.filesRoom()
	if err != nil {
		return nil, err
	}
	for _, part := range some {
		if filtered[part.Path] {
			return nil, wholeOnly(part.Path, "git changes it on its way into the repository (line ends, or a filter)")
		}
		e, err := s.takeSome(ctx, p, w, b, files, part, v, own[part.Path], target[part.Path])
		if err != nil {
			return nil, err
		}
		out[part.Path] = e
	}
	return out, nil
}

// takeSome puts the chosen lines of one file into target.
func (s *Service) takeSome(ctx context.Context, p Project, w Workspace, b *Sandbox, files Files, part Part, v shown, own, target fileEntry) (fileEntry, error) {
	name := part.Path
	old := v.old[name]
	if v.fromOwn {
		old = own
	}
	oldText, err := s.partText(ctx, p, b, v.fromOwn, name, old)
	if err != nil {
		return fileEntry{}, err
	}
	pr, err := s.present(ctx, files, w, name, b.like, true)
	if err != nil {
		return fileEntry{}, err
	}
	now, nowText := v.now[name], []byte(nil)
	switch {
	case v.toOwn:
		now = own
		nowText, err = b.ownBlob(ctx, name, now)
	case v.anyNow:
		now, nowText = pr.fileEntry, pr.text
		err = errors.Join(apart(name, now), textOnly(name, nowText))
	default:
		nowText, err = s.blobText(ctx, p, name, now)
	}
	if err != nil {
		return fileEntry{}, err
	}
	a, c := splitLines(oldText), splitLines(nowText)
	picks, err := part.picks(a, c)
	if err != nil {
		return fileEntry{}, err
	}
	if !v.toOwn && pr.oid != now.oid && !(pr.what == "file" && unmoved(picks, c, splitLines(pr.text))) {
		return fileEntry{}, movedFault(name)
	}
	text, err := s.targetText(ctx, p, b, name, target)
	if err != nil {
		return fileEntry{}, err
	}
	made, err := takeForward(name, picks, a, c, splitLines(text))
	if err != nil {
		return fileEntry{}, err
	}
	if len(made) == 0 && !now.is() {
		return fileEntry{}, nil
	}
	e := fileEntry{mode: target.mode, size: int64(len(made))}
	if !target.is() {
		e.mode = now.mode
	}
	e.oid, err = b.putBlob(ctx, made)
	return e, err
}

// targetText reads what a part goes into: an entry of the agent's index or of its last commit.
func (s *Service) targetText(ctx context.Context, _ Project, b *Sandbox, name string, e fileEntry) ([]byte, error) {
	return b.ownBlob(ctx, name, e)
}

// addShown has git add whole files to the temporary index, and refuses what is not as it was shown.
func (s *Service) addShown(ctx context.Context, w Workspace, b *Sandbox, parts []Part, v shown) (map[string]fileEntry, error) {
	paths := Parts{List: parts}.paths()
	gone, err := b.addThere(ctx, w, paths)
	if err != nil {
		return nil, err
	}
	list := ""
	err = eachBatch(paths, func(some []string) error {
		out, err := b.indexGit(ctx, nil, append([]string{"ls-files", "-s", "-z", "--"}, some...)...)
		list += out
		return SandboxFault(err, "worktree_unreadable", "Reading the index")
	})
	if err != nil {
		return nil, err
	}
	out := make(map[string]fileEntry, len(paths))
	for _, name := range paths {
		out[name] = fileEntry{}
	}
	found := make(map[string]fileEntry)
	if err := parseIndex(list, found); err != nil {
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
		case e.mode == n.mode && e.oid == n.oid:
		case gone[name] || e.mode != n.mode || !e.plain():
			return nil, changedFault(name)
		default:
			odd = append(odd, name)
		}
	}
	// Git may have changed it on its way: then the file itself is what was shown.
	raw, err := b.rawNames(ctx, odd)
	if err != nil {
		return nil, err
	}
	for i, name := range odd {
		if raw[i] != v.now[name].oid {
			return nil, changedFault(name)
		}
	}
	return out, nil
}

func changedFault(path string) error {
	return fault.New(fault.Conflict, "part_changed", "%q has changed since you saw it. Refresh, and look at it again.", path).With("path", guest.EncodePath(path))
}

// addThere adds files to the temporary index, and takes out those that are gone, which it names.
func (b *Sandbox) addThere(ctx context.Context, w Workspace, paths []string) (map[string]bool, error) {
	gone := make(map[string]bool)
	err := b.addPaths(ctx, paths)
	if fault.CodeOf(err) != "path_unknown" {
		return gone, err
	}
	// Some are neither on the disk nor in the index: they are gone, as was asked for.
	var rest []string
	for _, name := range paths {
		switch err := b.addPaths(ctx, []string{name}); {
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

// rawNames are git's names of files' bytes as they are.
func (b *Sandbox) rawNames(ctx context.Context, paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	for _, p := range paths {
		if strings.ContainsAny(p, "\n\"") { // hash-object reads lines
			return nil, changedFault(p)
		}
	}
	out, err := b.Git(ctx, []byte(strings.Join(paths, "\n")+"\n"), "hash-object", "--no-filters", "--stdin-paths")
	if err != nil {
		return nil, SandboxFault(err, "worktree_unreadable", "Reading files")
	}
	names := strings.Fields(out)
	if len(names) != len(paths) || slices.ContainsFunc(names, func(n string) bool { return !IsCommitID(n) }) {
		return nil, errors.New("box: hash-object answered something else")
	}
	return names, nil
}

// treeEntries looks paths up in a commit the agent's git has.
func (b *Sandbox) treeEntries(ctx context.Context, commit string, paths []string) (map[string]fileEntry, error) {
	out := make(map[string]fileEntry)
	err := eachBatch(paths, func(some []string) error {
		list, err := b.Git(ctx, nil, append([]string{"ls-tree", "-z", "-l", "--full-tree", commit, "--"}, some...)...)
		if err != nil {
			return SandboxFault(err, "worktree_unreadable", "Reading the last commit")
		}
		return parseTree(list, out)
	})
	return out, err
}

// copyIndex makes the temporary index what the agent's is.
func (b *Sandbox) copyIndex(ctx context.Context) error {
	b.newIndex()
	_, err := b.sh(ctx, `if [ -e "$1/index" ]; then cp "$1/index" "$2"; fi`, b.gitDir, b.index)
	return err
}
