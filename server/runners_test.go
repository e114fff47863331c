package server

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/runner/tunnel"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/rest"
)

// call asks the API of a served harness as somebody, and reads its answer into out.
func (h *harness) call(t *testing.T, token, method, path string, body, out any) (status int, code string) {
	t.Helper()
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, h.url+rest.Base+path, r)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var p struct{ Code string }
	if resp.StatusCode >= 300 {
		_ = json.Unmarshal(text, &p)
	} else if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
	return resp.StatusCode, p.Code
}

type enrolment struct {
	ID, Name, Token, Command, Server, Warning string
	ExpiresAt                                 *int64 `json:"expires_at"`
	Reusable                                  bool
	Downloads                                 []struct {
		OS, Arch, File, Sha256, Install, Line, Reason string
		Available                                     bool
	}
}

type runner struct {
	ID, Name, State, Reason string
	Available, Mine         bool
	MayUse                  bool `json:"may_use"`
	MayManage               bool `json:"may_manage"`
	Folders                 []struct{ Path string }
	Workspaces              []struct{ Key string }
	OfflineReason           string `json:"offline_reason"`
}

// machine enrols a machine of somebody through the API.
func (h *harness) machine(t *testing.T, p cast, who string, hello wire.Hello) (wire.Enrolled, ed25519.PrivateKey) {
	t.Helper()
	var e enrolment
	if status, code := h.call(t, p.tokens[who], "POST", "/teams/"+p.team.Slug+"/runners", map[string]any{"name": who + "'s laptop"}, &e); status != 201 {
		t.Fatal(status, code)
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	var done wire.Enrolled
	body := wire.Enrol{Token: e.Token, PublicKey: key.Public().(ed25519.PublicKey), Hello: hello}
	if status, code := h.call(t, "", "POST", "/runner/enrol", body, &done); status != 201 {
		t.Fatal(status, code)
	}
	return done, key
}

func TestMachinesThroughTheAPI(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	dir := filepath.Join(h.dir, "downloads")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	program := []byte("not really a program")
	if err := os.WriteFile(filepath.Join(dir, "parawork-linux-amd64"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	team := "/teams/" + p.team.Slug

	// The line to copy.
	var e enrolment
	if status, _ := h.call(t, p.tokens["member"], "POST", team+"/runners", map[string]any{"name": "Bob's box", "image": "kalilinux/kali-rolling", "network": "none"}, &e); status != 201 {
		t.Fatal(status)
	}
	if want := "parawork runner --server " + h.url + " --token " + e.Token + ` --name 'Bob'\''s box' --image kalilinux/kali-rolling --network none`; e.Command != want {
		t.Errorf("got  %s\nwant %s", e.Command, want)
	}
	sum := sha256.Sum256(program)
	hash := hex.EncodeToString(sum[:])
	if d := e.Downloads[0]; !d.Available || d.Sha256 != hash || !strings.Contains(d.Line, hash+"  parawork") || !strings.HasSuffix(d.Line, " && ./"+e.Command) || e.Downloads[1].Available || e.Downloads[1].Reason == "" {
		t.Errorf("%+v", e.Downloads)
	}
	if e.ExpiresAt == nil || e.Reusable || e.Warning == "" {
		t.Errorf("%+v", e)
	}
	for code, body := range map[string]map[string]any{
		"dangerous_required":     {"mode": "direct"},
		"invalid_runner_options": {"mode": "direct", "dangerous": true, "network": "none"},
		"invalid_name":           {"name": strings.Repeat("x", 200)},
	} {
		if status, got := h.call(t, p.tokens["member"], "POST", team+"/runners", body, nil); status != 400 || got != code {
			t.Errorf("%v: %d %s", body, status, got)
		}
	}
	for _, image := range []string{"a b", "$(reboot)", "-v", "x;y"} {
		if status, got := h.call(t, p.tokens["member"], "POST", team+"/runners", map[string]any{"image": image}, nil); status != 400 || got != "invalid_runner_options" {
			t.Errorf("image %q: %d %s", image, status, got)
		}
	}
	resp, err := http.Get(h.url + rest.Base + "/runner/downloads/parawork-linux-amd64")
	if err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if !bytes.Equal(got, program) || resp.Header.Get("X-Parawork-Sha256") != hash {
		t.Errorf("%s %v", got, resp.Header)
	}
	for _, file := range []string{"parawork-linux-arm64", "..%2fparawork.db", "parawork-plan9-amd64"} {
		if status, code := h.call(t, "", "GET", "/runner/downloads/"+file, nil, nil); status != 404 || code != "not_found" {
			t.Errorf("%s: %d %s", file, status, code)
		}
	}

	// Who sees whose machine.
	hello := wire.Hello{Version: wire.Version, OS: "linux", Arch: "amd64", Mode: wire.Docker, Available: true, Access: wire.Full, Network: "host",
		Folders: []wire.Folder{{Path: "/srv/work", Access: wire.Full}}}
	own, key := h.machine(t, p, "member", hello)
	shared := hello
	shared.Share = "team"
	theirs, _ := h.machine(t, p, "owner", shared)
	see := func(who, id string) *runner {
		var all struct{ Items []runner }
		if status, code := h.call(t, p.tokens[who], "GET", team+"/runners", nil, &all); status != 200 {
			t.Fatal(status, code)
		}
		for _, r := range all.Items {
			if r.ID == id {
				return &r
			}
		}
		return nil
	}
	if r := see("member", own.RunnerID); r == nil || !r.Mine || !r.MayUse || !r.MayManage || len(r.Folders) != 1 || r.State != "offline" || r.Available || r.Reason == "" {
		t.Errorf("its owner sees %+v", r)
	}
	if r := see("admin", own.RunnerID); r == nil || r.Mine || r.MayUse || !r.MayManage || len(r.Folders) != 0 {
		t.Errorf("an admin sees %+v", r)
	}
	if r := see("viewer", own.RunnerID); r != nil {
		t.Errorf("another member sees %+v", r)
	}
	if r := see("member", theirs.RunnerID); r == nil || r.Mine || !r.MayUse || r.MayManage || len(r.Folders) != 1 {
		t.Errorf("of a shared one a member sees %+v", r)
	}
	for _, c := range []struct {
		who, method, path string
		status            int
	}{
		{"viewer", "GET", "/runners/" + own.RunnerID, 404}, {"viewer", "DELETE", "/runners/" + own.RunnerID, 404}, {"outsider", "GET", "/runners/" + own.RunnerID, 404},
		{"operator", "GET", "/runners/" + own.RunnerID, 404}, {"member", "DELETE", "/runners/" + theirs.RunnerID, 403}, {"member", "POST", "/runners/" + theirs.RunnerID + "/regenerate", 403},
		{"owner", "POST", "/runners/" + own.RunnerID + "/regenerate", 403}, {"admin", "GET", "/runners/" + own.RunnerID + "/history", 200},
		{"member", "DELETE", "/runner-tokens/" + e.ID, 204}, {"viewer", "DELETE", "/runner-tokens/" + e.ID, 404}, {"admin", "DELETE", "/runner-tokens/" + e.ID, 204},
		{"viewer", "POST", team + "/runners", 403}, {"owner", "GET", "/instance/runners", 403}, {"operator", "GET", "/instance/runners", 200},
	} {
		if status, code := h.call(t, p.tokens[c.who], c.method, c.path, map[string]any{}, nil); status != c.status {
			t.Errorf("%s %s as %s: %d %s, want %d", c.method, c.path, c.who, status, code, c.status)
		}
	}

	// It connects, and is online for its owner.
	nc, err := tunnel.Dial(t.Context(), tunnel.DialConfig{URL: h.url, RunnerID: own.RunnerID, Key: key, ServerKey: own.ServerKey})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- tunnel.Serve(t.Context(), nc, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = json.NewEncoder(w).Encode(wire.Event{Type: wire.EventHello, Hello: &hello})
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}))
	}()
	eventually(t, "it is online", func() bool { r := see("member", own.RunnerID); return r.State == "online" && r.Available })
	var renamed runner
	if status, code := h.call(t, p.tokens["member"], "PATCH", "/runners/"+own.RunnerID, map[string]any{"name": "  The   box "}, &renamed); status != 200 || renamed.Name != "The box" {
		t.Errorf("%d %s %+v", status, code, renamed)
	}
	if status, code := h.call(t, p.tokens["operator"], "DELETE", "/instance/runners/"+own.RunnerID, nil, nil); status != 204 {
		t.Errorf("%d %s", status, code)
	}
	if err := <-ended; fault.CodeOf(err) != wire.CodeRevoked {
		t.Errorf("it hears %v", err)
	}
	if r := see("member", own.RunnerID); r != nil {
		t.Errorf("still listed: %+v", r)
	}
	var gone runner
	if status, _ := h.call(t, p.tokens["member"], "GET", "/runners/"+own.RunnerID, nil, &gone); status != 200 || gone.State != "revoked" || gone.MayManage || gone.MayUse {
		t.Errorf("%d %+v", status, gone)
	}
}
