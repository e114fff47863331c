package forge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-github/v88/github"
)

// graphql asks what REST lacks: docs.github.com/graphql. GitHub Enterprise Server has it at /api/graphql.
func (g *githubClient) graphql(ctx context.Context, query string, variables map[string]any, out any) error {
	at := g.at.APIURL + "/graphql"
	if own, ok := strings.CutSuffix(g.at.APIURL, "/v3"); ok {
		at = own + "/graphql"
	}
	req, err := g.c.NewRequest(ctx, http.MethodPost, at, map[string]any{"query": query, "variables": variables})
	if err != nil {
		return err
	}
	said := struct {
		Data   any `json:"data"`
		Errors []struct {
			Message string `json:"message"`
		} `json:"errors"`
	}{Data: out}
	if _, err = g.c.Do(req, &said); err != nil {
		return err
	}
	if len(said.Errors) > 0 {
		return &answer{Status: http.StatusUnprocessableEntity, Words: clean(said.Errors[0].Message, maxWords)}
	}
	return nil
}

// threadsQuery: docs.github.com/graphql/reference/pulls, PullRequestReviewThread. REST has no threads and does not say what is resolved.
const threadsQuery = `query($owner: String!, $name: String!, $number: Int!, $after: String) { repository(owner: $owner, name: $name) { pullRequest(number: $number) {
	reviewThreads(first: 50, after: $after) { pageInfo { hasNextPage endCursor } nodes { id isResolved path line originalLine
	comments(last: 30) { nodes { databaseId body url createdAt author { __typename login } } } } } } } }`

type githubThreads struct {
	Repository struct {
		PullRequest struct {
			ReviewThreads struct {
				PageInfo struct {
					HasNextPage bool   `json:"hasNextPage"`
					EndCursor   string `json:"endCursor"`
				} `json:"pageInfo"`
				Nodes []struct {
					ID           string `json:"id"`
					IsResolved   bool   `json:"isResolved"`
					Path         string `json:"path"`
					Line         int    `json:"line"`
					OriginalLine int    `json:"originalLine"`
					Comments     struct {
						Nodes []struct {
							DatabaseID int64     `json:"databaseId"`
							Body       string    `json:"body"`
							URL        string    `json:"url"`
							CreatedAt  time.Time `json:"createdAt"`
							Author     *struct {
								Type  string `json:"__typename"`
								Login string `json:"login"`
							} `json:"author"`
						} `json:"nodes"`
					} `json:"comments"`
				} `json:"nodes"`
			} `json:"reviewThreads"`
		} `json:"pullRequest"`
	} `json:"repository"`
}

func (g *githubClient) threads(ctx context.Context, number int64) ([]Thread, error) {
	var out []Thread
	after := any(nil)
	for range pages {
		var said githubThreads
		if err := g.graphql(ctx, threadsQuery, map[string]any{"owner": g.owner, "name": g.name, "number": number, "after": after}, &said); err != nil {
			return nil, err
		}
		found := said.Repository.PullRequest.ReviewThreads
		for _, n := range found.Nodes {
			t := Thread{ID: n.ID, Path: n.Path, Line: cmp.Or(n.Line, n.OriginalLine), Resolved: n.IsResolved}
			for _, c := range n.Comments.Nodes {
				one := Comment{ID: strconv.FormatInt(c.DatabaseID, 10), Text: c.Body, URL: c.URL, At: c.CreatedAt.UnixMilli()}
				if c.Author != nil { // an app's name may be that of a person
					one.Author, one.person = c.Author.Login, c.Author.Type == "User"
				}
				t.Comments = append(t.Comments, one)
			}
			out = append(out, t)
		}
		if after = found.PageInfo.EndCursor; !found.PageInfo.HasNextPage {
			break
		}
	}
	for page := 1; page <= pages; page++ {
		list, resp, err := g.c.PullRequests.ListReviews(ctx, g.owner, g.name, int(number), &github.ListOptions{PerPage: 100, Page: page})
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			if st := r.GetState(); strings.TrimSpace(r.GetBody()) == "" || st != "CHANGES_REQUESTED" && st != "COMMENTED" {
				continue
			}
			id := "review-" + strconv.FormatInt(r.GetID(), 10)
			out = append(out, Thread{ID: id, Closed: true, Comments: []Comment{{ID: id, Author: r.GetUser().GetLogin(), Text: r.GetBody(), URL: r.GetHTMLURL(), At: r.GetSubmittedAt().UnixMilli(),
				person: r.GetUser().GetType() == "User"}}})
		}
		if resp.NextPage == 0 {
			break
		}
	}
	return out, nil
}

