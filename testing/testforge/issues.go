package testforge

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Issue is an issue. One with Pull set is a pull request, which GitHub lists among issues.
type Issue struct {
	Number           int64
	Title, Body      string
	Closed, Pull     bool
	Labels           []string
	Assignees        []string
	Created, Updated time.Time
}

// AddIssue opens an issue as people there do, and returns its number.
func (f *Forge) AddIssue(repo string, i Issue) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.addIssue(repo, i).Number
}

func (f *Forge) addIssue(repo string, i Issue) *Issue {
	i.Number, i.Created, i.Updated = int64(len(f.issues[repo])+1), f.clock(), f.clock()
	f.nameLabels(repo, i.Labels)
	f.issues[repo] = append(f.issues[repo], &i)
	return &i
}

// EditIssue changes an issue as people there do.
func (f *Forge) EditIssue(repo string, number int64, fn func(*Issue)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range f.issues[repo] {
		if i.Number == number {
			fn(i)
			i.Updated = f.clock()
			f.nameLabels(repo, i.Labels)
		}
	}
}

// DropIssue deletes an issue.
func (f *Forge) DropIssue(repo string, number int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone[repo+"#"+strconv.FormatInt(number, 10)] = true
}

// Issues are the issues of a repository.
func (f *Forge) Issues(repo string) []Issue {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []Issue
	for _, i := range f.issues[repo] {
		c := *i
		c.Labels = slices.Clone(i.Labels)
		out = append(out, c)
	}
	return out
}

// SetClock sets what time it is there.
func (f *Forge) SetClock(clock func() time.Time) { f.mu.Lock(); defer f.mu.Unlock(); f.clock = clock }

// nameLabels makes the labels that a repository lacks, as GitHub and GitLab do for an issue that names them.
func (f *Forge) nameLabels(repo string, labels []string) {
	for _, l := range labels {
		if !slices.Contains(f.labels[repo], l) {
			f.labels[repo] = append(f.labels[repo], l)
		}
	}
}

// issueAt finds the issue that a path names.
func (f *Forge) issueAt(w http.ResponseWriter, r *http.Request, repo string) *Issue {
	n, _ := strconv.ParseInt(r.PathValue("number"), 10, 64)
	if !f.gone[repo+"#"+strconv.FormatInt(n, 10)] {
		for _, i := range f.issues[repo] {
			if i.Number == n {
				return i
			}
		}
	}
	message := map[string]string{GitHub: "Not Found", GitLab: "404 Not found"}[f.Kind]
	reply(w, http.StatusNotFound, map[string]any{"message": message})
	return nil
}

// selected are the issues that a list asks for, oldest first.
func (f *Forge) selected(r *http.Request, repo, closed, since string) []*Issue {
	q := r.URL.Query()
	var out []*Issue
	for _, i := range f.issues[repo] {
		if f.gone[repo+"#"+strconv.FormatInt(i.Number, 10)] || i.Pull && (f.Kind != GitHub) {
			continue
		}
		switch st := q.Get("state"); {
		case (st == "open" || st == "opened" || st == "" && closed == "") && i.Closed, st == "closed" && !i.Closed:
			continue
		}
		has := true
		for _, l := range strings.Split(q.Get("labels"), ",") {
			has = has && (l == "" || slices.Contains(i.Labels, l))
		}
		if at, err := time.Parse(time.RFC3339, q.Get(since)); err == nil && i.Updated.Before(at) {
			continue
		}
		if has {
			out = append(out, i)
		}
	}
	return out
}

// dated sets the time of an answer by the clock of the forge.
func (f *Forge) dated(w http.ResponseWriter) {
	w.Header().Set("Date", f.clock().UTC().Format(http.TimeFormat))
}

type routes = func(pattern, scope string, h func(w http.ResponseWriter, r *http.Request, repo string))

