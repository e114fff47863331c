package testkit_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

type command struct {
	ID        string `json:"command_id"`
	State     string
	ExitCode  *int `json:"exit_code"`
	Stdout    string
	Stderr    string
	Truncated bool
	Duration  int64 `json:"duration_ms"`
}

func TestExec(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	ws := h.Workspace(h.Sample(), "Exec")
	exec := "/workspaces/" + ws.ID + "/exec"
	run := func(body map[string]any) command {
		t.Helper()
		var c command
		h.API("POST", exec, body, &c)
		return c
	}
	must(t, os.Mkdir(filepath.Join(ws.Path, "sub"), 0o755))

	if c := run(map[string]any{"argv": []string{"printf", "%s|", "a b", "$HOME", "*"}}); c.State != "completed" || *c.ExitCode != 0 || c.Stdout != "a b|$HOME|*|" || c.Stderr != "" {
		t.Errorf("argv: %+v", c)
	}
	if c := run(map[string]any{"command": "echo out; echo err >&2; pwd; echo $X; exit 5", "cwd": "sub", "env": map[string]string{"X": "y z"}}); c.State != "completed" || *c.ExitCode != 5 ||
		c.Stdout != "out\n"+filepath.Join(ws.Path, "sub")+"\ny z\n" || c.Stderr != "err\n" {
		t.Errorf("command: %+v", c)
	}
	if c := run(map[string]any{"command": "echo first; sleep 1000", "timeout_ms": 300}); c.State != "timed_out" || c.Stdout != "first\n" {
		t.Errorf("timeout: %+v", c)
	}
	if c := run(map[string]any{"command": "head -c 3000000 /dev/zero | tr '\\0' x; echo END", "timeout_ms": 60000}); !c.Truncated || len(c.Stdout) < 1<<20-1000 || len(c.Stdout) > 1<<20+1000 || !strings.HasSuffix(c.Stdout, "END\n") {
		t.Errorf("large output: truncated %v, %d bytes", c.Truncated, len(c.Stdout))
	}
	if c := run(map[string]any{"argv": []string{"/no/such"}}); c.State != "failed" {
		t.Errorf("no such program: %+v", c)
	}

	if c := run(map[string]any{"command": "pwd", "cwd": "/etc"}); c.State != "failed" || c.Stdout != "" {
		t.Errorf("a folder outside: %+v", c)
	}

	c := run(map[string]any{"command": "echo started; sleep 1000", "background": true})
	if c.ID == "" || (c.State != "pending" && c.State != "executing") {
		t.Fatalf("background: %+v", c)
	}
	h.Wait("its output is there", func() bool { h.API("GET", "/commands/"+c.ID, nil, &c); return c.Stdout == "started\n" })
	h.API("DELETE", "/commands/"+c.ID, nil, &c)
	h.Wait("it is cancelled", func() bool { h.API("GET", "/commands/"+c.ID, nil, &c); return c.State == "cancelled" })

	// Background work outlives the server, and is followed again.
	c = run(map[string]any{"command": "while [ ! -e go ]; do sleep 0.05; done; echo went; exit 4", "background": true, "timeout_ms": 600000})
	h.Kill()
	h.Boot()
	must(t, os.WriteFile(filepath.Join(ws.Path, "go"), nil, 0o600))
	h.Wait("it completes", func() bool { h.API("GET", "/commands/"+c.ID, nil, &c); return c.State == "completed" })
	if *c.ExitCode != 4 || c.Stdout != "went\n" {
		t.Errorf("after a restart: %+v", c)
	}

	resp, sse, err := h.Do("POST", exec, strings.NewReader(`{"command":"echo one; echo two >&2; exit 2"}`), "Content-Type", "application/json", "Accept", "text/event-stream")
	if err != nil || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("stream: %v %v", err, resp)
	}
	for _, want := range []string{"event: stdout", "b25lCg==", "event: stderr", "dHdvCg==", "event: command", `"exit_code":2`} {
		if !strings.Contains(string(sse), want) {
			t.Errorf("the stream lacks %q:\n%s", want, sse)
		}
	}

	for _, bad := range []map[string]any{{}, {"argv": []string{}}, {"argv": []string{"a"}, "command": "b"}, {"command": "x", "cwd": "../.."}, {"command": "x", "timeout_ms": 0}} {
		h.Refused(400, "", "POST", exec, bad)
	}

	// The same key does it once.
	key := []string{"Idempotency-Key", "k1"}
	var a, b command
	h.API("POST", exec, map[string]any{"command": "echo x >> once"}, &a, key...)
	h.API("POST", exec, map[string]any{"command": "echo x >> once"}, &b, key...)
	if got, err := os.ReadFile(filepath.Join(ws.Path, "once")); err != nil || string(got) != "x\n" || a.ID != b.ID {
		t.Errorf("it ran %q times (%v), ids %s %s", got, err, a.ID, b.ID)
	}
	h.Refused(409, "", "POST", exec, map[string]any{"command": "echo y"}, key...)
}

