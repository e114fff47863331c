package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/ignored"
	"github.com/parawork/parawork/workspaces"
)

// CheckPatterns checks the patterns of ignored files that a user gave.
func CheckPatterns(patterns []string) error {
	if len(patterns) > ignored.MaxPatterns {
		return fault.New(fault.Invalid, "pattern_invalid", "More than %d patterns.", ignored.MaxPatterns)
	}
	for _, p := range patterns {
		if !ignored.Valid(p) {
			return fault.New(fault.Invalid, "pattern_invalid",
				"%q is not a pattern for files to copy. Use names such as .env, *.local, config/secrets.json or certs/.", hostgit.Clean(p))
		}
	}
	return nil
}

// CopyIgnored copies the ignored files the project's patterns match from its folder into a new worktree and returns their names. It copies
// regular files only, follows no link on either side, and overwrites nothing.
func (s *Repo) CopyIgnored(ctx context.Context, p workspaces.Project, dest string) ([]string, error) {
	src, err := os.OpenRoot(p.Source)
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "copy_failed", "The project's folder cannot be read.")
	}
	defer src.Close()
	dst, err := os.OpenRoot(dest)
	if err != nil {
		return nil, fmt.Errorf("opening the worktree: %w", err)
	}
	defer dst.Close()

	out, err := s.git.Run(ctx, hostgit.Call{GitDir: filepath.Join(p.Source, ".git"), WorkTree: p.Source,
		Args: []string{"ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"}})
	if err != nil {
		return nil, GitFault(err, fault.Unavailable, "copy_failed", "Looking for ignored files")
	}
	c := ignored.Copier{From: src, To: dst, Patterns: p.CopyIgnored}
	for name := range strings.SplitSeq(string(out), "\x00") {
		if err := c.Take(ctx, name); err != nil {
			return c.Copied(), CopyFault(err)
		}
	}
	return c.Copied(), nil
}

// CopyFault is the user's error for ignored files that could not be copied.
func CopyFault(err error) error {
	switch {
	case errors.Is(err, ignored.ErrTooLarge):
		return fault.Wrap(err, fault.TooLarge, "copy_too_large", "The ignored files to copy are more than %d files or 1 GiB. Name fewer of them in the project's settings.", ignored.MaxFiles)
	case errors.Is(err, syscall.ENOSPC):
		return fault.Wrap(err, fault.DiskFull, "disk_full", "The server's disk is full.")
	}
	return err
}
