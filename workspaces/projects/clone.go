package projects

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// CleanupTime bounds the clean-up after a failure or cancellation.
const CleanupTime = 2 * time.Minute

func (s *Service) createFromURL(ctx context.Context, p workspaces.Project, raw string) (workspaces.Project, error) {
	r, err := git.ParseRemote(raw, s.cfg.Protocols)
	if err != nil {
		return workspaces.Project{}, err
	}
	if r.File != "" {
		real, err := s.repo.Allowed(r.File)
		if err != nil {
			return workspaces.Project{}, err
		}
		if _, err := s.folderFree(ctx, p.TeamID, real); err != nil { // its branches include those of private workspaces
			return workspaces.Project{}, err
		}
	}
	if err := s.checkOutgoing(r.URL); err != nil {
		return workspaces.Project{}, err
	}
	p.Source, p.State = r.URL, workspaces.Cloning
	p.GitDir = filepath.Join(s.transfer.ProjectDir(p.ID), "repo.git")
	if err := os.MkdirAll(s.transfer.ProjectDir(p.ID), 0o700); err != nil {
		return workspaces.Project{}, fmt.Errorf("making the project's folder: %w", err)
	}
	p, err = s.insertProject(ctx, p, r.Name)
	if err == nil {
		if err = s.repo.KeepCredential(ctx, p, r); err != nil {
			s.FailClone(ctx, p, git.Reason(err))
		}
	}
	if err == nil {
		if err = s.jobs.Add(p.ID, func(ctx context.Context) { s.clone(ctx, p) }); err != nil {
			s.FailClone(ctx, p, git.Reason(err))
		}
	}
	if err != nil {
		_ = s.repo.RemoveFolder(s.transfer.ProjectDir(p.ID))
		return workspaces.Project{}, err
	}
	return p, nil
}

// checkOutgoing rejects an address that is itself out of reach; a host name is checked at each connection.
func (s *Service) checkOutgoing(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || s.cfg.Outgoing == nil {
		return nil //nolint:nilerr // ssh's short form holds names alone
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil //nolint:nilerr // a name
	}
	if s.cfg.Outgoing.Check(netip.AddrPortFrom(ip, 0)) != nil {
		return fault.New(fault.Invalid, "url_not_public", "%s is inside a network this server does not reach out to. An operator can allow it with outgoing.allow.", u.Hostname())
	}
	return nil
}

// clone is the job that clones a project from a URL.
func (s *Service) clone(ctx context.Context, p workspaces.Project) {
	branch, err := s.cloneInto(ctx, p)
	done, cancel := context.WithTimeout(context.WithoutCancel(ctx), CleanupTime)
	defer cancel()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		s.cfg.Log.InfoContext(done, "clone failed", "project_id", p.ID, "error", git.Reason(err))
		s.FailClone(done, p, git.Reason(err))
		return
	}
	if err := s.sandboxes.ShareClone(done, p); err != nil {
		s.cfg.Log.InfoContext(done, "packs of the clone will be repacked for its first sandbox", "project_id", p.ID, "error", err)
	}
	p, err = s.store.EditProject(done, p.ID, func(p *workspaces.Project) error {
		p.State, p.StateReason, p.DefaultBranch, p.FetchedAt = workspaces.ProjectReady, "", branch, s.records.Millis()
		return nil
	})
	s.records.SetProgress(done, p, "")
	if err != nil {
		s.cfg.Log.ErrorContext(done, "cloned project could not be stored", "project_id", p.ID, "error", err)
		return
	}
	s.records.PublishProject(done, p)
}

// FailClone removes the remains of a clone and stores why it failed.
func (s *Service) FailClone(ctx context.Context, p workspaces.Project, why string) {
	if err := s.repo.RemoveFolder(s.transfer.ProjectDir(p.ID)); err != nil {
		s.cfg.Log.WarnContext(ctx, "project folder could not be removed", "project_id", p.ID, "error", err)
	}
	s.records.SetProgress(ctx, p, "")
	stored, err := s.store.EditProject(ctx, p.ID, func(p *workspaces.Project) error {
		p.State, p.StateReason = workspaces.ProjectFailed, why
		return nil
	})
	if err != nil {
		if !fault.Is(err, fault.NotFound) {
			s.cfg.Log.ErrorContext(ctx, "failed clone could not be stored", "project_id", p.ID, "error", err)
		}
		return
	}
	s.records.PublishProject(ctx, stored)
}

