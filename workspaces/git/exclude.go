package git

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
)

// ExcludePattern is the line of git's info/exclude that names one file, by its path below the worktree. A line cannot hold the end of one:
// in its place any character counts, since to hide a file too much is better than not to hide the one that is meant.
func ExcludePattern(name string) string {
	var b strings.Builder
	b.WriteByte('/')
	for _, c := range []byte(name) { // as it is: a name need not be valid text
		switch {
		case c == '\n', c == '\r':
			c = '?'
		case strings.IndexByte(`\*?[!# `, c) >= 0:
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// MaxExclude bounds what is read of a repository's info/exclude.
const MaxExclude = 4 << 20

// Exclude keeps files of a workspace's worktree out of what git sees in its repository: they are never shown as changes, committed or kept
// in a snapshot unless somebody forces it. It changes the repository's info/exclude, which is never committed.
func (s *Repo) Exclude(ctx context.Context, workspaceID string, names []string) error {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return err
	}
	unlock, err := s.locks.Repos.LockContext(ctx, p.GitDir)
	if err != nil {
		return err
	}
	defer unlock()
	root, err := os.OpenRoot(p.GitDir)
	if err != nil {
		return DiskFault(err, "Keeping a file out of git")
	}
	defer root.Close()
	return DiskFault(exclude(root, names), "Keeping a file out of git")
}

// exclude adds what is missing to info/exclude below root. A link there is somebody's trick, and not followed.
func exclude(root *os.Root, names []string) error {
	if err := root.MkdirAll("info", 0o755); err != nil {
		return err
	}
	// A Root follows links that stay below it, whatever O_NOFOLLOW says: one to the config would have patterns written there.
	notPlain := fmt.Errorf("info/exclude is no plain file: %w", fs.ErrInvalid)
	if st, err := root.Lstat("info/exclude"); err == nil && !st.Mode().IsRegular() {
		return notPlain
	}
	f, err := root.OpenFile("info/exclude", os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil {
		return err
	}
	if named, err := root.Lstat("info/exclude"); err != nil || !os.SameFile(opened, named) || !named.Mode().IsRegular() {
		return errors.Join(err, notPlain)
	}
	var have []string
	for lines := bufio.NewScanner(io.LimitReader(f, MaxExclude)); lines.Scan(); {
		have = append(have, lines.Text())
	}
	var add strings.Builder
	for _, n := range names {
		if pattern := ExcludePattern(n); !slices.Contains(have, pattern) {
			add.WriteString("\n" + pattern)
		}
	}
	if add.Len() == 0 {
		return nil
	}
	_, err = f.WriteString(add.String() + "\n")
	return errors.Join(err, f.Close())
}
