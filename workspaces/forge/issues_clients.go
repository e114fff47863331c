package forge

import (
	"context"
	"net/http"
	"strings"

	"code.gitea.io/sdk/gitea"
	"github.com/google/go-github/v88/github"
	gitlab "gitlab.com/gitlab-org/api/client-go/v2"
)

// maxLabelPages is how many pages of a repository's labels are read on Gitea, which names the labels of an issue by id.
const maxLabelPages = 20

func (g *githubClient) listIssues(ctx context.Context, q IssueQuery) ([]Issue, bool, http.Header, error) {
	opts := &github.IssueListByRepoOptions{State: "all", Sort: "created", Direction: "asc", ListOptions: github.ListOptions{Page: q.Page, PerPage: IssuesPerPage}}
	if q.Open {
		opts.State = "open"
	}
	if q.Label != "" {
		opts.Labels = []string{q.Label}
	}
	if q.Since > 0 {
		opts.Since = sinceTime(q.Since)
	}
	list, resp, err := g.c.Issues.ListByRepo(ctx, g.owner, g.name, opts)
	if err != nil {
		return nil, false, nil, err
	}
	out := make([]Issue, 0, len(list))
	for _, i := range list {
		if !i.IsPullRequest() { // GitHub lists pull requests as issues
			out = append(out, githubIssue(i))
		}
	}
	return out, resp.NextPage != 0, resp.Header, nil
}

func (g *githubClient) getIssue(ctx context.Context, number int64) (Issue, error) {
	i, _, err := g.c.Issues.Get(ctx, g.owner, g.name, int(number))
	if err != nil {
		return Issue{}, err
	}
	return githubIssue(i), nil
}

func (g *githubClient) createIssue(ctx context.Context, title, body string, labels []string) (Issue, error) {
	i, _, err := g.c.Issues.Create(ctx, g.owner, g.name, &github.IssueRequest{Title: &title, Body: &body, Labels: &labels})
	if err != nil {
		return Issue{}, err
	}
	return githubIssue(i), nil
}

func (g *githubClient) editIssue(ctx context.Context, number int64, c IssueChange) (Issue, error) {
	req := &github.IssueRequest{Title: c.Title, Body: c.Body, Labels: c.Labels}
	if c.Closed != nil {
		req.State = new("open")
		if *c.Closed {
			req.State = new("closed")
		}
	}
	i, _, err := g.c.Issues.Edit(ctx, g.owner, g.name, int(number), req)
	if err != nil {
		return Issue{}, err
	}
	return githubIssue(i), nil
}

func githubIssue(i *github.Issue) Issue {
	out := Issue{Number: int64(i.GetNumber()), URL: i.GetHTMLURL(), Title: i.GetTitle(), Body: i.GetBody(), Closed: i.GetState() == "closed", UpdatedAt: i.GetUpdatedAt().UnixMilli()}
	for _, l := range i.Labels {
		out.Labels = append(out.Labels, l.GetName())
	}
	var people []string
	for _, u := range i.Assignees {
		people = append(people, u.GetLogin())
	}
	out.Assignee = names(people)
	return out
}

func (g *gitlabClient) listIssues(ctx context.Context, q IssueQuery) ([]Issue, bool, http.Header, error) {
	opts := &gitlab.ListProjectIssuesOptions{OrderBy: new("created_at"), Sort: new("asc"), ListOptions: gitlab.ListOptions{Page: int64(q.Page), PerPage: IssuesPerPage}}
	if q.Open {
		opts.State = new("opened")
	}
	if q.Label != "" {
		opts.Labels = &gitlab.LabelOptions{q.Label}
	}
	if q.Since > 0 {
		opts.UpdatedAfter = new(sinceTime(q.Since))
	}
	list, resp, err := g.c.Issues.ListProjectIssues(g.at.Repository, opts, gitlab.WithContext(ctx))
	if err != nil {
		return nil, false, nil, err
	}
	out := make([]Issue, 0, len(list))
	for _, i := range list {
		out = append(out, gitlabIssue(i))
	}
	return out, resp.NextPage != 0, resp.Header, nil
}

func (g *gitlabClient) getIssue(ctx context.Context, number int64) (Issue, error) {
	i, _, err := g.c.Issues.GetIssue(g.at.Repository, number, nil, gitlab.WithContext(ctx))
	if err != nil {
		return Issue{}, err
	}
	return gitlabIssue(i), nil
}

func (g *gitlabClient) createIssue(ctx context.Context, title, body string, labels []string) (Issue, error) {
	i, _, err := g.c.Issues.CreateIssue(g.at.Repository, &gitlab.CreateIssueOptions{Title: &title, Description: &body, Labels: (*gitlab.LabelOptions)(&labels)}, gitlab.WithContext(ctx))
	if err != nil {
		return Issue{}, err
	}
	return gitlabIssue(i), nil
}

func (g *gitlabClient) editIssue(ctx context.Context, number int64, c IssueChange) (Issue, error) {
	opts := &gitlab.UpdateIssueOptions{Title: c.Title, Description: c.Body, Labels: (*gitlab.LabelOptions)(c.Labels)}
	if c.Closed != nil {
		opts.StateEvent = new("reopen")
		if *c.Closed {
			opts.StateEvent = new("close")
		}
	}
	i, _, err := g.c.Issues.UpdateIssue(g.at.Repository, number, opts, gitlab.WithContext(ctx))
	if err != nil {
		return Issue{}, err
	}
	return gitlabIssue(i), nil
}

