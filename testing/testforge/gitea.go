package testforge

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// gitea is docs.gitea.com/api and codeberg.org/api/swagger, which agree on all of this.
func (f *Forge) gitea() {
	at := func(pattern, scope string, h func(w http.ResponseWriter, r *http.Request, repo string)) {
		method, path, _ := strings.Cut(pattern, " ")
		f.mux.HandleFunc(method+" /api/v1/repos/{owner}/{name}"+path, func(w http.ResponseWriter, r *http.Request) {
			t := f.token(strings.TrimPrefix(r.Header.Get("Authorization"), "token "))
			repo := r.PathValue("owner") + "/" + r.PathValue("name")
			switch {
			case t == nil:
				reply(w, http.StatusUnauthorized, map[string]any{"message": "user does not exist [uid: 0, name: ]", "url": f.URL + "/api/swagger"})
			case !slices.Contains(t.Scopes, scope) && !slices.Contains(t.Scopes, strings.Replace(scope, "read:", "write:", 1)):
				reply(w, http.StatusForbidden, map[string]any{"message": fmt.Sprintf("token does not have at least one of required scope(s): [%s]", scope), "url": f.URL + "/api/swagger"})
			case f.pulls[repo] == nil && f.ref(repo, "main") == "":
				reply(w, http.StatusNotFound, map[string]any{"errors": []string{"user redirect does not exist [name: " + repo + "]"}, "message": "The target couldn't be found.", "url": f.URL + "/api/swagger"})
			default:
				h(w, r, repo)
			}
		})
	}
	f.giteaIssues(at)
	f.giteaTalk(at)
	at("POST /pulls", "write:repository", f.giteaOpen)
	at("GET /pulls", "read:repository", func(w http.ResponseWriter, r *http.Request, repo string) {
		var all []any
		for _, p := range f.pulls[repo] {
			if st := r.URL.Query().Get("state"); st != "all" && (st == "" || st == "open") != (p.State == "open") {
				continue
			}
			all = append(all, f.giteaPull(repo, p))
		}
		giteaList(w, r, all)
	})
	at("GET /pulls/{number}", "read:repository", f.numbered(func(w http.ResponseWriter, r *http.Request, repo string, p *Pull) { tagged(w, r, f.giteaPull(repo, p)) }))
	at("PATCH /pulls/{number}", "write:repository", f.numbered(func(w http.ResponseWriter, r *http.Request, repo string, p *Pull) {
		var in struct {
			Title, Base, Assignee string
			Body, State           *string
			Assignees             []string
			Milestone             int64
			Labels                []int64
			DueDate               *string `json:"due_date"`
			UnsetDueDate          *bool   `json:"unset_due_date"`
			AllowMaintainerEdit   *bool   `json:"allow_maintainer_edit"`
		}
		if err := body(r, &in); err != nil {
			reply(w, http.StatusUnprocessableEntity, map[string]any{"message": err.Error()})
			return
		}
		if in.Title != "" {
			p.Title = in.Title
		}
		if in.Body != nil {
			p.Body = *in.Body
		}
		if in.State != nil && *in.State == "closed" && p.State == "open" {
			f.sha(repo, p)
			p.State = "closed"
		}
		reply(w, http.StatusCreated, f.giteaPull(repo, p))
	}))
	at("POST /pulls/{number}/merge", "write:repository", f.numbered(f.giteaMerge))
	at("GET /pulls/{number}/reviews", "read:repository", f.numbered(func(w http.ResponseWriter, r *http.Request, _ string, p *Pull) {
		var all []any
		for i, v := range p.Reviews {
			state := map[string]string{"APPROVED": "APPROVED", "CHANGES_REQUESTED": "REQUEST_CHANGES", "COMMENTED": "COMMENT", "DISMISSED": "APPROVED"}[v.State]
			all = append(all, map[string]any{"id": i + 1, "user": map[string]any{"login": v.User}, "state": state, "dismissed": v.State == "DISMISSED"})
		}
		for i, t := range p.Talks {
			all = append(all, map[string]any{"id": i + 100, "user": map[string]any{"login": t.Said[0].User}, "state": "COMMENT", "comments_count": len(t.Said)})
		}
		giteaList(w, r, all)
	}))
	at("GET /commits/{ref}/status", "read:repository", func(w http.ResponseWriter, r *http.Request, repo string) {
		all := []any{}
		for _, c := range f.checks[repo] {
			if c.Commit == r.PathValue("ref") {
				all = append(all, map[string]any{"id": len(all) + 1, "status": c.State, "context": c.Name, "target_url": c.URL, "description": c.Text})
			}
		}
		tagged(w, r, map[string]any{"state": "pending", "sha": r.PathValue("ref"), "total_count": len(all), "statuses": all})
	})
	f.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "404 page not found", http.StatusNotFound) })
}

