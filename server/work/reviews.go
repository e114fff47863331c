package work

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/workspaces/reviews"
)

// ByComment finds a comment that a path names.
func (h Reviews) ByComment(ctx context.Context, call *rest.Call, id string) (accounts.Object, error) {
	m, err := h.cfg.Reviews.Comment(ctx, call.Actor, id)
	if err != nil {
		return accounts.Object{}, err
	}
	return h.inWorkspace(ctx, call, m.WorkspaceID)
}

// ByReview finds a review that a path names.
func (h Reviews) ByReview(ctx context.Context, call *rest.Call, id string) (accounts.Object, error) {
	r, err := h.cfg.Reviews.Find(ctx, call.Actor, id)
	if err != nil {
		return accounts.Object{}, err
	}
	return h.inWorkspace(ctx, call, r.WorkspaceID)
}

// inWorkspace reads into the call the workspace that a review is in.
func (h Reviews) inWorkspace(ctx context.Context, call *rest.Call, id string) (o accounts.Object, err error) {
	if call.Workspace, err = h.cfg.Workspaces.Records.Workspace(ctx, id); err != nil {
		return o, err
	}
	return h.ObjectOf(ctx, call.Actor, call.Workspace)
}

func personOf(id string, names map[string]string) string {
	if reviews.ByAgent(id) {
		return "An agent"
	}
	return cmp.Or(names[id], "a former member")
}

func reviewOf(r reviews.Review, me string, names map[string]string) api.Review {
	out := api.Review{Id: r.ID, WorkspaceId: r.WorkspaceID, AuthorId: r.AuthorID, AuthorName: personOf(r.AuthorID, names), Mine: r.AuthorID == me,
		State: api.ReviewState(r.State), Verdict: api.ReviewVerdict(r.Verdict), Body: r.Body, From: r.From, Revision: r.Revision, Tree: r.Tree,
		SessionId: rest.Text(r.SessionID), PromptId: rest.Text(r.PromptID), Reason: r.Reason, Waits: r.Waits, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		SentAt: rest.Ptr(r.SentAt), Comments: rest.List(r.Comments, func(c reviews.Comment) api.Comment { return commentOf(c, me, names) })}
	if r.Since >= 0 {
		out.ChangedSince = &r.Since
	}
	return out
}

func commentOf(c reviews.Comment, me string, names map[string]string) api.Comment {
	out := api.Comment{Id: c.ID, ReviewId: c.ReviewID, WorkspaceId: c.WorkspaceID, ReplyTo: rest.Text(c.ReplyTo), AuthorId: c.AuthorID,
		AuthorName: personOf(c.AuthorID, names), Mine: c.AuthorID == me, Path: c.Path, Side: api.CommentSide(c.Side), Line: c.Line, EndLine: c.EndLine,
		Quoted: c.Quoted, Before: append([]string{}, c.Around.Before...), After: append([]string{}, c.Around.After...), Commit: c.Commit, CurrentPath: c.NowPath,
		CurrentLine: c.NowLine, Outdated: c.Outdated, Body: c.Body, State: api.CommentState(c.State), CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt}
	if c.ResolvedBy != "" {
		out.ResolvedBy = rest.Text(personOf(c.ResolvedBy, names))
	}
	if a := c.Answer; a != nil {
		out.Answered = &struct {
			At         int64                   `json:"at"`
			Commit     string                  `json:"commit"`
			Kind       api.CommentAnsweredKind `json:"kind"`
			SnapshotId string                  `json:"snapshot_id"`
			Title      string                  `json:"title"`
		}{a.At, a.Commit, api.CommentAnsweredKind(a.Kind), a.SnapshotID, a.Title}
	}
	return out
}

func reviewSummaryOf(s reviews.Summary, names map[string]string) api.ReviewSummary {
	out := api.ReviewSummary{State: api.ReviewSummaryState(cmp.Or(s.State, "none")), Approved: s.State == reviews.StandsApproved, At: rest.Ptr(s.At),
		OpenComments: s.OpenComments, Drafts: s.Drafts}
	if s.By != "" {
		out.ByName = personOf(s.By, names)
	}
	if out.Approved {
		out.ApprovedBy = &s.By
	}
	return out
}

