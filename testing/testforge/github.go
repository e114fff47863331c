package testforge

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// github is docs.github.com/rest, as a server of one's own has it: below /api/v3, with GraphQL at /api/graphql.
func (f *Forge) github() {
	at := func(pattern, scope string, h func(w http.ResponseWriter, r *http.Request, repo string)) {
		method, path, _ := strings.Cut(pattern, " ")
		f.mux.HandleFunc(method+" /api/v3/repos/{owner}/{name}"+path, func(w http.ResponseWriter, r *http.Request) {
			t, ok := f.githubAuth(w, r)
			if !ok {
				return
			}
			repo := r.PathValue("owner") + "/" + r.PathValue("name")
			if t == nil || f.pulls[repo] == nil && f.ref(repo, "main") == "" {
				reply(w, http.StatusNotFound, map[string]any{"message": "Not Found", "documentation_url": "https://docs.github.com/rest"})
				return
			}
			if !slices.Contains(t.Scopes, scope) {
				reply(w, http.StatusForbidden, map[string]any{"message": "Resource not accessible by personal access token"})
				return
			}
			h(w, r, repo)
		})
	}
	f.githubIssues(at)
	f.githubTalk(at)
	at("POST /pulls", "repo", f.githubOpen)
	at("GET /pulls", "repo", func(w http.ResponseWriter, r *http.Request, repo string) {
		q := r.URL.Query()
		var all []any
		for _, p := range f.pulls[repo] {
			owner, _, _ := strings.Cut(repo, "/")
			if st := q.Get("state"); st != "all" && (st == "" || st == "open") != (p.State == "open") {
				continue
			}
			if h := q.Get("head"); h != "" && h != owner+":"+p.Head {
				continue
			}
			if b := q.Get("base"); b != "" && b != p.Base {
				continue
			}
			all = append(all, f.githubPull(repo, p, false))
		}
		items, _, next := cut(r, "per_page", 30, 100, all)
		linkTo(w, r, next)
		tagged(w, r, items)
	})
	at("GET /pulls/{number}", "repo", f.numbered(func(w http.ResponseWriter, r *http.Request, repo string, p *Pull) {
		tagged(w, r, f.githubPull(repo, p, true))
	}))
	at("PATCH /pulls/{number}", "repo", f.numbered(func(w http.ResponseWriter, r *http.Request, repo string, p *Pull) {
		var in struct{ Title, Body, State, Base *string }
		if err := body(r, &in); err != nil {
			githubInvalid(w, "Problems parsing JSON: "+err.Error())
			return
		}
		if in.Body != nil {
			p.Body = *in.Body
		}
		if in.State != nil && p.State == "open" && *in.State == "closed" {
			f.sha(repo, p)
			p.State = "closed"
		}
		reply(w, http.StatusOK, f.githubPull(repo, p, true))
	}))
	at("PUT /pulls/{number}/merge", "repo", f.numbered(f.githubMerge))
	at("GET /pulls/{number}/reviews", "repo", f.numbered(func(w http.ResponseWriter, r *http.Request, repo string, p *Pull) {
		var all []any
		for i, v := range p.Reviews {
			all = append(all, map[string]any{"id": i + 1, "user": map[string]any{"login": v.User}, "state": v.State, "commit_id": p.Sha})
		}
		items, _, next := cut(r, "per_page", 30, 100, all)
		linkTo(w, r, next)
		tagged(w, r, items)
	}))
	at("GET /commits/{ref}/status", "repo", func(w http.ResponseWriter, r *http.Request, repo string) {
		var all []any
		for _, c := range f.checks[repo] {
			if c.Commit == r.PathValue("ref") && !c.Run {
				all = append(all, map[string]any{"context": c.Name, "state": c.State, "target_url": c.URL, "description": c.Text})
			}
		}
		items, _, next := cut(r, "per_page", 30, 100, all)
		linkTo(w, r, next)
		tagged(w, r, map[string]any{"state": "pending", "sha": r.PathValue("ref"), "total_count": len(all), "statuses": items})
	})
	at("GET /commits/{ref}/check-runs", "checks", func(w http.ResponseWriter, r *http.Request, repo string) {
		var all []any
		runs := 0
		for _, c := range f.checks[repo] {
			if c.Run {
				runs++
			}
			if c.Commit != r.PathValue("ref") || !c.Run {
				continue
			}
			run := map[string]any{"id": runs, "name": c.Name, "html_url": c.URL, "status": "completed", "conclusion": c.State, "output": map[string]any{"title": c.Text}}
			if c.State == "queued" || c.State == "in_progress" {
				run["status"], run["conclusion"] = c.State, nil
			}
			all = append(all, run)
		}
		items, _, next := cut(r, "per_page", 30, 100, all)
		linkTo(w, r, next)
		tagged(w, r, map[string]any{"total_count": len(all), "check_runs": items})
	})
	f.mux.HandleFunc("POST /api/graphql", f.githubReady)
	f.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusNotFound, map[string]any{"message": "Not Found"})
	})
}

