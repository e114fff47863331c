package work

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/executors/images"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/workspaces"
)

func entryOf(e workspaces.Entry) api.FolderEntry {
	return api.FolderEntry{Name: guest.EncodePath(e.Name), Path: guest.EncodePath(e.Path), Git: e.Git}
}

func (h Projects) BrowseFolders(ctx context.Context, req api.BrowseFoldersRequestObject) (api.BrowseFoldersResponseObject, error) {
	path, err := rest.HostPath(rest.Val(req.Params.Path))
	if err != nil {
		return nil, err
	}
	l, err := h.cfg.Workspaces.Projects.Browse(ctx, path)
	if err != nil {
		return nil, err
	}
	return api.BrowseFolders200JSONResponse{Path: guest.EncodePath(l.Path), Git: l.Git, Breadcrumbs: rest.List(l.Breadcrumbs, entryOf),
		Entries: rest.List(l.Entries, entryOf), Roots: rest.List(l.Roots, guest.EncodePath), Truncated: l.Truncated}, nil
}

func (h Projects) SearchFolders(ctx context.Context, req api.SearchFoldersRequestObject) (api.SearchFoldersResponseObject, error) {
	found, err := h.cfg.Workspaces.Projects.SearchRepos(ctx, req.Params.Q)
	if err != nil {
		return nil, err
	}
	return api.SearchFolders200JSONResponse{Items: rest.List(found, entryOf)}, nil
}

// usesSource reports whether somebody may know the server's folder a project was made of: operators, and who may choose such a folder.
func usesSource(call *rest.Call) bool {
	return call.Actor.User.Operator || call.Can(accounts.ManageProject) == nil
}

// projectOf makes the API's project as who asks may see it.
func projectOf(ctx context.Context, p workspaces.Project, lines map[string]workspaces.ProjectLine) api.Project {
	src := api.ProjectSource{Kind: api.ProjectSourceKind(p.SourceKind)}
	switch p.SourceKind {
	case workspaces.SourceURL:
		src.Url = rest.Text(p.Source)
	case workspaces.SourcePath:
		if usesSource(rest.CallOf(ctx)) {
			src.Path = rest.Text(guest.EncodePath(p.Source))
		}
	case workspaces.SourceRunner:
		src.Path, src.RunnerId = rest.Text(p.Source), rest.Text(p.RunnerID)
	}
	copied := p.CopyIgnored
	if copied == nil {
		copied = []string{}
	}
	keep := p.KeepIgnored
	if keep == nil {
		keep = []string{}
	}
	return api.Project{Checks: rest.List(p.Checks, checkOf), Merging: mergingOf(p.Merging), KeepIgnored: keep, AllowedCommands: append([]string{}, p.AllowedCommands...), Id: p.ID, Name: p.Name, Source: src, DefaultBranch: p.DefaultBranch, State: api.ProjectState(p.State), StateReason: p.StateReason,
		Progress: p.Progress, SetupScript: p.SetupScript, CopyIgnored: copied, FetchedAt: rest.Ptr(p.FetchedAt), CreatedAt: p.CreatedAt,
		Workspaces: lines[p.ID].Active, Limits: rest.ResourceLimits(p.Limits), Executor: &p.Executor, Caches: new(!p.NoCaches)}
}

func (h Projects) ListProjects(ctx context.Context, req api.ListProjectsRequestObject) (api.ListProjectsResponseObject, error) {
	team := rest.CallOf(ctx).Team.ID
	items, next, err := h.cfg.Workspaces.Projects.Projects(ctx, team, rest.PageOf(req.Params.Limit, req.Params.Cursor))
	if err != nil {
		return nil, err
	}
	lines, err := h.ProjectLines(ctx, team)
	if err != nil {
		return nil, err
	}
	policies, err := h.cfg.Network.Policies(ctx, team)
	if err != nil {
		return nil, err
	}
	return api.ListProjects200JSONResponse{NextCursor: rest.Text(next),
		Items: rest.List(items, func(p workspaces.Project) api.Project {
			return h.cfg.NetworkViews.Networked(projectOf(ctx, p, lines), policies)
		})}, nil
}

func (h Projects) CreateProject(ctx context.Context, req api.CreateProjectRequestObject) (api.CreateProjectResponseObject, error) {
	call, b := rest.CallOf(ctx), req.Body
	path, err := h.cfg.MachineViews.SourcePath(ctx, b.Source)
	if err != nil {
		return nil, err
	}
	p, err := h.cfg.Workspaces.Projects.CreateProject(ctx, call.Actor, call.Team.ID, workspaces.NewProject{Name: rest.Val(b.Name), Kind: string(b.Source.Kind),
		URL: rest.Val(b.Source.Url), Path: path, RunnerID: rest.Val(b.Source.RunnerId), DefaultBranch: rest.Val(b.DefaultBranch)})
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "project", p.ID, p.Name)
	audit.Note(ctx, "source", string(p.SourceKind))
	return api.CreateProject201JSONResponse(h.cfg.NetworkViews.Networked(projectOf(ctx, p, nil), nil)), nil
}

