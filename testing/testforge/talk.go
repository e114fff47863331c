package testforge

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Talk is a thread of a review.
type Talk struct {
	Path     string
	Line     int
	Resolved bool
	Said     []Said
}

// Said is a comment of a thread.
type Said struct {
	ID         int64
	User, Body string
}

// LetWrite gives somebody write access to all repositories.
func (f *Forge) LetWrite(user string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writers = append(f.writers, user)
}

// Log is what a check that is a job printed.
func (f *Forge) Log(check, text string) { f.mu.Lock(); defer f.mu.Unlock(); f.logs[check] = text }

// Comment lets somebody begin a thread about a line.
func (f *Forge) Comment(repo string, number int64, path string, line int, user, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.pull(repo, number)
	p.Talks = append(p.Talks, &Talk{Path: path, Line: line})
	f.say(p.Talks[len(p.Talks)-1], user, text)
}

func (f *Forge) say(t *Talk, user, text string) int64 {
	f.comments++
	t.Said = append(t.Said, Said{ID: f.comments, User: user, Body: text})
	return f.comments
}

const written = "2027-01-15T08:00:00Z"

// level is what somebody may do in the words of GitHub and Gitea.
func (f *Forge) level(user string) string {
	if slices.Contains(f.writers, user) {
		return "write"
	}
	return "read"
}

type atRepo func(pattern, scope string, h func(w http.ResponseWriter, r *http.Request, repo string))

// githubTalk is docs.github.com/rest/collaborators, /rest/checks/runs, /rest/actions/workflow-jobs and /rest/pulls/review-requests.
func (f *Forge) githubTalk(at atRepo) {
	at("GET /collaborators/{user}/permission", "repo", func(w http.ResponseWriter, r *http.Request, _ string) {
		tagged(w, r, map[string]any{"permission": f.level(r.PathValue("user")), "role_name": f.level(r.PathValue("user")), "user": map[string]any{"login": r.PathValue("user")}})
	})
	at("GET /check-runs/{id}", "checks", func(w http.ResponseWriter, r *http.Request, repo string) {
		n, _ := strconv.Atoi(r.PathValue("id"))
		for _, c := range f.checks[repo] {
			if n--; c.Run && n == 0 {
				tagged(w, r, map[string]any{"name": c.Name, "status": "completed", "conclusion": c.State, "app": map[string]any{"slug": "github-actions"},
					"output": map[string]any{"title": c.Text, "summary": "", "text": "", "annotations_count": 1}})
				return
			}
		}
		reply(w, http.StatusNotFound, map[string]any{"message": "Not Found"})
	})
	at("GET /check-runs/{id}/annotations", "checks", func(w http.ResponseWriter, r *http.Request, _ string) {
		tagged(w, r, []any{map[string]any{"path": "main.go", "start_line": 3, "annotation_level": "failure", "message": "undefined: x"}})
	})
	at("GET /actions/jobs/{id}/logs", "repo", func(w http.ResponseWriter, r *http.Request, repo string) {
		n, _ := strconv.Atoi(r.PathValue("id"))
		for _, c := range f.checks[repo] {
			if n--; c.Run && n == 0 {
				http.Redirect(w, r, f.URL+"/logs/"+c.Name, http.StatusFound)
				return
			}
		}
	})
	at("POST /pulls/{number}/requested_reviewers", "repo", f.numbered(func(w http.ResponseWriter, r *http.Request, repo string, p *Pull) {
		var in struct {
			Reviewers []string
		}
		if err := body(r, &in); err != nil {
			githubInvalid(w, err.Error())
			return
		}
		p.Requested = append(p.Requested, in.Reviewers...)
		reply(w, http.StatusCreated, f.githubPull(repo, p, true))
	}))
}

