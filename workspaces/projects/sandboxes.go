package projects

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
)

// Sandboxes returns the team's hidden project, whose workspaces are sandboxes without a repository. The first call makes it. Its id follows
// from the team's: of two servers that make it at once, one stores it.
func (s *Service) Sandboxes(ctx context.Context, teamID, userID string) (workspaces.Project, error) {
	id := workspaces.SandboxesProject + teamID
	p, err := s.store.Project(ctx, id)
	if !fault.Is(err, fault.NotFound) {
		return p, err
	}
	s.making.Lock() // a few small files
	defer s.making.Unlock()
	if p, err = s.store.Project(ctx, id); !fault.Is(err, fault.NotFound) {
		return p, err
	}
	root := filepath.Join(s.transfer.ProjectDir(id), "empty")
	p = workspaces.Project{ID: id, TeamID: teamID, Name: "Sandboxes", SourceKind: workspaces.SourceSandboxes, Source: root, GitDir: filepath.Join(root, ".git"), DefaultBranch: "main",
		State: workspaces.ProjectReady, NoCaches: true, CreatedBy: userID, CreatedAt: s.records.Millis()}
	if err := s.writeEmpty(root); err != nil {
		return workspaces.Project{}, fmt.Errorf("making the repository of sandboxes: %w", err)
	}
	if err := s.store.InsertProject(ctx, p); err != nil && !fault.Is(err, fault.Conflict) {
		return workspaces.Project{}, fmt.Errorf("storing the project of sandboxes: %w", err)
	}
	return s.store.Project(ctx, id)
}

// Confine bounds all sandboxes of a team's hidden project and what they reach. The first call makes the project.
func (s *Service) Confine(ctx context.Context, teamID, userID string, l executors.Limits, n executors.Network) error {
	if err := l.Check(s.cfg.MaxLimits); err != nil {
		return err
	}
	p, err := s.Sandboxes(ctx, teamID, userID)
	if err != nil {
		return err
	}
	_, err = s.store.EditProject(ctx, p.ID, func(p *workspaces.Project) error {
		p.Limits, p.Network = l, n
		return nil
	})
	return err
}

// writeEmpty makes a repository with one commit without files. A rename makes it appear whole: a crash leaves only a folder that the next
// call replaces.
func (s *Service) writeEmpty(root string) error {
	if _, err := os.Stat(root); err == nil {
		return nil
	}
	temp := root + ".new"
	if err := os.RemoveAll(temp); err != nil {
		return err
	}
	if err := os.MkdirAll(temp, 0o700); err != nil {
		return err
	}
	repo, err := git.PlainInitWithOptions(temp, &git.PlainInitOptions{InitOptions: git.InitOptions{DefaultBranch: plumbing.NewBranchReferenceName("main")}})
	if err != nil {
		return err
	}
	tree, err := repo.Worktree()
	if err != nil {
		return err
	}
	who := &object.Signature{Name: "Parawork", Email: "parawork@localhost", When: s.cfg.Now()}
	if _, err := tree.Commit("Begin with nothing\n", &git.CommitOptions{Author: who, Committer: who, AllowEmptyCommits: true}); err != nil {
		return err
	}
	return os.Rename(temp, root)
}
