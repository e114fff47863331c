package reclaim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing/format/index"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// collectAfter is how old an object nothing names must be before it is removed, in git's words: what is being written now is named soon.
const collectAfter = "1.day.ago"

// collectingRef names, while a repository is collected, what sandboxes borrow from it.
const collectingRef = "refs/parawork/collecting/"

// Collect packs a repository of ours and removes objects nothing names any more. Sandboxes borrow objects from it that their own git may be
// the only one to name: what its files name stays, and while one holds commits that are not here yet, nothing is removed. It returns how many
// bytes of disk that made free. Errors: repository_borrowed.
func (s *Service) Collect(ctx context.Context, p workspaces.Project) (freed int64, err error) {
	if p.SourceKind == workspaces.SourcePath || !git.FolderExists(p.GitDir) {
		return 0, nil
	}
	borrowed, err := s.borrowings(ctx, p)
	if err != nil {
		return 0, err
	}
	shared := string(s.sandboxes.SharedStore(p.ID))
	was, err := treeBytes(ctx, p.GitDir, shared)
	if err != nil {
		return 0, err
	}
	unlock, err := s.locks.Repos.LockContext(ctx, p.GitDir)
	if err != nil {
		return 0, err
	}
	defer unlock()
	if err := s.noCollectHook(ctx, p); err != nil {
		return 0, err
	}
	if err := s.nameBorrowed(ctx, p, borrowed); err != nil {
		return 0, err
	}
	defer func() { err = joinFault(err, s.dropRefsBelow(context.WithoutCancel(ctx), p, collectingRef)) }()
	// What nothing names but is too young to go stays in a pack of its own: as loose objects it would take many times the room.
	for _, args := range [][]string{{"repack", "--cruft", "-d", "-q", "--cruft-expiration=" + collectAfter}, {"prune", "--expire=" + collectAfter}} {
		if _, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Timeout: s.cfg.CloneTimeout, Args: args}); err != nil {
			return 0, git.GitFault(err, fault.Unavailable, "collect_failed", "Packing the repository")
		}
	}
	if err := s.sandboxes.DropShared(ctx, p); err != nil {
		return 0, err
	}
	now, err := treeBytes(ctx, p.GitDir, shared)
	return max(was-now, 0), err
}

// noCollectHook refuses a repository whose config has git (2.42 and later) run a program while it packs: no flag switches that off, and
// agents without walls write that config.
func (s *Service) noCollectHook(ctx context.Context, p workspaces.Project) error {
	_, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"config", "--get-all", "gc.recentObjectsHook"}})
	if hostgit.ExitCode(err) == 1 {
		return nil
	}
	if err != nil {
		return git.GitFault(err, fault.Unavailable, "collect_failed", "Reading the repository's config")
	}
	return fault.New(fault.Conflict, "collect_failed", "The repository's config names a program that git would run on this server (gc.recentObjectsHook). Remove it, then try again.")
}

func joinFault(err, after error) error {
	if err != nil {
		return err
	}
	return after
}

