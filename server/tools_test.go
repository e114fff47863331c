package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/server/api"
)

// toolPath is where a tool is called in the cast's workspace.
func (p cast) toolPath(name string) string {
	return "/api/v1/workspaces/" + p.ids["workspace"] + "/tools/" + name
}

// A tool is found in the list and called by what the list says of it; what it answers is what the older way of running a command answers.
func TestToolsByTheAPI(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	var list api.ToolList
	h.do("GET", "/api/v1/teams/"+p.team.Slug+"/tools", "", bearer(p.tokens["viewer"])...).into(t, &list)
	if len(list.Items) == 0 {
		t.Fatalf("%+v", list)
	}
	tool := list.Items[len(list.Items)-1] // its group is the last
	if tool.Name != "run_command" || tool.Group != "commands" || tool.Permission != api.ToolPermissionAsk || !tool.Needs.Writes || tool.TimeoutMs <= 0 ||
		!json.Valid(tool.Arguments) || !bytes.Contains(tool.Result, []byte(`"exit_code"`)) {
		t.Errorf("%+v", tool)
	}
	var r struct {
		Content    []api.ToolContent
		Structured api.Command
		IsError    bool `json:"is_error"`
	}
	h.do("POST", p.toolPath(tool.Name), `{"arguments":{"command":"echo out; echo err >&2; exit 4"}}`, bearer(p.tokens["member"])...).into(t, &r)
	if c := r.Structured; !r.IsError || c.State != "completed" || c.ExitCode == nil || *c.ExitCode != 4 || c.Stdout != "out\n" || c.Stderr != "err\n" || c.WorkspaceId != p.ids["workspace"] {
		t.Errorf("%+v", r)
	}
	if len(r.Content) != 1 || r.Content[0].Type != api.ToolContentTypeText || !strings.HasPrefix(*r.Content[0].Text, "Exit code 4 ") {
		t.Errorf("content %+v", r.Content)
	}
	var kept api.Command
	h.do("GET", "/api/v1/commands/"+r.Structured.CommandId, "", bearer(p.tokens["viewer"])...).into(t, &kept)
	if kept.Stdout != "out\n" || kept.State != "completed" {
		t.Errorf("kept as %+v", kept)
	}
	entry := h.toolEntry(t, p)
	if entry.Result != audit.Done || entry.ActorName != "member@example.com" || entry.TargetID != p.ids["workspace"] || entry.Data["tool"] != "run_command" {
		t.Errorf("in the audit: %+v", entry)
	}
}

// toolEntry is the latest entry of a tool's call in the team's audit.
func (h *harness) toolEntry(t *testing.T, p cast) audit.Row {
	t.Helper()
	rows, _, err := h.cfg.Audit.List(tenant.In(t.Context(), p.team.ID), audit.Query{Chain: p.team.ID, Action: "tool.call"}, "")
	if err != nil || len(rows) == 0 {
		t.Fatalf("the audit has %+v, %v", rows, err)
	}
	return rows[0]
}

