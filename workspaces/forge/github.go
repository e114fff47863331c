package forge

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/go-github/v88/github"

	"github.com/parawork/parawork/internal/fault"
)

// pages is how many pages of a list are read, 100 entries each.
const pages = 3

// githubClient uses REST, and GraphQL for what REST lacks: threads, auto-merge, marking a draft as ready.
type githubClient struct {
	at          Place
	c           *github.Client
	owner, name string
	token       string
}

func newGitHub(at Place, token string, rt http.RoundTripper) (*githubClient, error) {
	base := at.APIURL + "/"
	c, err := github.NewClient(github.WithHTTPClient(&http.Client{Transport: rt, CheckRedirect: stay}), github.WithAuthToken(token), github.WithURLs(&base, &base),
		github.WithUserAgent(userAgent), github.WithDisableRateLimitCheck())
	if err != nil {
		return nil, err
	}
	owner, name, _ := strings.Cut(at.Repository, "/")
	return &githubClient{at: at, c: c, owner: owner, name: name, token: token}, nil
}

func (g *githubClient) Open(ctx context.Context, n NewRequest) (int64, error) {
	pr, _, err := g.c.PullRequests.Create(ctx, g.owner, g.name, &github.NewPullRequest{Title: &n.Title, Body: &n.Body, Head: &n.Head, Base: &n.Base, Draft: &n.Draft})
	if err == nil {
		return g.numbered(pr)
	}
	if a, ok := errors.AsType[*answer](err); !ok || a.Status != http.StatusUnprocessableEntity {
		return 0, g.at.fail(err, "Opening the pull request")
	}
	found, _, ferr := g.c.PullRequests.List(ctx, g.owner, g.name, &github.PullRequestListOptions{State: "open", Head: g.owner + ":" + n.Head, Base: n.Base})
	if ferr == nil && len(found) > 0 {
		return g.numbered(found[0])
	}
	return 0, g.at.fail(err, "Opening the pull request")
}

func (g *githubClient) Find(ctx context.Context, head, base string) (int64, error) {
	list, _, err := g.c.PullRequests.List(ctx, g.owner, g.name, &github.PullRequestListOptions{State: "all", Head: g.owner + ":" + head, Base: base})
	if err != nil {
		return 0, g.at.fail(err, "Looking for the pull request")
	}
	var found int64
	for _, pr := range list {
		switch n := int64(pr.GetNumber()); {
		case pr.GetState() == "open" && n > 0:
			return n, nil
		case pr.MergedAt != nil:
			found = max(found, n)
		}
	}
	return found, nil
}

func (g *githubClient) numbered(pr *github.PullRequest) (int64, error) {
	if pr.GetNumber() <= 0 {
		return 0, g.at.fail(errAnswer, "Opening the pull request")
	}
	return int64(pr.GetNumber()), nil
}

func (g *githubClient) Read(ctx context.Context, number int64) (Seen, error) {
	const doing = "Reading the pull request"
	pr, _, err := g.c.PullRequests.Get(ctx, g.owner, g.name, int(number))
	if err != nil {
		return Seen{}, g.at.fail(err, doing)
	}
	s := Seen{Number: int64(pr.GetNumber()), URL: pr.GetHTMLURL(), Title: pr.GetTitle(), Head: pr.GetHead().GetRef(), HeadCommit: pr.GetHead().GetSHA(),
		Base: pr.GetBase().GetRef(), nodeID: pr.GetNodeID()}
	switch {
	case pr.GetMerged():
		s.State, s.MergedAt, s.MergedCommit = Merged, pr.GetMergedAt().UnixMilli(), pr.GetMergeCommitSHA()
	case pr.GetState() == "closed":
		s.State = Closed
	case pr.GetDraft():
		s.State = Draft
	case pr.GetState() == "open":
		s.State = Open
	}
	s.Mergeable, s.Blocked = githubBlocked(pr)
	s.Standing = Standing{Behind: pr.GetMergeableState() == "behind", Conflict: pr.GetMergeableState() == "dirty", Queued: pr.AutoMerge != nil}
	if s.State != Open && s.State != Draft {
		s.Mergeable, s.Blocked = "", ""
	}
	if err := g.checks(ctx, &s); err != nil {
		return s, g.at.fail(err, doing)
	}
	if err := g.reviews(ctx, &s); err != nil {
		return s, g.at.fail(err, doing)
	}
	return s.checked(g.at)
}

// githubBlocked reads mergeable_state, as docs.github.com/graphql/reference/enums#mergestatestatus explains it.
func githubBlocked(pr *github.PullRequest) (mergeable, why string) {
	if pr.Mergeable == nil {
		return "", ""
	}
	switch pr.GetMergeableState() {
	case "dirty":
		return "no", "It conflicts with " + pr.GetBase().GetRef() + "."
	case "blocked":
		return "no", "The repository's rules require something that is not done yet, such as a review or a check."
	case "behind":
		return "no", "The branch must be brought up to date with " + pr.GetBase().GetRef() + " first."
	case "draft":
		return "no", "It is a draft."
	case "unknown":
		return "", ""
	}
	if !pr.GetMergeable() {
		return "no", "It cannot be merged as it is."
	}
	return "yes", ""
}

