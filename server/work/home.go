package work

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

func conflictOf(c workspaces.Conflict) api.Conflict {
	out := api.Conflict{Path: guest.EncodePath(c.Path), Kind: c.Kind}
	if c.Ours != "" && c.Theirs != "" {
		out.Ours, out.Theirs = new(api.ConflictOurs(c.Ours)), new(api.ConflictTheirs(c.Theirs))
	}
	if len(c.Hunks) > 0 {
		hunks := rest.List(c.Hunks, func(h workspaces.ConflictHunk) api.ConflictHunk {
			return api.ConflictHunk{Line: h.Line, Ours: h.Ours, Theirs: h.Theirs}
		})
		out.Hunks, out.MoreHunks = &hunks, &c.MoreHunks
	}
	return out
}

// words is a list that JSON shows as one, also when it is empty.
func words(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func (h Branches) GetMergeStatus(ctx context.Context, req api.GetMergeStatusRequestObject) (api.GetMergeStatusResponseObject, error) {
	fetch := rest.Val(req.Params.Fetch)
	if fetch { // speaks to a remote with the project's credentials
		if err := rest.CallOf(ctx).Can(accounts.EditWorkspace); err != nil {
			return nil, err
		}
	}
	st, warnings, err := h.cfg.Workspaces.Merging.Status(ctx, req.Id, fetch)
	if err != nil {
		return nil, err
	}
	out := api.GetMergeStatus200JSONResponse{Base: st.Base, BaseCommit: st.BaseCommit, Head: st.Head, Ahead: st.Ahead, Behind: st.Behind, UpToDate: st.UpToDate, Merged: st.Merged,
		Conflicts: rest.List(st.Conflicts, conflictOf), UnderWay: st.UnderWay, Remote: st.Remote, BaseAhead: st.BaseAhead, BaseBehind: st.BaseBehind, FetchedAt: rest.Ptr(st.FetchedAt),
		Warnings: words(warnings)}
	if set, err := h.cfg.Files.Changes(ctx, req.Id); err == nil {
		for _, c := range set.Items {
			if !c.Committed {
				out.Dirty++
			}
		}
	}
	if p := st.Pushed; p != nil {
		out.Pushed = &struct {
			Ahead  int    `json:"ahead"`
			Behind int    `json:"behind"`
			Branch string `json:"branch"`
			Commit string `json:"commit"`
		}{p.Ahead, p.Behind, p.Branch, p.Commit}
	}
	return out, nil
}

func (h Branches) UpdateFromBase(ctx context.Context, req api.UpdateFromBaseRequestObject) (api.UpdateFromBaseResponseObject, error) {
	b := req.Body
	u, err := h.cfg.Workspaces.Merging.Update(ctx, rest.CallOf(ctx).Actor, req.Id, workspaces.UpdateRequest{Strategy: string(b.Strategy), DryRun: rest.Val(b.DryRun), ExpectedBase: rest.Val(b.ExpectedBase)})
	if err != nil {
		return nil, err
	}
	audit.Note(ctx, "strategy", u.Strategy)
	audit.Note(ctx, "from", u.Base)
	audit.Note(ctx, "commit", u.Commit)
	if u.DryRun {
		audit.Note(ctx, "dry_run", "true")
	}
	files := make([]struct {
		Path   string                      `json:"path"`
		Status api.UpdateResultFilesStatus `json:"status"`
	}, len(u.Files))
	for i, f := range u.Files {
		files[i].Path, files[i].Status = guest.EncodePath(f.Path), api.UpdateResultFilesStatus(f.Status)
	}
	return api.UpdateFromBase200JSONResponse{Updated: u.Updated, DryRun: u.DryRun, UpToDate: u.UpToDate, FastForward: u.FastForward, Strategy: api.UpdateResultStrategy(u.Strategy),
		Base: u.Base, BaseCommit: u.BaseCommit, Head: u.Head, Commit: u.Commit, Commits: u.Commits, Files: files, MoreFiles: u.MoreFiles, Conflicts: rest.List(u.Conflicts, conflictOf),
		Dirty: rest.List(u.Dirty, guest.EncodePath), Carried: rest.List(u.Carried, guest.EncodePath), SnapshotId: u.SnapshotID, Warnings: words(u.Warnings)}, nil
}

func (h Branches) ResolveUpdate(ctx context.Context, req api.ResolveUpdateRequestObject) (api.ResolveUpdateResponseObject, error) {
	b, actor := req.Body, rest.CallOf(ctx).Actor
	audit.Note(ctx, "how", string(b.How))
	strategy := workspaces.StrategyMerge
	if b.Strategy != nil {
		strategy = string(*b.Strategy)
	}
	if b.How == api.ResolveRequestHowAbort {
		if err := h.cfg.Workspaces.Conflicts.AbortResolve(ctx, actor, req.Id); err != nil {
			return nil, err
		}
		return api.ResolveUpdate200JSONResponse{Strategy: strategy, Files: []string{}}, nil
	}
	if b.How == api.ResolveRequestHowFinish {
		op, left, err := h.cfg.Workspaces.Conflicts.FinishResolve(ctx, actor, req.Id)
		if err != nil {
			return nil, err
		}
		return api.ResolveUpdate200JSONResponse{Strategy: op, Files: rest.List(left, guest.EncodePath)}, nil
	}
	agent := rest.Val(b.SessionId)
	if b.How == api.ResolveRequestHowAgent && agent != "" { // before anything is begun for it
		if err := rest.CallOf(ctx).Can(accounts.TypeTerminal); err != nil {
			return nil, err
		}
		s, err := h.cfg.Sessions.Get(ctx, agent)
		if err != nil {
			return nil, err
		}
		if s.WorkspaceID != req.Id || s.State.Ended() {
			return nil, fault.New(fault.Conflict, "session_not_running", "This session is not one that runs in this workspace. Choose another, or start one.")
		}
	}
	r, err := h.cfg.Workspaces.Conflicts.BeginResolve(ctx, actor, req.Id, strategy)
	if err != nil {
		return nil, err
	}
	out := api.ResolveUpdate200JSONResponse{Base: r.Base, BaseCommit: r.BaseCommit, Strategy: r.Strategy, Files: rest.List(r.Files, guest.EncodePath), Prompt: r.Prompt, SnapshotId: r.SnapshotID}
	if b.How == api.ResolveRequestHowAgent && agent != "" && len(r.Files) > 0 {
		p, err := h.cfg.Sessions.Queue.AddPrompt(ctx, actor, agent, prompt.Request{Text: r.Prompt})
		if err != nil {
			return nil, err
		}
		out.SessionId, out.PromptId = &p.SessionID, &p.ID
	}
	return out, nil
}

func (h Branches) PushWorkspace(ctx context.Context, req api.PushWorkspaceRequestObject) (api.PushWorkspaceResponseObject, error) {
	var r workspaces.PushRequest
	if b := req.Body; b != nil {
		r = workspaces.PushRequest{Base: b.What != nil && *b.What == api.PushRequestWhatBase, Branch: rest.Val(b.Branch), Force: rest.Val(b.Force)}
	}
	if r.Base {
		if err := rest.CallOf(ctx).Can(accounts.MergeWorkspace); err != nil {
			return nil, err
		}
	}
	p, err := h.cfg.Origin.Push(ctx, rest.CallOf(ctx).Actor, req.Id, r)
	if err != nil {
		return nil, err
	}
	audit.Note(ctx, "remote", p.Remote)
	audit.Note(ctx, "branch", p.Branch)
	audit.Note(ctx, "commit", p.Commit)
	if p.Forced {
		audit.Note(ctx, "forced", "true")
	}
	return api.PushWorkspace200JSONResponse{Remote: p.Remote, Branch: p.Branch, Commit: p.Commit, Url: p.URL, Created: p.Created, UpToDate: p.UpToDate, Forced: p.Forced, Message: p.Words,
		Notes: p.Notes, NotesProblem: p.NotesProblem}, nil
}

// gitWork returns the works of a project that the caller may see, with their workspaces.
func (h Branches) gitWork(ctx context.Context, projectID string) ([]git.Work, map[string]workspaces.Workspace, error) {
	all, err := h.cfg.Workspaces.Repo.Works(ctx, projectID)
	if err != nil {
		return nil, nil, err
	}
	shown, at := []git.Work{}, map[string]workspaces.Workspace{}
	for _, k := range all {
		if k.WorkspaceID != "" {
			w, err := h.cfg.Workspaces.Records.Workspace(ctx, k.WorkspaceID)
			if fault.Is(err, fault.NotFound) {
				continue
			} else if err != nil {
				return nil, nil, err
			}
			if sees, err := h.Sees(ctx, rest.CallOf(ctx), w); err != nil {
				return nil, nil, err
			} else if !sees {
				continue
			}
			at[w.ID] = w
		}
		shown = append(shown, k)
	}
	return shown, at, nil
}

func (h Branches) ListGitWork(ctx context.Context, req api.ListGitWorkRequestObject) (api.ListGitWorkResponseObject, error) {
	all, at, err := h.gitWork(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	names, err := rest.MemberNames(ctx, h.cfg.Directory, rest.CallOf(ctx).Project.TeamID)
	if err != nil {
		return nil, err
	}
	return api.ListGitWork200JSONResponse{Items: rest.List(all, func(k git.Work) api.GitWork {
		out := api.GitWork{Id: k.ID, Kind: api.GitWorkKind(k.Kind), Waiting: k.Waiting, Progress: k.Progress, By: k.ActorID, ByName: names[k.ActorID], At: k.At, StartedAt: rest.Ptr(k.StartedAt)}
		if w, ok := at[k.WorkspaceID]; ok {
			out.Workspace = &struct {
				Id   string `json:"id"`
				Key  string `json:"key"`
				Name string `json:"name"`
			}{w.ID, w.Key(), w.Name}
		}
		return out
	})}, nil
}

func (h Branches) CancelGitWork(ctx context.Context, req api.CancelGitWorkRequestObject) (api.CancelGitWorkResponseObject, error) {
	all, at, err := h.gitWork(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	for _, k := range all {
		if k.ID != req.Body.WorkId {
			continue
		}
		if w, ok := at[k.WorkspaceID]; ok {
			o, err := h.ObjectOf(ctx, rest.CallOf(ctx).Actor, w)
			if err != nil {
				return nil, err
			}
			if err := accounts.Can(rest.CallOf(ctx).Actor, accounts.EditWorkspace, o); err != nil {
				return nil, err
			}
		}
		if err := h.cfg.Workspaces.Repo.CancelWork(ctx, k.ID); err != nil {
			return nil, err
		}
		audit.Note(ctx, "kind", k.Kind)
		return api.CancelGitWork204Response{}, nil
	}
	return nil, fault.New(fault.NotFound, "not_found", "There is no such operation any more: it has ended.")
}
