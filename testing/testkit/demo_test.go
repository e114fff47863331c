package testkit_test

import (
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

// A visitor who is not signed in runs code in an isolated sandbox that reaches nothing, and finds it again after a kill -9 of the server.
func TestVisitorsOfTheDemo(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"bwrap", "python3"} {
		if _, err := exec.LookPath(program); err != nil && os.Getenv("CI") == "" {
			t.Skipf("%s is not installed", program)
		}
	}
	grouped(t) // the demo runs only where limits are enforced
	h := testkit.Start(t, `"demo":{"enabled":true,"executor":"bubblewrap","runSeconds":5,"memoryMb":256}`)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Jar: jar}
	ask := func(method, path, body string, into any) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, h.URL+"/api/v1"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		r, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if into != nil {
			if err := json.NewDecoder(r.Body).Decode(into); err != nil {
				t.Fatal(err)
			}
		}
		return r.StatusCode
	}
	var sb struct{ ID, Code string }
	if status := ask("POST", "/demo/sandboxes", "", &sb); status != http.StatusCreated {
		t.Fatalf("%d %+v\n%s", status, sb, h.Log())
	}
	run := func(code string) (r codeRun) {
		t.Helper()
		body, _ := json.Marshal(map[string]string{"language": "python", "code": code})
		if status := ask("POST", "/demo/sandboxes/"+sb.ID+"/code", string(body), &r); status != http.StatusOK {
			t.Errorf("%q: %d %+v", code, status, r)
		}
		return r
	}
	if r := run("x = 20\nx + 22"); r.State != "ok" || len(r.Results) == 0 || r.Results[0].Data != "42" {
		t.Errorf("code: %+v", r)
	}
	server := strings.TrimPrefix(h.URL, "http://")
	host, port, _ := strings.Cut(server, ":")
	if r := run(`import socket
for at in [("` + host + `", ` + port + `), ("169.254.169.254", 80), ("1.1.1.1", 443)]:
    try:
        socket.create_connection(at, 2)
        print("reached", at)
    except OSError:
        print("closed")`); r.Stdout != "closed\nclosed\nclosed\n" {
		t.Errorf("what a sandbox reaches: %+v", r)
	}
	if r := run("import os\nprint(os.path.exists('" + h.DataDir() + "/secret.key'))"); r.Stdout != "False\n" {
		t.Errorf("the server's data: %+v", r)
	}
	if r := run("while True: print('x' * 1000)"); r.State == "ok" || len(r.Stdout) > 256<<10 {
		t.Errorf("output without end: %s, %d bytes", r.State, len(r.Stdout))
	}
	h.Kill()
	h.Boot()
	if r := run("x + 1"); r.State != "ok" || len(r.Results) == 0 || r.Results[0].Data != "21" {
		t.Errorf("after a kill -9: %+v", r)
	}
	if status := ask("DELETE", "/demo/sandboxes/"+sb.ID, "", nil); status != http.StatusNoContent {
		t.Errorf("ending: %d", status)
	}
	var demo struct{ Sandbox any }
	if ask("GET", "/demo", "", &demo); demo.Sandbox != nil {
		t.Errorf("it is left: %+v", demo)
	}
}