// mayWrite: docs.github.com/rest/collaborators/collaborators#get-repository-permissions-for-a-user. Maintainers have write here, triage read.
func (g *githubClient) mayWrite(ctx context.Context, c Comment) (bool, error) {
	level, _, err := g.c.Repositories.GetPermissionLevel(ctx, g.owner, g.name, c.Author)
	if err != nil {
		return false, err
	}
	return level.GetPermission() == "admin" || level.GetPermission() == "write", nil
}

// logOf: the check run of an action has the ID of its job, whose log docs.github.com/rest/actions/workflow-jobs leads to. Others' check runs
// say why they failed in their output and in annotations.
func (g *githubClient) logOf(ctx context.Context, c Check) (words, at string, err error) {
	if c.ID == "" {
		return "", "", nil // a status has no more than its description
	}
	id, err := strconv.ParseInt(c.ID, 10, 64)
	if err != nil {
		return "", "", err
	}
	run, _, err := g.c.Checks.GetCheckRun(ctx, g.owner, g.name, id)
	if err != nil {
		return "", "", err
	}
	var b strings.Builder
	for _, s := range []string{run.GetOutput().GetSummary(), run.GetOutput().GetText()} {
		if s = strings.TrimSpace(s); s != "" {
			b.WriteString(s + "\n")
		}
	}
	if run.GetOutput().GetAnnotationsCount() > 0 {
		list, _, err := g.c.Checks.ListCheckRunAnnotations(ctx, g.owner, g.name, id, &github.ListOptions{PerPage: 30})
		if err != nil {
			return b.String(), "", err
		}
		for _, a := range list {
			if a.GetAnnotationLevel() != "notice" {
				fmt.Fprintf(&b, "%s:%d: %s\n", a.GetPath(), a.GetStartLine(), a.GetMessage())
			}
		}
	}
	if run.GetApp().GetSlug() == "github-actions" {
		at = fmt.Sprintf("%s/repos/%s/%s/actions/jobs/%d/logs", g.at.APIURL, g.owner, g.name, id)
	}
	return b.String(), at, nil
}

func (g *githubClient) authorize(h http.Header) { h.Set("Authorization", "Bearer "+g.token) }

func (g *githubClient) reply(ctx context.Context, _ int64, t Thread, text string) error {
	return g.graphql(ctx, `mutation($id: ID!, $body: String!) { addPullRequestReviewThreadReply(input: {pullRequestReviewThreadId: $id, body: $body}) { comment { databaseId } } }`,
		map[string]any{"id": t.ID, "body": text}, &struct{}{})
}

func (g *githubClient) resolve(ctx context.Context, _ int64, t Thread) error {
	return g.graphql(ctx, `mutation($id: ID!) { resolveReviewThread(input: {threadId: $id}) { thread { isResolved } } }`, map[string]any{"id": t.ID}, &struct{}{})
}

func (g *githubClient) askAgain(ctx context.Context, number int64, who []string) error {
	_, _, err := g.c.PullRequests.RequestReviewers(ctx, g.owner, g.name, int(number), github.ReviewersRequest{Reviewers: who})
	return err
}

// enqueue turns on GitHub's auto-merge, which puts a pull request into the merge queue of a branch that requires one.
func (g *githubClient) enqueue(ctx context.Context, pr PullRequest, m MergeAsk) error {
	one, _, err := g.c.PullRequests.Get(ctx, g.owner, g.name, int(pr.Number))
	if err != nil {
		return err
	}
	if one.GetHead().GetSHA() != m.Head {
		return g.at.headMoved(errors.New("the head moved"))
	}
	if one.AutoMerge != nil {
		return nil
	}
	return g.graphql(ctx, `mutation($id: ID!, $method: PullRequestMergeMethod, $head: GitObjectID) { enablePullRequestAutoMerge(input: {pullRequestId: $id, mergeMethod: $method, expectedHeadOid: $head}) { clientMutationId } }`,
		map[string]any{"id": one.GetNodeID(), "method": strings.ToUpper(m.Strategy), "head": m.Head}, &struct{}{})
}
