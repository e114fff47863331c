package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// Leftover is the worktree of a workspace that the database does not know.
type Leftover struct {
	ID      string // of the workspace, from its folder's name
	Path    string
	Name    string
	Branch  string
	Project workspaces.Project
	At      int64  // when its folder was created or last changed, ms UTC
	Why     string // why it cannot be adopted; "" = it can
}

// Forgotten finds worktrees below the data folder whose workspaces the database does not know, not even as deleted. It is for a database
// that has lost rows. It reads git's data from the projects' repositories, since the content of a worktree is not trustworthy.
func (s *Service) Forgotten(ctx context.Context) ([]Leftover, error) {
	dirs, err := filepath.Glob(filepath.Join(hostgit.GlobEscape(s.cfg.DataDir), "worktrees", "ws_*", "*"))
	if err != nil {
		return nil, err
	}
	projects, err := s.store.ProjectsIn(ctx, workspaces.ProjectReady)
	if err != nil {
		return nil, fmt.Errorf("reading the projects: %w", err)
	}
	var left []Leftover
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() {
			continue
		}
		l := Leftover{ID: filepath.Base(filepath.Dir(dir)), Path: dir, Name: strings.ReplaceAll(filepath.Base(dir), "-", " "), At: info.ModTime().UnixMilli()}
		known, err := s.store.WorkspaceKnown(ctx, l.ID)
		if err != nil {
			return nil, fmt.Errorf("looking for workspace %s: %w", l.ID, err)
		}
		if known {
			continue
		}
		if err := s.trace(ctx, projects, &l); err != nil {
			return nil, err
		}
		left = append(left, l)
	}
	return left, nil
}

// trace finds the project and the branch of a leftover.
func (s *Service) trace(ctx context.Context, projects []workspaces.Project, l *Leftover) error {
	l.Why = "no project's repository has a worktree there"
	for _, p := range projects {
		admin, err := git.AdminDir(p.GitDir, l.Path)
		if err != nil || admin == "" {
			continue // skip a repository that cannot be read
		}
		head, err := os.ReadFile(filepath.Join(admin, "HEAD"))
		branch, ok := strings.CutPrefix(strings.TrimSpace(string(head)), "ref: refs/heads/")
		if err != nil || !ok {
			l.Why = "it is on no branch"
			continue
		}
		all, err := s.store.WorkspacesOf(ctx, p.ID)
		if err != nil {
			return fmt.Errorf("looking for workspaces on branch %s: %w", branch, err)
		}
		if slices.ContainsFunc(all, func(w workspaces.Workspace) bool { return w.Branch == branch }) {
			l.Why = "its branch is another workspace's"
			continue
		}
		l.Project, l.Branch, l.Why = p, branch, ""
		return nil
	}
	return nil
}

// Adopt makes a workspace of a leftover again, with its folder and branch as they are and a new number: the old one is unknown.
func (s *Service) Adopt(ctx context.Context, actor accounts.Actor, l Leftover) (workspaces.Workspace, error) {
	if l.Why != "" {
		return workspaces.Workspace{}, fault.New(fault.Conflict, "not_adoptable", "%s cannot be adopted: %s.", l.Path, l.Why)
	}
	p := l.Project
	base := p.DefaultBranch
	commit, err := s.repo.CommitOf(ctx, p.GitDir, git.HeadsPrefix+base)
	if err != nil {
		return workspaces.Workspace{}, err
	}
	if commit != "" {
		out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"merge-base", commit, git.HeadsPrefix + l.Branch}})
		if err == nil {
			commit = strings.TrimSpace(out)
		}
	}
	by := cmp.Or(actor.User.ID, p.CreatedBy)
	w := workspaces.Workspace{ID: l.ID, TeamID: p.TeamID, ProjectID: p.ID, Name: l.Name, Branch: l.Branch, Base: base, BaseCommit: commit, Executor: p.Executor, State: workspaces.Ready,
		Path: l.Path, CreatedBy: by, CreatedAt: l.At, UpdatedAt: s.records.Millis()}
	w.Executor = cmp.Or(w.Executor, "local")
	if w, err = s.store.InsertWorkspace(ctx, w); err != nil {
		return w, err
	}
	s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, Kind: "workspace.adopted",
		Text: "Adopted by an operator: the database had lost it, and its folder and branch were on the disk", Data: map[string]any{"branch": w.Branch}})
	return w, s.numbers.raise(map[string]int64{w.TeamID: w.Num})
}