// Calls that are wrong, or not allowed, are refused before the tool runs, and say why.
func TestToolCallsThatAreRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	reader := h.bounded(t, caller{name: "owner", userID: memberID(t, h, p, "owner")}, []accounts.Scope{accounts.ScopeRead, accounts.ScopeAttach}).header
	const fine = `{"arguments":{"command":"touch never"}}`
	for _, c := range []struct {
		what, path, body string
		header           []string
		status           int
		code, field      string
	}{
		{"nobody", p.toolPath("run_command"), fine, nil, 401, "signed_out", ""},
		{"a viewer", p.toolPath("run_command"), fine, bearer(p.tokens["viewer"]), 403, "forbidden", ""},
		{"another team", p.toolPath("run_command"), fine, bearer(p.tokens["outsider"]), 404, "not_found", ""},
		{"an operator", p.toolPath("run_command"), fine, bearer(p.tokens["operator"]), 404, "not_found", ""},
		{"a token that may read", p.toolPath("run_command"), fine, []string{"Authorization", reader.Get("Authorization")}, 403, "wrong_scope", ""},
		{"no such tool", p.toolPath("fly"), fine, bearer(p.tokens["member"]), 404, "tool_not_found", ""},
		{"no body", p.toolPath("run_command"), "", bearer(p.tokens["member"]), 400, "body_missing", ""},
		{"an unknown argument", p.toolPath("run_command"), `{"arguments":{"command":"true","shell":"zsh"}}`, bearer(p.tokens["member"]), 400, "tool_arguments_invalid", "shell"},
		{"a wrong type", p.toolPath("run_command"), `{"arguments":{"argv":"true"}}`, bearer(p.tokens["member"]), 400, "tool_arguments_invalid", "argv"},
		{"a list", p.toolPath("run_command"), `{"arguments":["touch","never"]}`, bearer(p.tokens["member"]), 400, "tool_arguments_invalid", ""},
		{"nothing to run", p.toolPath("run_command"), `{}`, bearer(p.tokens["member"]), 400, "invalid_command", ""},
		{"out of the worktree", p.toolPath("run_command"), `{"arguments":{"command":"touch never","cwd":"../.."}}`, bearer(p.tokens["member"]), 400, "invalid_cwd", ""},
		{"10 MiB", p.toolPath("run_command"), `{"arguments":{"command":"` + strings.Repeat("x", 10<<20) + `"}}`, bearer(p.tokens["member"]), 413, "body_too_large", ""},
		{"more than 1 MiB", p.toolPath("run_command"), `{"arguments":{"command":"` + strings.Repeat("x", 1<<20) + `"}}`, bearer(p.tokens["member"]), 413, "tool_arguments_too_large", ""},
	} {
		r := h.do("POST", c.path, c.body, c.header...)
		var problem api.Problem
		if err := json.Unmarshal(r.body, &problem); err != nil {
			t.Errorf("%s: %s", c.what, r.body)
			continue
		}
		field := ""
		if problem.Details != nil {
			field, _ = (*problem.Details)["field"].(string)
		}
		if r.StatusCode != c.status || problem.Code != c.code || c.field != "" && field != c.field {
			t.Errorf("%s: %d %s, want %d %s %s", c.what, r.StatusCode, r.body, c.status, c.code, c.field)
		}
	}
	if _, err := os.Stat(filepath.Join(h.dir, "worktrees", p.ids["workspace"], "w", "never")); err == nil {
		t.Error("a refused call ran")
	}
	if entry := h.toolEntry(t, p); entry.Result != audit.Refused || entry.Code == "" {
		t.Errorf("in the audit: %+v", entry)
	}
}

// Who leaves stops the tool and what it started.
func TestLeavingStopsATool(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	dir := filepath.Join(h.dir, "worktrees", p.ids["workspace"], "w")
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		req, err := http.NewRequestWithContext(ctx, "POST", h.url+p.toolPath("run_command"), strings.NewReader(`{"arguments":{"command":"echo $$ >pid; exec sleep 1000","timeout_ms":600000}}`))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+p.tokens["member"])
		if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
			resp.Body.Close()
			t.Error("the request was answered")
		}
	}()
	var pid int
	eventually(t, "the command began", func() bool {
		b, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err == nil && bytes.HasSuffix(b, []byte("\n")) {
			pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
		}
		return err == nil && pid != 0
	})
	leave()
	<-asked
	eventually(t, "the command was stopped", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}

