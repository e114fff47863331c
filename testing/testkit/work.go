package testkit

import (
	"net/url"
	"strconv"
)

// Workspace is what tests need of a workspace's JSON.
type Workspace struct {
	ID, Key, Name, State, Branch, Base, Path string
	ProjectID                                string `json:"project_id"`
	BaseCommit                               string `json:"base_commit"`
	StateReason                              string `json:"state_reason"`
	MergedCommit                             string `json:"merged_commit"`
	DeletedAt                                int64  `json:"deleted_at"`
	Steps                                    []struct{ Name, State, Detail string }
	Attention                                *struct{ Reason, Text string }
}

// Session is what tests need of a session's JSON.
type Session struct {
	ID, State, Agent, Title string
	StateReason             string `json:"state_reason"`
	ExitCode                *int   `json:"exit_code"`
	ExitSignal              string `json:"exit_signal"`
	Bytes                   int64
	CanResume               bool `json:"can_resume"`
}

// Change is a changed file.
type Change struct {
	Path, Status, Mode, Hash string
	OldPath                  string `json:"old_path"`
	Additions, Deletions     int
	Binary, Committed        bool
	Size                     int64
}

// Changes is the set of a workspace.
type Changes struct {
	Version int64
	Items   []Change
	Error   string
	Head    string `json:"head_commit"`
	Base    string `json:"base_commit"`
}

// Find returns the change of a path.
func (c Changes) Find(path string) (Change, bool) {
	for _, it := range c.Items {
		if it.Path == path {
			return it, true
		}
	}
	return Change{}, false
}

// Sample adds the sample project and waits until it is ready.
func (h *Instance) Sample() (projectID string) {
	h.t.Helper()
	return h.Project(map[string]any{"source": map[string]string{"kind": "sample"}})
}

// Project adds a project and waits until it is ready.
func (h *Instance) Project(body map[string]any) (projectID string) {
	h.t.Helper()
	var p struct {
		ID, State   string
		StateReason string `json:"state_reason"`
	}
	h.API("POST", "/teams/"+h.Team+"/projects", body, &p)
	h.Wait("the project is ready", func() bool {
		h.API("GET", "/projects/"+p.ID, nil, &p)
		if p.State == "failed" {
			h.t.Fatalf("project failed: %s", p.StateReason)
		}
		return p.State == "ready"
	})
	return p.ID
}

// Workspace creates a workspace and waits until it is ready.
func (h *Instance) Workspace(projectID, name string) Workspace {
	h.t.Helper()
	return h.WorkspaceIn("", projectID, name)
}

// WorkspaceIn is Workspace in a place of that kind, "" = the default.
func (h *Instance) WorkspaceIn(executor, projectID, name string) Workspace {
	h.t.Helper()
	body := map[string]any{"project_id": projectID, "name": name}
	if executor != "" {
		body["executor"] = executor
	}
	return h.workspace(body)
}

func (h *Instance) workspace(body map[string]any) Workspace {
	h.t.Helper()
	var ws Workspace
	h.API("POST", "/teams/"+h.Team+"/workspaces", body, &ws)
	h.workspaces = append(h.workspaces, ws.ID)
	h.Wait("the workspace is ready", func() bool {
		h.API("GET", "/workspaces/"+ws.ID, nil, &ws)
		if ws.State == "failed" {
			h.t.Fatalf("workspace failed: %s %+v", ws.StateReason, ws.Steps)
		}
		return ws.State == "ready"
	})
	return ws
}

// Cleanup destroys the workspace's sandbox when the test ends.
func (h *Instance) Cleanup(workspaceID string) { h.workspaces = append(h.workspaces, workspaceID) }

// Run starts a command as a session.
func (h *Instance) Run(workspaceID string, argv ...string) Session {
	h.t.Helper()
	var s Session
	h.API("POST", "/workspaces/"+workspaceID+"/sessions", map[string]any{"agent": "command", "argv": argv, "cols": 80, "rows": 24}, &s)
	return s
}

// Ended waits until a session has ended.
func (h *Instance) Ended(sessionID string) Session {
	h.t.Helper()
	var s Session
	h.Wait("the session ends", func() bool {
		h.API("GET", "/sessions/"+sessionID, nil, &s)
		return s.State == "exited" || s.State == "failed" || s.State == "lost"
	})
	return s
}

// Output reads a session's raw output from an offset.
func (h *Instance) Output(sessionID string, from int64) []byte {
	h.t.Helper()
	resp, b, err := h.Do("GET", "/sessions/"+sessionID+"/output?limit=16777216&from="+strconv.FormatInt(from, 10), nil)
	if err != nil || resp.StatusCode != 200 {
		h.t.Fatalf("output: %v %v %s", err, resp, b)
	}
	return b
}

// Changes reads the set of changes after a look.
func (h *Instance) Changes(workspaceID string) Changes {
	h.t.Helper()
	h.API("POST", "/workspaces/"+workspaceID+"/sync", nil, nil)
	var c Changes
	h.API("GET", "/workspaces/"+workspaceID+"/changes", nil, &c)
	return c
}

// FilePath is the path of the files endpoint.
func FilePath(workspaceID, path string) string {
	return "/workspaces/" + workspaceID + "/files?path=" + url.QueryEscape(path)
}
