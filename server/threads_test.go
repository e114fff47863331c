package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/server/api"
)

// eventReader reads server-sent events.
type eventReader struct {
	t     *testing.T
	lines *bufio.Scanner
}

func (h *harness) follow(t *testing.T, path, token string, header ...string) eventReader {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+"/api/v1"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	header = append(bearer(token), header...)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %s", resp.StatusCode, resp.Header)
	}
	return eventReader{t, bufio.NewScanner(resp.Body)}
}

// next returns the next event.
func (s eventReader) next(into any) (id, event string) {
	s.t.Helper()
	for s.lines.Scan() {
		name, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch name {
		case "id":
			id = value
		case "event":
			event = value
		case "data":
			if err := json.Unmarshal([]byte(value), into); err != nil {
				s.t.Fatal(err)
			}
			return id, event
		}
	}
	s.t.Fatalf("the stream ended: %v", s.lines.Err())
	return "", ""
}

// The conversation of Parawork's own agent can be read, followed and continued by the API.
func TestThreads(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	owner, id := bearer(p.tokens["owner"]), p.ids["thread"]
	var th api.Thread
	if h.do("GET", "/api/v1/sessions/"+p.ids["session"]+"/thread", "", owner...).into(t, &th); th.Id != id || th.State != "idle" || th.Mode != "build" {
		t.Fatalf("%+v", th)
	}
	var v api.ThreadView
	if h.do("GET", "/api/v1/threads/"+id+"?limit=5", "", owner...).into(t, &v); v.Thread != th || v.More || v.Messages == nil || v.Turn != nil {
		t.Errorf("%+v", v)
	}
	if r := h.do("POST", "/api/v1/threads/"+id+"/messages", `{"text":"Go."}`, owner...); r.StatusCode != http.StatusConflict || r.code() != "session_not_running" {
		t.Errorf("a prompt to a session that does not run: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("POST", "/api/v1/threads/"+id+"/messages", `{"text":" "}`, owner...); r.StatusCode != http.StatusBadRequest || r.code() != "invalid_prompt" {
		t.Errorf("an empty prompt: %d %s", r.StatusCode, r.body)
	}
	var in api.ThreadInterruption
	if h.do("POST", "/api/v1/threads/"+id+"/interrupt", "", owner...).into(t, &in); in.Interrupted {
		t.Error("nothing runs, and it was interrupted")
	}
	if r := h.do("GET", "/api/v1/threads/"+id+"/events", "", append(owner, "Last-Event-ID", "x")...); r.StatusCode != http.StatusBadRequest || r.code() != "invalid_parameter" {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := h.do("GET", "/api/v1/threads/thr_none/events", "", owner...); r.StatusCode != http.StatusNotFound {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}

	events := h.follow(t, "/threads/"+id+"/events", p.tokens["owner"])
	if version, event := events.next(&v); event != "view" || version != "1" || v.Thread.Model != "" {
		t.Fatalf("%s %s: %+v", version, event, v)
	}
	clears := func() {
		t.Helper()
		if err := h.cfg.Agent.Clear(tenant.All(context.Background(), "test"), agent.Thread{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	clears()
	if version, _ := events.next(&v); version != "2" || len(v.Messages) != 1 || v.Messages[0].Role != "clear" {
		t.Errorf("%s: %+v", version, v)
	}
	clears()
	events = h.follow(t, "/threads/"+id+"/events", p.tokens["owner"], "Last-Event-ID", "2")
	if version, _ := events.next(&v); version != fmt.Sprint(v.Thread.Version) || len(v.Messages) != 1 || v.Messages[0].Seq != 2 {
		t.Errorf("after 2: %s %+v", version, v)
	}
}
