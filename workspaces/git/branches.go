package git

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
)

const MaxBranches = 2000 // shown per project

const MaxCounted = 60 // local branches compared with their upstream

// CheckBranch checks a branch name that a user gave.
func (s *Repo) CheckBranch(ctx context.Context, name string) error {
	bad := fault.New(fault.Invalid, "branch_invalid",
		"%q is not a branch name git accepts: no spaces, no \"..\", no leading dash or dot, none of ~^:?*[\\ and no \".lock\" at the end.", hostgit.Clean(name))
	if name == "" || len(name) > 200 || strings.HasPrefix(name, "-") || name == "HEAD" || strings.ContainsFunc(name, unicode.IsControl) {
		return bad
	}
	if _, err := s.git.Run(ctx, hostgit.Call{Args: []string{"check-ref-format", HeadsPrefix + name}}); err != nil {
		if hostgit.ExitCode(err) > 0 {
			return bad
		}
		return GitFault(err, fault.Unavailable, "git_failed", "Checking the branch name")
	}
	return nil
}

// SuggestBranch returns a free branch name for a workspace name: prefix, slug, and a number when it is taken.
func (s *Repo) SuggestBranch(ctx context.Context, projectID, name string) (string, error) {
	p, err := s.store.Project(ctx, projectID)
	if err != nil {
		return "", err
	}
	if p.State != workspaces.ProjectReady {
		return "", NotReady(p)
	}
	return s.FreeBranch(ctx, p, s.cfg.BranchPrefix+workspaces.Slug(name), "")
}

// FreeBranch returns want, or want-2, want-3, ... if it is taken by a branch or by a workspace that is being created.
func (s *Repo) FreeBranch(ctx context.Context, p workspaces.Project, want, exceptWorkspace string) (string, error) {
	taken, err := s.takenNames(ctx, p, exceptWorkspace)
	if err != nil {
		return "", err
	}
	if err := s.CheckBranch(ctx, want); err != nil {
		return "", err
	}
	for i := 1; i < 10000; i++ {
		name := want
		if i > 1 {
			name = fmt.Sprintf("%s-%d", want, i)
		}
		if _, ok := taken[name]; ok {
			continue
		}
		if block := blocking(taken, name); block != "" && !strings.HasPrefix(block, name+"/") {
			return "", nameBlocked(name, block)
		} else if block != "" {
			continue
		}
		return name, nil
	}
	return "", fault.New(fault.Conflict, "branch_exists", "No free name like %q was found. Give another name.", want)
}

// takenNames are the local branches of the repository and those reserved by workspaces that are being created.
func (s *Repo) takenNames(ctx context.Context, p workspaces.Project, exceptWorkspace string) (map[string]string, error) {
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"for-each-ref", "--format=%(refname) %(worktreepath)", "refs/heads"}})
	if err != nil {
		return nil, GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the branches")
	}
	taken := make(map[string]string)
	for l := range strings.SplitSeq(out, "\n") {
		ref, at, _ := strings.Cut(l, " ")
		if name, ok := strings.CutPrefix(ref, HeadsPrefix); ok {
			taken[name] = at
		}
	}
	ws, err := s.store.WorkspacesOf(ctx, p.ID)
	if err != nil {
		return nil, fmt.Errorf("listing the project's workspaces: %w", err)
	}
	for _, w := range ws {
		if _, ok := taken[w.Branch]; !ok && w.ID != exceptWorkspace && w.State != workspaces.Failed && w.State != workspaces.Archived {
			taken[w.Branch] = ""
		}
	}
	return taken, nil
}

// blocking returns a taken branch that cannot coexist with name, because one would be a folder where the other is a file.
func blocking(taken map[string]string, name string) string {
	for t := range taken {
		if strings.HasPrefix(t, name+"/") || strings.HasPrefix(name, t+"/") {
			return t
		}
	}
	return ""
}

func nameBlocked(name, by string) error {
	return fault.New(fault.Conflict, "branch_blocked", "git cannot have a branch %q next to the branch %q. Choose another name.", name, by)
}

// ClaimBranch checks that a branch name that a user gave is free.
func (s *Repo) ClaimBranch(ctx context.Context, p workspaces.Project, name, exceptWorkspace string) error {
	if err := s.CheckBranch(ctx, name); err != nil {
		return err
	}
	taken, err := s.takenNames(ctx, p, exceptWorkspace)
	if err != nil {
		return err
	}
	if at, ok := taken[name]; ok {
		if at != "" {
			return fault.New(fault.Conflict, "branch_checked_out", "The branch %q exists and is checked out in %s. Choose another name.", name, s.PlaceName(ctx, p, at)).With("checked_out", s.PlaceName(ctx, p, at))
		}
		return fault.New(fault.Conflict, "branch_exists", "The branch %q already exists. Choose another name.", name)
	}
	if b := blocking(taken, name); b != "" {
		return nameBlocked(name, b)
	}
	return nil
}

// PlaceName is the key of the workspace whose worktree is at path, otherwise CheckedOutElsewhere: it does not reveal paths of the server.
func (s *Repo) PlaceName(ctx context.Context, p workspaces.Project, path string) string {
	ws, err := s.store.WorkspacesOf(ctx, p.ID)
	if err != nil {
		return workspaces.CheckedOutElsewhere
	}
	for _, w := range ws {
		if samePath(w.Path, path) {
			return w.Key()
		}
	}
	return workspaces.CheckedOutElsewhere
}

// KeysByPath returns the keys, such as PW-12, of a project's workspaces by the paths of their worktrees.
func (s *Repo) KeysByPath(ctx context.Context, p workspaces.Project) map[string]string {
	keys := make(map[string]string)
	ws, err := s.store.WorkspacesOf(ctx, p.ID)
	if err != nil {
		return keys
	}
	for _, w := range ws {
		keys[w.Path] = w.Key()
	}
	return keys
}

// fetchFresh is how old a fetch may be to serve a caller that waited for another one's fetch.
const fetchFresh = 2 * time.Second

// ErrNoRemote means that a repository has no remote.
var ErrNoRemote = errors.New("the repository has no remote")

// LocalProtocol allows the file protocol for a folder whose origin is another folder people may choose.
func (s *Repo) LocalProtocol(p workspaces.Project, from string) []string {
	path, isURL := strings.CutPrefix(from, "file://")
	if !isURL && !strings.HasPrefix(path, "/") {
		return nil
	}
	if _, err := s.Allowed(path); err != nil {
		return nil
	}
	return []string{"file"}
}

// NotReady returns the error for a project that is still being cloned, or failed.
func NotReady(p workspaces.Project) error {
	if p.State == workspaces.Cloning {
		return fault.New(fault.Conflict, "project_cloning", "The project %q is still being cloned. Wait until it is ready.", p.Name)
	}
	return fault.New(fault.Conflict, "project_failed", "The project %q could not be set up: %s", p.Name, p.StateReason)
}

// OriginPrefix is the prefix of the refs of the remote's branches.
const OriginPrefix = "refs/remotes/origin/"