// cloneInto makes the bare repository and returns its default branch.
func (s *Service) cloneInto(ctx context.Context, p workspaces.Project) (string, error) {
	if p.SourceKind == workspaces.SourceRunner {
		return s.transfer.CloneFromMachine(ctx, p)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CloneTimeout)
	defer cancel()
	const doing = "Cloning"
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--template=", p.GitDir},
		{"config", "remote.origin.url", p.Source},
		{"config", "remote.origin.fetch", git.FetchSpec},
		{"config", "core.logAllRefUpdates", "true"}, // bare repositories have no reflog by default
		{"config", "gc.pruneExpire", "never"},       // sandboxes may share objects
	} {
		c := hostgit.Call{GitDir: p.GitDir, Dir: s.transfer.ProjectDir(p.ID), Args: args}
		if _, err := s.git.Run(ctx, c); err != nil {
			return "", git.GitFault(err, fault.Internal, "clone_failed", doing)
		}
	}
	s.records.SetProgress(ctx, p, "Connecting")
	cred, err := s.repo.Credential(ctx, p, p.Source)
	if err != nil {
		return "", err
	}
	ask := s.network(p, "ls-remote", "--symref", "--", p.Source, "HEAD")
	ask.Credential = cred
	head, err := s.git.Text(ctx, ask)
	if err != nil {
		return "", git.GitFault(err, fault.Unavailable, "clone_failed", doing)
	}
	c := s.network(p, "fetch", "--progress", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance", "--", p.Source, git.FetchSpec)
	c.Timeout, c.Credential = s.cfg.CloneTimeout, cred
	c.Progress = func(line string) { s.records.SetProgress(ctx, p, line) }
	if _, err := s.git.Run(ctx, c); err != nil {
		return "", git.GitFault(err, fault.Unavailable, "clone_failed", doing)
	}
	if line, _, _ := strings.Cut(head, "\n"); strings.HasPrefix(line, "ref: refs/heads/") && p.DefaultBranch == "" {
		name := strings.TrimPrefix(strings.TrimSuffix(line, "\tHEAD"), "ref: refs/heads/")
		if commit, err := s.repo.CommitOf(ctx, p.GitDir, "refs/remotes/origin/"+name); err == nil && commit != "" {
			_, _ = s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/" + name}})
		}
	}
	branch, err := s.repo.DefaultBranch(ctx, p.GitDir, p.DefaultBranch)
	if err != nil {
		return "", err
	}
	if _, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"symbolic-ref", "HEAD", "refs/heads/" + branch}}); err != nil {
		return "", git.GitFault(err, fault.Internal, "clone_failed", doing)
	}
	commit, err := s.repo.CommitOf(ctx, p.GitDir, "refs/remotes/origin/"+branch)
	if err == nil && commit != "" {
		err = s.repo.UpdateRefs(ctx, p.GitDir, "clone", git.RefCreate("refs/heads/"+branch, commit))
	}
	return branch, err
}

// network is a git call that talks to the project's remote.
func (s *Service) network(p workspaces.Project, args ...string) hostgit.Call {
	return hostgit.Call{GitDir: p.GitDir, Args: args, Network: true, Timeout: s.cfg.FetchTimeout}
}

// CancelClone cancels a running clone, removes its remains and returns the failed project.
func (s *Service) CancelClone(ctx context.Context, projectID string) (workspaces.Project, error) {
	p, err := s.store.Project(ctx, projectID)
	if err != nil {
		return workspaces.Project{}, err
	}
	done := s.jobs.Cancel(projectID, workspaces.ErrCancelled)
	if done == nil {
		return workspaces.Project{}, fault.New(fault.Conflict, "not_cloning", "The project %q is not being cloned.", p.Name)
	}
	select {
	case <-done:
		return s.records.Project(ctx, projectID)
	case <-ctx.Done():
		return workspaces.Project{}, context.Cause(ctx)
	}
}
