package testforge

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// gitlab is docs.gitlab.com/api/merge_requests.
func (f *Forge) gitlab() {
	at := func(pattern, scope string, h func(w http.ResponseWriter, r *http.Request, repo string)) {
		method, path, _ := strings.Cut(pattern, " ")
		f.mux.HandleFunc(method+" /api/v4/projects/{id}"+path, func(w http.ResponseWriter, r *http.Request) {
			value := r.Header.Get("Private-Token")
			if value == "" {
				value = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			}
			t := f.token(value)
			repo := r.PathValue("id")
			switch {
			case t == nil:
				reply(w, http.StatusUnauthorized, map[string]any{"message": "401 Unauthorized"})
			case !f.spend(w, "RateLimit-"):
				w.Header().Set("Retry-After", strconv.FormatInt(int64(f.reset.Sub(f.clock()).Seconds()), 10))
				reply(w, http.StatusTooManyRequests, map[string]any{"message": "Retry later"})
			case !slices.Contains(t.Scopes, scope) && !slices.Contains(t.Scopes, "api"):
				reply(w, http.StatusForbidden, map[string]any{"error": "insufficient_scope", "error_description": "The request requires higher privileges than provided by the access token.", "scope": "api"})
			case f.pulls[repo] == nil && f.ref(repo, "main") == "":
				reply(w, http.StatusNotFound, map[string]any{"message": "404 Project Not Found"})
			default:
				h(w, r, repo)
			}
		})
	}
	f.gitlabIssues(at)
	f.gitlabTalk(at)
	at("POST /merge_requests", "api", f.gitlabOpen)
	at("GET /merge_requests", "read_api", func(w http.ResponseWriter, r *http.Request, repo string) {
		q := r.URL.Query()
		var all []any
		for _, p := range f.pulls[repo] {
			if st := q.Get("state"); st != "" && st != "all" && st != gitlabState(p) {
				continue
			}
			if b := q.Get("source_branch"); b != "" && b != p.Head {
				continue
			}
			if b := q.Get("target_branch"); b != "" && b != p.Base {
				continue
			}
			all = append(all, f.gitlabPull(repo, p))
		}
		f.gitlabList(w, r, all)
	})
	at("GET /merge_requests/{number}", "read_api", f.gitlabNumbered(func(w http.ResponseWriter, r *http.Request, repo string, p *Pull) {
		tagged(w, r, f.gitlabPull(repo, p))
	}))
	at("PUT /merge_requests/{number}", "api", f.gitlabNumbered(func(w http.ResponseWriter, r *http.Request, repo string, p *Pull) {
		var in struct {
			Title, Description *string
			StateEvent         string `json:"state_event"`
		}
		if err := body(r, &in); err != nil {
			reply(w, http.StatusBadRequest, map[string]any{"error": err.Error()})
			return
		}
		if in.Title != nil {
			p.Title = *in.Title
		}
		if in.Description != nil {
			p.Body = *in.Description
		}
		if in.StateEvent == "close" && p.State == "open" {
			f.sha(repo, p)
			p.State = "closed"
		}
		reply(w, http.StatusOK, f.gitlabPull(repo, p))
	}))
	at("PUT /merge_requests/{number}/merge", "api", f.gitlabNumbered(f.gitlabMerge))
	at("GET /merge_requests/{number}/approvals", "read_api", f.gitlabNumbered(func(w http.ResponseWriter, r *http.Request, _ string, p *Pull) {
		by := []any{}
		for _, v := range p.Reviews {
			if v.State == "APPROVED" {
				by = append(by, map[string]any{"user": map[string]any{"username": v.User}})
			}
		}
		tagged(w, r, map[string]any{"approved": len(by) > 0, "approvals_required": 0, "approved_by": by})
	}))
	at("GET /repository/commits/{sha}/statuses", "read_api", func(w http.ResponseWriter, r *http.Request, repo string) {
		var all []any
		for _, c := range f.checks[repo] {
			if c.Commit == r.PathValue("sha") {
				all = append(all, map[string]any{"id": slices.Index(f.checks[repo], c) + 1, "sha": c.Commit, "status": c.State, "name": c.Name, "target_url": c.URL, "description": c.Text, "allow_failure": c.AllowFailure})
			}
		}
		f.gitlabList(w, r, all)
	})
	f.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusNotFound, map[string]any{"error": "404 Not Found"})
	})
}

func (f *Forge) gitlabNumbered(h func(w http.ResponseWriter, r *http.Request, repo string, p *Pull)) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, r *http.Request, repo string) {
		n, _ := strconv.ParseInt(r.PathValue("number"), 10, 64)
		p := f.pull(repo, n)
		if p == nil {
			reply(w, http.StatusNotFound, map[string]any{"message": "404 Not found"})
			return
		}
		h(w, r, repo, p)
	}
}

