package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The command line finds a sandbox by its key, streams what a command prints, and exits as the command did.
func TestSandboxCommands(t *testing.T) {
	t.Parallel()
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		said := func(s string) { _, _ = io.WriteString(w, s) }
		if r.Method != http.MethodGet {
			asked = r.Method + " " + r.URL.RequestURI() + " " + string(body)
		}
		const list = `{"items":[{"id":"asb_1","key":"talk","user_id":"usr_1","purpose":"execution","state":"running","executor":"docker","ends_at":1},
			{"id":"asb_2","key":"talk","user_id":"usr_2"},{"id":"asb_3","key":"two","user_id":"usr_1"},{"id":"asb_4","key":"two","user_id":"usr_1"}],"next_cursor":null}`
		switch r.Method + " " + r.URL.Path {
		case "GET /api/v1/me":
			said(`{"user":{"id":"usr_1"},"teams":[{"slug":"harbour"}]}`)
		case "GET /api/v1/teams/harbour/sandboxes":
			said(list)
		case "POST /api/v1/teams/harbour/sandboxes":
			said(`{"id":"asb_1"}`)
		case "POST /api/v1/sandboxes/asb_1/exec":
			end := `{"state":"exited","exit_code":3,"stdout":"out"}`
			if strings.Contains(string(body), "sleep") {
				end = `{"state":"timed_out","exit_code":null}`
			}
			if r.Header.Get("Accept") != "text/event-stream" {
				said(end)
				return
			}
			said("event: started\ndata: {\"command_id\":\"c\"}\n\n: still running\n\nevent: stdout\ndata: {\"data\":\"b3V0\",\"offset\":0}\n\nevent: stderr\ndata: {\"data\":\"ZXJy\"}\n\nevent: command\ndata: " + end + "\n\n")
		case "POST /api/v1/sandboxes/asb_1/code":
			said("event: stdout\ndata: {\"text\":\"hi\\n\"}\n\nevent: run\ndata: {\"state\":\"ok\",\"results\":[{\"mime\":\"text/plain\",\"data\":\"42\",\"main\":true}],\"error\":null}\n\n")
		case "GET /api/v1/sandboxes/asb_1/files/list":
			said(`{"items":[{"name":"\u001b[2Jx","type":"file"},{"name":"grüße","type":"file"}]}`)
		case "GET /api/v1/sandboxes/asb_1/files":
			said("contents")
		case "PUT /api/v1/sandboxes/asb_1/files", "DELETE /api/v1/sandboxes/asb_1/files", "DELETE /api/v1/sandboxes/asb_1", "POST /api/v1/sandboxes/asb_1/extend":
			said(`{}`)
		case "GET /api/v1/sandboxes/asb_1/ports/3000":
			said(`{"url":"https://p.example","host":"p.example","headers":{"X-Token":"t"},"expires_at":1}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			said(`{"code":"sandbox_not_found","message":"It does not exist."}`)
		}
	}))
	t.Cleanup(server.Close)
	env := map[string]string{"PARAWORK_SERVER": server.URL, "PARAWORK_TOKEN": "pw_user_x"}
	here := t.TempDir()
	file := filepath.Join(here, "a.txt")
	for _, c := range []struct {
		line, stdin string
		exit        int
		out, errout string
		asked       string
	}{
		{line: "create --key talk --image python:3 --network allow --allow a.test --allow b.test --idle 1m", out: "asb_1\n",
			asked: `POST /api/v1/teams/harbour/sandboxes {"idle_seconds":60,"image":"python:3","key":"talk","network":{"allow":["a.test","b.test"],"mode":"allow"},"purpose":"execution"}`},
		{line: "create --allow a.test", exit: 2, errout: "--network allow"},
		{line: "exec talk --cwd in --env A=1=2 ls -l --json", exit: 3, out: "out", errout: "err", asked: `POST /api/v1/sandboxes/asb_1/exec {"command":["ls","-l","--json"],"cwd":"in","env":{"A":"1=2"}}`},
		{line: "exec --shell --stdin --json asb_1 -- echo $HOME", stdin: "in", exit: 3, out: `{"state":"exited","exit_code":3,"stdout":"out"}` + "\n",
			asked: `POST /api/v1/sandboxes/asb_1/exec {"command":"echo $HOME","stdin":"in"}`},
		{line: "exec asb_1 --timeout 2s sleep 9", exit: 124, out: "out", errout: "in time", asked: `POST /api/v1/sandboxes/asb_1/exec {"command":["sleep","9"],"timeout_ms":2000}`},
		{line: "exec asb_1", exit: 2, errout: "too few words"},
		{line: "exec two true", exit: 1, errout: "asb_3, asb_4"},
		{line: "exec none true", exit: 1, errout: "sandbox_not_found"},
		{line: "code talk", stdin: "6*7", out: "hi\n42\n", asked: `POST /api/v1/sandboxes/asb_1/code {"code":"6*7","language":"python"}`},
		{line: "exec talk --stdin cat", stdin: "\xff\xfe", exit: 2, errout: "UTF-8"},
		{line: "code talk", stdin: "\xff", exit: 2, errout: "UTF-8"},
		{line: "create --idle 10500ms", out: "asb_1\n", asked: `POST /api/v1/teams/harbour/sandboxes {"idle_seconds":11,"purpose":"execution"}`},
		{line: "ls talk", out: "file  0  " + time.UnixMilli(0).Format(time.DateTime) + `  "\x1b[2Jx"` + "\nfile  0  " + time.UnixMilli(0).Format(time.DateTime) + "  grüße\n"},
		{line: "get talk in/a.txt", out: "contents"},
		{line: "get talk in/a.txt " + here},
		{line: "put talk " + file + " up/", asked: "PUT /api/v1/sandboxes/asb_1/files?path=up%2Fa.txt contents"},
		{line: "put talk - b.txt", stdin: "data", asked: "PUT /api/v1/sandboxes/asb_1/files?path=b.txt data"},
		{line: "put talk -", exit: 2, errout: "path"},
		{line: "rm talk -r up", asked: "DELETE /api/v1/sandboxes/asb_1/files?path=up&recursive=true "},
		{line: "port talk 3000", out: "https://p.example\nX-Token: t\n"},
		{line: "extend talk 2h", asked: `POST /api/v1/sandboxes/asb_1/extend {"seconds":7200}`},
		{line: "extend talk later", exit: 2, errout: `"later"`},
		{line: "end talk", asked: "DELETE /api/v1/sandboxes/asb_1 "},
		{line: "end asb_9 --json", exit: 1, errout: `{"code":"sandbox_not_found"`},
		{line: "frobnicate", exit: 2, errout: "no command"},
		{line: "help", out: sandboxUsage},
	} {
		asked = ""
		r := run(env, c.stdin, append([]string{"sandbox"}, strings.Fields(c.line)...)...)
		if r.code != c.exit || r.out != c.out || !strings.Contains(r.errout, c.errout) {
			t.Errorf("%s: %+v, want %d and %q", c.line, r, c.exit, c.out)
		}
		if c.asked != "" && asked != c.asked {
			t.Errorf("%s asked %s\nwant %s", c.line, asked, c.asked)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "contents" {
		t.Errorf("the file that was read: %q, %v", b, err)
	}
	want(t, run(env, "", "sandbox", "list"), 0, "asb_1  talk  execution  running  docker")
	want(t, run(nil, "", "sandbox", "list"), 2, "PARAWORK_SERVER")
}