// borrowings lists what the sandboxes of a repository's workspaces may need of it. Their git is theirs to write: its files are read as data.
func (s *Service) borrowings(ctx context.Context, p workspaces.Project) ([]string, error) {
	projects, err := s.store.ProjectsAt(ctx, p.GitDir)
	if err != nil {
		return nil, fmt.Errorf("listing the repository's projects: %w", err)
	}
	ids := make(map[string]bool)
	for _, one := range projects {
		all, err := s.store.WorkspacesOf(ctx, one.ID)
		if err != nil {
			return nil, fmt.Errorf("listing the project's workspaces: %w", err)
		}
		for _, w := range all {
			if !s.sandboxes.OwnGitDir(w.ID) {
				continue
			}
			for _, id := range s.sandboxes.ReadAdvertised(w.ID) {
				ids[id] = true
			}
			named, passed, err := gitNames(s.sandboxes.PrivateGit(w.ID))
			if errors.Is(err, errReftable) {
				return nil, fault.New(fault.Conflict, "repository_borrowed", "%s keeps its refs in git's reftable format in its sandbox, which is not read here, so nothing was removed. "+
					"Run `git refs migrate --ref-format=files` in the workspace, then try again.", w.Key())
			}
			if err != nil {
				return nil, fault.Wrap(err, fault.Conflict, "repository_borrowed", "What the sandbox of %s needs of the repository cannot be read, so nothing was removed.", w.Key())
			}
			if lacks, err := s.lacks(ctx, p, named); err != nil {
				return nil, err
			} else if lacks {
				return nil, fault.New(fault.Conflict, "repository_borrowed",
					"%s has commits in its sandbox that are not here yet, and may need what would be removed. Open the workspace, then try again.", w.Key())
			}
			for _, id := range named {
				ids[id] = true
			}
			for _, id := range passed {
				ids[id] = true
			}
		}
	}
	out := make([]string, 0, len(ids))
	for id := range ids {
		if git.IsCommitID(id) {
			out = append(out, id)
		}
	}
	return out, nil
}

// lacks reports whether one of these objects is not in the repository.
func (s *Service) lacks(ctx context.Context, p workspaces.Project, ids []string) (bool, error) {
	if len(ids) == 0 {
		return false, nil
	}
	out, err := s.kinds(ctx, p, ids)
	return strings.Contains(out, " missing"), err
}

// kinds asks the repository what each object is: a line each, its name and its kind, or that it is missing.
func (s *Service) kinds(ctx context.Context, p workspaces.Project, ids []string) (string, error) {
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Max: 256 << 20, Stdin: strings.NewReader(strings.Join(ids, "\n") + "\n"),
		Args: []string{"cat-file", "--batch-check=%(objectname) %(objecttype)"}})
	if err != nil {
		return "", git.GitFault(err, fault.Unavailable, "repository_unreadable", "Looking for what sandboxes borrow")
	}
	return out, nil
}

// Most bytes and files of a sandbox's git that are read for the names in them.
const (
	maxNamesFile  = 128 << 20
	maxNamesFiles = 100_000
	maxNames      = 512 << 20 // in all
)

var hexName = regexp.MustCompile(`\b(?:[0-9a-f]{64}|[0-9a-f]{40})\b`)

// gitNames reads which objects a git dir that an agent may write names: named are those of its refs and of every HEAD in it, its own and
// those of worktrees the agent made; passed are those of its indexes, its logs and of what git notes while it merges, rebases or bisects
// (MERGE_HEAD, ORIG_HEAD, rebase-merge and the like). Everything beside its objects is read: which files git knows grows with its versions.
func gitNames(dir string) (named, passed []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	left := int64(maxNames)
	read := func(name string) ([]byte, error) {
		f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() || fi.Size() > maxNamesFile {
			return nil, errors.Join(err, fmt.Errorf("%s is no file of git's", name))
		}
		b, err := io.ReadAll(io.LimitReader(f, min(maxNamesFile, left+1)))
		if left -= int64(len(b)); left < 0 {
			return nil, errTooMuchNamed
		}
		return b, err
	}
	if err := namesFit(root.FS()); err != nil {
		return nil, nil, err
	}
	files := 0
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone meanwhile
		}
		if err != nil {
			return err
		}
		if files++; files > maxNamesFiles {
			return errors.New("too many files beside the objects")
		}
		if d.IsDir() {
			if reftable(name) {
				return errReftable
			}
			if beside(name) {
				return fs.SkipDir
			}
			return nil
		}
		ref := strings.HasPrefix(name, "refs/") || name == "packed-refs"
		head := path.Base(name) == "HEAD" && !strings.HasPrefix(name, "logs/") && !strings.Contains(name, "/logs/")
		if !d.Type().IsRegular() && !ref && !head && path.Base(name) != "index" {
			return nil // git writes none: whatever it is, it names nothing git needs
		}
		b, err := read(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case path.Base(name) == "index":
			staged, err := indexNames(b)
			passed = append(passed, staged...)
			return err
		}
		if all := hexName.FindAllString(string(b), -1); ref || head {
			named = append(named, all...)
		} else {
			passed = append(passed, all...)
		}
		return nil
	})
	return named, passed, err
}

