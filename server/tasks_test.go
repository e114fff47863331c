package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/parawork/parawork/server/api"
)

// A task is created, found, claimed and closed over the API; viewers read and change nothing.
func TestTasksByTheAPI(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	list := "/api/v1/teams/" + p.team.Slug + "/tasks"
	member, viewer := bearer(p.tokens["member"]), bearer(p.tokens["viewer"])
	var a, b api.Task
	h.do("POST", list, `{"project_id":"`+p.ids["project"]+`","title":"first","labels":["x"]}`, member...).into(t, &a)
	h.do("POST", list, `{"project_id":"`+p.ids["project"]+`","title":"second","priority":0,"blocked_by":["`+a.Id+`"]}`, member...).into(t, &b)
	if a.Id == "" || len(b.BlockedBy) != 1 || b.BlockedBy[0] != a.Id {
		t.Fatalf("%+v %+v", a, b)
	}
	if r := h.do("POST", "/api/v1/tasks/"+a.Id+"/claim", "", viewer...); r.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer claims: %d %s", r.StatusCode, r.body)
	}
	var found api.TaskList
	h.do("GET", list+"?label=x&ready=true&project_id="+p.ids["project"], "", viewer...).into(t, &found)
	if len(found.Items) != 1 || found.Items[0].Uid != a.Uid {
		t.Errorf("%+v", found)
	}
	var claimed api.Task
	h.do("POST", "/api/v1/tasks/"+strings.ToLower(a.Id)+"/claim", "", member...).into(t, &claimed)
	if claimed.Status != "in_progress" || claimed.AssigneeName == "" {
		t.Errorf("%+v", claimed)
	}
	if r := h.do("POST", "/api/v1/tasks/"+a.Uid+"/claim", "", bearer(p.tokens["owner"])...); r.StatusCode != http.StatusConflict || r.code() != "task_claimed" {
		t.Errorf("a second one claims: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("POST", "/api/v1/tasks/"+a.Id+"/dependencies", `{"depends_on":"`+b.Id+`"}`, member...); r.code() != "task_cycle" || !strings.Contains(string(r.body), a.Id+" -\\u003e "+b.Id) && !strings.Contains(string(r.body), a.Id+" -> "+b.Id) {
		t.Errorf("a cycle: %d %s", r.StatusCode, r.body)
	}
	var closed api.TaskClosed
	h.do("POST", "/api/v1/tasks/"+a.Id+"/close", `{"reason":"done"}`, member...).into(t, &closed)
	if closed.Task.Status != "closed" || len(closed.NowReady) != 1 || closed.NowReady[0].Id != b.Id {
		t.Errorf("%+v", closed)
	}
	r := h.do("GET", list+"/export?project_id="+p.ids["project"], "", viewer...)
	if r.StatusCode != 200 || !strings.Contains(string(r.body), `"issue_type":"task"`) {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	if r := h.do("GET", "/api/v1/tasks/"+a.Uid, "", bearer(p.tokens["outsider"])...); r.StatusCode != http.StatusNotFound {
		t.Errorf("another team: %d %s", r.StatusCode, r.body)
	}
}

// Who may not see a workspace learns nothing of it from the task that is worked on there, and work on a task begins once.
func TestWorkOnATask(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	list := "/api/v1/teams/" + p.team.Slug + "/tasks"
	member, owner := bearer(p.tokens["member"]), bearer(p.tokens["owner"])
	var task api.Task
	// Where no workspace can be created, the task is as free as before.
	h.do("POST", list, `{"project_id":"`+p.ids["project"]+`","title":"nowhere"}`, member...).into(t, &task)
	if r := h.do("POST", "/api/v1/tasks/"+task.Id+"/work", `{"base":"none"}`, member...); r.StatusCode < 400 {
		t.Fatalf("from a base that is none: %d %s", r.StatusCode, r.body)
	}
	var free api.TaskDetail
	h.do("GET", "/api/v1/tasks/"+task.Id, "", member...).into(t, &free)
	if free.Task.Status != "open" || free.Task.Assignee != "" {
		t.Errorf("%+v", free.Task)
	}
	var project api.Project
	h.do("POST", "/api/v1/teams/"+p.team.Slug+"/projects", `{"name":"sample","source":{"kind":"sample"}}`, owner...).into(t, &project)
	h.do("POST", list, `{"project_id":"`+project.Id+`","title":"to be worked on"}`, member...).into(t, &task)
	var begun api.TaskWorkBegun
	r := h.do("POST", "/api/v1/tasks/"+task.Id+"/work", `{}`, member...)
	if r.into(t, &begun); begun.WorkspaceId == "" || begun.Task.WorkspaceId != begun.WorkspaceId || begun.Task.Status != "in_progress" || begun.RunId != nil {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	if r := h.do("POST", "/api/v1/tasks/"+task.Id+"/work", `{}`, member...); r.code() != "task_has_workspace" {
		t.Errorf("again: %d %s", r.StatusCode, r.body)
	}
	var w api.Workspace
	h.do("PATCH", "/api/v1/workspaces/"+begun.WorkspaceId, `{"private":true}`, member...).into(t, &w)
	if w.Name != task.Id+" to be worked on" {
		t.Errorf("the workspace is %+v", w)
	}
	var seen api.TaskDetail
	h.do("GET", "/api/v1/tasks/"+task.Id, "", owner...).into(t, &seen)
	if seen.Task.WorkspaceId != "" {
		t.Errorf("a private workspace shows: %+v", seen.Task)
	}
}
