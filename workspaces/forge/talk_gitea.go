package forge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"code.gitea.io/sdk/gitea"

	"github.com/parawork/parawork/workspaces"
)

// threads: Gitea and Forgejo list the comments of each review. Those on the same line of a file are one conversation, as on their pages.
func (g *giteaClient) threads(ctx context.Context, number int64) ([]Thread, error) {
	c, err := g.c(ctx)
	if err != nil {
		return nil, err
	}
	var out []Thread
	at := map[string]int{}
	for page := 1; page <= pages; page++ {
		list, _, err := c.ListPullReviews(g.owner, g.name, number, gitea.ListPullReviewsOptions{ListOptions: gitea.ListOptions{Page: page, PageSize: 50}})
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			if strings.TrimSpace(r.Body) != "" && !r.Dismissed && r.Reviewer != nil && (r.State == gitea.ReviewStateRequestChanges || r.State == gitea.ReviewStateComment) {
				id := "review-" + strconv.FormatInt(r.ID, 10)
				out = append(out, Thread{ID: id, Closed: true, Comments: []Comment{{ID: id, Author: r.Reviewer.UserName, Text: r.Body, URL: r.HTMLURL, At: r.Submitted.UnixMilli(), person: true}}})
			}
			if r.CodeCommentsCount == 0 {
				continue
			}
			comments, _, err := c.ListPullReviewComments(g.owner, g.name, number, r.ID)
			if err != nil {
				return nil, err
			}
			for _, one := range comments {
				newLine, oldLine := lineOf(one.LineNum), lineOf(one.OldLineNum)
				key := fmt.Sprintf("%s:%d:%d", one.Path, one.LineNum, one.OldLineNum)
				i, known := at[key]
				if !known {
					i, at[key] = len(out), len(out)
					out = append(out, Thread{ID: strconv.FormatInt(one.ID, 10), Path: one.Path, Line: int(cmp.Or(newLine, oldLine)), newLine: newLine, oldLine: oldLine})
				}
				out[i].Resolved = out[i].Resolved || one.Resolver != nil
				said := Comment{ID: strconv.FormatInt(one.ID, 10), Text: one.Body, URL: one.HTMLURL, At: one.Created.UnixMilli()}
				if one.Reviewer != nil {
					said.Author, said.person = one.Reviewer.UserName, true
				}
				out[i].Comments = append(out[i].Comments, said)
			}
		}
		if len(list) < 50 {
			break
		}
	}
	return out, nil
}

func lineOf(n uint64) int64 { return int64(min(n, math.MaxInt32)) }

// mayWrite: repos/{owner}/{repo}/collaborators/{collaborator}/permission, which Gitea and Forgejo show to those who administer the
// repository. With another token nobody else's comments instruct.
func (g *giteaClient) mayWrite(ctx context.Context, one Comment) (bool, error) {
	c, err := g.c(ctx)
	if err != nil {
		return false, err
	}
	p, _, err := c.CollaboratorPermission(g.owner, g.name, one.Author)
	if err != nil || p == nil {
		return false, err
	}
	return p.Permission == gitea.AccessModeWrite || p.Permission == gitea.AccessModeAdmin || p.Permission == gitea.AccessModeOwner, nil
}

// logOf returns nothing: a status names its run by a page, and not by the ID of its job.
func (g *giteaClient) logOf(context.Context, Check) (words, at string, err error) { return "", "", nil }

func (g *giteaClient) authorize(h http.Header) { h.Set("Authorization", "token "+g.token) }

func (g *giteaClient) reply(ctx context.Context, number int64, t Thread, text string) error {
	c, err := g.c(ctx)
	if err != nil {
		return err
	}
	id, err := strconv.ParseInt(t.ID, 10, 64)
	if err != nil {
		return err
	}
	if _, _, err = c.CreatePullReviewCommentReply(g.owner, g.name, number, id, gitea.CreatePullReviewCommentReplyOptions{Body: text}); !missing(err) {
		return err
	}
	// Before that was there, and in Forgejo, a review's comment on the same line joins the conversation.
	_, _, err = c.CreatePullReview(g.owner, g.name, number, gitea.CreatePullReviewOptions{State: gitea.ReviewStateComment,
		Comments: []gitea.CreatePullReviewComment{{Path: t.Path, Body: text, NewLineNum: t.newLine, OldLineNum: t.oldLine}}})
	return err
}

// missing reports whether a server has no such operation.
func missing(err error) bool {
	a, ok := errors.AsType[*answer](err)
	return ok && (a.Status == http.StatusNotFound || a.Status == http.StatusMethodNotAllowed)
}

func (g *giteaClient) resolve(ctx context.Context, _ int64, t Thread) error {
	c, err := g.c(ctx)
	if err != nil {
		return err
	}
	id, err := strconv.ParseInt(t.ID, 10, 64)
	if err != nil {
		return err
	}
	if _, err = c.ResolvePullReviewComment(g.owner, g.name, id); missing(err) {
		return nil // there it is resolved on the page alone: the reply stands beside it
	}
	return err
}

func (g *giteaClient) askAgain(ctx context.Context, number int64, who []string) error {
	c, err := g.c(ctx)
	if err != nil {
		return err
	}
	_, err = c.CreateReviewRequests(g.owner, g.name, number, gitea.PullReviewRequestOptions{Reviewers: who})
	return err
}

func (g *giteaClient) enqueue(ctx context.Context, pr PullRequest, m MergeAsk) error {
	c, err := g.c(ctx)
	if err != nil {
		return err
	}
	style := map[string]gitea.MergeStyle{workspaces.StrategyMerge: gitea.MergeStyleMerge, workspaces.StrategySquash: gitea.MergeStyleSquash, workspaces.StrategyRebase: gitea.MergeStyleRebase}[m.Strategy]
	_, _, err = c.MergePullRequest(g.owner, g.name, pr.Number, gitea.MergePullRequestOption{Style: style, HeadCommitId: m.Head, MergeWhenChecksSucceed: true})
	return err
}
