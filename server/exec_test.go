package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// eventually polls until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited for: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

type sse struct{ event, data string }

// stream runs a command and hands its events over until the answer ends or ctx does.
func (h *harness) stream(t *testing.T, ctx context.Context, p cast, command string, each func(sse)) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "POST", h.url+"/api/v1/workspaces/"+p.ids["workspace"]+"/exec", strings.NewReader(body(t, map[string]any{"command": command, "timeout_ms": 600_000})))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Authorization", "Bearer "+p.tokens["owner"])
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	var e sse
	for s := bufio.NewScanner(resp.Body); s.Scan(); {
		switch name, value, _ := strings.Cut(s.Text(), ": "); name {
		case "event":
			e.event = value
		case "data":
			e.data = value
		case "":
			each(e)
			e = sse{}
		}
	}
}

func (h *harness) commandState(t *testing.T, p cast, id string) string {
	t.Helper()
	var c struct{ State string }
	h.do("GET", "/api/v1/commands/"+id, "", bearer(p.tokens["owner"])...).into(t, &c)
	return c.State
}

// Who stops listening to a command ends it; who starts it with a key does not.
func TestLeavingAStreamCancelsTheCommand(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var id string
	h.stream(t, ctx, p, "echo here; sleep 1000", func(e sse) {
		var v struct {
			ID   string `json:"command_id"`
			Data []byte
		}
		if err := json.Unmarshal([]byte(e.data), &v); err != nil {
			t.Errorf("%s: %v", e.data, err)
		}
		if e.event == "started" {
			id = v.ID
		}
		if string(v.Data) == "here\n" {
			leave()
		}
	})
	if id == "" {
		t.Fatal("no started event")
	}
	eventually(t, "the command is cancelled", func() bool { return h.commandState(t, p, id) == "cancelled" })

	gone, leaveToo := context.WithCancel(t.Context())
	defer leaveToo()
	dir := filepath.Join(h.dir, "worktrees", p.ids["workspace"], "w")
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		req, err := http.NewRequestWithContext(gone, "POST", h.url+"/api/v1/workspaces/"+p.ids["workspace"]+"/exec", strings.NewReader(`{"command":"touch began; while [ ! -e go ]; do sleep 0.02; done; echo done"}`))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+p.tokens["owner"])
		req.Header.Set("Idempotency-Key", "k")
		if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
			resp.Body.Close()
			t.Error("the request was answered")
		}
	}()
	eventually(t, "the command began", func() bool { _, err := os.Stat(filepath.Join(dir, "began")); return err == nil })
	leaveToo()
	<-asked
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the repeated call gets the first answer", func() bool {
		r := h.do("POST", "/api/v1/workspaces/"+p.ids["workspace"]+"/exec", `{"command":"touch began; while [ ! -e go ]; do sleep 0.02; done; echo done"}`,
			append(bearer(p.tokens["owner"]), "Idempotency-Key", "k")...)
		return r.StatusCode == 200 && strings.Contains(string(r.body), `"stdout":"done\n"`) && r.Header.Get("Idempotent-Replayed") == "true"
	})
}

// A stream tells every byte in order, then the record; what goes wrong before it begins is a proper error.
func TestStreamOfACommand(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	var out, errs bytes.Buffer
	var names []string
	var record struct {
		State    string
		ExitCode *int `json:"exit_code"`
	}
	h.stream(t, t.Context(), p, "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; echo oops >&2; exit 3", func(e sse) {
		names = append(names, e.event)
		var v struct {
			Data   []byte
			Offset int
		}
		if err := json.Unmarshal([]byte(e.data), &v); err != nil {
			t.Errorf("%s: %v", e.data, err)
		}
		switch e.event {
		case "stdout":
			if v.Offset != out.Len() {
				t.Errorf("offset %d after %d bytes", v.Offset, out.Len())
			}
			out.Write(v.Data)
		case "stderr":
			errs.Write(v.Data)
		case "command":
			if err := json.Unmarshal([]byte(e.data), &record); err != nil {
				t.Error(err)
			}
		}
	})
	var want bytes.Buffer
	for i := range 2000 {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	if !bytes.Equal(out.Bytes(), want.Bytes()) || errs.String() != "oops\n" {
		t.Errorf("%d bytes of output, want %d; errors %q", out.Len(), want.Len(), errs.String())
	}
	if names[0] != "started" || names[len(names)-1] != "command" || record.State != "completed" || record.ExitCode == nil || *record.ExitCode != 3 {
		t.Errorf("events %v, record %+v", names[:min(len(names), 5)], record)
	}
	r := h.do("POST", "/api/v1/workspaces/"+p.ids["workspace"]+"/exec", `{"argv":[]}`, append(bearer(p.tokens["owner"]), "Accept", "text/event-stream")...)
	if r.StatusCode != 400 || r.code() != "invalid_command" {
		t.Errorf("nothing to run: %d %s", r.StatusCode, r.body)
	}
	r = h.do("POST", "/api/v1/workspaces/"+p.ids["workspace"]+"/exec", `{"command":"true","background":true}`, append(bearer(p.tokens["owner"]), "Accept", "text/event-stream")...)
	if r.StatusCode != 400 {
		t.Errorf("a background stream: %d %s", r.StatusCode, r.body)
	}
}

// Files go through in pieces, whole or not at all.
func TestLargeFilesAndCutUploads(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	at := h.url + "/api/v1/workspaces/" + p.ids["workspace"] + "/files?path="
	send := func(method, path string, body io.Reader) (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), method, at+path, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+p.tokens["owner"])
		return http.DefaultTransport.RoundTrip(req)
	}
	const size = 40 << 20
	sum := sha256.New()
	resp, err := send("PUT", "big.bin", io.TeeReader(io.LimitReader(endless{}, size), sum))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	etag := `"` + hex.EncodeToString(sum.Sum(nil)) + `"`
	if resp.StatusCode != 200 || resp.Header.Get("ETag") != etag {
		t.Fatalf("put: %s %s, want %s", resp.Status, resp.Header.Get("ETag"), etag)
	}
	if resp, err = send("GET", "big.bin", nil); err != nil {
		t.Fatal(err)
	}
	back := sha256.New()
	n, err := io.Copy(back, resp.Body)
	resp.Body.Close()
	if err != nil || n != size || !bytes.Equal(back.Sum(nil), sum.Sum(nil)) || resp.Header.Get("ETag") != etag ||
		!strings.HasPrefix(resp.Header.Get("Content-Disposition"), "attachment") || resp.Header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("get: %d bytes, %v, %v", n, err, resp.Header)
	}
	// An upload that is cut leaves the file as it was.
	if resp, err := send("PUT", "big.bin", io.MultiReader(strings.NewReader("half of it"), cutBody{})); err == nil {
		resp.Body.Close()
		t.Errorf("a cut upload was answered with %s", resp.Status)
	}
	if resp, err = send("GET", "big.bin", nil); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.Header.Get("ETag") != etag {
		t.Errorf("after a cut upload the file is %s", resp.Header.Get("ETag"))
	}
}

// endless is bytes without end that do not repeat soon.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(i * 7)
	}
	return len(p), nil
}

type cutBody struct{}

func (cutBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