// review makes the API's review for the caller.
func (h Reviews) review(ctx context.Context, r reviews.Review) (api.Review, error) {
	names, err := rest.MemberNames(ctx, h.cfg.Directory, rest.CallOf(ctx).Team.ID)
	return reviewOf(r, rest.CallOf(ctx).Actor.User.ID, names), err
}

func (h Reviews) ListReviews(ctx context.Context, req api.ListReviewsRequestObject) (api.ListReviewsResponseObject, error) {
	call := rest.CallOf(ctx)
	all, err := h.cfg.Reviews.Reviews(ctx, call.Workspace, call.Actor.User.ID)
	if err != nil {
		return nil, err
	}
	names, err := rest.MemberNames(ctx, h.cfg.Directory, call.Team.ID)
	if err != nil {
		return nil, err
	}
	sums, err := h.cfg.Reviews.Summaries(ctx, call.Team.ID, call.Actor.User.ID, req.Id)
	if err != nil {
		return nil, err
	}
	return api.ListReviews200JSONResponse{Items: rest.List(all, func(r reviews.Review) api.Review { return reviewOf(r, call.Actor.User.ID, names) }),
		Summary: reviewSummaryOf(sums[req.Id], names)}, nil
}

func (h Reviews) GetDraft(ctx context.Context, _ api.GetDraftRequestObject) (api.GetDraftResponseObject, error) {
	call := rest.CallOf(ctx)
	r, err := h.cfg.Reviews.MyDraft(ctx, call.Workspace, call.Actor.User.ID)
	if err != nil {
		return nil, err
	}
	out, err := h.review(ctx, r)
	return api.GetDraft200JSONResponse(out), err
}

func (h Reviews) WriteDraft(ctx context.Context, req api.WriteDraftRequestObject) (api.WriteDraftResponseObject, error) {
	call := rest.CallOf(ctx)
	r, err := h.cfg.Reviews.WriteDraft(ctx, call.Workspace, call.Actor.User.ID, req.Body.Body, reviews.Verdict(rest.Val(req.Body.Verdict)))
	if err != nil {
		return nil, err
	}
	out, err := h.review(ctx, r)
	return api.WriteDraft200JSONResponse(out), err
}

func (h Reviews) DeleteDraft(ctx context.Context, _ api.DeleteDraftRequestObject) (api.DeleteDraftResponseObject, error) {
	call := rest.CallOf(ctx)
	r, err := h.cfg.Reviews.ThrowAway(ctx, call.Workspace, call.Actor.User.ID)
	if err != nil {
		return nil, err
	}
	out, err := h.review(ctx, r)
	return api.DeleteDraft200JSONResponse(out), err
}

func (h Reviews) CreateComment(ctx context.Context, req api.CreateCommentRequestObject) (api.CreateCommentResponseObject, error) {
	call, b := rest.CallOf(ctx), req.Body
	c, err := h.cfg.Reviews.AddComment(ctx, call.Actor, call.Workspace, reviews.NewComment{Path: rest.Val(b.Path), Side: reviews.Side(cmp.Or(rest.Val(b.Side), api.NewCommentSideNew)),
		Line: rest.Val(b.Line), EndLine: rest.Val(b.EndLine), Revision: rest.Val(b.Revision), Body: b.Body, ReplyTo: rest.Val(b.ReplyTo)})
	if err != nil {
		return nil, err
	}
	names, err := rest.MemberNames(ctx, h.cfg.Directory, call.Team.ID)
	return api.CreateComment201JSONResponse(commentOf(c, call.Actor.User.ID, names)), err
}

func (h Reviews) UpdateComment(ctx context.Context, req api.UpdateCommentRequestObject) (api.UpdateCommentResponseObject, error) {
	call, b := rest.CallOf(ctx), req.Body
	e := reviews.CommentEdit{Body: b.Body}
	if b.State != nil {
		e.State = new(reviews.CommentState(*b.State))
		audit.Note(ctx, "state", string(*b.State))
	}
	c, err := h.cfg.Reviews.EditComment(ctx, call.Actor, req.Id, e)
	if err != nil {
		return nil, err
	}
	names, err := rest.MemberNames(ctx, h.cfg.Directory, call.Team.ID)
	return api.UpdateComment200JSONResponse(commentOf(c, call.Actor.User.ID, names)), err
}