func giteaList(w http.ResponseWriter, r *http.Request, all []any) {
	items, _, next := cut(r, "limit", 30, 50, all)
	w.Header().Set("X-Total-Count", strconv.Itoa(len(all)))
	linkTo(w, r, next)
	tagged(w, r, items)
}

func giteaDraft(title string) bool {
	return strings.HasPrefix(strings.ToUpper(title), "WIP:") || strings.HasPrefix(strings.ToUpper(title), "[WIP]")
}

func (f *Forge) giteaOpen(w http.ResponseWriter, r *http.Request, repo string) {
	var in struct {
		Head, Base, Title, Body, Assignee string
		Assignees, Reviewers              []string
		TeamReviewers                     []string `json:"team_reviewers"`
		Milestone                         int64
		Labels                            []int64
		DueDate                           *string `json:"due_date"`
	}
	if err := body(r, &in); err != nil {
		reply(w, http.StatusUnprocessableEntity, map[string]any{"message": err.Error()})
		return
	}
	same := f.same(repo, in.Head, in.Base)
	switch {
	case in.Head == in.Base:
		reply(w, http.StatusUnprocessableEntity, map[string]any{"message": "Invalid PullRequest: There are no changes between the head and the base"})
	case f.ref(repo, in.Head) == "" || f.ref(repo, in.Base) == "":
		reply(w, http.StatusNotFound, map[string]any{"message": "The target couldn't be found.", "errors": []string{}})
	case in.Title == "":
		reply(w, http.StatusUnprocessableEntity, map[string]any{"message": "[Title]: Required"})
	case same != nil:
		reply(w, http.StatusConflict, map[string]any{"message": fmt.Sprintf("pull request already exists for these targets [id: %d, issue_id: %d, head_repo_id: 1, base_repo_id: 1, head_branch: %s, base_branch: %s]", same.Number, same.Number, in.Head, in.Base)})
	default:
		p := f.open(repo, Pull{Title: in.Title, Body: in.Body, Head: in.Head, Base: in.Base})
		reply(w, http.StatusCreated, f.giteaPull(repo, p))
	}
}

func (f *Forge) giteaPull(repo string, p *Pull) map[string]any {
	sha := f.sha(repo, p)
	state := "closed"
	if p.State == "open" {
		state = "open"
	}
	out := map[string]any{"id": 1000 + p.Number, "number": p.Number, "state": state, "title": p.Title, "body": p.Body, "draft": giteaDraft(p.Title), "html_url": fmt.Sprintf("%s/%s/pulls/%d", f.URL, repo, p.Number),
		"head": map[string]any{"label": p.Head, "ref": p.Head, "sha": sha, "repo_id": 1}, "base": map[string]any{"label": p.Base, "ref": p.Base, "sha": f.ref(repo, p.Base), "repo_id": 1},
		"mergeable": p.State == "open" && f.fits(repo, p), "merged": p.State == "merged", "merged_at": nil, "merge_commit_sha": nil}
	if p.State == "merged" {
		out["merged_at"], out["merge_commit_sha"] = p.MergedAt.UTC().Format("2006-01-02T15:04:05Z"), p.MergedSha
	}
	return out
}

func (f *Forge) giteaMerge(w http.ResponseWriter, r *http.Request, repo string, p *Pull) {
	var in struct {
		Do                string
		MergeCommitID     string
		MergeTitleField   string
		MergeMessageField string
		DeleteBranch      *bool  `json:"delete_branch_after_merge"`
		ForceMerge        bool   `json:"force_merge"`
		HeadCommitID      string `json:"head_commit_id"`
		WhenChecksSucceed bool   `json:"merge_when_checks_succeed"`
	}
	if err := body(r, &in); err != nil {
		reply(w, http.StatusUnprocessableEntity, map[string]any{"message": err.Error()})
		return
	}
	switch {
	case in.HeadCommitID != "" && in.HeadCommitID != f.sha(repo, p):
		reply(w, http.StatusConflict, map[string]any{"message": "head out of date"})
	case p.State != "open" || giteaDraft(p.Title):
		reply(w, http.StatusMethodNotAllowed, map[string]any{"message": "Work in progress PRs cannot be merged"})
	case p.Blocked != "" && !in.ForceMerge:
		reply(w, http.StatusMethodNotAllowed, map[string]any{"message": "Does not have enough approvals"})
	case !f.fits(repo, p):
		reply(w, http.StatusMethodNotAllowed, map[string]any{"message": "Please try again later"})
	case !slices.Contains([]string{"merge", "squash", "rebase", "rebase-merge", "fast-forward-only"}, in.Do):
		reply(w, http.StatusUnprocessableEntity, map[string]any{"message": "[Do]: In"})
	default:
		if err := f.merge(repo, p, in.Do); err != nil {
			reply(w, http.StatusInternalServerError, map[string]any{"message": err.Error()})
			return
		}
		w.WriteHeader(http.StatusOK)
	}
}
