package forge

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"code.gitea.io/sdk/gitea"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
)

// giteaClient speaks to Gitea and to Forgejo, which has the same API.
type giteaClient struct {
	at          Place
	token       string
	rt          http.RoundTripper
	owner, name string
}

func newGitea(at Place, token string, rt http.RoundTripper) *giteaClient {
	owner, name, _ := strings.Cut(at.Repository, "/")
	return &giteaClient{at, token, rt, owner, name}
}

// c is a client for calls within ctx: the library stores it in the client. It skips the version check: nothing used here is new.
func (g *giteaClient) c(ctx context.Context) (*gitea.Client, error) {
	return gitea.NewClient(strings.TrimSuffix(g.at.APIURL, "/api/v1"), gitea.SetToken(g.token), gitea.SetContext(ctx), gitea.SetGiteaVersion(""),
		gitea.SetHTTPClient(&http.Client{Transport: g.rt, CheckRedirect: stay}), gitea.SetUserAgent(userAgent))
}

func (g *giteaClient) Open(ctx context.Context, n NewRequest) (int64, error) {
	const doing = "Opening the pull request"
	c, err := g.c(ctx)
	if err != nil {
		return 0, err
	}
	title := n.Title
	if n.Draft {
		title = draftTitle("WIP: ", title)
	}
	pr, _, err := c.CreatePullRequest(g.owner, g.name, gitea.CreatePullRequestOption{Head: n.Head, Base: n.Base, Title: title, Body: n.Body})
	if err == nil {
		if pr.Index <= 0 {
			return 0, g.at.fail(errAnswer, doing)
		}
		return pr.Index, nil
	}
	if a, ok := errors.AsType[*answer](err); !ok || a.Status != http.StatusConflict {
		return 0, g.at.fail(err, doing)
	}
	if found, ferr := g.among(c, gitea.StateOpen, n.Head, n.Base); ferr == nil && found > 0 {
		return found, nil
	}
	return 0, g.at.fail(err, doing)
}

func (g *giteaClient) Find(ctx context.Context, head, base string) (int64, error) {
	c, err := g.c(ctx)
	if err != nil {
		return 0, err
	}
	found, err := g.among(c, gitea.StateAll, head, base)
	return found, g.at.fail(err, "Looking for the pull request")
}

// among finds the pull request of two branches: an open one, else the newest that was merged. Querying by branches would put names with a
// slash into the path, which not every version supports.
func (g *giteaClient) among(c *gitea.Client, state gitea.StateType, head, base string) (found int64, err error) {
	for page := 1; page <= pages; page++ {
		list, _, err := c.ListRepoPullRequests(g.owner, g.name, gitea.ListPullRequestsOptions{State: state, ListOptions: gitea.ListOptions{Page: page, PageSize: 50}})
		if err != nil {
			return 0, err
		}
		for _, pr := range list {
			switch {
			case pr.Index <= 0 || pr.Head == nil || pr.Base == nil || pr.Head.Ref != head || pr.Base.Ref != base || pr.Head.RepoID != pr.Base.RepoID:
			case pr.State == gitea.StateOpen:
				return pr.Index, nil
			case pr.HasMerged:
				found = max(found, pr.Index)
			}
		}
		if len(list) == 0 {
			break
		}
	}
	return found, nil
}

