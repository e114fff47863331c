package forge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	gitlab "gitlab.com/gitlab-org/api/client-go/v2"

	"github.com/parawork/parawork/workspaces"
)

// threads: docs.gitlab.com/api/discussions. Comments that cannot be resolved are part of no review.
func (g *gitlabClient) threads(ctx context.Context, number int64) ([]Thread, error) {
	var out []Thread
	for page := int64(1); page <= pages; page++ {
		list, resp, err := g.c.Discussions.ListMergeRequestDiscussions(g.at.Repository, number, &gitlab.ListMergeRequestDiscussionsOptions{ListOptions: gitlab.ListOptions{PerPage: 100, Page: page}}, gitlab.WithContext(ctx))
		if err != nil {
			return nil, err
		}
		for _, d := range list {
			t := Thread{ID: d.ID, Resolved: true}
			for _, n := range d.Notes {
				if n.System || n.Internal || !n.Resolvable {
					continue
				}
				t.Resolved = t.Resolved && n.Resolved
				if p := n.Position; p != nil && t.Path == "" {
					if t.Path, t.Line = p.NewPath, int(p.NewLine); t.Path == "" || t.Line == 0 {
						t.Path, t.Line = p.OldPath, int(p.OldLine)
					}
				}
				one := Comment{ID: strconv.FormatInt(n.ID, 10), Author: n.Author.Username, Text: n.Body, person: n.Author.ID != 0, userID: n.Author.ID,
					URL: fmt.Sprintf("%s#note_%d", g.at.page(number), n.ID)}
				if n.CreatedAt != nil {
					one.At = n.CreatedAt.UnixMilli()
				}
				t.Comments = append(t.Comments, one)
			}
			out = append(out, t)
		}
		if resp.NextPage == 0 {
			break
		}
	}
	return out, nil
}

// mayWrite: docs.gitlab.com/api/project_members, those of groups included. Developers may push.
func (g *gitlabClient) mayWrite(ctx context.Context, c Comment) (bool, error) {
	m, _, err := g.c.ProjectMembers.GetInheritedProjectMember(g.at.Repository, c.userID, gitlab.WithContext(ctx))
	if err != nil {
		return false, err
	}
	return m.AccessLevel >= gitlab.DeveloperPermissions, nil
}

// logOf: a status of a job has the ID of the job, whose log is its trace: docs.gitlab.com/api/jobs.
func (g *gitlabClient) logOf(_ context.Context, c Check) (words, at string, err error) {
	if c.ID == "" {
		return "", "", nil
	}
	return "", fmt.Sprintf("%s/projects/%s/jobs/%s/trace", g.at.APIURL, url.PathEscape(g.at.Repository), c.ID), nil
}

func (g *gitlabClient) authorize(h http.Header) { h.Set("Private-Token", g.token) }

func (g *gitlabClient) reply(ctx context.Context, number int64, t Thread, text string) error {
	_, _, err := g.c.Discussions.AddMergeRequestDiscussionNote(g.at.Repository, number, t.ID, &gitlab.AddMergeRequestDiscussionNoteOptions{Body: &text}, gitlab.WithContext(ctx))
	return err
}

func (g *gitlabClient) resolve(ctx context.Context, number int64, t Thread) error {
	_, _, err := g.c.Discussions.ResolveMergeRequestDiscussion(g.at.Repository, number, t.ID, &gitlab.ResolveMergeRequestDiscussionOptions{Resolved: new(true)}, gitlab.WithContext(ctx))
	return err
}

// askAgain does nothing: GitLab has no request for another review in its API; reviewers are notified of replies and of what was pushed.
func (g *gitlabClient) askAgain(context.Context, int64, []string) error { return nil }

// enqueue turns on auto-merge, which is a merge train where the project has those.
func (g *gitlabClient) enqueue(ctx context.Context, pr PullRequest, m MergeAsk) error {
	_, _, err := g.c.MergeRequests.AcceptMergeRequest(g.at.Repository, pr.Number, &gitlab.AcceptMergeRequestOptions{Squash: new(m.Strategy == workspaces.StrategySquash),
		SHA: &m.Head, AutoMerge: new(true)}, gitlab.WithContext(ctx))
	if a, ok := errors.AsType[*answer](err); ok && a.Status == http.StatusConflict {
		return g.at.headMoved(err)
	}
	return err
}