// githubQuery answers GraphQL about threads and auto-merge; false = it is about something else.
func (f *Forge) githubQuery(w http.ResponseWriter, user, query string, v map[string]any) bool {
	data := func(d map[string]any) bool { reply(w, http.StatusOK, map[string]any{"data": d}); return true }
	fail := func(message string) bool {
		reply(w, http.StatusOK, map[string]any{"data": nil, "errors": []any{map[string]any{"message": message}}})
		return true
	}
	id, _ := v["id"].(string)
	switch {
	case strings.Contains(query, "reviewThreads"):
		number, _ := v["number"].(float64)
		p := f.pull(fmt.Sprint(v["owner"], "/", v["name"]), int64(number))
		if p == nil {
			return fail("Could not resolve to a PullRequest.")
		}
		nodes := []any{}
		for i, t := range p.Talks {
			said := []any{}
			for _, s := range t.Said {
				kind := "User"
				if strings.HasPrefix(s.User, "app-") {
					kind = "Bot"
				}
				said = append(said, map[string]any{"databaseId": s.ID, "body": s.Body, "url": fmt.Sprintf("%s/x/y/pull/%d#discussion_r%d", f.URL, p.Number, s.ID), "createdAt": written, "author": map[string]any{"__typename": kind, "login": s.User}})
			}
			nodes = append(nodes, map[string]any{"id": fmt.Sprintf("PRRT_%d_%d", p.Number, i), "isResolved": t.Resolved, "path": t.Path, "line": t.Line, "originalLine": t.Line, "comments": map[string]any{"nodes": said}})
		}
		return data(map[string]any{"repository": map[string]any{"pullRequest": map[string]any{"reviewThreads": map[string]any{"pageInfo": map[string]any{"hasNextPage": false, "endCursor": nil}, "nodes": nodes}}}})
	case strings.Contains(query, "addPullRequestReviewThreadReply"), strings.Contains(query, "resolveReviewThread"):
		for _, all := range f.pulls {
			for _, p := range all {
				for i, t := range p.Talks {
					if id != fmt.Sprintf("PRRT_%d_%d", p.Number, i) {
						continue
					}
					if strings.Contains(query, "resolveReviewThread") {
						t.Resolved = true
						return data(map[string]any{"resolveReviewThread": map[string]any{"thread": map[string]any{"isResolved": true}}})
					}
					text, _ := v["body"].(string)
					return data(map[string]any{"addPullRequestReviewThreadReply": map[string]any{"comment": map[string]any{"databaseId": f.say(t, user, text)}}})
				}
			}
		}
		return fail("Could not resolve to a node with the global id of '" + id + "'")
	case strings.Contains(query, "enablePullRequestAutoMerge"):
		for repo, all := range f.pulls {
			for _, p := range all {
				if id == fmt.Sprintf("PR_%s_%d", repo, p.Number) && v["method"] == "SQUASH" && v["head"] == f.sha(repo, p) {
					p.Auto = true
					return data(map[string]any{"enablePullRequestAutoMerge": map[string]any{"clientMutationId": nil}})
				}
			}
		}
		return fail("Pull request is in clean status")
	}
	return false
}

// gitlabTalk is docs.gitlab.com/api/discussions, /api/project_members and /api/jobs.
func (f *Forge) gitlabTalk(at atRepo) {
	note := func(t *Talk, s Said) map[string]any {
		out := map[string]any{"id": s.ID, "type": "DiffNote", "body": s.Body, "author": map[string]any{"id": userID(s.User), "username": s.User}, "created_at": "2027-01-15T08:00:00.000Z", "system": false, "resolvable": true, "resolved": t.Resolved}
		if t.Path != "" {
			out["position"] = map[string]any{"position_type": "text", "new_path": t.Path, "old_path": t.Path, "new_line": t.Line}
		}
		return out
	}
	discussion := func(i int, t *Talk) map[string]any {
		notes := []any{}
		for _, s := range t.Said {
			notes = append(notes, note(t, s))
		}
		return map[string]any{"id": fmt.Sprintf("%040d", i+1), "individual_note": false, "notes": notes}
	}
	found := func(r *http.Request, p *Pull) (int, *Talk) {
		i, _ := strconv.Atoi(strings.TrimLeft(r.PathValue("discussion"), "0"))
		if i < 1 || i > len(p.Talks) {
			return 0, &Talk{}
		}
		return i - 1, p.Talks[i-1]
	}
	at("GET /merge_requests/{number}/discussions", "read_api", f.gitlabNumbered(func(w http.ResponseWriter, r *http.Request, _ string, p *Pull) {
		all := []any{map[string]any{"id": strings.Repeat("f", 40), "individual_note": true, "notes": []any{map[string]any{"id": 999, "body": "assigned to @mika", "system": true, "resolvable": false, "author": map[string]any{"id": 1, "username": "mika"}}}}}
		for i, t := range p.Talks {
			all = append(all, discussion(i, t))
		}
		f.gitlabList(w, r, all)
	}))
	at("POST /merge_requests/{number}/discussions/{discussion}/notes", "api", f.gitlabNumbered(func(w http.ResponseWriter, r *http.Request, _ string, p *Pull) {
		var in struct{ Body string }
		if err := body(r, &in); err != nil {
			reply(w, http.StatusBadRequest, map[string]any{"error": err.Error()})
			return
		}
		_, t := found(r, p)
		f.say(t, "mika", in.Body)
		reply(w, http.StatusCreated, note(t, t.Said[len(t.Said)-1]))
	}))
	at("PUT /merge_requests/{number}/discussions/{discussion}", "api", f.gitlabNumbered(func(w http.ResponseWriter, r *http.Request, _ string, p *Pull) {
		var in struct{ Resolved bool }
		if err := body(r, &in); err != nil {
			reply(w, http.StatusBadRequest, map[string]any{"error": err.Error()})
			return
		}
		i, t := found(r, p)
		t.Resolved = in.Resolved
		reply(w, http.StatusOK, discussion(i, t))
	}))
	at("GET /members/all/{user}", "read_api", func(w http.ResponseWriter, r *http.Request, _ string) {
		for _, u := range f.writers {
			if strconv.FormatInt(userID(u), 10) == r.PathValue("user") {
				tagged(w, r, map[string]any{"id": userID(u), "username": u, "access_level": 30})
				return
			}
		}
		reply(w, http.StatusNotFound, map[string]any{"message": "404 Not found"})
	})
	at("GET /jobs/{job}/trace", "read_api", func(w http.ResponseWriter, r *http.Request, repo string) {
		n, _ := strconv.Atoi(r.PathValue("job"))
		if n < 1 || n > len(f.checks[repo]) {
			reply(w, http.StatusNotFound, map[string]any{"message": "404 Not found"})
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte(f.logs[f.checks[repo][n-1].Name]))
	})
}