func (h Projects) GetProject(ctx context.Context, _ api.GetProjectRequestObject) (api.GetProjectResponseObject, error) {
	p, err := h.project(ctx, rest.CallOf(ctx).Project)
	return api.GetProject200JSONResponse(p), err
}

// project counts a project's workspaces.
func (h Projects) project(ctx context.Context, p workspaces.Project) (api.Project, error) {
	lines, err := h.ProjectLines(ctx, p.TeamID)
	if err != nil {
		return api.Project{}, err
	}
	policies, err := h.cfg.Network.Policies(ctx, p.TeamID)
	return h.cfg.NetworkViews.Networked(projectOf(ctx, p, lines), policies), err
}

func (h Projects) UpdateProject(ctx context.Context, req api.UpdateProjectRequestObject) (api.UpdateProjectResponseObject, error) {
	b := req.Body
	policy, err := h.cfg.NetworkViews.PolicyOf(ctx, rest.CallOf(ctx).Project, b.Network) // before anything is changed: it may be refused
	if err != nil {
		return nil, err
	}
	forge, err := h.forgeOf(b.Forge) // likewise
	if err != nil {
		return nil, err
	}
	if b.Image != nil { // refused before anything else is changed
		if err := h.cfg.Images.SetChoice(ctx, req.Id, images.Choice{Name: rest.Val(b.Image.Name), Build: rest.Val(b.Image.Build), Parts: rest.Val(b.Image.Parts)}); err != nil {
			return nil, err
		}
	}
	patch := workspaces.ProjectPatch{Name: b.Name, DefaultBranch: b.DefaultBranch, SetupScript: b.SetupScript, CopyIgnored: b.CopyIgnored,
		Executor: b.Executor, KeepIgnored: b.KeepIgnored, AllowedCommands: b.AllowedCommands, Checks: checksIn(b.Checks), Merging: mergingIn(rest.CallOf(ctx).Project, b.Merging)}
	if b.Limits != nil {
		l := limitsOf(b.Limits)
		patch.Limits = &l
	}
	if b.Caches != nil {
		patch.NoCaches = new(!*b.Caches)
	}
	changed, err := h.cfg.Workspaces.Projects.UpdateProject(ctx, req.Id, patch)
	if err != nil {
		return nil, err
	}
	if b.Limits != nil {
		h.applyLimits(ctx, req.Id)
	}
	if b.Network != nil {
		if err := h.cfg.Network.SetProject(ctx, req.Id, policy); err != nil {
			return nil, err
		}
	}
	if err := h.setForge(ctx, req.Id, forge); err != nil {
		return nil, err
	}
	p, err := h.project(ctx, changed)
	return api.UpdateProject200JSONResponse(p), err
}

func (h Projects) DeleteProject(ctx context.Context, req api.DeleteProjectRequestObject) (api.DeleteProjectResponseObject, error) {
	if err := h.cfg.Workspaces.Projects.DeleteProject(ctx, rest.CallOf(ctx).Actor, req.Id); err != nil {
		return nil, err
	}
	if err := h.cfg.Secrets.Sweep(ctx); err != nil { // the next start does it
		h.Log.Warn("the secrets of a deleted project were not deleted", "project_id", req.Id, "error", err)
	}
	return api.DeleteProject204Response{}, nil
}

func (h Projects) ListBranches(ctx context.Context, req api.ListBranchesRequestObject) (api.ListBranchesResponseObject, error) {
	fetch := rest.Val(req.Params.Fetch)
	if fetch { // speaks to a remote with the project's credentials
		if err := rest.CallOf(ctx).Can(accounts.CreateWorkspace); err != nil {
			return nil, err
		}
		if err := h.Charge(ctx, rest.Cloning); err != nil {
			return nil, err
		}
	}
	b, err := h.cfg.Workspaces.Ingest.Branches(ctx, req.Id, fetch)
	if err != nil {
		return nil, err
	}
	return api.ListBranches200JSONResponse{FetchedAt: rest.Ptr(b.FetchedAt), FetchError: b.FetchError,
		Items: rest.List(b.Items, func(b workspaces.Branch) api.Branch {
			return api.Branch{Name: b.Name, Commit: b.Commit, Subject: b.Subject, CommitAt: b.CommitAt, Remote: b.Remote, Default: b.Default,
				CheckedOut: b.CheckedOut, Upstream: b.Upstream, Ahead: b.Ahead, Behind: b.Behind}
		})}, nil
}

func (h Projects) SuggestBranch(ctx context.Context, req api.SuggestBranchRequestObject) (api.SuggestBranchResponseObject, error) {
	name, err := h.cfg.Workspaces.Repo.SuggestBranch(ctx, req.Id, req.Params.Name)
	if err != nil {
		return nil, err
	}
	return api.SuggestBranch200JSONResponse{Branch: name}, nil
}
