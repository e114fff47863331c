package workspaces

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/ignored"
)

// worktreeState is how a worktree on this machine differs from the checkout of a commit. Paths are raw bytes.
type worktreeState struct {
	changed []string // tracked files whose bytes, mode or kind differ
	gone    []string // tracked files that are not there
	others  []string // untracked files that are not ignored
	ignored []string // ignored files the project wants in each workspace
	nested  []string // folders with a repository of their own
}

// worktreeState compares a worktree with a commit. git sees it from a desk of ours: no config, filter or hook of the worktree's counts,
// and no repository inside it is looked into.
func (s *Service) worktreeState(ctx context.Context, p Project, w Workspace, head string) (worktreeState, error) {
	var st worktreeState
	desk, err := s.git.Desk(ctx, s.TmpDir(), p.GitDir)
	if err != nil {
		return st, err
	}
	defer func() { _ = desk.Close() }()
	if err := s.deskIndex(ctx, desk, p, w, head); err != nil {
		return st, err
	}
	if err := excludesOn(desk, p); err != nil {
		return st, err
	}
	list := func(args ...string) ([]string, error) {
		out, err := desk.Run(ctx, hostgit.Call{WorkTree: w.Path, Max: 256 << 20, Timeout: s.cfg.StepTimeout, Args: args})
		return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), err
	}
	// It ends with 1 where files differ, which is what is asked for.
	if _, err := list("update-index", "-q", "--refresh"); err != nil && hostgit.ExitCode(err) != 1 {
		return st, fmt.Errorf("reading the files: %w", err)
	}
	differ, err := list("diff-files", "-z", "--name-status", "--no-renames", "--ignore-submodules=all")
	if err != nil {
		return st, fmt.Errorf("comparing the files: %w", err)
	}
	for ; len(differ) >= 2; differ = differ[2:] {
		if differ[0] == "D" {
			st.gone = append(st.gone, differ[1])
		} else {
			st.changed = append(st.changed, differ[1])
		}
	}
	others, err := list("ls-files", "-z", "--others", "--exclude-standard")
	if err != nil {
		return st, fmt.Errorf("listing untracked files: %w", err)
	}
	for _, name := range others {
		switch {
		case name == "":
		case strings.HasSuffix(name, "/"):
			st.nested = append(st.nested, strings.TrimSuffix(name, "/"))
		default:
			st.others = append(st.others, name)
		}
	}
	if len(p.CopyIgnored) == 0 {
		return st, nil
	}
	ignoredFiles, err := list("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
	if err != nil {
		return st, fmt.Errorf("listing ignored files: %w", err)
	}
	root, err := os.OpenRoot(w.Path)
	if err != nil {
		return st, err
	}
	defer root.Close()
	c := ignored.Copier{From: root, Patterns: p.CopyIgnored, Found: func(name string) { st.ignored = append(st.ignored, name) }}
	for _, name := range ignoredFiles {
		if err := c.Take(ctx, name); err != nil {
			return st, copyFault(err)
		}
	}
	return st, nil
}

// deskIndex gives a desk an index of head that knows, where the linked worktree's own does, which files need not be read.
func (s *Service) deskIndex(ctx context.Context, desk *hostgit.Desk, p Project, w Workspace, head string) error {
	if admin := linkedDir(p, w); admin != "" && copyFile(admin, desk.Dir(), "index") == nil {
		if _, err := desk.Text(ctx, "read-tree", "--reset", head); err == nil {
			return nil
		}
		_ = os.Remove(desk.Dir() + "/index")
	}
	_, err := desk.Text(ctx, "read-tree", head)
	return err
}

// excludesOn has a desk ignore what the repository ignores beside its own files, secrets' files among it. Where that is no plain file, as
// when somebody has put a link there, it counts as empty.
func excludesOn(desk *hostgit.Desk, p Project) error {
	if err := os.MkdirAll(filepath.Join(desk.Dir(), "info"), 0o700); err != nil {
		return err
	}
	_ = copyFile(p.GitDir, desk.Dir(), "info/exclude")
	return nil
}

// copyFile copies a regular file of one git dir to another.
func copyFile(from, to, name string) error {
	src, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer dst.Close()
	return copyPlain(src, dst, name)
}
