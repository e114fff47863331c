package work

import (
	"context"
	"strconv"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/workspaces/forge"
)

func (h Forge) GetProjectForge(ctx context.Context, req api.GetProjectForgeRequestObject) (api.GetProjectForgeResponseObject, error) {
	a, err := h.cfg.Forge.About(ctx, rest.CallOf(ctx).Actor, req.Id)
	if err != nil {
		return nil, err
	}
	out := api.GetProjectForge200JSONResponse{Host: a.Host, ApiUrl: a.APIURL, Repository: a.Repository, TokenHost: a.TokenHost, HasCredential: a.HasCredential, Reason: a.Reason,
		Settings: api.ForgeSettings{Kind: new(api.ForgeSettingsKind(a.Settings.Kind)), ApiUrl: &a.Settings.APIURL, Repository: &a.Settings.Repository}}
	if a.Kind != "" && a.Kind != forge.None {
		out.Kind, out.Name = api.ProjectForgeKind(a.Kind), a.Kind.Name()
	}
	return out, nil
}

// forgeOf reads a patch of a project's forge; nil when it says nothing. What it leaves out is as the address says.
func (h *group) forgeOf(b *api.ForgeSettings) (*forge.Settings, error) {
	if b == nil {
		return nil, nil
	}
	f, err := h.cfg.Forge.CheckSettings(forge.Settings{Kind: forge.Kind(rest.Val(b.Kind)), APIURL: rest.Val(b.ApiUrl), Repository: rest.Val(b.Repository)})
	return &f, err
}

// setForge keeps what a project says of its forge.
func (h *group) setForge(ctx context.Context, projectID string, f *forge.Settings) error {
	if f == nil {
		return nil
	}
	audit.Note(ctx, "forge", string(f.Kind))
	return h.cfg.Forge.SetProject(ctx, projectID, *f)
}

// pullSummary is the pull request in the answer of a workspace.
func pullSummary(p forge.PullRequest) *api.PullRequestSummary {
	return &api.PullRequestSummary{Number: p.Number, Url: p.URL, State: api.PullRequestSummaryState(p.State), ChecksState: api.PullRequestSummaryChecksState(p.ChecksState),
		Forge: api.PullRequestSummaryForge(p.Forge)}
}

func pullOf(p forge.PullRequest, local string) api.PullRequest {
	return api.PullRequest{Id: p.ID, Forge: api.PullRequestForge(p.Forge), Host: p.Host, Repository: p.Repository, Number: p.Number, Url: p.URL, Title: p.Title,
		State: api.PullRequestState(p.State), Head: p.Head, HeadCommit: p.HeadCommit, Base: p.Base, Mergeable: api.PullRequestMergeable(p.Mergeable), Blocked: p.Blocked,
		ChecksState: api.PullRequestChecksState(p.ChecksState), OpenedBy: p.OpenedBy, OpenedAt: p.OpenedAt, MergedAt: rest.Ptr(p.MergedAt), MergedCommit: p.MergedCommit,
		SyncedAt: rest.Ptr(p.SyncedAt), Error: p.Error, LocalCommit: local,
		Checks: rest.List(p.Checks, func(c forge.Check) api.PullRequestCheck {
			return api.PullRequestCheck{Name: c.Name, State: api.PullRequestCheckState(c.State), Url: c.URL, Text: c.Text}
		}),
		Reviews: rest.List(p.Reviews, func(r forge.Review) api.PullRequestReview {
			return api.PullRequestReview{Who: r.Who, State: api.PullRequestReviewState(r.State)}
		})}
}

// pull makes the API's pull request of what an operation came to.
func (h Forge) pull(ctx context.Context, p forge.PullRequest, err error) (api.PullRequest, error) {
	if err != nil {
		return api.PullRequest{}, err
	}
	ahead, err := h.cfg.Origin.Ahead(ctx, p.WorkspaceID)
	return pullOf(p, ahead.Head), err
}

func notePull(ctx context.Context, p forge.PullRequest) {
	audit.Note(ctx, "forge", p.Host)
	audit.Note(ctx, "repository", p.Repository)
	audit.Note(ctx, "number", strconv.FormatInt(p.Number, 10))
}

func (h Forge) GetPullRequest(ctx context.Context, req api.GetPullRequestRequestObject) (api.GetPullRequestResponseObject, error) {
	p, local, err := h.cfg.Forge.Get(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	return api.GetPullRequest200JSONResponse(pullOf(p, local)), nil
}

func (h Forge) ProposePullRequest(ctx context.Context, req api.ProposePullRequestRequestObject) (api.ProposePullRequestResponseObject, error) {
	p, err := h.cfg.Forge.Propose(ctx, rest.CallOf(ctx).Actor, req.Id)
	if err != nil {
		return nil, err
	}
	return api.ProposePullRequest200JSONResponse{Title: p.Title, Body: p.Body, Base: p.Base, Branch: p.Branch, Commits: p.Commits}, nil
}

func (h Forge) OpenPullRequest(ctx context.Context, req api.OpenPullRequestRequestObject) (api.OpenPullRequestResponseObject, error) {
	b := req.Body
	ask := forge.Ask{Title: rest.Val(b.Title), Body: rest.Val(b.Body), Draft: rest.Val(b.Draft), Base: rest.Val(b.Base), Push: b.Push == nil || *b.Push}
	p, err := h.openWithArtifacts(ctx, req.Id, ask, rest.Val(b.Artifacts))
	if err == nil {
		notePull(ctx, p)
	}
	out, err := h.pull(ctx, p, err)
	return api.OpenPullRequest201JSONResponse(out), err
}

func (h Forge) RefreshPullRequest(ctx context.Context, req api.RefreshPullRequestRequestObject) (api.RefreshPullRequestResponseObject, error) {
	p, err := h.cfg.Forge.Refresh(ctx, rest.CallOf(ctx).Actor, req.Id)
	out, err := h.pull(ctx, p, err)
	return api.RefreshPullRequest200JSONResponse(out), err
}

func (h Forge) MergePullRequest(ctx context.Context, req api.MergePullRequestRequestObject) (api.MergePullRequestResponseObject, error) {
	attached, err := h.attachedToMerge(ctx, req.Id, rest.Val(req.Body.Artifacts))
	if err != nil {
		return nil, err
	}
	p, err := h.cfg.Forge.Merge(ctx, rest.CallOf(ctx).Actor, req.Id, forge.MergeAsk{Strategy: string(req.Body.Strategy), Head: req.Body.ExpectedHead, Artifacts: attached})
	if err == nil {
		notePull(ctx, p)
		audit.Note(ctx, "strategy", string(req.Body.Strategy))
	}
	out, err := h.pull(ctx, p, err)
	return api.MergePullRequest200JSONResponse(out), err
}

func (h Forge) ReadyPullRequest(ctx context.Context, req api.ReadyPullRequestRequestObject) (api.ReadyPullRequestResponseObject, error) {
	p, err := h.cfg.Forge.Ready(ctx, rest.CallOf(ctx).Actor, req.Id)
	out, err := h.pull(ctx, p, err)
	return api.ReadyPullRequest200JSONResponse(out), err
}

func (h Forge) ClosePullRequest(ctx context.Context, req api.ClosePullRequestRequestObject) (api.ClosePullRequestResponseObject, error) {
	p, err := h.cfg.Forge.Close(ctx, rest.CallOf(ctx).Actor, req.Id)
	if err == nil {
		notePull(ctx, p)
	}
	out, err := h.pull(ctx, p, err)
	return api.ClosePullRequest200JSONResponse(out), err
}