// numbered finds the pull request the path names.
func (f *Forge) numbered(h func(w http.ResponseWriter, r *http.Request, repo string, p *Pull)) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, r *http.Request, repo string) {
		n, _ := strconv.ParseInt(r.PathValue("number"), 10, 64)
		p := f.pull(repo, n)
		if p == nil {
			reply(w, http.StatusNotFound, map[string]any{"message": "Not Found"})
			return
		}
		h(w, r, repo, p)
	}
}

// githubAuth returns the token of the caller. A wrong token is an error; without one only public repositories are visible.
func (f *Forge) githubAuth(w http.ResponseWriter, r *http.Request) (*Token, bool) {
	h := r.Header.Get("Authorization")
	value, ok := strings.CutPrefix(h, "Bearer ")
	if !ok {
		value, ok = strings.CutPrefix(h, "token ")
	}
	t := f.token(value)
	if h != "" && (!ok || t == nil) {
		reply(w, http.StatusUnauthorized, map[string]any{"message": "Bad credentials", "documentation_url": "https://docs.github.com/rest", "status": "401"})
		return nil, false
	}
	if !f.spend(w, "X-RateLimit-") {
		reply(w, http.StatusForbidden, map[string]any{"message": "API rate limit exceeded for user ID 1."})
		return nil, false
	}
	return t, true
}

func githubInvalid(w http.ResponseWriter, message string, errs ...any) {
	reply(w, http.StatusUnprocessableEntity, map[string]any{"message": message, "errors": errs, "documentation_url": "https://docs.github.com/rest/pulls/pulls", "status": "422"})
}

func (f *Forge) githubOpen(w http.ResponseWriter, r *http.Request, repo string) {
	var in struct {
		Title, Head, Base, Body string
		Draft                   bool
		HeadRepo                string `json:"head_repo"`
		MaintainerCanModify     *bool  `json:"maintainer_can_modify"`
	}
	if err := body(r, &in); err != nil {
		reply(w, http.StatusBadRequest, map[string]any{"message": "Problems parsing JSON: " + err.Error()})
		return
	}
	owner, _, _ := strings.Cut(repo, "/")
	in.Head = strings.TrimPrefix(in.Head, owner+":")
	switch {
	case in.Title == "":
		githubInvalid(w, "Validation Failed", map[string]any{"resource": "Issue", "code": "missing_field", "field": "title"})
	case f.ref(repo, in.Head) == "":
		githubInvalid(w, "Validation Failed", map[string]any{"resource": "PullRequest", "field": "head", "code": "invalid"})
	case f.ref(repo, in.Base) == "":
		githubInvalid(w, "Validation Failed", map[string]any{"resource": "PullRequest", "field": "base", "code": "invalid"})
	case f.same(repo, in.Head, in.Base) != nil:
		githubInvalid(w, "Validation Failed", map[string]any{"resource": "PullRequest", "code": "custom", "message": fmt.Sprintf("A pull request already exists for %s:%s.", owner, in.Head)})
	case f.commits(repo, in.Base, in.Head) == 0:
		githubInvalid(w, "Validation Failed", map[string]any{"resource": "PullRequest", "code": "custom", "message": fmt.Sprintf("No commits between %s and %s", in.Base, in.Head)})
	default:
		p := f.open(repo, Pull{Title: in.Title, Body: in.Body, Head: in.Head, Base: in.Base, Draft: in.Draft})
		reply(w, http.StatusCreated, f.githubPull(repo, p, true))
	}
}

