package forge

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	gitlab "gitlab.com/gitlab-org/api/client-go/v2"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
)

type gitlabClient struct {
	at    Place
	c     *gitlab.Client
	token string
}

func newGitLab(at Place, token string, rt http.RoundTripper) (*gitlabClient, error) {
	c, err := gitlab.NewClient(token, gitlab.WithBaseURL(at.APIURL), gitlab.WithHTTPClient(&http.Client{Transport: rt, CheckRedirect: stay}),
		gitlab.WithoutRetries(), gitlab.WithCustomLimiter(freely{}), gitlab.WithUserAgent(userAgent))
	if err != nil {
		return nil, err
	}
	return &gitlabClient{at, c, token}, nil
}

// freely disables the library's rate limiter: wire itself pauses where a forge asked for it.
type freely struct{}

func (freely) Wait(ctx context.Context) error { return ctx.Err() }

func (g *gitlabClient) Open(ctx context.Context, n NewRequest) (int64, error) {
	const doing = "Opening the merge request"
	title := n.Title
	if n.Draft {
		title = draftTitle("Draft: ", title)
	}
	mr, _, err := g.c.MergeRequests.CreateMergeRequest(g.at.Repository, &gitlab.CreateMergeRequestOptions{Title: &title, Description: &n.Body,
		SourceBranch: &n.Head, TargetBranch: &n.Base}, gitlab.WithContext(ctx))
	if err == nil {
		if mr.IID <= 0 {
			return 0, g.at.fail(errAnswer, doing)
		}
		return mr.IID, nil
	}
	if a, ok := errors.AsType[*answer](err); !ok || a.Status != http.StatusConflict {
		return 0, g.at.fail(err, doing)
	}
	found, _, ferr := g.c.MergeRequests.ListProjectMergeRequests(g.at.Repository, &gitlab.ListProjectMergeRequestsOptions{State: new("opened"),
		SourceBranch: &n.Head, TargetBranch: &n.Base}, gitlab.WithContext(ctx))
	if ferr == nil && len(found) > 0 && found[0].IID > 0 {
		return found[0].IID, nil
	}
	return 0, g.at.fail(err, doing)
}

func (g *gitlabClient) Find(ctx context.Context, head, base string) (int64, error) {
	list, _, err := g.c.MergeRequests.ListProjectMergeRequests(g.at.Repository, &gitlab.ListProjectMergeRequestsOptions{State: new("all"),
		SourceBranch: &head, TargetBranch: &base}, gitlab.WithContext(ctx))
	if err != nil {
		return 0, g.at.fail(err, "Looking for the merge request")
	}
	var found int64
	for _, mr := range list {
		switch {
		case mr.State == "opened" && mr.IID > 0:
			return mr.IID, nil
		case mr.State == "merged":
			found = max(found, mr.IID)
		}
	}
	return found, nil
}

func (g *gitlabClient) Read(ctx context.Context, number int64) (Seen, error) {
	const doing = "Reading the merge request"
	mr, _, err := g.c.MergeRequests.GetMergeRequest(g.at.Repository, number, nil, gitlab.WithContext(ctx))
	if err != nil {
		return Seen{}, g.at.fail(err, doing)
	}
	s := Seen{Number: mr.IID, URL: mr.WebURL, Title: mr.Title, Head: mr.SourceBranch, HeadCommit: mr.SHA, Base: mr.TargetBranch}
	switch {
	case mr.State == "merged":
		s.State = Merged
		if mr.MergedAt != nil {
			s.MergedAt = mr.MergedAt.UnixMilli()
		}
		// A fast-forward has neither; then the base got the branch's own commits.
		for _, c := range [...]string{mr.MergeCommitSHA, mr.SquashCommitSHA, mr.SHA} {
			if c != "" {
				s.MergedCommit = c
				break
			}
		}
	case mr.State == "closed", mr.State == "locked":
		s.State = Closed
	case mr.Draft || mr.WorkInProgress:
		s.State = Draft
	case mr.State == "opened":
		s.State = Open
	}
	if s.State == Open || s.State == Draft {
		s.Mergeable, s.Blocked = gitlabBlocked(mr)
		s.Standing = Standing{Behind: mr.DetailedMergeStatus == "need_rebase", Conflict: mr.DetailedMergeStatus == "conflict", Queued: mr.MergeWhenPipelineSucceeds}
	}
	if err := g.checks(ctx, &s, mr); err != nil {
		return s, g.at.fail(err, doing)
	}
	ap, _, err := g.c.MergeRequestApprovals.GetConfiguration(g.at.Repository, number, gitlab.WithContext(ctx))
	if !s.noteHidden(err, "approvals") {
		if err != nil {
			return s, g.at.fail(err, doing)
		}
		for _, by := range ap.ApprovedBy {
			if by.User != nil {
				s.Reviews = append(s.Reviews, Review{Who: by.User.Username, State: "approved"})
			}
		}
	}
	return s.checked(g.at)
}