// checks reads both GitHub statuses and check runs of a commit.
func (g *githubClient) checks(ctx context.Context, s *Seen) error {
	for page := 1; page <= pages; page++ {
		list, resp, err := g.c.Repositories.GetCombinedStatus(ctx, g.owner, g.name, s.HeadCommit, &github.ListOptions{PerPage: 100, Page: page})
		if s.noteHidden(err, "commit statuses") {
			break
		}
		if err != nil {
			return err
		}
		for _, st := range list.Statuses {
			s.Checks = append(s.Checks, Check{Name: st.GetContext(), State: statusState(st.GetState()), URL: st.GetTargetURL(), Text: st.GetDescription()})
		}
		if resp.NextPage == 0 {
			break
		}
	}
	for page := 1; page <= pages; page++ {
		list, resp, err := g.c.Checks.ListCheckRunsForRef(ctx, g.owner, g.name, s.HeadCommit, &github.ListCheckRunsOptions{ListOptions: github.ListOptions{PerPage: 100, Page: page}})
		if s.noteHidden(err, "check runs") {
			break
		}
		if err != nil {
			return err
		}
		for _, run := range list.CheckRuns {
			c := Check{ID: strconv.FormatInt(run.GetID(), 10), Name: run.GetName(), State: Pending, URL: run.GetHTMLURL(), Text: run.GetOutput().GetTitle()}
			if run.GetStatus() == "completed" {
				c.State = statusState(run.GetConclusion())
			}
			s.Checks = append(s.Checks, c)
		}
		if resp.NextPage == 0 {
			break
		}
	}
	return nil
}

// reviews returns the last verdict of each person: a comment withdraws no approval.
func (g *githubClient) reviews(ctx context.Context, s *Seen) error {
	var said opinions
	for page := 1; page <= pages; page++ {
		list, resp, err := g.c.PullRequests.ListReviews(ctx, g.owner, g.name, int(s.Number), &github.ListOptions{PerPage: 100, Page: page})
		if err != nil {
			return err
		}
		for _, r := range list {
			switch r.GetState() {
			case "APPROVED":
				said.add(r.GetUser().GetLogin(), "approved")
			case "CHANGES_REQUESTED":
				said.add(r.GetUser().GetLogin(), "changes")
			case "COMMENTED":
				said.add(r.GetUser().GetLogin(), "comment")
			case "DISMISSED":
				said.drop(r.GetUser().GetLogin())
			}
		}
		if resp.NextPage == 0 {
			break
		}
	}
	s.Reviews = said.list
	return nil
}

func (g *githubClient) Merge(ctx context.Context, number int64, m MergeAsk) error {
	res, _, err := g.c.PullRequests.Merge(ctx, g.owner, g.name, int(number), "", &github.PullRequestOptions{MergeMethod: m.Strategy, SHA: m.Head})
	if a, ok := errors.AsType[*answer](err); ok && a.Status == http.StatusConflict {
		return g.at.headMoved(err)
	}
	if err == nil && !res.GetMerged() {
		return fault.New(fault.Conflict, "forge_refused", "%s did not merge. It said: %s", g.at.Host, clean(res.GetMessage(), maxWords))
	}
	return g.at.fail(err, "Merging")
}

func (g *githubClient) Describe(ctx context.Context, number int64, edit func(string) string) error {
	const doing = "Changing the description"
	pr, _, err := g.c.PullRequests.Get(ctx, g.owner, g.name, int(number))
	if err != nil {
		return g.at.fail(err, doing)
	}
	body := edit(pr.GetBody())
	if body == pr.GetBody() {
		return nil
	}
	_, _, err = g.c.PullRequests.Edit(ctx, g.owner, g.name, int(number), &github.PullRequest{Body: &body})
	return g.at.fail(err, doing)
}

func (g *githubClient) Ready(ctx context.Context, number int64) error {
	const doing = "Marking it as ready"
	pr, _, err := g.c.PullRequests.Get(ctx, g.owner, g.name, int(number))
	if err != nil {
		return g.at.fail(err, doing)
	}
	if !pr.GetDraft() {
		return nil
	}
	// REST lacks this: docs.github.com/graphql/reference/mutations#markpullrequestreadyforreview.
	err = g.graphql(ctx, `mutation($id: ID!) { markPullRequestReadyForReview(input: {pullRequestId: $id}) { pullRequest { isDraft } } }`,
		map[string]any{"id": pr.GetNodeID()}, &struct{}{})
	return g.at.fail(err, doing)
}

func (g *githubClient) Close(ctx context.Context, number int64) error {
	_, _, err := g.c.PullRequests.Edit(ctx, g.owner, g.name, int(number), &github.PullRequest{State: new("closed")})
	return g.at.fail(err, "Closing it")
}
