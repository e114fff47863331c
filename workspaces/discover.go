package workspaces

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
)

// repository is what was found in a folder.
type repository struct {
	path   string // the folder, resolved
	gitDir string // the common git dir, resolved
	bare   bool
}

// discover finds the repository in a folder a person chose and checks that all of it lies where it may.
func (s *Service) discover(ctx context.Context, path string) (repository, error) {
	real, err := s.allowed(path)
	if err != nil {
		return repository{}, err
	}
	if fi, err := os.Stat(real); err != nil || !fi.IsDir() {
		return repository{}, fault.New(fault.Invalid, "path_not_a_folder", "This is a file, not a folder.")
	}
	if !looksLikeRepo(real) {
		for up := filepath.Dir(real); s.inRoots(up); up = filepath.Dir(up) {
			if looksLikeRepo(up) {
				return repository{}, fault.New(fault.Invalid, "not_repository_top", "This folder lies inside the repository %s. Choose that folder.", up).With("path", up)
			}
			if up == filepath.Dir(up) {
				break
			}
		}
		return repository{}, fault.New(fault.Invalid, "not_a_repository", "This folder is not a git repository. Run git init and make a first commit in it, or choose another one.")
	}
	out, err := s.git.Text(ctx, hostgit.Call{Discover: true, Dir: real,
		Args: []string{"rev-parse", "--is-bare-repository", "--is-inside-git-dir", "--git-common-dir"}})
	if err != nil {
		return repository{}, GitFault(err, fault.Invalid, "not_a_repository", "Opening the repository")
	}
	f := strings.SplitN(out, "\n", 3)
	if len(f) != 3 {
		return repository{}, fault.New(fault.Invalid, "not_a_repository", "This folder is not a git repository git can open.")
	}
	r := repository{path: real, bare: f[0] == "true", gitDir: f[2]}
	if !filepath.IsAbs(r.gitDir) {
		r.gitDir = filepath.Join(real, r.gitDir)
	}
	if r.gitDir, err = filepath.EvalSymlinks(r.gitDir); err != nil {
		return repository{}, fault.Wrap(err, fault.Invalid, "not_a_repository", "The repository's git folder does not exist.")
	}
	if !s.inRoots(r.gitDir) {
		return repository{}, fault.New(fault.Forbidden, "path_not_allowed",
			"The repository's git folder (%s) is not below an allowed root.", r.gitDir)
	}
	if !r.bare && f[1] == "true" {
		return repository{}, fault.New(fault.Invalid, "not_repository_top", "This is the inside of a git folder. Choose the repository's own folder.")
	}
	return r, nil
}

// defaultBranch checks the wanted default branch, or finds the one a repository means: what origin says, main or master,
// what is checked out, the newest.
func (s *Service) defaultBranch(ctx context.Context, gitDir, wanted string) (string, error) {
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
	for _, ref := range strings.Fields(out) {
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

// allowed resolves path and its links and checks that it lies below an allowed root and outside Parawork's own data.
func (s *Service) allowed(path string) (string, error) {
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
	// The name as given is checked first, so that what lies outside cannot be probed for.
	if !slices.ContainsFunc(s.rootNames(), func(r string) bool { return below(clean, r) }) {
		return "", deny
	}
	real, err := filepath.EvalSymlinks(clean)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return "", fault.New(fault.NotFound, "path_not_found", "This folder does not exist.")
		}
		return "", fault.Wrap(err, fault.Invalid, "path_unreadable", "This folder cannot be read.")
	}
	if !s.inRoots(real) {
		return "", deny
	}
	return real, nil
}

// inRoots reports whether the resolved path lies below an allowed root and not in Parawork's data.
func (s *Service) inRoots(real string) bool {
	if data, err := filepath.EvalSymlinks(s.cfg.DataDir); err == nil && below(real, data) {
		return false
	}
	for _, r := range s.cfg.AllowedRoots {
		if rr, err := filepath.EvalSymlinks(r); err == nil && below(real, rr) {
			return true
		}
	}
	return false
}

// looksLikeRepo reports whether dir is the top of a worktree or a bare repository, without running git.
func looksLikeRepo(dir string) bool {
	if fi, err := os.Lstat(filepath.Join(dir, ".git")); err == nil && (fi.IsDir() || fi.Mode().IsRegular()) {
		return true
	}
	for _, sub := range [...]string{"objects", "refs"} {
		if fi, err := os.Lstat(filepath.Join(dir, sub)); err != nil || !fi.IsDir() {
			return false
		}
	}
	fi, err := os.Lstat(filepath.Join(dir, "HEAD"))
	return err == nil && fi.Mode().IsRegular()
}
