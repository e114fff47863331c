package testkit_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

type languageServer struct {
	Language, State string
	PID             int
	Since           int64
}

type problemsOf struct {
	Items []struct {
		Severity, Message string
		Line              int
	}
}

// withGopls has the sandboxes of servers find gopls.
func withGopls(t *testing.T) {
	t.Helper()
	dir, err := filepath.Abs("../../.cache/language-servers/bin")
	must(t, err)
	if _, err := os.Stat(filepath.Join(dir, "gopls")); err != nil {
		if _, err := exec.LookPath("gopls"); err != nil {
			t.Skip("NOT TESTED: gopls is not installed: run testing/scripts/test-setup.sh")
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// The server is killed while gopls runs: the same process answers afterwards, about the files as they are by then. Claude Code shares it: its own
// LSP tool asks that process, also after another death of the server, and its hooks tell the model of errors after an edit.
func TestLanguageServersSurviveTheServer(t *testing.T) {
	withGopls(t)
	h := agentInstance(t, "claude-code")
	ws := h.Workspace(h.Sample(), "Languages")
	write := func(name, text string) { must(t, os.WriteFile(filepath.Join(ws.Path, name), []byte(text), 0o666)) } //nolint:gosec // the agent is another user where it is isolated
	problems := func(file string) string {
		t.Helper()
		var out problemsOf
		h.API("GET", "/workspaces/"+ws.ID+"/diagnostics?path="+file, nil, &out)
		var all []string
		for _, it := range out.Items {
			all = append(all, it.Message)
		}
		return strings.Join(all, "\n")
	}
	gopls := func() languageServer {
		t.Helper()
		var all struct{ Items []languageServer }
		h.API("GET", "/workspaces/"+ws.ID+"/languages", nil, &all)
		for _, it := range all.Items {
			if it.Language == "go" {
				return it
			}
		}
		t.Fatalf("no gopls: %+v", all)
		return languageServer{}
	}
	const greet = "package main\n\nfunc Greet(name string) string { return \"hello \" + name }\n"
	write("go.mod", "module example.com/greeter\n\ngo 1.21\n")
	write("main.go", "package main\n\nfunc main() { println(Greet(\"you\")) }\n")
	write("greet.go", greet)
	if got := problems("main.go"); got != "" {
		t.Fatalf("at first: %s", got)
	}
	before := gopls()

	h.Kill()
	write("greet.go", strings.Replace(greet, "name string", "name int", 1))
	h.Boot()
	if got := problems("main.go"); !strings.Contains(got, "cannot use") {
		t.Errorf("after the kill: %q", got)
	}
	if now := gopls(); now != before || now.State != "ready" || now.PID == 0 {
		t.Errorf("%+v, before %+v", now, before)
	}
	write("greet.go", greet)
	if got := problems("main.go"); got != "" {
		t.Errorf("after the mistake was undone: %s", got)
	}

	w := &work{t: t, h: h, ws: ws}
	at := func(operation string) map[string]any {
		return tool("LSP", map[string]any{"operation": operation, "filePath": "main.go", "line": 3, "character": 24})
	}
	edit := tool("Edit", map[string]any{"file_path": filepath.Join(ws.Path, "greet.go"), "old_string": "name string", "new_string": "name int"})
	var s testkit.Session
	h.API("POST", "/workspaces/"+ws.ID+"/sessions", map[string]any{"agent": "claude-code", "cols": 120, "rows": 40, "prompt": script(t,
		tool("Read", map[string]any{"file_path": filepath.Join(ws.Path, "greet.go")}), at("goToDefinition"), edit, map[string]any{"text": "Edited."})}, &s)
	w.id = s.ID
	w.reply(w.asked("greet.go"), map[string]any{"option_id": "allow"})
	heard := func(text string) {
		t.Helper()
		w.waits("the model gets "+text, func() bool {
			found := false
			_ = filepath.WalkDir(h.DataDir(), func(p string, d os.DirEntry, err error) error {
				if err == nil && strings.HasSuffix(p, ".jsonl") && strings.Contains(p, "/projects/") {
					b, _ := os.ReadFile(p)
					found = found || strings.Contains(string(b), text)
				}
				return nil
			})
			return found
		})
	}
	heard("Defined in greet.go:3:6")
	heard(`The language server found, after your edit:\ngreet.go:3:`)
	w.reaches("idle")

	h.Kill()
	h.Boot()
	h.API("POST", "/sessions/"+s.ID+"/prompts", map[string]any{"text": script(t, at("findReferences"), map[string]any{"text": "Found."})}, nil)
	heard("Found 2 references")
	if now := gopls(); now != before {
		t.Errorf("%+v, before %+v", now, before)
	}
}