func TestFiles(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	ws := h.Workspace(h.Sample(), "Files")
	put := func(path string, body []byte, header ...string) *http.Response {
		t.Helper()
		resp, _, err := h.Do("PUT", testkit.FilePath(ws.ID, path), bytes.NewReader(body), append([]string{"Content-Type", "application/octet-stream"}, header...)...)
		must(t, err)
		return resp
	}
	sum := func(b []byte) string { s := sha256.Sum256(b); return `"` + hex.EncodeToString(s[:]) + `"` }

	body := []byte("a\x00b\xff\n")
	if resp := put("deep/er/näme \n.bin", body); resp.StatusCode != 200 || resp.Header.Get("ETag") != sum(body) {
		t.Fatalf("put: %s, ETag %q", resp.Status, resp.Header.Get("ETag"))
	}
	resp, got, err := h.Do("GET", testkit.FilePath(ws.ID, "deep/er/näme \n.bin"), nil)
	if err != nil || !bytes.Equal(got, body) || resp.Header.Get("ETag") != sum(body) || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("get: %v %v %q", err, resp, got)
	}
	if resp := put("deep/er/näme \n.bin", []byte("new"), "If-Match", sum([]byte("old"))); resp.StatusCode != 412 {
		t.Errorf("stale If-Match: %s", resp.Status)
	}
	if resp := put("deep/er/näme \n.bin", []byte("new"), "If-Match", sum(body)); resp.StatusCode != 200 {
		t.Errorf("right If-Match: %s", resp.Status)
	}
	if resp := put("absent", []byte("new"), "If-Match", sum(body)); resp.StatusCode != 412 {
		t.Errorf("If-Match of nothing: %s", resp.Status)
	}
	h.Refused(404, "", "GET", testkit.FilePath(ws.ID, "absent"), nil)
	h.API("DELETE", testkit.FilePath(ws.ID, "deep/er/näme \n.bin"), nil, nil)
	h.Refused(404, "", "DELETE", testkit.FilePath(ws.ID, "deep/er/näme \n.bin"), nil)

	// Nothing outside the worktree, by no path and no link.
	secret := filepath.Join(h.Dir, "secret")
	must(t, os.WriteFile(secret, []byte("secret"), 0o600))
	must(t, os.Symlink(secret, filepath.Join(ws.Path, "link")))
	must(t, os.Symlink(h.Dir, filepath.Join(ws.Path, "dir")))
	for _, path := range []string{"../secret", secret, "link", "dir/secret", "a/../../secret", "", "..", ".git", "a\x00b"} {
		if resp, b, err := h.Do("GET", testkit.FilePath(ws.ID, path), nil); err != nil || resp.StatusCode < 400 || resp.StatusCode >= 500 || bytes.Contains(b, []byte("secret\"")) {
			t.Errorf("GET %q: %v %v %s", path, err, resp.Status, b)
		}
		if resp := put(path, []byte("owned")); resp.StatusCode < 400 || resp.StatusCode >= 500 {
			t.Errorf("PUT %q: %s", path, resp.Status)
		}
	}
	if b, err := os.ReadFile(secret); err != nil || string(b) != "secret" {
		t.Errorf("the secret is %q, %v", b, err)
	}

	var tree struct {
		Items []struct{ Path, Name, Type string }
	}
	h.API("GET", "/workspaces/"+ws.ID+"/tree", nil, &tree)
	names := map[string]string{}
	for _, it := range tree.Items {
		names[it.Name] = it.Type
	}
	if names["README.md"] != "file" || names["link"] != "symlink" || names[".git"] != "" {
		t.Errorf("tree: %v", names)
	}
}
