package testkit_test

import (
	"bytes"
	"encoding/base64"
	"image"
	_ "image/png" // figures
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

type codeRun struct {
	ID, State, Cause, Stdout, Stderr string
	Fresh                            bool
	Results                          []struct {
		MIME       string
		Data       any
		ArtifactID string `json:"artifact_id"`
	}
	Error *struct{ Name, Value, Traceback string }
}

// Variables of a kernel last from one run to the next, for people and agents alike, and over a kill -9 of the server in the middle of a run.
func TestCodeKeepsItsVariables(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	toolPlaces(t, func(t *testing.T, place string) {
		h := testkit.Start(t)
		ws := h.WorkspaceIn(place, h.Sample(), "Numbers")
		run := func(code string) (r codeRun) {
			t.Helper()
			h.API("POST", "/workspaces/"+ws.ID+"/code", map[string]any{"language": "python", "code": code}, &r)
			return r
		}
		if r := run("x = 20\nprint('set')"); r.State != "ok" || !r.Fresh || r.Stdout != "set\n" {
			t.Fatalf("the first run: %+v", r)
		}
		if r := run("x + 22"); r.Fresh || len(r.Results) != 1 || r.Results[0].Data != "42" {
			t.Errorf("the second run: %+v", r)
		}
		if r := run("open('made.txt', 'w').write('by code')\n1/0"); r.State != "failed" || r.Error == nil || r.Error.Name != "ZeroDivisionError" {
			t.Errorf("an error: %+v", r)
		}
		if b, err := os.ReadFile(filepath.Join(ws.Path, "made.txt")); string(b) != "by code" {
			t.Errorf("code works in the worktree: %v", err)
		}

		// An agent's command line reaches the same kernel, and the record of calls has it.
		of := startScript(t, h, ws, `
run sum sh -c 'echo "x + 1" | parawork run code - --json'
run shell parawork run code 'cd / && pwd' --language shell
run kernels parawork code kernels --json
`)()
		of("sum").ran("0").says(`"21"`)
		of("shell").ran("0").says("/")
		of("kernels").ran("0").says("python").says("shell")

		// Scripts can follow a run as it goes.
		_, sse, err := h.Do("POST", "/workspaces/"+ws.ID+"/code", strings.NewReader(`{"language":"shell","code":"echo one; echo two >&2; exit_code() { return 3; }; exit_code"}`), "Content-Type", "application/json", "Accept", "text/event-stream")
		for _, want := range []string{"event: started", "event: stdout", `{"text":"one\n"}`, "event: stderr", "event: run", `"exit_code":3`, `"state":"failed"`} {
			if err != nil || !strings.Contains(string(sse), want) {
				t.Errorf("the stream lacks %q: %v\n%s", want, err, sse)
			}
		}
		for _, bad := range []map[string]any{{"language": "cobol", "code": "x"}, {"language": "python", "code": ""}, {"language": "python", "code": "1", "kernel": "../x"}, {"language": "python", "code": "1", "timeout_ms": -1}} {
			h.Refused(400, "", "POST", "/workspaces/"+ws.ID+"/code", bad)
		}
		var late codeRun
		h.API("POST", "/workspaces/"+ws.ID+"/code", map[string]any{"language": "python", "code": "while True: pass", "timeout_ms": 200}, &late)
		if late.State != "timed_out" || late.Cause == "" {
			t.Errorf("code that takes too long: %+v", late)
		}

		// A result that is large becomes an artifact.
		r := run("class Picture:\n    def _repr_png_(self): return b'\\x89PNG' + b'x' * 200000\nPicture()")
		kept := ""
		for _, res := range r.Results {
			if res.MIME == "image/png" {
				kept = res.ArtifactID
			}
		}
		if kept == "" {
			t.Fatalf("no artifact: %+v", r.Results)
		}
		if _, got, err := h.Do("GET", "/artifacts/"+kept+"/content", nil); err != nil || len(got) != 200004 {
			t.Errorf("the artifact has %d bytes: %v", len(got), err)
		}

		// The server dies while code runs: the run goes on, and is complete afterwards.
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			_ = h.Try("POST", "/workspaces/"+ws.ID+"/code", map[string]any{"language": "python", "code": "import os, time\nprint('begun', flush=True)\nopen('running', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.02)\nprint('x is', x)\nx = 43"}, nil)
		}()
		h.Wait("the code runs", func() bool { _, err := os.Stat(filepath.Join(ws.Path, "running")); return err == nil })
		h.Kill()
		<-answered
		h.Boot()
		if err := os.WriteFile(filepath.Join(ws.Path, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		var list struct{ Items []codeRun }
		h.Wait("the run has ended", func() bool {
			h.API("GET", "/workspaces/"+ws.ID+"/code", nil, &list)
			return len(list.Items) > 0 && list.Items[0].State != "running"
		})
		if last := list.Items[0]; last.State != "ok" || last.Stdout != "begun\nx is 20\n" {
			t.Errorf("the run that the server left: %+v", last)
		}
		if r := run("x"); r.Fresh || len(r.Results) != 1 || r.Results[0].Data != "43" {
			t.Errorf("after the restart: %+v", r)
		}

		h.API("DELETE", "/workspaces/"+ws.ID+"/kernels/python/default", nil, nil)
		if r := run("x"); !r.Fresh || r.Error == nil || r.Error.Name != "NameError" {
			t.Errorf("after the end of the kernel: %+v", r)
		}
		if r := run("import os; os._exit(7)"); r.State != "died" || !strings.Contains(r.Cause, "7") {
			t.Errorf("an interpreter that ends: %+v", r)
		}
		if r := run("1"); !r.Fresh || r.State != "ok" {
			t.Errorf("after its end: %+v", r)
		}
	})
}

// drawn is a picture that needs nothing but the standard library, and draws with matplotlib where that can be imported.
const drawn = `
import struct, zlib
def chunk(kind, data): return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
class Plot:
    def _repr_png_(self):
        rows = b"".join(b"\0" + bytes(255 * (x == y) for x in range(16)) for y in range(16))
        return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 16, 16, 8, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
try:
    import matplotlib.pyplot as plt
    plt.plot([1, 2, 4])
    plt.show()
except ImportError:
    display(Plot())
`

// runsCode has a workspace's kernel keep a variable and draw a picture that the API answers with.
func runsCode(t *testing.T, h *testkit.Instance, workspaceID string) {
	t.Helper()
	run := func(language, code string) (r codeRun) {
		t.Helper()
		h.API("POST", "/workspaces/"+workspaceID+"/code", map[string]any{"language": language, "code": code}, &r)
		return r
	}
	run("python", "import os; x = len(os.listdir('.'))")
	if r := run("python", "x > 0"); r.Fresh || len(r.Results) != 1 || r.Results[0].Data != "True" {
		t.Errorf("a variable: %+v", r)
	}
	r := run("python", drawn)
	found := false
	for _, res := range r.Results {
		if s, ok := res.Data.(string); ok && res.MIME == "image/png" {
			b, err := base64.StdEncoding.DecodeString(s)
			_, _, bad := image.Decode(bytes.NewReader(b))
			found = found || err == nil && bad == nil
		}
	}
	if !found {
		t.Errorf("no picture: %+v %+v", r, r.Error)
	}
	if r := run("javascript", "let y = 6; await Promise.resolve(y * 7)"); len(r.Results) == 0 || r.Results[0].Data != "42" {
		t.Errorf("JavaScript: %+v", r)
	}
	if r := run("shell", "cd / && pwd"); r.Stdout != "/\n" {
		t.Errorf("a shell: %+v", r)
	}
}

// A plot that Python drew with matplotlib is a picture for the web app, in a sandbox as on the server.
func TestCodeDrawsPlots(t *testing.T) {
	if exec.Command("python3", "-c", "import matplotlib").Run() != nil {
		if exec.Command("/usr/bin/python3", "-c", "import matplotlib").Run() != nil {
			t.Skip("python3 has no matplotlib (Debian: python3-matplotlib)")
		}
		t.Setenv("PATH", "/usr/bin:"+os.Getenv("PATH"))
	}
	needsBubblewrap(t)
	h := testkit.Start(t)
	project := h.Sample()
	for _, place := range []string{"local", "bubblewrap"} {
		runsCode(t, h, h.WorkspaceIn(place, project, "Plot in "+place).ID)
	}
}