// What a tool answers shows no secret of the team.
func TestToolAnswersHideSecrets(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	const value = "tr0ub4dor-and-three"
	if r := h.do("POST", "/api/v1/teams/"+p.team.Slug+"/secrets", `{"kind":"env","name":"TOKEN","value":"`+value+`"}`, bearer(p.tokens["owner"])...); r.StatusCode != 201 {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	r := h.do("POST", p.toolPath("run_command"), `{"arguments":{"command":"echo `+value+`; echo length ${#TOKEN}"}}`, bearer(p.tokens["member"])...)
	if r.StatusCode != 200 || strings.Contains(string(r.body), value) || !strings.Contains(string(r.body), "length 19") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}

// Calls of tools are listed, filtered and exported to those who may see the workspace's terminals, and show no secret of the team.
func TestToolCallsAreListedAndExported(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	const value = "tr0ub4dor-and-four"
	for _, body := range []string{`{"arguments":{"command":"echo ` + value + `"}}`, `{"arguments":{"command":"exit 3"}}`, `{"arguments":{"argv":"wrong"}}`} {
		h.do("POST", p.toolPath("run_command"), body, bearer(p.tokens["member"])...)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := h.cfg.ToolCalls.Run(ctx); err != nil { // writes what waits
		t.Fatal(err)
	}
	if r := h.do("POST", "/api/v1/teams/"+p.team.Slug+"/secrets", `{"kind":"env","name":"TOKEN","value":"`+value+`"}`, bearer(p.tokens["owner"])...); r.StatusCode != 201 { // after the call
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	at := "/api/v1/workspaces/" + p.ids["workspace"] + "/tool-calls"
	list := func(query, token string) (l api.ToolCallList) {
		t.Helper()
		r := h.do("GET", at+query, "", bearer(p.tokens[token])...)
		if strings.Contains(string(r.body), value) {
			t.Errorf("%s shows a secret", query)
		}
		r.into(t, &l)
		return l
	}
	all := list("", "viewer")
	if len(all.Items) != 3 || all.Items[0].Outcome != api.ToolOutcomeRefused || all.Items[0].Code != "tool_arguments_invalid" || all.Items[0].Cause == "" || all.Items[1].Outcome != api.ToolOutcomeFailed ||
		all.Items[2].Outcome != api.ToolOutcomeDone || !all.Items[2].Success || !strings.HasPrefix(all.Items[2].Result, "Exit code 0") {
		t.Errorf("%+v", all)
	}
	if failed := list("?outcome=failed&tool=run_command", "viewer"); len(failed.Items) != 1 || failed.Items[0].Success {
		t.Errorf("%+v", failed)
	}
	first := list("?limit=2", "viewer")
	if first.NextCursor == nil || len(list("?limit=2&cursor="+*first.NextCursor, "viewer").Items) != 1 {
		t.Errorf("%+v", first)
	}
	if of := list("?session="+p.ids["session"], "viewer"); len(of.Items) != 0 {
		t.Errorf("of a session that called nothing: %+v", of)
	}
	file := h.do("GET", at+"/export", "", bearer(p.tokens["viewer"])...)
	lines := strings.Split(strings.TrimSpace(string(file.body)), "\n")
	var one api.ToolCallRecord
	if len(lines) != 3 || json.Unmarshal([]byte(lines[0]), &one) != nil || one.Id != all.Items[2].Id || strings.Contains(string(file.body), value) ||
		!strings.Contains(file.Header.Get("Content-Disposition"), ".jsonl") {
		t.Errorf("%s %s", file.Header, file.body)
	}
	if none := h.do("GET", at+"/export?outcome=cancelled", "", bearer(p.tokens["viewer"])...); none.StatusCode != 200 || len(none.body) != 0 {
		t.Errorf("an empty export: %d %s", none.StatusCode, none.body)
	}
	for token, status := range map[string]int{"outsider": 404, "operator": 404} {
		if r := h.do("GET", at, "", bearer(p.tokens[token])...); r.StatusCode != status {
			t.Errorf("%s: %d", token, r.StatusCode)
		}
		if r := h.do("GET", at+"/export", "", bearer(p.tokens[token])...); r.StatusCode != status {
			t.Errorf("%s exports: %d", token, r.StatusCode)
		}
	}
	if r := h.do("GET", at+"?outcome=lucky", "", bearer(p.tokens["viewer"])...); r.StatusCode != 400 {
		t.Errorf("an unknown outcome: %d %s", r.StatusCode, r.body)
	}
}