func userID(name string) int64 {
	n := int64(7)
	for _, c := range name {
		n = n*31 + int64(c)
	}
	return n % 1_000_000
}

// giteaTalk is docs.gitea.com/api: each thread is a review with one comment, and answers are reviews on the same line. replies and resolving
// are of Gitea alone.
func (f *Forge) giteaTalk(at atRepo) {
	at("GET /pulls/{number}/reviews/{review}/comments", "read:repository", f.numbered(func(w http.ResponseWriter, r *http.Request, _ string, p *Pull) {
		n, _ := strconv.Atoi(r.PathValue("review"))
		all := []any{}
		for i, t := range p.Talks {
			if i+100 != n {
				continue
			}
			for _, s := range t.Said {
				one := map[string]any{"id": s.ID, "body": s.Body, "user": map[string]any{"login": s.User}, "path": t.Path, "position": t.Line, "original_position": 0, "created_at": written, "html_url": f.URL + "/x", "resolver": nil}
				if t.Resolved {
					one["resolver"] = map[string]any{"login": "mika"}
				}
				all = append(all, one)
			}
		}
		tagged(w, r, all)
	}))
	at("GET /collaborators/{user}/permission", "read:repository", func(w http.ResponseWriter, r *http.Request, _ string) {
		tagged(w, r, map[string]any{"permission": f.level(r.PathValue("user")), "role_name": f.level(r.PathValue("user"))})
	})
	at("POST /pulls/{number}/requested_reviewers", "write:repository", f.numbered(func(w http.ResponseWriter, r *http.Request, _ string, p *Pull) {
		var in struct {
			Reviewers     []string `json:"reviewers"`
			TeamReviewers []string `json:"team_reviewers"`
		}
		if err := body(r, &in); err != nil {
			reply(w, http.StatusUnprocessableEntity, map[string]any{"message": err.Error()})
			return
		}
		p.Requested = append(p.Requested, in.Reviewers...)
		reply(w, http.StatusCreated, []any{})
	}))
	at("POST /pulls/{number}/reviews", "write:repository", f.numbered(func(w http.ResponseWriter, r *http.Request, _ string, p *Pull) {
		var in struct {
			Event, Body string
			CommitID    string `json:"commit_id"`
			Comments    []struct {
				Path, Body string
				Old        int `json:"old_position"`
				New        int `json:"new_position"`
			}
		}
		if err := body(r, &in); err != nil || in.Event != "COMMENT" || len(in.Comments) != 1 {
			reply(w, http.StatusUnprocessableEntity, map[string]any{"message": "invalid"})
			return
		}
		for _, t := range p.Talks {
			if t.Path == in.Comments[0].Path && t.Line == in.Comments[0].New {
				f.say(t, "mika", in.Comments[0].Body)
			}
		}
		reply(w, http.StatusOK, map[string]any{"id": f.comments, "state": "COMMENT", "submitted_at": time.Now().UTC().Format(time.RFC3339)})
	}))
	if f.Kind != Gitea {
		return
	}
	at("POST /pulls/{number}/comments/{comment}/replies", "write:repository", f.numbered(func(w http.ResponseWriter, r *http.Request, _ string, p *Pull) {
		var in struct{ Body string }
		if err := body(r, &in); err != nil {
			reply(w, http.StatusUnprocessableEntity, map[string]any{"message": err.Error()})
			return
		}
		for _, t := range p.Talks {
			if strconv.FormatInt(t.Said[0].ID, 10) == r.PathValue("comment") {
				reply(w, http.StatusCreated, map[string]any{"id": f.say(t, "mika", in.Body), "body": in.Body})
				return
			}
		}
		reply(w, http.StatusNotFound, map[string]any{"message": "not found"})
	}))
	at("POST /pulls/comments/{comment}/resolve", "write:repository", func(w http.ResponseWriter, r *http.Request, repo string) {
		for _, p := range f.pulls[repo] {
			for _, t := range p.Talks {
				if strconv.FormatInt(t.Said[0].ID, 10) == r.PathValue("comment") {
					t.Resolved = true
				}
			}
		}
		w.WriteHeader(http.StatusNoContent)
	})
}