// githubIssues is docs.github.com/rest/issues/issues.
func (f *Forge) githubIssues(at routes) {
	show := func(repo string, i *Issue) map[string]any {
		state := "open"
		if i.Closed {
			state = "closed"
		}
		labels, people := []any{}, []any{}
		for n, l := range i.Labels {
			labels = append(labels, map[string]any{"id": n + 1, "name": l, "color": "ededed"})
		}
		for _, u := range i.Assignees {
			people = append(people, map[string]any{"login": u})
		}
		out := map[string]any{"id": 5000 + i.Number, "number": i.Number, "title": i.Title, "body": i.Body, "state": state, "labels": labels, "assignees": people, "html_url": fmt.Sprintf("%s/%s/issues/%d", f.URL, repo, i.Number),
			"created_at": i.Created.UTC().Format(time.RFC3339), "updated_at": i.Updated.UTC().Format(time.RFC3339)}
		if i.Body == "" {
			out["body"] = nil
		}
		if i.Pull {
			out["pull_request"] = map[string]any{"url": "x"}
		}
		return out
	}
	at("GET /issues", "repo", func(w http.ResponseWriter, r *http.Request, repo string) {
		all := f.selected(r, repo, "", "since")
		if r.URL.Query().Get("direction") != "asc" {
			slices.Reverse(all)
		}
		items, _, next := cut(r, "per_page", 30, 100, shown(all, repo, show))
		linkTo(w, r, next)
		f.dated(w)
		tagged(w, r, items)
	})
	at("GET /issues/{number}", "repo", func(w http.ResponseWriter, r *http.Request, repo string) {
		if i := f.issueAt(w, r, repo); i != nil {
			tagged(w, r, show(repo, i))
		}
	})
	write := func(w http.ResponseWriter, r *http.Request, repo string, i *Issue) bool {
		var in struct {
			Title, Body, State *string
			Labels             *[]string
		}
		switch err := body(r, &in); {
		case err != nil:
			githubInvalid(w, "Problems parsing JSON: "+err.Error())
			return false
		case i.Title == "" && (in.Title == nil || *in.Title == ""), in.Title != nil && len([]rune(*in.Title)) > 256:
			githubInvalid(w, "Validation Failed", map[string]any{"resource": "Issue", "field": "title", "code": "invalid"})
			return false
		case in.Body != nil && len([]rune(*in.Body)) > 65536:
			githubInvalid(w, "Validation Failed", map[string]any{"resource": "Issue", "code": "custom", "field": "body", "message": "body is too long (maximum is 65536 characters)"})
			return false
		}
		assign(&i.Title, in.Title)
		assign(&i.Body, in.Body)
		assign(&i.Labels, in.Labels)
		if in.State != nil {
			i.Closed = *in.State == "closed"
		}
		f.nameLabels(repo, i.Labels)
		i.Updated = f.clock()
		return true
	}
	at("POST /issues", "repo", func(w http.ResponseWriter, r *http.Request, repo string) {
		var i Issue
		if write(w, r, repo, &i) {
			reply(w, http.StatusCreated, show(repo, f.addIssue(repo, i)))
		}
	})
	at("PATCH /issues/{number}", "repo", func(w http.ResponseWriter, r *http.Request, repo string) {
		if i := f.issueAt(w, r, repo); i != nil && write(w, r, repo, i) {
			reply(w, http.StatusOK, show(repo, i))
		}
	})
}

func shown(all []*Issue, repo string, show func(string, *Issue) map[string]any) []any {
	out := []any{}
	for _, i := range all {
		out = append(out, show(repo, i))
	}
	return out
}

