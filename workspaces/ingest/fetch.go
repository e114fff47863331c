package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// Branches lists the project's branches, the default one first, then the newest. With fetch it asks the remote first; if that fails,
// FetchError says why and the branches are as of FetchedAt.
func (s *Service) Branches(ctx context.Context, projectID string, fetch bool) (workspaces.Branches, error) {
	p, err := s.store.Project(ctx, projectID)
	if err != nil {
		return workspaces.Branches{}, err
	}
	if p.State != workspaces.ProjectReady {
		return workspaces.Branches{}, git.NotReady(p)
	}
	var out workspaces.Branches
	if fetch {
		if _, err := s.Fetch(ctx, &p); err != nil {
			if ctx.Err() != nil {
				return workspaces.Branches{}, context.Cause(ctx)
			}
			out.FetchError = git.Reason(err)
		}
	}
	out.FetchedAt = p.FetchedAt
	out.Items, err = s.listBranches(ctx, p)
	return out, err
}

func (s *Service) listBranches(ctx context.Context, p workspaces.Project) ([]workspaces.Branch, error) {
	const format = "%(refname)%00%(objectname)%00%(committerdate:unix)%00%(symref)%00%(upstream)%00%(worktreepath)%00%(contents:subject)"
	raw, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"for-each-ref", "--sort=-committerdate",
		"--count=" + strconv.Itoa(git.MaxBranches), "--format=" + format, "refs/heads", "refs/remotes"}})
	if err != nil {
		return nil, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the branches")
	}
	commits := make(map[string]string) // by full ref name
	var items []workspaces.Branch
	for l := range strings.SplitSeq(raw, "\n") {
		f := strings.SplitN(l, "\x00", 7)
		if len(f) != 7 || f[3] != "" || !git.IsCommitID(f[1]) { // symbolic refs such as origin/HEAD are no branches
			continue
		}
		commits[f[0]] = f[1]
		at, _ := strconv.ParseInt(f[2], 10, 64)
		b := workspaces.Branch{Commit: f[1], CommitAt: at * 1000, Subject: hostgit.Clean(f[6])}
		switch {
		case strings.HasPrefix(f[0], git.HeadsPrefix):
			b.Name, b.Upstream = strings.TrimPrefix(f[0], git.HeadsPrefix), f[4]
			b.Default = b.Name == p.DefaultBranch
			if f[5] != "" {
				b.CheckedOut = f[5]
			}
		default:
			b.Name, b.Remote = strings.TrimPrefix(f[0], "refs/remotes/"), true
		}
		items = append(items, b)
	}
	keys := s.repo.KeysByPath(ctx, p)
	counted := 0
	for i := range items {
		b := &items[i]
		if k, ok := keys[b.CheckedOut]; ok {
			b.CheckedOut = k
		} else if b.CheckedOut != "" { // do not reveal a folder of the server to the team
			b.CheckedOut = workspaces.CheckedOutElsewhere
		}
		if b.Remote {
			continue
		}
		if b.Upstream == "" {
			b.Upstream = "refs/remotes/origin/" + b.Name
		}
		up, ok := commits[b.Upstream]
		if !ok {
			b.Upstream = ""
			continue
		}
		b.Upstream = strings.TrimPrefix(strings.TrimPrefix(b.Upstream, "refs/remotes/"), git.HeadsPrefix)
		if counted++; counted <= git.MaxCounted || b.Default {
			if b.Ahead, b.Behind, err = s.repo.AheadBehind(ctx, p.GitDir, b.Commit, up); err != nil {
				return nil, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing branches")
			}
		}
	}
	for i := range items { // the default branch first
		if items[i].Default {
			d := items[i]
			copy(items[1:i+1], items[:i])
			items[0] = d
			break
		}
	}
	if items == nil {
		items = []workspaces.Branch{}
	}
	return items, nil
}

// Fetch fetches the branches of the project's remote and notes when. did is false when there is no remote.
func (s *Service) Fetch(ctx context.Context, p *workspaces.Project) (did bool, err error) {
	const doing = "Fetching"
	asked := s.records.Millis()
	ctx, end, err := s.repo.BeginWork(ctx, *p, "", "", git.WorkFetch)
	if err != nil {
		return false, err
	}
	defer end()
	if now, err := s.store.Project(ctx, p.ID); err == nil && now.FetchedAt >= asked {
		p.FetchedAt = now.FetchedAt // another caller fetched while this one waited
		return true, nil
	}
	if err := s.askRemote(ctx, *p, doing); errors.Is(err, git.ErrNoRemote) {
		return false, nil
	} else if err != nil {
		return false, git.EndedBy(ctx, err)
	}
	at := s.records.Millis()
	stored, err := s.store.EditProject(context.WithoutCancel(ctx), p.ID, func(p *workspaces.Project) error {
		p.FetchedAt = max(p.FetchedAt, at)
		return nil
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		return true, fmt.Errorf("noting the fetch: %w", err)
	}
	p.FetchedAt = stored.FetchedAt
	s.records.PublishProject(ctx, stored)
	s.ProjectMoved(ctx, stored)
	return true, nil
}

// askRemote fetches the branches of the project's source.
func (s *Service) askRemote(ctx context.Context, p workspaces.Project, doing string) error {
	if p.SourceKind == workspaces.SourceRunner {
		return s.transfer.FetchBundle(ctx, p)
	}
	if p.SourceKind == workspaces.SourceURL {
		cred, err := s.repo.Credential(ctx, p, p.Source)
		if err != nil {
			return err
		}
		return git.GitFault(s.repo.FetchIsolated(ctx, p, p.Source, hostgit.Call{Credential: cred}), fault.Unavailable, "fetch_failed", doing)
	}
	from, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"config", "--get", "remote.origin.url"}})
	if hostgit.ExitCode(err) == 1 || err == nil && from == "" {
		return git.ErrNoRemote
	}
	if err != nil {
		return git.GitFault(err, fault.Unavailable, "fetch_failed", doing)
	}
	// Ask without the repository's config, which an agent may have written to bypass our rules or run a program.
	elsewhere := slices.DeleteFunc(slices.Clone(s.cfg.Protocols), func(p string) bool { return p == "file" })
	call := hostgit.Call{Folders: true, Also: s.repo.LocalProtocol(p, from)}
	if r, err := git.ParseRemote(from, elsewhere); err == nil {
		cred, err := s.repo.Credential(ctx, p, r.URL)
		if err != nil {
			return err
		}
		if cred == nil {
			cred = r.Credential()
		}
		from, call = r.URL, hostgit.Call{Credential: cred}
	}
	return git.GitFault(s.repo.FetchIsolated(ctx, p, from, call), fault.Unavailable, "fetch_failed", doing)
}
