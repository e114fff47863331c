package server

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/sessions/report"
	"github.com/parawork/parawork/store"
)

// reports wires the services of a test harness as cmd does.
func reports(h *harness, c *Config) *report.Service {
	return report.New(report.Sources{Workspace: c.Workspaces.Records.Workspace, Project: c.Workspaces.Records.Project, Commits: c.Workspaces.Ingest.Commits, Sessions: c.Sessions.List,
		Conversation: c.Sessions.Conversation, Checks: store.NewReports(h.db).Checks, Now: time.Now,
		Place: func(_ context.Context, executor string) string { return executor },
		Changes: func(context.Context, string) ([]report.Change, error) {
			return []report.Change{{Path: "bad\xff.go", Status: "added", Additions: 1}}, nil
		},
		Hosts: func(context.Context, string) ([]report.Host, []report.Host, bool, error) { return nil, nil, false, nil },
		Costs: func(context.Context, string) (report.Costs, error) { return report.Costs{CostNano: 1e9, Input: 7}, nil },
		Names: func(context.Context, string) (map[string]string, error) { return map[string]string{}, nil }})
}

func TestReportOfAWorkspace(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := h.people(t)
	h.serve()
	path := "/api/v1/workspaces/" + p.ids["workspace"] + "/report"
	var got struct {
		Key   string
		Files []struct{ Path string }
	}
	h.do("GET", path, "", bearer(p.tokens["viewer"])...).into(t, &got)
	if got.Key != "PW-1" || len(got.Files) != 1 || got.Files[0].Path != guest.EncodePath("bad\xff.go") {
		t.Errorf("%+v", got)
	}
	text := h.do("GET", path+"?format=markdown", "", bearer(p.tokens["viewer"])...)
	if text.StatusCode != http.StatusOK || !strings.HasPrefix(text.Header.Get("Content-Type"), "text/markdown") || !strings.HasPrefix(text.Header.Get("Content-Disposition"), "attachment") ||
		!strings.HasPrefix(string(text.body), "# PW-1 ") {
		t.Errorf("%d %v %s", text.StatusCode, text.Header, text.body)
	}
	// What it cost is for those who see costs, and what was typed and run for those who see terminals.
	for who, sees := range map[string]bool{"viewer": false, "member": true} {
		r := h.do("GET", path, "", bearer(p.tokens[who])...)
		md := h.do("GET", path+"?format=markdown", "", bearer(p.tokens[who])...)
		if strings.Contains(string(r.body), `"shown":true`) != sees || strings.Contains(string(r.body), `"cost_nano":1000000000`) != sees || strings.Contains(string(r.body), `"input_tokens":7`) != sees || strings.Contains(string(md.body), "$1.0000") != sees {
			t.Errorf("%s: %s\n%s", who, r.body, md.body)
		}
	}
	var read struct{ Value string }
	h.do("POST", "/api/v1/me/tokens", `{"name":"t","scopes":["workspaces:read"]}`, bearer(p.tokens["member"])...).into(t, &read)
	if r := h.do("GET", path, "", bearer(read.Value)...); r.StatusCode != http.StatusForbidden || r.code() != "wrong_scope" {
		t.Errorf("a token that does not see terminals: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("GET", path+"?format=pdf", "", bearer(p.tokens["viewer"])...); r.StatusCode != http.StatusBadRequest || !strings.Contains(string(r.body), "invalid_parameter") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	// Nothing was merged that it could be attached to.
	if r := h.do("POST", path, "", bearer(p.tokens["member"])...); r.StatusCode != http.StatusConflict || !strings.Contains(string(r.body), "not_merged") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}