// gitlabBlocked reads detailed_merge_status: docs.gitlab.com/api/merge_requests#merge-status.
func gitlabBlocked(mr *gitlab.MergeRequest) (mergeable, why string) {
	base := mr.TargetBranch
	switch st := mr.DetailedMergeStatus; st {
	case "mergeable":
		return "yes", ""
	case "", "unchecked", "checking", "preparing", "approvals_syncing":
		return "", ""
	case "conflict", "broken_status":
		return "no", "It conflicts with " + base + "."
	case "draft_status":
		return "no", "It is a draft."
	case "need_rebase":
		return "no", "The branch must be brought up to date with " + base + " first."
	case "not_approved":
		return "no", "It needs more approvals."
	case "requested_changes":
		return "no", "A reviewer asked for changes."
	case "ci_must_pass":
		return "no", "Its pipeline must pass first."
	case "ci_still_running":
		return "no", "Its pipeline is still running."
	case "discussions_not_resolved":
		return "no", "Its threads must be resolved first."
	default:
		return "no", "GitLab says: " + clean(strings.ReplaceAll(st, "_", " "), 100) + "."
	}
}

// checks reads the jobs and statuses of the head; if the token may not see them, the pipeline as a whole.
func (g *gitlabClient) checks(ctx context.Context, s *Seen, mr *gitlab.MergeRequest) error {
	for page := int64(1); page <= pages; page++ {
		list, resp, err := g.c.Commits.GetCommitStatuses(g.at.Repository, s.HeadCommit, &gitlab.GetCommitStatusesOptions{ListOptions: gitlab.ListOptions{PerPage: 100, Page: page}}, gitlab.WithContext(ctx))
		if s.noteHidden(err, "commit statuses") {
			break
		}
		if err != nil {
			return err
		}
		for _, st := range list {
			c := Check{ID: strconv.FormatInt(st.ID, 10), Name: st.Name, State: gitlabState(st.Status), URL: st.TargetURL, Text: st.Description}
			if c.State == Failed && st.AllowFailure {
				c.State, c.Text = Skipped, "failed, which is allowed"
			}
			s.Checks = append(s.Checks, c)
		}
		if resp.NextPage == 0 {
			break
		}
	}
	if p := mr.HeadPipeline; p != nil && len(s.Checks) == 0 {
		s.Checks = append(s.Checks, Check{Name: "pipeline", State: gitlabState(p.Status), URL: p.WebURL})
	}
	return nil
}

func gitlabState(s string) string {
	switch s {
	case "success":
		return Passed
	case "failed", "canceled", "canceling":
		return Failed
	case "skipped", "manual":
		return Skipped
	}
	return Pending
}

func (g *gitlabClient) Merge(ctx context.Context, number int64, m MergeAsk) error {
	if m.Strategy == workspaces.StrategyRebase {
		return fault.New(fault.Unsupported, "forge_strategy_unsupported", "GitLab merges with the method its project is set to. Choose merge or squash; to have no merge commits, set the merge method there to fast-forward.")
	}
	_, _, err := g.c.MergeRequests.AcceptMergeRequest(g.at.Repository, number, &gitlab.AcceptMergeRequestOptions{Squash: new(m.Strategy == workspaces.StrategySquash),
		SHA: &m.Head}, gitlab.WithContext(ctx))
	if a, ok := errors.AsType[*answer](err); ok && a.Status == http.StatusConflict {
		return g.at.headMoved(err)
	}
	return g.at.fail(err, "Merging")
}

func (g *gitlabClient) Describe(ctx context.Context, number int64, edit func(string) string) error {
	const doing = "Changing the description"
	mr, _, err := g.c.MergeRequests.GetMergeRequest(g.at.Repository, number, nil, gitlab.WithContext(ctx))
	if err != nil {
		return g.at.fail(err, doing)
	}
	body := edit(mr.Description)
	if body == mr.Description {
		return nil
	}
	_, _, err = g.c.MergeRequests.UpdateMergeRequest(g.at.Repository, number, &gitlab.UpdateMergeRequestOptions{Description: &body}, gitlab.WithContext(ctx))
	return g.at.fail(err, doing)
}

func (g *gitlabClient) Ready(ctx context.Context, number int64) error {
	const doing = "Marking it as ready"
	mr, _, err := g.c.MergeRequests.GetMergeRequest(g.at.Repository, number, nil, gitlab.WithContext(ctx))
	if err != nil {
		return g.at.fail(err, doing)
	}
	title := plainTitle(mr.Title)
	if title == mr.Title {
		return nil
	}
	_, _, err = g.c.MergeRequests.UpdateMergeRequest(g.at.Repository, number, &gitlab.UpdateMergeRequestOptions{Title: &title}, gitlab.WithContext(ctx))
	return g.at.fail(err, doing)
}

func (g *gitlabClient) Close(ctx context.Context, number int64) error {
	_, _, err := g.c.MergeRequests.UpdateMergeRequest(g.at.Repository, number, &gitlab.UpdateMergeRequestOptions{StateEvent: new("close")}, gitlab.WithContext(ctx))
	return g.at.fail(err, "Closing it")
}
