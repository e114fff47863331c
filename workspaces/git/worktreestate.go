package git

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/ignored"
	"github.com/parawork/parawork/workspaces"
)

// WorktreeState is how a worktree on this server differs from a commit. Paths are raw bytes.
type WorktreeState struct {
	Changed []string // tracked files whose bytes, mode or type differ
	Gone    []string // tracked files that are missing
	Others  []string // untracked files that are not ignored
	Ignored []string // ignored files that match the project's patterns for each workspace
	Nested  []string // folders with a nested repository
}

// WorktreeState compares a worktree with a commit. It uses a scratch repository, so no config, filter or hook of the worktree applies, and
// does not look into nested repositories.
func (s *Repo) WorktreeState(ctx context.Context, p workspaces.Project, w workspaces.Workspace, head string) (WorktreeState, error) {
	var st WorktreeState
	scratch, err := s.git.Scratch(ctx, s.records.TmpDir(), p.GitDir)
	if err != nil {
		return st, err
	}
	defer func() { _ = scratch.Close() }()
	if err := s.ScratchIndex(ctx, scratch, p, w, head); err != nil {
		return st, err
	}
	if err := ExcludesOn(scratch, p); err != nil {
		return st, err
	}
	list := func(args ...string) ([]string, error) {
		out, err := scratch.Run(ctx, hostgit.Call{WorkTree: w.Path, Max: 256 << 20, Timeout: s.cfg.StepTimeout, Args: args})
		return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), err
	}
	// Exit code 1 means that files differ, which is what we ask.
	if _, err := list("update-index", "-q", "--refresh"); err != nil && hostgit.ExitCode(err) != 1 {
		return st, fmt.Errorf("reading the files: %w", err)
	}
	differ, err := list("diff-files", "-z", "--name-status", "--no-renames", "--ignore-submodules=all")
	if err != nil {
		return st, fmt.Errorf("comparing the files: %w", err)
	}
	for ; len(differ) >= 2; differ = differ[2:] {
		if differ[0] == "D" {
			st.Gone = append(st.Gone, differ[1])
		} else {
			st.Changed = append(st.Changed, differ[1])
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
			st.Nested = append(st.Nested, strings.TrimSuffix(name, "/"))
		default:
			st.Others = append(st.Others, name)
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
	c := ignored.Copier{From: root, Patterns: p.CopyIgnored, Found: func(name string) { st.Ignored = append(st.Ignored, name) }}
	for _, name := range ignoredFiles {
		if err := c.Take(ctx, name); err != nil {
			return st, CopyFault(err)
		}
	}
	return st, nil
}

// ScratchIndex gives a scratch repository an index of head with the stat data of the linked worktree's index, so that unchanged files need
// not be read.
func (s *Repo) ScratchIndex(ctx context.Context, scratch *hostgit.Scratch, p workspaces.Project, w workspaces.Workspace, head string) error {
	if admin := LinkedDir(p, w); admin != "" && copyFile(admin, scratch.Dir(), "index") == nil {
		if _, err := scratch.Text(ctx, "read-tree", "--reset", head); err == nil {
			return nil
		}
		_ = os.Remove(scratch.Dir() + "/index")
	}
	_, err := scratch.Text(ctx, "read-tree", head)
	return err
}

// ExcludesOn has a scratch repository ignore what the repository's info/exclude lists, secrets' files included. If that is not a regular
// file, for example a link somebody put there, it counts as empty.
func ExcludesOn(scratch *hostgit.Scratch, p workspaces.Project) error {
	if err := os.MkdirAll(filepath.Join(scratch.Dir(), "info"), 0o700); err != nil {
		return err
	}
	_ = copyFile(p.GitDir, scratch.Dir(), "info/exclude")
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
	return CopyPlain(src, dst, name)
}
