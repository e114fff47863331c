package projects

import (
	"context"
	"os"
	"path/filepath"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/transfer"
)

func (s *Service) createFromMachine(ctx context.Context, actor accounts.Actor, p workspaces.Project, n workspaces.NewProject) (workspaces.Project, error) {
	if _, err := s.transfer.Machines(); err != nil {
		return workspaces.Project{}, err
	}
	if n.RunnerID == "" {
		return workspaces.Project{}, fault.New(fault.Invalid, "source_invalid", "Name the machine the folder is on.")
	}
	if err := transfer.CheckFolder(n.Path); err != nil {
		return workspaces.Project{}, err
	}
	p.Source, p.RunnerID, p.State = n.Path, n.RunnerID, workspaces.Cloning
	p.GitDir = filepath.Join(s.transfer.ProjectDir(p.ID), "repo.git")
	if err := os.MkdirAll(s.transfer.ProjectDir(p.ID), 0o700); err != nil {
		return workspaces.Project{}, git.DiskFault(err, "Making the project's folder")
	}
	p, err := s.insertProject(ctx, p, git.RepoName(p.Source))
	if err == nil {
		if err = s.jobs.Add(p.ID, func(ctx context.Context) { s.clone(executors.As(ctx, "", actor.User.ID), p) }); err != nil {
			s.FailClone(ctx, p, git.Reason(err))
		}
	}
	if err != nil {
		_ = s.repo.RemoveFolder(s.transfer.ProjectDir(p.ID))
		return workspaces.Project{}, err
	}
	return p, nil
}
