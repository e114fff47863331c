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

// collectAfter is how old an unreachable object must be before it is removed, in git's syntax: objects being written now become reachable
// soon.
const collectAfter = "1.day.ago"

// collectingRef refers, during a collection, to the objects that sandboxes share.
const collectingRef = "refs/parawork/collecting/"

// Collect repacks one of the server's repositories and removes unreachable objects. Sandboxes share its objects, some of which only their
// own git refers to: Collect protects what their files name, and while a sandbox has commits that were not fetched, it removes nothing. It
// returns how many bytes of disk it freed. Errors: repository_in_use.
func (s *Service) Collect(ctx context.Context, p workspaces.Project) (freed int64, err error) {
	if p.SourceKind == workspaces.SourcePath || !git.FolderExists(p.GitDir) {
		return 0, nil
	}
	borrowed, err := s.neededObjects(ctx, p)
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
	if err := s.protectNeeded(ctx, p, borrowed); err != nil {
		return 0, err
	}
	defer func() { err = joinFault(err, s.dropRefsBelow(context.WithoutCancel(ctx), p, collectingRef)) }()
	// Unreachable objects that are too recent go into a separate pack: as loose objects they would take many times the space.
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

// noCollectHook rejects a repository whose config has git (2.42 and later) run a program while it packs: no flag switches that off, and
// agents without isolation write that config.
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

// neededObjects lists the objects that the sandboxes of a repository's workspaces may need. Their git dirs are untrusted: it reads the files
// as data.
func (s *Service) neededObjects(ctx context.Context, p workspaces.Project) ([]string, error) {
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
				return nil, fault.New(fault.Conflict, "repository_in_use", "%s stores its refs in git's reftable format in its sandbox, which this server cannot read, so nothing was removed. "+
					"Run `git refs migrate --ref-format=files` in the workspace, then try again.", w.Key())
			}
			if err != nil {
				return nil, fault.Wrap(err, fault.Conflict, "repository_in_use", "What the sandbox of %s needs of the repository cannot be read, so nothing was removed.", w.Key())
			}
			if lacks, err := s.lacks(ctx, p, named); err != nil {
				return nil, err
			} else if lacks {
				return nil, fault.New(fault.Conflict, "repository_in_use",
					"%s has commits in its sandbox that are not on this server yet, and may need what would be removed. Open the workspace, then try again.", w.Key())
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

// lacks reports whether one of these objects is missing in the repository.
func (s *Service) lacks(ctx context.Context, p workspaces.Project, ids []string) (bool, error) {
	if len(ids) == 0 {
		return false, nil
	}
	out, err := s.kinds(ctx, p, ids)
	return strings.Contains(out, " missing"), err
}

// kinds asks the repository about each object: a line each, its id and type, or that it is missing.
func (s *Service) kinds(ctx context.Context, p workspaces.Project, ids []string) (string, error) {
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Max: 256 << 20, Stdin: strings.NewReader(strings.Join(ids, "\n") + "\n"),
		Args: []string{"cat-file", "--batch-check=%(objectname) %(objecttype)"}})
	if err != nil {
		return "", git.GitFault(err, fault.Unavailable, "repository_unreadable", "Looking for what sandboxes share")
	}
	return out, nil
}

// Limits of reading a sandbox's git dir for object ids.
const (
	maxNamesFile  = 128 << 20
	maxNamesFiles = 100_000
	maxNames      = 512 << 20 // in all
)

var hexName = regexp.MustCompile(`\b(?:[0-9a-f]{64}|[0-9a-f]{40})\b`)

// gitNames reads which object ids occur in a git dir that an agent may write: named are those of its refs and of every HEAD in it, its own
// and those of worktrees the agent made; passed are those of its indexes, its logs and of the state of a merge, rebase or bisect
// (MERGE_HEAD, ORIG_HEAD, rebase-merge and the like). It reads everything besides the objects, because new versions of git add files.
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
			return nil, errors.Join(err, fmt.Errorf("%s is not a file that git writes", name))
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
			return nil // removed meanwhile
		}
		if err != nil {
			return err
		}
		if files++; files > maxNamesFiles {
			return errors.New("too many files besides the objects")
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
			return nil // not one of git's files, so git needs nothing it names
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

var errTooMuchNamed = fmt.Errorf("there are more than %d MB besides the objects", maxNames>>20)

// errReftable means that a git dir stores its refs in binary tables: object ids in them are not text, and some may be compressed.
var errReftable = errors.New("its refs are stored in git's reftable format")

// reftable reports whether a folder of a git dir, or of one of its worktrees, stores refs as tables. A branch may have that name, too.
func reftable(name string) bool {
	dir, last := path.Split(name)
	return last == "reftable" && (dir == "" || path.Dir(path.Clean(dir)) == "worktrees")
}

// beside reports whether a folder of a git dir contains no object ids.
func beside(name string) bool { return name == "objects" || name == "hooks" || name == "modules" }

// namesFit rejects a git dir with more in it than the server has memory for, before reading it: an agent may have put anything there.
func namesFit(dir fs.FS) error {
	files, left := 0, int64(maxNames)
	return fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // removed meanwhile
		case err != nil:
			return err
		case d.IsDir() && beside(name):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		if files++; files > maxNamesFiles {
			return errors.New("too many files besides the objects")
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

// indexNames reads the object ids of an index.
func indexNames(b []byte) (names []string, err error) {
	defer func() { // a crafted index must not crash the server
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

// protectNeeded makes refs to existing objects for the duration of the collection: one per commit, and one tree with all other objects.
func (s *Service) protectNeeded(ctx context.Context, p workspaces.Project, ids []string) error {
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
			return git.GitFault(err, fault.Unavailable, "collect_failed", "Protecting what sandboxes share")
		}
		edits = append(edits, git.RefSet(collectingRef+"tree", id))
	}
	if len(edits) == 0 {
		return nil
	}
	if err := s.repo.UpdateRefs(ctx, p.GitDir, "collecting", edits...); err != nil {
		return git.GitFault(err, fault.Unavailable, "collect_failed", "Protecting what sandboxes share")
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
