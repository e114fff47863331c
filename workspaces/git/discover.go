package git

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
)

// DefaultBranch checks the requested default branch, or finds the repository's: what origin says, main or master, the one checked out, the
// newest.
func (s *Repo) DefaultBranch(ctx context.Context, gitDir, wanted string) (string, error) {
	has := func(name string) (bool, error) {
		for _, ref := range [...]string{HeadsPrefix + name, "refs/remotes/origin/" + name} {
			c, err := s.CommitOf(ctx, gitDir, ref)
			if err != nil || c != "" {
				return c != "", err
			}
		}
		return false, nil
	}
	if wanted != "" {
		ok, err := has(wanted)
		if err == nil && !ok {
			err = fault.New(fault.Invalid, "branch_missing", "The repository has no branch %q.", wanted)
		}
		return wanted, err
	}
	symbolic := func(ref, prefix string) string {
		out, err := s.git.Text(ctx, hostgit.Call{GitDir: gitDir, Args: []string{"symbolic-ref", "--quiet", ref}})
		if err != nil || !strings.HasPrefix(out, prefix) {
			return ""
		}
		return strings.TrimPrefix(out, prefix)
	}
	for _, name := range []string{symbolic("refs/remotes/origin/HEAD", "refs/remotes/origin/"), "main", "master", symbolic("HEAD", HeadsPrefix)} {
		if name == "" {
			continue
		}
		if ok, err := has(name); err != nil || ok {
			return name, err
		}
	}
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: gitDir, Args: []string{"for-each-ref", "--sort=-committerdate", "--count=2",
		"--format=%(refname)", "refs/heads", "refs/remotes/origin"}})
	if err != nil {
		return "", GitFault(err, fault.Invalid, "not_a_repository", "Reading the branches")
	}
	for ref := range strings.FieldsSeq(out) {
		if name, ok := strings.CutPrefix(ref, HeadsPrefix); ok {
			return name, nil
		}
		if name, ok := strings.CutPrefix(ref, "refs/remotes/origin/"); ok && name != "HEAD" {
			return name, nil
		}
	}
	if c, err := s.CommitOf(ctx, gitDir, "HEAD"); err == nil && c != "" {
		return "", fault.New(fault.Invalid, "no_branch", "The repository has commits but no branch (detached HEAD). Make one: git switch -c main.")
	}
	return "", fault.New(fault.Invalid, "repository_empty", "The repository is empty. Make a first commit on a branch, then try again.")
}

// Allowed resolves path and its links and checks that it is below an allowed root and outside Parawork's own data.
func (s *Repo) Allowed(path string) (string, error) {
	deny := fault.New(fault.Forbidden, "path_not_allowed",
		"This folder is not below an allowed root. An operator can allow it in config.json, projects.allowedRoots.")
	if len(s.cfg.AllowedRoots) == 0 {
		return "", fault.New(fault.Forbidden, "no_allowed_roots",
			"No folders are allowed on this server. An operator can allow some in config.json, projects.allowedRoots.")
	}
	if path == "" || strings.ContainsRune(path, 0) || !filepath.IsAbs(path) || len(path) > 4096 {
		return "", fault.New(fault.Invalid, "path_invalid", "Give the folder's full path.")
	}
	clean := filepath.Clean(path)
	// Check the given name before resolving it, so that callers cannot probe for what is outside.
	if !slices.ContainsFunc(s.RootNames(), func(r string) bool { return Below(clean, r) }) {
		return "", deny
	}
	real, err := filepath.EvalSymlinks(clean)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return "", fault.New(fault.NotFound, "path_not_found", "This folder does not exist.")
		}
		return "", fault.Wrap(err, fault.Invalid, "path_unreadable", "This folder cannot be read.")
	}
	if !s.InRoots(real) {
		return "", deny
	}
	return real, nil
}

// InRoots reports whether the resolved path is below an allowed root and not in Parawork's data.
func (s *Repo) InRoots(real string) bool {
	if data, err := filepath.EvalSymlinks(s.cfg.DataDir); err == nil && Below(real, data) {
		return false
	}
	for _, r := range s.cfg.AllowedRoots {
		if rr, err := filepath.EvalSymlinks(r); err == nil && Below(real, rr) {
			return true
		}
	}
	return false
}