func (h Reviews) DeleteComment(ctx context.Context, req api.DeleteCommentRequestObject) (api.DeleteCommentResponseObject, error) {
	return api.DeleteComment204Response{}, h.cfg.Reviews.DeleteComment(ctx, rest.CallOf(ctx).Actor, req.Id)
}

func (h Reviews) SendReview(ctx context.Context, req api.SendReviewRequestObject) (api.SendReviewResponseObject, error) {
	call, b := rest.CallOf(ctx), req.Body
	audit.Note(ctx, "verdict", string(b.Verdict))
	if b.Verdict == api.VerdictApprove {
		if err := call.Can(accounts.MergeWorkspace); err != nil {
			return nil, err
		}
	}
	session := rest.Val(b.SessionId)
	if session != "" {
		audit.Note(ctx, "session", session)
		if err := call.Can(accounts.TypeTerminal); err != nil {
			return nil, err
		}
		if err := h.cfg.Admission.Works(ctx, call); err != nil {
			return nil, err
		}
	}
	r, err := h.cfg.Reviews.Send(ctx, call.Actor, call.Workspace, reviews.SendRequest{Verdict: reviews.Verdict(b.Verdict), Body: b.Body, SessionID: session,
		From: rest.Val(b.From), Revision: rest.Val(b.Revision)})
	if err != nil {
		return nil, err
	}
	audit.Note(ctx, "tree", r.Tree)
	out, err := h.review(ctx, r)
	return api.SendReview201JSONResponse(out), err
}

func (h Reviews) CancelReview(ctx context.Context, req api.CancelReviewRequestObject) (api.CancelReviewResponseObject, error) {
	r, err := h.cfg.Reviews.TakeBack(ctx, rest.CallOf(ctx).Actor, req.Id)
	if err != nil {
		return nil, err
	}
	out, err := h.review(ctx, r)
	return api.CancelReview200JSONResponse(out), err
}

func (h Reviews) ListViewed(ctx context.Context, req api.ListViewedRequestObject) (api.ListViewedResponseObject, error) {
	seen, err := h.cfg.Reviews.Viewed(ctx, req.Id, rest.CallOf(ctx).Actor.User.ID)
	if err != nil {
		return nil, err
	}
	out := api.ListViewed200JSONResponse{}
	paths := make([]string, 0, len(seen))
	for p := range seen {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for _, p := range paths {
		out.Items = append(out.Items, struct {
			Mark string `json:"mark"`
			Path string `json:"path"`
		}{seen[p], p})
	}
	if out.Items == nil {
		out.Items = []struct {
			Mark string `json:"mark"`
			Path string `json:"path"`
		}{}
	}
	return out, nil
}

func (h Reviews) SetViewed(ctx context.Context, req api.SetViewedRequestObject) (api.SetViewedResponseObject, error) {
	call, b := rest.CallOf(ctx), req.Body
	return api.SetViewed204Response{}, h.cfg.Reviews.SetViewed(ctx, call.Workspace, call.Actor.User.ID, b.Path, rest.Val(b.Mark), b.Viewed)
}

// ReviewItems are the items of an inbox for reviews that agents have worked on: each is for who wrote it.
func ReviewItems(all []reviews.Answered) []question.InboxItem {
	out := make([]question.InboxItem, 0, len(all))
	for _, a := range all {
		reason := "The agent has worked on your review."
		switch {
		case a.Comments == 1 && a.Changed == 1:
			reason = "The agent has worked on your review: the lines you commented on have changed."
		case a.Comments == 1:
			reason = "The agent has worked on your review; the lines you commented on are as they were."
		case a.Comments > 1:
			reason = fmt.Sprintf("The agent has worked on your review: of %d open comments the lines of %d have changed.", a.Comments, a.Changed)
		}
		out = append(out, question.InboxItem{ID: question.Episode(a.ReviewID, a.At), Kind: question.InboxReview, WorkspaceID: a.WorkspaceID, SessionID: a.SessionID,
			OnlyFor: a.AuthorID, StartedBy: a.AuthorID, Reason: reason, Since: a.At})
	}
	return out
}
