package git

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
)

// DoomedPrefix marks folders that are being removed. A folder is renamed before anything in it is touched, so that a partly removed one is
// never mistaken for a whole one. The next start removes what a crash leaves.
const DoomedPrefix = ".doomed-"

// RemoveFolder removes one of the server's folders and everything in it. A missing folder is no error.
func (s *Repo) RemoveFolder(dir string) error {
	doomed, err := Doom(dir)
	if err != nil || doomed == "" {
		return err
	}
	return RemoveTree(doomed)
}

// Doom renames dir within its parent and returns the new name, "" when dir does not exist.
func Doom(dir string) (string, error) {
	doomed := filepath.Join(filepath.Dir(dir), DoomedPrefix+filepath.Base(dir)+"-"+rand.Text()[:8])
	if err := os.Rename(dir, doomed); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return "", fmt.Errorf("setting the folder aside: %w", err)
	}
	return doomed, nil
}

// Somebody may still write into the folder: a tool of an agent that is ending, or a git of a killed server.
const (
	removeTries = 20
	removePause = 100 * time.Millisecond
)

// RemoveTree removes dir, even if folders in it are read-only. It removes links and never follows them.
func RemoveTree(dir string) error {
	err := removeOnce(dir)
	for try := 1; try < removeTries && errors.Is(err, syscall.ENOTEMPTY); try++ {
		time.Sleep(removePause)
		err = removeOnce(dir)
	}
	return err
}

func removeOnce(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	root, err := os.OpenRoot(dir) // a concurrent writer cannot lead us outside of it
	if err != nil {
		return errors.Join(os.Chmod(dir, 0o700), os.RemoveAll(dir))
	}
	defer root.Close()
	_ = root.Chmod(".", 0o700)
	_ = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = root.Chmod(p, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// samePath compares paths of which git may have resolved one.
func samePath(a, b string) bool {
	if a == b {
		return true
	}
	ra, errA := filepath.EvalSymlinks(a)
	rb, errB := filepath.EvalSymlinks(b)
	return errA == nil && errB == nil && ra == rb
}

// WorkspaceDir contains a workspace's worktree and nothing else.
func (s *Repo) WorkspaceDir(workspaceID string) string {
	return filepath.Join(s.cfg.DataDir, "worktrees", workspaceID)
}

// AdminDir returns git's own folder of the linked worktree at path, "" when the repository knows none. It searches from the repository,
// since the worktree's .git file is not trustworthy.
func AdminDir(gitDir, path string) (string, error) {
	entries, err := os.ReadDir(filepath.Join(gitDir, "worktrees"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the repository's worktrees: %w", err)
	}
	for _, e := range entries {
		dir := filepath.Join(gitDir, "worktrees", e.Name())
		fi, err := os.Lstat(filepath.Join(dir, "gitdir"))
		if err != nil || !fi.Mode().IsRegular() || fi.Size() > 64<<10 {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, "gitdir"))
		if err != nil {
			continue
		}
		file := strings.TrimSuffix(string(b), "\n")
		if file == filepath.Join(path, ".git") || filepath.Base(file) == ".git" && samePath(filepath.Dir(file), path) {
			return dir, nil
		}
	}
	return "", nil
}

// ForgetWorktree removes git's own folder of a removed worktree. It leaves others alone, also those whose folder is unreachable at the
// moment.
func ForgetWorktree(gitDir, path string) error {
	dir, err := AdminDir(gitDir, path)
	if err != nil || dir == "" {
		return err
	}
	if err := RemoveTree(dir); err != nil {
		return fmt.Errorf("forgetting the worktree: %w", err)
	}
	_ = os.Remove(filepath.Join(gitDir, "worktrees")) // only when it is empty
	return nil
}

// HoldsTrash reports whether a repository has snapshots of deleted workspaces.
func (s *Repo) HoldsTrash(ctx context.Context, p workspaces.Project) bool {
	if _, err := os.Stat(p.GitDir); err != nil {
		return false
	}
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"for-each-ref", "--count=1", "--format=%(refname)", "refs/parawork/trash"}})
	return err != nil || out != ""
}

// Plural is n with a word, which gets an s unless n is 1.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// FolderExists reports whether path is a folder.
func FolderExists(path string) bool {
	fi, err := os.Lstat(path)
	return err == nil && fi.IsDir()
}

// FileExists reports whether there is a file at path.
func FileExists(path string) bool {
	fi, err := os.Lstat(path)
	return err == nil && fi.Mode().IsRegular()
}

// MakeFolders creates one of the server's folders and its parents.
func MakeFolders(dir string) error { return os.MkdirAll(dir, 0o700) }

// fullBelow is the number of free bytes below which a failed write is taken for a full disk.
const fullBelow = 16 << 20

// NearlyFull reports whether the disk of path is almost full.
func NearlyFull(path string) bool {
	free, ok := FreeBytes(path)
	return ok && free < fullBelow
}

// FreeBytes is the free space on the disk of path.
func FreeBytes(path string) (n uint64, ok bool) {
	var st syscall.Statfs_t
	err := syscall.Statfs(path, &st)
	return st.Bavail * uint64(st.Bsize), err == nil
}
