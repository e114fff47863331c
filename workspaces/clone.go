package workspaces

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
)

// cleanupTime bounds what is tidied after a failure or cancel.
const cleanupTime = 2 * time.Minute

func (s *Service) createFromURL(ctx context.Context, p Project, raw string) (Project, error) {
	r, err := ParseRemote(raw, s.cfg.Protocols)
	if err != nil {
		return Project{}, err
	}
	if r.File != "" {
		real, err := s.allowed(r.File)
		if err != nil {
			return Project{}, err
		}
		if _, err := s.folderFree(ctx, p.TeamID, real); err != nil { // its branches are those of private workspaces, too
			return Project{}, err
		}
	}
	if err := s.checkOutgoing(r.URL); err != nil {
		return Project{}, err
	}
	p.Source, p.State = r.URL, Cloning
	p.GitDir = filepath.Join(s.projectDir(p.ID), "repo.git")
	if err := os.MkdirAll(s.projectDir(p.ID), 0o700); err != nil {
		return Project{}, fmt.Errorf("making the project's folder: %w", err)
	}
	p, err = s.insertProject(ctx, p, r.Name)
	if err == nil {
		if err = s.keepCredential(ctx, p, r); err != nil {
			s.failClone(ctx, p, Reason(err))
		}
	}
	if err == nil {
		if err = s.jobs.Add(p.ID, func(ctx context.Context) { s.clone(ctx, p) }); err != nil {
			s.failClone(ctx, p, Reason(err))
		}
	}
	if err != nil {
		_ = s.RemoveFolder(s.projectDir(p.ID))
		return Project{}, err
	}
	return p, nil
}

// checkOutgoing refuses at once what an address itself says is out of reach; a name is judged each time it is connected to.
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

// clone is the job behind a project from a URL.
func (s *Service) clone(ctx context.Context, p Project) {
	branch, err := s.cloneInto(ctx, p)
	done, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		s.cfg.Log.InfoContext(done, "clone failed", "project_id", p.ID, "error", Reason(err))
		s.failClone(done, p, Reason(err))
		return
	}
	if err := s.shareClone(done, p); err != nil {
		s.cfg.Log.InfoContext(done, "what came with the clone is packed again for its first sandbox", "project_id", p.ID, "error", err)
	}
	p, err = s.store.EditProject(done, p.ID, func(p *Project) error {
		p.State, p.StateReason, p.DefaultBranch, p.FetchedAt = ProjectReady, "", branch, s.Millis()
		return nil
	})
	s.setProgress(done, p, "")
	if err != nil {
		s.cfg.Log.ErrorContext(done, "cloned project could not be stored", "project_id", p.ID, "error", err)
		return
	}
	s.PublishProject(done, p)
}

// failClone removes what a clone left and says why it failed.
func (s *Service) failClone(ctx context.Context, p Project, why string) {
	if err := s.RemoveFolder(s.projectDir(p.ID)); err != nil {
		s.cfg.Log.WarnContext(ctx, "project folder could not be removed", "project_id", p.ID, "error", err)
	}
	s.setProgress(ctx, p, "")
	stored, err := s.store.EditProject(ctx, p.ID, func(p *Project) error {
		p.State, p.StateReason = ProjectFailed, why
		return nil
	})
	if err != nil {
		if !fault.Is(err, fault.NotFound) {
			s.cfg.Log.ErrorContext(ctx, "failed clone could not be stored", "project_id", p.ID, "error", err)
		}
		return
	}
	s.PublishProject(ctx, stored)
}

// cloneInto makes the bare repository and returns its default branch.
func (s *Service) cloneInto(ctx context.Context, p Project) (string, error) {
	if p.SourceKind == SourceRunner {
		return s.cloneFromMachine(ctx, p)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CloneTimeout)
	defer cancel()
	const doing = "Cloning"
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--template=", p.GitDir},
		{"config", "remote.origin.url", p.Source},
		{"config", "remote.origin.fetch", fetchSpec},
		{"config", "core.logAllRefUpdates", "true"}, // a bare repository keeps no reflog otherwise
		{"config", "gc.pruneExpire", "never"},       // sandboxes may borrow objects
	} {
		c := hostgit.Call{GitDir: p.GitDir, Dir: s.projectDir(p.ID), Args: args}
		if _, err := s.git.Run(ctx, c); err != nil {
			return "", GitFault(err, fault.Internal, "clone_failed", doing)
		}
	}
	s.setProgress(ctx, p, "Connecting")
	cred, err := s.credential(ctx, p, p.Source)
	if err != nil {
		return "", err
	}
	ask := s.network(p, "ls-remote", "--symref", "--", p.Source, "HEAD")
	ask.Credential = cred
	head, err := s.git.Text(ctx, ask)
	if err != nil {
		return "", GitFault(err, fault.Unavailable, "clone_failed", doing)
	}
	c := s.network(p, "fetch", "--progress", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance", "--", p.Source, fetchSpec)
	c.Timeout, c.Credential = s.cfg.CloneTimeout, cred
	c.Progress = func(line string) { s.setProgress(ctx, p, line) }
	if _, err := s.git.Run(ctx, c); err != nil {
		return "", GitFault(err, fault.Unavailable, "clone_failed", doing)
	}
	if line, _, _ := strings.Cut(head, "\n"); strings.HasPrefix(line, "ref: refs/heads/") && p.DefaultBranch == "" {
		name := strings.TrimPrefix(strings.TrimSuffix(line, "\tHEAD"), "ref: refs/heads/")
		if commit, err := s.CommitOf(ctx, p.GitDir, "refs/remotes/origin/"+name); err == nil && commit != "" {
			_, _ = s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/" + name}})
		}
	}
	branch, err := s.defaultBranch(ctx, p.GitDir, p.DefaultBranch)
	if err != nil {
		return "", err
	}
	if _, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"symbolic-ref", "HEAD", "refs/heads/" + branch}}); err != nil {
		return "", GitFault(err, fault.Internal, "clone_failed", doing)
	}
	commit, err := s.CommitOf(ctx, p.GitDir, "refs/remotes/origin/"+branch)
	if err == nil && commit != "" {
		err = s.UpdateRefs(ctx, p.GitDir, "clone", refCreate("refs/heads/"+branch, commit))
	}
	return branch, err
}

// network is a git call that talks to the project's remote.
func (s *Service) network(p Project, args ...string) hostgit.Call {
	return hostgit.Call{GitDir: p.GitDir, Args: args, Network: true, Timeout: s.cfg.FetchTimeout}
}

// CancelClone ends a clone under way, removes what it left and returns the failed project.
func (s *Service) CancelClone(ctx context.Context, projectID string) (Project, error) {
	p, err := s.store.Project(ctx, projectID)
	if err != nil {
		return Project{}, err
	}
	done := s.jobs.Cancel(projectID, ErrCancelled)
	if done == nil {
		return Project{}, fault.New(fault.Conflict, "not_cloning", "The project %q is not being cloned.", p.Name)
	}
	select {
	case <-done:
		return s.Project(ctx, projectID)
	case <-ctx.Done():
		return Project{}, context.Cause(ctx)
	}
}