func gitlabIssue(i *gitlab.Issue) Issue {
	out := Issue{Number: i.IID, URL: i.WebURL, Title: i.Title, Body: i.Description, Closed: i.State == "closed", Labels: i.Labels}
	if i.UpdatedAt != nil {
		out.UpdatedAt = i.UpdatedAt.UnixMilli()
	}
	var people []string
	for _, u := range i.Assignees {
		if u != nil {
			people = append(people, u.Username)
		}
	}
	out.Assignee = names(people)
	return out
}

func (g *giteaClient) listIssues(ctx context.Context, q IssueQuery) ([]Issue, bool, http.Header, error) {
	c, err := g.c(ctx)
	if err != nil {
		return nil, false, nil, err
	}
	opts := gitea.ListIssueOption{State: gitea.StateAll, Type: gitea.IssueTypeIssue, ListOptions: gitea.ListOptions{Page: q.Page, PageSize: IssuesPerPage}}
	if q.Open {
		opts.State = gitea.StateOpen
	}
	if q.Label != "" {
		opts.Labels = []string{q.Label}
	}
	if q.Since > 0 {
		opts.Since = sinceTime(q.Since)
	}
	list, resp, err := c.ListRepoIssues(g.owner, g.name, opts)
	if err != nil {
		return nil, false, nil, err
	}
	out := make([]Issue, 0, len(list))
	for _, i := range list {
		if i != nil && i.PullRequest == nil {
			out = append(out, giteaIssue(i))
		}
	}
	// A server may have smaller pages than were asked for (MAX_RESPONSE_ITEMS): the header tells whether there are more.
	return out, strings.Contains(resp.Header.Get("Link"), `rel="next"`), resp.Header, nil
}

func (g *giteaClient) getIssue(ctx context.Context, number int64) (Issue, error) {
	c, err := g.c(ctx)
	if err != nil {
		return Issue{}, err
	}
	i, _, err := c.GetIssue(g.owner, g.name, number)
	if err != nil {
		return Issue{}, err
	}
	return giteaIssue(i), nil
}

func (g *giteaClient) createIssue(ctx context.Context, title, body string, labels []string) (Issue, error) {
	c, err := g.c(ctx)
	if err != nil {
		return Issue{}, err
	}
	ids, err := g.labelIDs(c, labels, nil)
	if err != nil {
		return Issue{}, err
	}
	i, _, err := c.CreateIssue(g.owner, g.name, gitea.CreateIssueOption{Title: title, Body: body, Labels: ids})
	if err != nil {
		return Issue{}, err
	}
	return giteaIssue(i), nil
}

func (g *giteaClient) editIssue(ctx context.Context, number int64, ch IssueChange) (Issue, error) {
	c, err := g.c(ctx)
	if err != nil {
		return Issue{}, err
	}
	now, _, err := c.GetIssue(g.owner, g.name, number)
	if err != nil {
		return Issue{}, err
	}
	if ch.Labels != nil {
		ids, err := g.labelIDs(c, *ch.Labels, now.Labels)
		if err == nil {
			now.Labels, _, err = c.ReplaceIssueLabels(g.owner, g.name, number, gitea.IssueLabelsOption{Labels: ids})
		}
		if err != nil {
			return Issue{}, err
		}
	}
	if ch.Title == nil && ch.Body == nil && ch.Closed == nil {
		return giteaIssue(now), nil
	}
	opts := gitea.EditIssueOption{Body: ch.Body}
	if ch.Title != nil {
		opts.Title = *ch.Title
	}
	if ch.Closed != nil {
		opts.State = new(gitea.StateOpen)
		if *ch.Closed {
			opts.State = new(gitea.StateClosed)
		}
	}
	i, _, err := c.EditIssue(g.owner, g.name, number, opts)
	if err != nil {
		return Issue{}, err
	}
	if ch.Labels != nil {
		i.Labels = now.Labels
	}
	return giteaIssue(i), nil
}

// labelIDs finds labels by name, first among those an issue has, and creates what the repository lacks.
func (g *giteaClient) labelIDs(c *gitea.Client, wanted []string, has []*gitea.Label) ([]int64, error) {
	ids := map[string]int64{}
	for _, l := range has {
		ids[l.Name] = l.ID
	}
	missing := func() bool {
		for _, n := range wanted {
			if ids[n] == 0 {
				return true
			}
		}
		return false
	}
	for page := 1; page <= maxLabelPages && missing(); page++ {
		list, resp, err := c.ListRepoLabels(g.owner, g.name, gitea.ListLabelsOptions{ListOptions: gitea.ListOptions{Page: page, PageSize: 50}})
		if err != nil {
			return nil, err
		}
		for _, l := range list {
			if ids[l.Name] == 0 {
				ids[l.Name] = l.ID
			}
		}
		if !strings.Contains(resp.Header.Get("Link"), `rel="next"`) {
			break
		}
	}
	out := make([]int64, 0, len(wanted))
	for _, n := range wanted {
		if ids[n] == 0 {
			l, _, err := c.CreateLabel(g.owner, g.name, gitea.CreateLabelOption{Name: n, Color: "#8888aa"})
			if err != nil {
				return nil, err
			}
			ids[n] = l.ID
		}
		out = append(out, ids[n])
	}
	return out, nil
}

func giteaIssue(i *gitea.Issue) Issue {
	out := Issue{Number: i.Index, URL: i.HTMLURL, Title: i.Title, Body: i.Body, Closed: i.State == gitea.StateClosed, UpdatedAt: i.Updated.UnixMilli()}
	for _, l := range i.Labels {
		if l != nil {
			out.Labels = append(out.Labels, l.Name)
		}
	}
	var people []string
	for _, u := range i.Assignees {
		if u != nil {
			people = append(people, u.UserName)
		}
	}
	out.Assignee = names(people)
	return out
}
