package projects

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces/git"
)

// repository is the repository found in a folder.
type repository struct {
	path   string // the folder, resolved
	gitDir string // the common git dir, resolved
	bare   bool
}

// discover finds the repository in a folder that a user chose and checks that all of it is in allowed folders.
func (s *Service) discover(ctx context.Context, path string) (repository, error) {
	real, err := s.repo.Allowed(path)
	if err != nil {
		return repository{}, err
	}
	if fi, err := os.Stat(real); err != nil || !fi.IsDir() {
		return repository{}, fault.New(fault.Invalid, "path_not_a_folder", "This is a file, not a folder.")
	}
	if !looksLikeRepo(real) {
		for up := filepath.Dir(real); s.repo.InRoots(up); up = filepath.Dir(up) {
			if looksLikeRepo(up) {
				return repository{}, fault.New(fault.Invalid, "not_repository_top", "This folder is inside the repository %s. Choose that folder.", up).With("path", up)
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
		return repository{}, git.GitFault(err, fault.Invalid, "not_a_repository", "Opening the repository")
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
	if !s.repo.InRoots(r.gitDir) {
		return repository{}, fault.New(fault.Forbidden, "path_not_allowed",
			"The repository's git folder (%s) is not below an allowed root.", r.gitDir)
	}
	if !r.bare && f[1] == "true" {
		return repository{}, fault.New(fault.Invalid, "not_repository_top", "This is the inside of a git folder. Choose the repository's own folder.")
	}
	return r, nil
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
