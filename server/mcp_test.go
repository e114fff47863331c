package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/tools"
)

// bearing adds a token to each request.
type bearing struct {
	token string
	next  http.RoundTripper
}

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// mcpClient is the SDK's own client, speaking to /mcp with a token.
type mcpClient struct {
	t *testing.T
	*mcp.ClientSession
}

func (h *harness) mcp(t *testing.T, token string) mcpClient {
	t.Helper()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test-client", Version: "1.2"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: h.url + "/mcp", HTTPClient: &http.Client{Transport: bearing{token, http.DefaultTransport}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return mcpClient{t, s}
}

// call calls a tool and reads the object it answers with.
func (c mcpClient) call(name string, args map[string]any, out any) (text string, failed bool) {
	c.t.Helper()
	r, err := c.CallTool(c.t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
	if len(r.Content) > 0 {
		text = r.Content[0].(*mcp.TextContent).Text
	}
	if out != nil {
		raw, err := json.Marshal(r.StructuredContent)
		if err == nil {
			err = json.Unmarshal(raw, out)
		}
		if err != nil || r.IsError {
			c.t.Fatalf("%s: %v, %s", name, err, text)
		}
	}
	return text, r.IsError
}

// An assistant elsewhere does a piece of work from the list of projects to the merge.
func TestWorkByMCP(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	if r := h.do("POST", "/api/v1/teams/"+p.team.Slug+"/projects", `{"name":"sample","source":{"kind":"sample"}}`, bearer(p.tokens["owner"])...); r.StatusCode != 201 {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	c := h.mcp(t, p.tokens["owner"])
	listed, err := c.ListTools(t.Context(), nil)
	if err != nil || len(listed.Tools) < 15 || len(listed.Tools) > tools.MaxListed {
		t.Fatalf("%d tools, %v", len(listed.Tools), err)
	}
	eventually(t, "the project is ready", func() bool {
		text, _ := c.call("project_list", nil, nil)
		return strings.Contains(text, "sample (") && !strings.Contains(text, "cloning")
	})
	var w struct{ ID, Key string }
	if text, failed := c.call("workspace_create", map[string]any{"project": "sample", "name": "Fix the tests"}, &w); failed || !strings.HasPrefix(text, "Created PW-") {
		t.Fatalf("%s", text)
	}
	eventually(t, "the workspace is ready", func() bool {
		text, _ := c.call("workspace_read", map[string]any{"workspace": w.Key}, nil)
		return strings.Contains(text, ": ready")
	})
	if text, _ := c.call("workspace_list", map[string]any{"project": "sample"}, nil); !strings.Contains(text, w.Key+` "Fix the tests"`) {
		t.Errorf("listed: %s", text)
	}
	var s struct{ ID, State string }
	c.call("session_start", map[string]any{"workspace": w.Key, "agent": "shell"}, &s)
	if r := h.do("POST", "/api/v1/sessions/"+s.ID+"/input", `{"text":"echo one line > made.txt; echo it is $((40+2))\r"}`, bearer(p.tokens["owner"])...); r.StatusCode != 204 {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	eventually(t, "the terminal shows it", func() bool {
		text, _ := c.call("session_read", map[string]any{"session": s.ID, "what": "output"}, nil)
		return strings.Contains(text, "it is 42")
	})
	if text, failed := c.call("question_answer", map[string]any{"session": s.ID, "text": "yes"}, nil); !failed || !strings.HasPrefix(text, "question_gone: ") {
		t.Errorf("%s", text)
	}
	if r := h.do("POST", "/api/v1/workspaces/"+w.ID+"/commit", `{"message":"Add a file"}`, bearer(p.tokens["owner"])...); r.StatusCode != 200 {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	eventually(t, "the change is seen", func() bool {
		text, _ := c.call("changes_read", map[string]any{"workspace": w.Key}, nil)
		return strings.Contains(text, "made.txt +1 -0")
	})
	if text, _ := c.call("changes_read", map[string]any{"workspace": w.Key, "path": "made.txt"}, nil); !strings.Contains(text, "+one line") {
		t.Errorf("%s", text)
	}
	if text, _ := c.call("review_comment", map[string]any{"workspace": w.Key, "path": "made.txt", "line": 1, "body": "Good.", "send": true}, nil); !strings.Contains(text, "Sent review") {
		t.Errorf("%s", text)
	}
	if text, _ := c.call("checks_read", map[string]any{"workspace": w.Key}, nil); !strings.Contains(text, "Checks: ") {
		t.Errorf("%s", text)
	}
	if text, _ := c.call("merge", map[string]any{"workspace": w.Key, "dry_run": true}, nil); !strings.HasPrefix(text, "It can be merged into ") {
		t.Errorf("%s", text)
	}
	var merged struct{ Merged bool }
	if text, _ := c.call("merge", map[string]any{"workspace": w.Key}, &merged); !merged.Merged {
		t.Errorf("%s", text)
	}
	c.call("session_stop", map[string]any{"session": s.ID}, &s)
	if s.State != "exited" && s.State != "failed" {
		t.Errorf("stopped: %+v", s)
	}
	if text, failed := c.call("usage_read", nil, nil); failed || !strings.Contains(text, "sandboxes") {
		t.Errorf("%s", text)
	}

	rows, _, err := h.cfg.Audit.List(tenant.In(t.Context(), p.team.ID), audit.Query{Chain: p.team.ID, Action: "workspace.merge"}, "")
	if err != nil || len(rows) == 0 || rows[0].Data["client"] != "test-client 1.2 (MCP)" || rows[0].Kind != audit.ByToken || rows[0].ActorName != "owner@example.com" {
		t.Errorf("in the audit: %+v, %v", rows, err)
	}
}

// A token reaches by MCP exactly what it reaches by the API.
func TestMCPIsBoundedByTheToken(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	owner := caller{name: "owner", userID: memberID(t, h, p, "owner")}
	reader := strings.TrimPrefix(h.bounded(t, owner, []accounts.Scope{accounts.ScopeRead}).header.Get("Authorization"), "Bearer ")
	for _, c := range []struct {
		what, token, tool string
		args              map[string]any
		code              string
	}{
		{"reading with a token that may", reader, "workspace_read", map[string]any{"workspace": p.ids["workspace"]}, ""},
		{"creating with a token that may read", reader, "workspace_create", map[string]any{"project": p.ids["project"], "name": "x"}, "wrong_scope"},
		{"merging with a token that may read", reader, "merge", map[string]any{"workspace": p.ids["workspace"]}, "wrong_scope"},
		{"costs with a token that may read", reader, "usage_read", nil, "wrong_scope"},
		{"a viewer", p.tokens["viewer"], "merge", map[string]any{"workspace": p.ids["workspace"]}, "forbidden"},
		{"another team's workspace", p.tokens["outsider"], "workspace_read", map[string]any{"workspace": p.ids["workspace"]}, "not_found"},
		{"another team's session", p.tokens["outsider"], "session_read", map[string]any{"session": p.ids["session"]}, "not_found"},
		{"another team by name", p.tokens["outsider"], "workspace_list", map[string]any{"team": p.team.Slug}, "not_found"},
		{"nobody's team", p.tokens["homeless"], "workspace_list", nil, "team_needed"},
		{"a path as an id", p.tokens["owner"], "session_read", map[string]any{"session": "../../me"}, "tool_arguments_invalid"},
		{"an argument that does not exist", p.tokens["owner"], "workspace_list", map[string]any{"all": true}, "tool_arguments_invalid"},
		{"an unknown key", p.tokens["owner"], "workspace_read", map[string]any{"workspace": "PW-999"}, "workspace_not_found"},
		{"no key", p.tokens["owner"], "workspace_read", map[string]any{"workspace": "PW-x"}, "invalid_parameter"},
	} {
		text, failed := h.mcp(t, c.token).call(c.tool, c.args, nil)
		if failed != (c.code != "") || failed && !strings.HasPrefix(text, c.code+": ") {
			t.Errorf("%s: %s, want %s", c.what, text, c.code)
		}
	}
}

// Who shows no valid token is not let in, nor are pages of other origins and cookies.
func TestTheDoorOfMCP(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	both := []string{"Accept", "application/json, text/event-stream"}
	for what, c := range map[string]struct {
		header []string
		status int
		code   string
	}{
		"nobody":          {nil, 401, "signed_out"},
		"a wrong token":   {bearer("pw_user_x"), 401, "invalid_token"},
		"a cookie":        {[]string{"Cookie", "parawork=" + strings.Repeat("a", 43)}, 401, "signed_out"},
		"a foreign page":  {append(bearer(p.tokens["owner"]), "Origin", "https://evil.example"), 403, "cross_origin"},
		"a rebound name":  {append(bearer(p.tokens["owner"]), "Host", "evil.example"), 403, "host_not_allowed"},
		"its own page":    {append(bearer(p.tokens["owner"]), "Origin", h.url), 200, ""},
		"a program":       {bearer(p.tokens["owner"]), 200, ""},
		"without a login": {[]string{"Authorization", "Basic eDp5"}, 401, "invalid_token"},
	} {
		r := h.do("POST", "/mcp", initialize, append(both, c.header...)...)
		if r.StatusCode != c.status || r.code() != c.code {
			t.Errorf("%s: %d %s, want %d %s", what, r.StatusCode, r.body, c.status, c.code)
		}
		if got := r.Header.Get("WWW-Authenticate"); (c.status == 401) != strings.HasPrefix(got, "Bearer") {
			t.Errorf("%s: WWW-Authenticate is %q", what, got)
		}
	}
	if r := h.do("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":"`+strings.Repeat("x", maxMCP)+`"}}`, append(both, bearer(p.tokens["owner"])...)...); r.StatusCode != 413 {
		t.Errorf("a body of more than the limit: %d", r.StatusCode)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if r := h.do(method, "/mcp", "", append(both, bearer(p.tokens["owner"])...)...); r.StatusCode != 405 {
			t.Errorf("%s: %d", method, r.StatusCode)
		}
	}
}

// Clients of every age are served, and each is known by the name it gave.
func TestEachVersionOfMCP(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	header := append(bearer(p.tokens["owner"]), "Accept", "application/json, text/event-stream")
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"workspace_create","arguments":{"project":"` + p.ids["project"] + `","name":"x","base":"-"}%s}}`
	client := func() string {
		rows, _, err := h.cfg.Audit.List(tenant.In(t.Context(), p.team.ID), audit.Query{Chain: p.team.ID, Action: "workspace.create"}, "")
		if err != nil || len(rows) == 0 {
			t.Fatalf("%v, %v", rows, err)
		}
		return rows[0].Data["client"]
	}
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		r := h.do("POST", "/mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"old","version":"`+version+`"}}}`, header...)
		session := r.Header.Get("Mcp-Session-Id")
		if r.StatusCode != 200 || !strings.Contains(string(r.body), `"protocolVersion":"`+version+`"`) || session == "" {
			t.Fatalf("%s: %d %s", version, r.StatusCode, r.body)
		}
		later := append(header, "Mcp-Session-Id", session, "Mcp-Protocol-Version", version)
		if r := h.do("POST", "/mcp", strings.Replace(call, "%s", "", 1), later...); r.StatusCode != 200 {
			t.Errorf("%s: %d %s", version, r.StatusCode, r.body)
		}
		if got := client(); got != "old "+version+" (MCP)" {
			t.Errorf("%s: the audit names %q", version, got)
		}
	}
	meta := `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"new","version":"9"},"io.modelcontextprotocol/clientCapabilities":{}}`
	r := h.do("POST", "/mcp", strings.Replace(call, "%s", meta, 1), append(header, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "workspace_create")...)
	if r.StatusCode != 200 {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if got := client(); got != "new 9 (MCP)" {
		t.Errorf("the audit names %q", got)
	}
}
