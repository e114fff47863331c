package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The command line asks for a job once, follows it over a connection that breaks, saves what it left and exits as it ended.
func TestJobCommands(t *testing.T) {
	t.Parallel()
	var asked, key string
	broke := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		said := func(s string) { _, _ = io.WriteString(w, s) }
		if r.Method != http.MethodGet {
			asked, key = string(body), r.Header.Get("Idempotency-Key")
		}
		status := map[string]string{"job_1": "completed", "job_2": "failed", "job_3": "timeout"}
		id := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/jobs/"), "/")[0]
		end := `{"id":"` + id + `","status":"` + status[id] + `","agent":"codex","code":"c","error":"Why.","output":"Done.","artifacts":[{"id":"art_1","name":"out/a.txt","size":3}]}`
		switch path := r.Method + " " + r.URL.Path; {
		case path == "GET /api/v1/me":
			said(`{"user":{"id":"usr_1"},"teams":[{"slug":"harbour"}]}`)
		case path == "GET /api/v1/teams/harbour/projects":
			said(`{"items":[{"id":"prj_1","name":"web"}],"next_cursor":null}`)
		case path == "GET /api/v1/teams/harbour/jobs":
			said(`{"items":[{"id":"job_1","status":"running","agent":"codex","prompt":"Do\u001b[2J it"}],"next_cursor":null}`)
		case path == "POST /api/v1/teams/harbour/jobs":
			said(`{"id":"job_1","status":"queued"}`)
		case strings.HasSuffix(path, "/events") && status[id] != "":
			if id == "job_1" && !broke {
				broke = true
				said("id: 1-2\nevent: text\ndata: {\"id\":\"a\",\"text\":\"I work.\"}\n\n")
				return
			}
			if id == "job_1" && r.Header.Get("Last-Event-ID") == "1-2" {
				said(": still running\n\nid: 1-3\nevent: text\ndata: {\"id\":\"b\",\"text\":\"Done.\"}\n\n")
			}
			said("id: 1-3\nevent: end\ndata: " + end + "\n\n")
		case path == "GET /api/v1/jobs/job_2":
			said(end)
		case path == "GET /api/v1/artifacts/art_1/content":
			said("abc")
		case path == "POST /api/v1/jobs/job_1/cancel":
			said(end)
		default:
			w.WriteHeader(http.StatusNotFound)
			said(`{"code":"not_found","message":"It does not exist."}`)
		}
	}))
	t.Cleanup(server.Close)
	env := map[string]string{"PARAWORK_SERVER": server.URL, "PARAWORK_TOKEN": "pw_user_x", "PARAWORK_WEBHOOK_SECRET": "0123456789abcdef"}
	to := filepath.Join(t.TempDir(), "out")
	for _, c := range []struct {
		line        string
		exit        int
		out, errout string
		asked       string
	}{
		{line: "run --agent codex --project web --timeout 2m --artifact *.txt --key k -- --help", out: "job_1\n",
			asked: `{"agent":"codex","artifacts":["*.txt"],"project_id":"prj_1","prompt":"--help","timeout_ms":120000}`},
		{line: "run - --agent command --arg tool --arg {prompt} --keep --webhook https://h.test", out: "job_1\n",
			asked: `{"agent":"command","argv":["tool","{prompt}"],"keep":true,"prompt":"from in","webhook":{"secret":"0123456789abcdef","url":"https://h.test"}}`},
		{line: "run it --agent codex --project none", exit: 1, errout: "project_not_found"},
		{line: "run it", exit: 2, errout: "--agent"},
		{line: "run it --agent codex --follow --download " + to, out: "I work.\nDone.\n", errout: "saved"},
		{line: "wait job_2", exit: 1, out: "Done.\n", errout: "failed (c): Why."},
		{line: "wait job_3", exit: 124, out: "Done.\n", errout: "timeout"},
		{line: "wait job_9", exit: 1, errout: "not_found"},
		{line: "get job_2", out: "job_2  failed  codex\nWhy.\nart_1  out/a.txt  3 bytes\n\nDone.\n"},
		{line: "cancel job_1"},
		{line: "cancel", exit: 2, errout: "words"},
		{line: "help", out: jobUsage},
	} {
		asked = ""
		r := run(env, "from in", append([]string{"job"}, strings.Fields(c.line)...)...)
		if r.code != c.exit || r.out != c.out || !strings.Contains(r.errout, c.errout) {
			t.Errorf("%s: %+v, want %d and %q", c.line, r, c.exit, c.out)
		}
		if c.asked != "" && (asked != c.asked || key == "") {
			t.Errorf("%s asked %s with key %q\nwant %s", c.line, asked, key, c.asked)
		}
	}
	if b, err := os.ReadFile(filepath.Join(to, "out", "a.txt")); err != nil || string(b) != "abc" {
		t.Errorf("what was saved: %q, %v", b, err)
	}
	if r := run(env, "", "job", "list", "--status", "running"); r.code != 0 || !strings.Contains(r.out, "job_1  running  codex") || strings.Contains(r.out, "\x1b") {
		t.Errorf("%+v", r)
	}
	want(t, run(nil, "", "job", "list"), 2, "PARAWORK_SERVER")
}
