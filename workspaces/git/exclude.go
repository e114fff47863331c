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

// ExcludePattern is the line of git's info/exclude that matches one file, by its path below the worktree. A pattern cannot contain a line
// end: a wildcard replaces it, since hiding one file too many is better than exposing this one.
func ExcludePattern(name string) string {
	var b strings.Builder
	b.WriteByte('/')
	for _, c := range []byte(name) { // unchanged: a name need not be valid text
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

// MaxExclude bounds how much of a repository's info/exclude is read.
const MaxExclude = 4 << 20

// Exclude hides files of a workspace's worktree from git: they are not shown as changes, committed or put into a snapshot unless somebody
// forces it. It changes the repository's info/exclude, which is never committed.
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

// exclude adds missing lines to info/exclude below root. It does not follow a link there, which would be an attack.
func exclude(root *os.Root, names []string) error {
	if err := root.MkdirAll("info", 0o755); err != nil {
		return err
	}
	// A Root follows links that stay below it, whatever O_NOFOLLOW says: a link to the config would have us write patterns there.
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