func (f *Forge) gitlabList(w http.ResponseWriter, r *http.Request, all []any) {
	items, page, next := cut(r, "per_page", 20, 100, all)
	w.Header().Set("X-Page", strconv.Itoa(page))
	w.Header().Set("X-Total", strconv.Itoa(len(all)))
	w.Header().Set("X-Next-Page", "")
	if next > 0 {
		w.Header().Set("X-Next-Page", strconv.Itoa(next))
	}
	linkTo(w, r, next)
	tagged(w, r, items)
}

func gitlabState(p *Pull) string {
	if p.State == "open" {
		return "opened"
	}
	return p.State
}

func gitlabDraft(title string) bool {
	low := strings.ToLower(title)
	return strings.HasPrefix(low, "draft:") || strings.HasPrefix(low, "[draft]") || strings.HasPrefix(low, "(draft)")
}

func (f *Forge) gitlabOpen(w http.ResponseWriter, r *http.Request, repo string) {
	var in struct {
		Title, Description string
		SourceBranch       string `json:"source_branch"`
		TargetBranch       string `json:"target_branch"`
	}
	if err := body(r, &in); err != nil {
		reply(w, http.StatusBadRequest, map[string]any{"error": err.Error()})
		return
	}
	switch same := f.same(repo, in.SourceBranch, in.TargetBranch); {
	case in.Title == "" || in.SourceBranch == "" || in.TargetBranch == "":
		reply(w, http.StatusBadRequest, map[string]any{"error": "title is missing, source_branch is missing, target_branch is missing"})
	case len([]rune(in.Title)) > 255:
		reply(w, http.StatusBadRequest, map[string]any{"message": map[string]any{"title": []string{"is too long (maximum is 255 characters)"}}})
	case same != nil:
		reply(w, http.StatusConflict, map[string]any{"message": []string{fmt.Sprintf("Another open merge request already exists for this source branch: !%d", same.Number)}})
	case f.ref(repo, in.SourceBranch) == "":
		reply(w, http.StatusBadRequest, map[string]any{"message": map[string]any{"source_branch": []string{"does not exist"}}})
	case f.ref(repo, in.TargetBranch) == "":
		reply(w, http.StatusBadRequest, map[string]any{"message": map[string]any{"target_branch": []string{"does not exist"}}})
	default:
		p := f.open(repo, Pull{Title: in.Title, Body: in.Description, Head: in.SourceBranch, Base: in.TargetBranch})
		reply(w, http.StatusCreated, f.gitlabPull(repo, p))
	}
}

func (f *Forge) gitlabPull(repo string, p *Pull) map[string]any {
	sha := f.sha(repo, p)
	out := map[string]any{"id": 1000 + p.Number, "iid": p.Number, "state": gitlabState(p), "title": p.Title, "description": p.Body, "draft": gitlabDraft(p.Title), "sha": sha,
		"source_branch": p.Head, "target_branch": p.Base, "web_url": fmt.Sprintf("%s/%s/-/merge_requests/%d", f.URL, repo, p.Number), "merge_commit_sha": nil, "squash_commit_sha": nil, "merged_at": nil}
	if p.State == "merged" {
		out["merged_at"], out["merge_commit_sha"], out["detailed_merge_status"] = p.MergedAt.UTC().Format("2006-01-02T15:04:05.000Z"), p.MergedSha, "not_open"
		return out
	}
	if p.State != "open" {
		out["detailed_merge_status"] = "not_open"
		return out
	}
	key := sha + f.ref(repo, p.Base)
	switch {
	case p.known != key:
		p.known = key
		out["detailed_merge_status"] = "checking"
	case !f.fits(repo, p):
		out["detailed_merge_status"] = "conflict"
	case gitlabDraft(p.Title):
		out["detailed_merge_status"] = "draft_status"
	case p.Blocked != "":
		out["detailed_merge_status"] = p.Blocked
	default:
		out["detailed_merge_status"] = "mergeable"
	}
	return out
}

func (f *Forge) gitlabMerge(w http.ResponseWriter, r *http.Request, repo string, p *Pull) {
	var in struct {
		Squash bool
		SHA    string `json:"sha"`
	}
	if err := body(r, &in); err != nil {
		reply(w, http.StatusBadRequest, map[string]any{"error": err.Error()})
		return
	}
	switch {
	case in.SHA != "" && in.SHA != f.sha(repo, p):
		reply(w, http.StatusConflict, map[string]any{"message": "SHA does not match HEAD of source branch: " + p.Sha})
	case p.State != "open" || gitlabDraft(p.Title) || p.Blocked != "":
		reply(w, http.StatusMethodNotAllowed, map[string]any{"message": "405 Method Not Allowed"})
	case !f.fits(repo, p):
		reply(w, http.StatusUnprocessableEntity, map[string]any{"message": "Branch cannot be merged"})
	default:
		strategy := "merge"
		if in.Squash {
			strategy = "squash"
		}
		if err := f.merge(repo, p, strategy); err != nil {
			reply(w, http.StatusUnprocessableEntity, map[string]any{"message": err.Error()})
			return
		}
		reply(w, http.StatusOK, f.gitlabPull(repo, p))
	}
}