func (f *Forge) githubPull(repo string, p *Pull, whole bool) map[string]any {
	sha := f.sha(repo, p)
	state := "closed"
	if p.State == "open" {
		state = "open"
	}
	out := map[string]any{"id": 1000 + p.Number, "node_id": fmt.Sprintf("PR_%s_%d", repo, p.Number), "number": p.Number, "state": state, "title": p.Title, "body": p.Body, "draft": p.Draft,
		"html_url": fmt.Sprintf("%s/%s/pull/%d", f.URL, repo, p.Number), "head": map[string]any{"ref": p.Head, "sha": sha}, "base": map[string]any{"ref": p.Base, "sha": f.ref(repo, p.Base)}}
	if out["merged_at"] = nil; p.State == "merged" {
		out["merged_at"], out["merge_commit_sha"] = p.MergedAt.UTC().Format("2006-01-02T15:04:05Z"), p.MergedSha
	}
	if !whole {
		return out
	}
	out["merged"], out["mergeable"], out["mergeable_state"] = p.State == "merged", nil, "unknown"
	if p.State == "merged" {
		return out
	}
	key := sha + f.ref(repo, p.Base)
	if p.known != key { // it is worked out behind, and there with the next question
		p.known = key
		return out
	}
	if p.Auto {
		out["auto_merge"] = map[string]any{"merge_method": "squash"}
	}
	fits := f.fits(repo, p)
	out["mergeable"] = fits
	switch {
	case !fits:
		out["mergeable_state"] = "dirty"
	case p.Draft:
		out["mergeable_state"] = "draft"
	case p.Blocked != "":
		out["mergeable_state"] = "blocked"
	default:
		out["mergeable_state"] = "clean"
	}
	return out
}

func (f *Forge) githubMerge(w http.ResponseWriter, r *http.Request, repo string, p *Pull) {
	var in struct {
		CommitTitle   string  `json:"commit_title"`
		CommitMessage *string `json:"commit_message"`
		MergeMethod   string  `json:"merge_method"`
		SHA           string  `json:"sha"`
	}
	if err := body(r, &in); err != nil {
		reply(w, http.StatusBadRequest, map[string]any{"message": "Problems parsing JSON: " + err.Error()})
		return
	}
	switch {
	case in.SHA != "" && in.SHA != f.sha(repo, p):
		reply(w, http.StatusConflict, map[string]any{"message": "Head branch was modified. Review and try the merge again."})
	case p.Draft:
		reply(w, http.StatusMethodNotAllowed, map[string]any{"message": "Pull Request is still a draft"})
	case p.State != "open" || p.Blocked != "" || !f.fits(repo, p):
		reply(w, http.StatusMethodNotAllowed, map[string]any{"message": "Pull Request is not mergeable"})
	case !slices.Contains([]string{"", "merge", "squash", "rebase"}, in.MergeMethod):
		githubInvalid(w, "Invalid merge_method")
	default:
		if err := f.merge(repo, p, in.MergeMethod); err != nil {
			reply(w, http.StatusMethodNotAllowed, map[string]any{"message": err.Error()})
			return
		}
		reply(w, http.StatusOK, map[string]any{"sha": p.MergedSha, "merged": true, "message": "Pull Request successfully merged"})
	}
}

func (f *Forge) githubReady(w http.ResponseWriter, r *http.Request) {
	t, ok := f.githubAuth(w, r)
	if !ok {
		return
	}
	var in struct {
		Query     string
		Variables map[string]any
	}
	if err := body(r, &in); err != nil || t == nil {
		reply(w, http.StatusUnauthorized, map[string]any{"message": "This endpoint requires you to be authenticated."})
		return
	}
	if f.githubQuery(w, t.User, in.Query, in.Variables) {
		return
	}
	id, _ := in.Variables["id"].(string)
	if !strings.Contains(in.Query, "markPullRequestReadyForReview") {
		reply(w, http.StatusOK, map[string]any{"errors": []any{map[string]any{"message": "Field does not exist"}}})
		return
	}
	for repo, all := range f.pulls {
		for _, p := range all {
			if id == fmt.Sprintf("PR_%s_%d", repo, p.Number) {
				p.Draft = false
				reply(w, http.StatusOK, map[string]any{"data": map[string]any{"markPullRequestReadyForReview": map[string]any{"pullRequest": map[string]any{"isDraft": false}}}})
				return
			}
		}
	}
	reply(w, http.StatusOK, map[string]any{"data": nil, "errors": []any{map[string]any{"type": "NOT_FOUND", "message": "Could not resolve to a node with the global id of '" + id + "'"}}})
}