func assign[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// gitlabIssues is docs.gitlab.com/api/issues. GitLab numbers issues and merge requests apart.
func (f *Forge) gitlabIssues(at routes) {
	show := func(repo string, i *Issue) map[string]any {
		state := "opened"
		if i.Closed {
			state = "closed"
		}
		people := []any{}
		for _, u := range i.Assignees {
			people = append(people, map[string]any{"username": u})
		}
		return map[string]any{"id": 5000 + i.Number, "iid": i.Number, "title": i.Title, "description": i.Body, "state": state, "labels": append([]string{}, i.Labels...), "assignees": people,
			"web_url": fmt.Sprintf("%s/%s/-/issues/%d", f.URL, repo, i.Number), "created_at": i.Created.UTC().Format("2006-01-02T15:04:05.000Z"), "updated_at": i.Updated.UTC().Format("2006-01-02T15:04:05.000Z"), "issue_type": "issue"}
	}
	at("GET /issues", "read_api", func(w http.ResponseWriter, r *http.Request, repo string) {
		all := f.selected(r, repo, "all", "updated_after")
		if r.URL.Query().Get("sort") != "asc" {
			slices.Reverse(all)
		}
		f.dated(w)
		f.gitlabList(w, r, shown(all, repo, show))
	})
	at("GET /issues/{number}", "read_api", func(w http.ResponseWriter, r *http.Request, repo string) {
		if i := f.issueAt(w, r, repo); i != nil {
			tagged(w, r, show(repo, i))
		}
	})
	write := func(w http.ResponseWriter, r *http.Request, repo string, i *Issue) bool {
		var in struct {
			Title, Description, Labels *string
			StateEvent                 *string `json:"state_event"`
		}
		switch err := body(r, &in); {
		case err != nil:
			reply(w, http.StatusBadRequest, map[string]any{"error": err.Error()})
			return false
		case i.Title == "" && (in.Title == nil || *in.Title == ""), in.Title != nil && len([]rune(*in.Title)) > 255:
			reply(w, http.StatusBadRequest, map[string]any{"message": map[string]any{"title": []any{"is too long (maximum is 255 characters)"}}})
			return false
		}
		assign(&i.Title, in.Title)
		assign(&i.Body, in.Description)
		if in.Labels != nil {
			i.Labels = strings.FieldsFunc(*in.Labels, func(r rune) bool { return r == ',' })
		}
		if in.StateEvent != nil {
			i.Closed = *in.StateEvent == "close"
		}
		i.Updated = f.clock()
		return true
	}
	at("POST /issues", "api", func(w http.ResponseWriter, r *http.Request, repo string) {
		var i Issue
		if write(w, r, repo, &i) {
			reply(w, http.StatusCreated, show(repo, f.addIssue(repo, i)))
		}
	})
	at("PUT /issues/{number}", "api", func(w http.ResponseWriter, r *http.Request, repo string) {
		if i := f.issueAt(w, r, repo); i != nil && write(w, r, repo, i) {
			reply(w, http.StatusOK, show(repo, i))
		}
	})
}

// giteaIssues is Gitea's api/swagger: labels by id, newest issues first, whatever one asks.
func (f *Forge) giteaIssues(at routes) {
	label := func(repo, name string) map[string]any {
		return map[string]any{"id": slices.Index(f.labels[repo], name) + 1, "name": name, "color": "8888aa"}
	}
	show := func(repo string, i *Issue) map[string]any {
		state := "open"
		if i.Closed {
			state = "closed"
		}
		labels, people := []any{}, []any{}
		for _, l := range i.Labels {
			labels = append(labels, label(repo, l))
		}
		for _, u := range i.Assignees {
			people = append(people, map[string]any{"login": u})
		}
		return map[string]any{"id": 5000 + i.Number, "number": i.Number, "title": i.Title, "body": i.Body, "state": state, "labels": labels, "assignees": people, "html_url": fmt.Sprintf("%s/%s/issues/%d", f.URL, repo, i.Number),
			"created_at": i.Created.UTC().Format(time.RFC3339), "updated_at": i.Updated.UTC().Format(time.RFC3339), "pull_request": nil,
			"repository": map[string]any{"id": 1, "name": "app", "owner": "acme", "full_name": repo}}
	}
	names := func(repo string, ids []int64) (out []string) {
		for _, id := range ids {
			if id > 0 && int(id) <= len(f.labels[repo]) {
				out = append(out, f.labels[repo][id-1])
			}
		}
		return out
	}
	invalid := func(w http.ResponseWriter, err error) {
		reply(w, http.StatusUnprocessableEntity, map[string]any{"message": err.Error()})
	}
	at("GET /issues", "read:issue", func(w http.ResponseWriter, r *http.Request, repo string) {
		all := f.selected(r, repo, "", "since")
		slices.Reverse(all)
		f.dated(w)
		giteaList(w, r, shown(all, repo, show))
	})
	at("GET /issues/{number}", "read:issue", func(w http.ResponseWriter, r *http.Request, repo string) {
		if i := f.issueAt(w, r, repo); i != nil {
			tagged(w, r, show(repo, i))
		}
	})
	at("POST /issues", "write:issue", func(w http.ResponseWriter, r *http.Request, repo string) {
		var in struct {
			Title, Body, Ref string
			Assignees        []string
			Deadline         *time.Time `json:"due_date"`
			Milestone        int64
			Labels           []int64
			Closed           bool
		}
		if err := body(r, &in); err != nil || in.Title == "" || len([]rune(in.Title)) > 255 {
			invalid(w, fmt.Errorf("[Title]: Required %w", err))
			return
		}
		reply(w, http.StatusCreated, show(repo, f.addIssue(repo, Issue{Title: in.Title, Body: in.Body, Labels: names(repo, in.Labels), Closed: in.Closed})))
	})
	at("PATCH /issues/{number}", "write:issue", func(w http.ResponseWriter, r *http.Request, repo string) {
		var in struct {
			Title            string
			Body, Ref, State *string
			Assignees        []string
			Milestone        *int64
			Deadline         *time.Time `json:"due_date"`
			RemoveDeadline   *bool      `json:"unset_due_date"`
		}
		i := f.issueAt(w, r, repo)
		if i == nil {
			return
		}
		if err := body(r, &in); err != nil {
			invalid(w, err)
			return
		}
		if in.Title != "" {
			i.Title = in.Title
		}
		assign(&i.Body, in.Body)
		if in.State != nil {
			i.Closed = *in.State == "closed"
		}
		i.Updated = f.clock()
		reply(w, http.StatusCreated, show(repo, i))
	})
	at("PUT /issues/{number}/labels", "write:issue", func(w http.ResponseWriter, r *http.Request, repo string) {
		var in struct{ Labels []int64 }
		i := f.issueAt(w, r, repo)
		if i == nil {
			return
		}
		if err := body(r, &in); err != nil {
			invalid(w, err)
			return
		}
		i.Labels, i.Updated = names(repo, in.Labels), f.clock()
		out := []any{}
		for _, l := range i.Labels {
			out = append(out, label(repo, l))
		}
		reply(w, http.StatusOK, out)
	})
	at("GET /labels", "read:issue", func(w http.ResponseWriter, r *http.Request, repo string) {
		out := []any{}
		for _, l := range f.labels[repo] {
			out = append(out, label(repo, l))
		}
		giteaList(w, r, out)
	})
	at("POST /labels", "write:issue", func(w http.ResponseWriter, r *http.Request, repo string) {
		var in struct {
			Name, Color, Description string
			Exclusive                bool `json:"exclusive"`
			Archived                 bool `json:"is_archived"`
		}
		if err := body(r, &in); err != nil || in.Name == "" || !strings.HasPrefix(in.Color, "#") {
			invalid(w, fmt.Errorf("[Color]: Required %w", err))
			return
		}
		f.nameLabels(repo, []string{in.Name})
		reply(w, http.StatusCreated, label(repo, in.Name))
	})
}