var errTooMuchNamed = fmt.Errorf("there are more than %d MB beside the objects", maxNames>>20)

// errReftable says that a git dir keeps its refs in binary tables: object names in them are no text, and some may be packed away.
var errReftable = errors.New("its refs are kept in git's reftable format")

// reftable reports whether a folder of a git dir, or of a worktree's in it, holds refs as tables. A branch may have that name, too.
func reftable(name string) bool {
	dir, last := path.Split(name)
	return last == "reftable" && (dir == "" || path.Dir(path.Clean(dir)) == "worktrees")
}

// beside reports whether a folder of a git dir names no objects.
func beside(name string) bool { return name == "objects" || name == "hooks" || name == "modules" }

// namesFit refuses, before any of it is read, a git dir with more in it than the server has memory for: whoever writes it may have put anything there.
func namesFit(dir fs.FS) error {
	files, left := 0, int64(maxNames)
	return fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // gone meanwhile
		case err != nil:
			return err
		case d.IsDir() && beside(name):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		if files++; files > maxNamesFiles {
			return errors.New("too many files beside the objects")
		}
		fi, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if left -= fi.Size(); left < 0 {
			return errTooMuchNamed
		}
		return nil
	})
}

// indexNames reads which objects an index names.
func indexNames(b []byte) (names []string, err error) {
	defer func() { // what an agent wrote must not end the server
		if r := recover(); r != nil {
			names, err = nil, fmt.Errorf("the index cannot be read: %v", r)
		}
	}()
	var idx index.Index
	if err := index.NewDecoder(bytes.NewReader(b)).Decode(&idx); err != nil {
		return nil, fmt.Errorf("the index cannot be read: %w", err)
	}
	for _, e := range idx.Entries {
		names = append(names, e.Hash.String())
	}
	return names, nil
}

// nameBorrowed gives objects that are here names for as long as the repository is collected: commits one each, other objects in one tree.
func (s *Service) nameBorrowed(ctx context.Context, p workspaces.Project, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	out, err := s.kinds(ctx, p, ids)
	if err != nil {
		return err
	}
	var edits []git.RefEdit
	var tree strings.Builder
	n := 0
	for l := range strings.SplitSeq(out, "\n") {
		id, kind, _ := strings.Cut(l, " ")
		n++
		switch kind {
		case "commit", "tag":
			edits = append(edits, git.RefSet(fmt.Sprintf("%s%d", collectingRef, n), id))
		case "blob":
			fmt.Fprintf(&tree, "100644 blob %s\t%d\n", id, n)
		case "tree":
			fmt.Fprintf(&tree, "040000 tree %s\t%d\n", id, n)
		}
	}
	if tree.Len() > 0 {
		id, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Stdin: strings.NewReader(tree.String()), Args: []string{"mktree", "--missing"}})
		if err != nil {
			return git.GitFault(err, fault.Unavailable, "collect_failed", "Naming what sandboxes borrow")
		}
		edits = append(edits, git.RefSet(collectingRef+"tree", id))
	}
	if len(edits) == 0 {
		return nil
	}
	if err := s.repo.UpdateRefs(ctx, p.GitDir, "collecting", edits...); err != nil {
		return git.GitFault(err, fault.Unavailable, "collect_failed", "Naming what sandboxes borrow")
	}
	return nil
}

func (s *Service) dropRefsBelow(ctx context.Context, p workspaces.Project, prefix string) error {
	refs, err := s.sandboxes.RefsBelow(ctx, p, prefix)
	if err != nil || len(refs) == 0 {
		return err
	}
	var edits []git.RefEdit
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		edits = append(edits, git.RefDrop(prefix+strings.TrimPrefix(name, prefix)))
	}
	return s.repo.UpdateRefs(ctx, p.GitDir, "collected", edits...)
}
