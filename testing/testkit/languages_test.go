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

// The server is killed while gopls runs: the same process answers afterwards, about the files as they are by then.
func TestLanguageServersSurviveTheServer(t *testing.T) {
	withGopls(t)
	h := testkit.Start(t)
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
	write("go.mod", "module example.com/greeter\n\ngo 1.21\n")
	write("main.go", "package main\n\nfunc main() { println(Greet(\"you\")) }\n")
	write("greet.go", "package main\n\nfunc Greet(name string) string { return \"hello \" + name }\n")
	if got := problems("main.go"); got != "" {
		t.Fatalf("at first: %s", got)
	}
	before := gopls()

	h.Kill()
	write("greet.go", "package main\n\nfunc Greet(name int) string { return \"hello\" }\n")
	h.Boot()
	if got := problems("main.go"); !strings.Contains(got, "cannot use") {
		t.Errorf("after the kill: %q", got)
	}
	if now := gopls(); now != before || now.State != "ready" || now.PID == 0 {
		t.Errorf("%+v, before %+v", now, before)
	}
	write("greet.go", "package main\n\nfunc Greet(name string) string { return \"hello \" + name }\n")
	if got := problems("main.go"); got != "" {
		t.Errorf("after the mistake was undone: %s", got)
	}
}