func (g *giteaClient) Read(ctx context.Context, number int64) (Seen, error) {
	const doing = "Reading the pull request"
	c, err := g.c(ctx)
	if err != nil {
		return Seen{}, err
	}
	pr, _, err := c.GetPullRequest(g.owner, g.name, number)
	if err != nil {
		return Seen{}, g.at.fail(err, doing)
	}
	if pr.Head == nil || pr.Base == nil {
		return Seen{}, g.at.fail(errAnswer, doing)
	}
	s := Seen{Number: pr.Index, URL: pr.HTMLURL, Title: pr.Title, Head: pr.Head.Ref, HeadCommit: pr.Head.Sha, Base: pr.Base.Ref}
	switch {
	case pr.HasMerged:
		s.State = Merged
		if pr.Merged != nil {
			s.MergedAt = pr.Merged.UnixMilli()
		}
		if pr.MergedCommitID != nil {
			s.MergedCommit = *pr.MergedCommitID
		}
	case pr.State == gitea.StateClosed:
		s.State = Closed
	case pr.Draft || plainTitle(pr.Title) != pr.Title:
		s.State, s.Mergeable, s.Blocked = Draft, "no", "It is a draft."
	case pr.State == gitea.StateOpen:
		s.State, s.Mergeable = Open, "yes"
		if !pr.Mergeable { // also for a moment, while the forge computes it
			s.Conflict = true
			s.Mergeable, s.Blocked = "no", "It conflicts with "+pr.Base.Ref+", or "+g.at.Kind.Name()+" still looks."
		}
	}
	all, _, err := c.GetCombinedStatus(g.owner, g.name, s.HeadCommit)
	if !s.noteHidden(err, "commit statuses") {
		if err != nil {
			return s, g.at.fail(err, doing)
		}
		for _, st := range all.Statuses {
			s.Checks = append(s.Checks, Check{Name: st.Context, State: statusState(string(st.State)), URL: st.TargetURL, Text: st.Description})
		}
	}
	var said opinions
	for page := 1; page <= pages; page++ {
		list, _, err := c.ListPullReviews(g.owner, g.name, number, gitea.ListPullReviewsOptions{ListOptions: gitea.ListOptions{Page: page, PageSize: 50}})
		if err != nil {
			return s, g.at.fail(err, doing)
		}
		for _, r := range list {
			said.heard(r)
		}
		if len(list) < 50 {
			break
		}
	}
	s.Reviews = said.list
	return s.checked(g.at)
}

func (o *opinions) heard(r *gitea.PullReview) {
	switch {
	case r.Reviewer == nil:
	case r.Dismissed:
		o.drop(r.Reviewer.UserName)
	case r.State == gitea.ReviewStateApproved:
		o.add(r.Reviewer.UserName, "approved")
	case r.State == gitea.ReviewStateRequestChanges:
		o.add(r.Reviewer.UserName, "changes")
	case r.State == gitea.ReviewStateComment:
		o.add(r.Reviewer.UserName, "comment")
	case r.State == "REQUEST_REVIEW":
		o.add(r.Reviewer.UserName, "waiting")
	}
}

func (g *giteaClient) Merge(ctx context.Context, number int64, m MergeAsk) error {
	c, err := g.c(ctx)
	if err != nil {
		return err
	}
	style := map[string]gitea.MergeStyle{workspaces.StrategyMerge: gitea.MergeStyleMerge, workspaces.StrategySquash: gitea.MergeStyleSquash, workspaces.StrategyRebase: gitea.MergeStyleRebase}[m.Strategy]
	ok, _, err := c.MergePullRequest(g.owner, g.name, number, gitea.MergePullRequestOption{Style: style, HeadCommitId: m.Head})
	if a, is := errors.AsType[*answer](err); is && a.Status == http.StatusConflict {
		return g.at.headMoved(err)
	}
	if err == nil && !ok {
		return fault.New(fault.Conflict, "forge_refused", "%s did not merge, and did not say why. Look there.", g.at.Host)
	}
	return g.at.fail(err, "Merging")
}

func (g *giteaClient) Describe(ctx context.Context, number int64, edit func(string) string) error {
	const doing = "Changing the description"
	c, err := g.c(ctx)
	if err != nil {
		return err
	}
	pr, _, err := c.GetPullRequest(g.owner, g.name, number)
	if err != nil {
		return g.at.fail(err, doing)
	}
	body := edit(pr.Body)
	if body == pr.Body {
		return nil
	}
	_, _, err = c.EditPullRequest(g.owner, g.name, number, gitea.EditPullRequestOption{Body: &body})
	return g.at.fail(err, doing)
}

func (g *giteaClient) Ready(ctx context.Context, number int64) error {
	const doing = "Marking it as ready"
	c, err := g.c(ctx)
	if err != nil {
		return err
	}
	pr, _, err := c.GetPullRequest(g.owner, g.name, number)
	if err != nil {
		return g.at.fail(err, doing)
	}
	title := plainTitle(pr.Title)
	if title == pr.Title {
		return nil
	}
	_, _, err = c.EditPullRequest(g.owner, g.name, number, gitea.EditPullRequestOption{Title: title})
	return g.at.fail(err, doing)
}

func (g *giteaClient) Close(ctx context.Context, number int64) error {
	c, err := g.c(ctx)
	if err != nil {
		return err
	}
	state := gitea.StateClosed
	_, _, err = c.EditPullRequest(g.owner, g.name, number, gitea.EditPullRequestOption{State: &state})
	return g.at.fail(err, "Closing it")
}
