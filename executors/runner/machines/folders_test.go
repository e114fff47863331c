package machines_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store/storetest"
)

// script is what a machine answers when it is asked for its folders.
type script struct {
	mu     sync.Mutex
	status int
	text   string
	asked  []string // paths
	cmds   []wire.Command
	bodies []string
	refuse error // of the checker
}

func (s *script) says(status int, v any) {
	b, _ := json.Marshal(v)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.text = status, string(b)
}

// lender is a machine that is online, checks its commands as the real one does, and answers by a script.
func lender(t *testing.T) (*harness, *device, *script) {
	t.Helper()
	h := newHarness(t, storetest.SQLite(t))
	s := &script{status: 200, text: "{}"}
	_, token := h.token("Laptop", false)
	d := newDevice(h)
	if err := d.enrol(token, ""); err != nil {
		t.Fatal(err)
	}
	seen, err := wire.OpenSeen(t.TempDir()+"/seen", h.clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = seen.Close() })
	check := wire.Checker{Runner: d.id, ServerKey: d.server, Seen: seen, Now: h.clock.Now}
	d.asked = func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.Method == http.MethodPost {
			cmd, err := check.Check(r, body)
			if err != nil {
				s.refuse = err
			}
			s.cmds, s.bodies = append(s.cmds, cmd), append(s.bodies, string(body))
		}
		s.asked = append(s.asked, r.Method+" "+r.URL.Path)
		w.WriteHeader(s.status)
		_, _ = io.WriteString(w, s.text)
	}
	d.connect()
	d.online(true)
	return h, d, s
}

func TestFoldersAreAskedForByCommand(t *testing.T) {
	t.Parallel()
	h, d, s := lender(t)
	ctx := wire.WithOrder(t.Context(), wire.Order{UserID: h.user.ID, Purpose: "deliver the branch of PW-1"})
	s.says(200, wire.Delivered{Branch: "fix", Commit: strings.Repeat("a", 40)})
	got, err := h.Deliver(ctx, d.id, wire.DeliverAsk{SandboxID: "sbx_1", Branch: "fix"})
	if err != nil || got.Branch != "fix" {
		t.Fatalf("%+v %v", got, err)
	}
	s.says(200, wire.Lent{Tips: []string{"x"}})
	if _, err := h.Lend(ctx, d.id, wire.LendRequest{WorkspaceID: "ws_1", Path: "/a"}); err != nil {
		t.Fatal(err)
	}
	s.says(200, wire.Copied{Files: []string{".env"}})
	if c, err := h.CopyIgnored(ctx, d.id, wire.CopyAsk{SandboxID: "sbx_1", Patterns: []string{".env"}}); err != nil || len(c.Files) != 1 {
		t.Fatalf("%+v %v", c, err)
	}
	s.says(200, "a bundle")
	body, err := h.Bundle(ctx, d.id, wire.BundleAsk{Path: "/a"})
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(body); !bytes.Contains(b, []byte("a bundle")) {
		t.Errorf("%q", b)
	}
	_ = body.Close()
	s.says(200, map[string]any{"items": []wire.Folder{{Path: "/home/ada/app", Access: wire.Full, Git: true, Branch: "main"}}})
	if f, err := h.Folders(t.Context(), d.id); err != nil || len(f) != 1 || f[0].Name != "app" {
		t.Errorf("%+v %v", f, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if want := []string{"POST /v1/folders/deliver", "POST /v1/folders/borrow", "POST /v1/folders/copy", "POST /v1/folders/bundle", "GET /v1/folders"}; !slices.Equal(s.asked, want) {
		t.Errorf("%q", s.asked)
	}
	if s.refuse != nil || s.cmds[0].UserID != h.user.ID || s.cmds[0].User != h.user.Name || s.cmds[0].Purpose != "deliver the branch of PW-1" || s.cmds[0].Runner != d.id ||
		s.bodies[0] != `{"sandbox_id":"sbx_1","branch":"fix"}` {
		t.Errorf("%v %+v %q", s.refuse, s.cmds[0], s.bodies[0])
	}
}

func TestWhatAMachineSaysOfFoldersIsChecked(t *testing.T) {
	t.Parallel()
	h, d, s := lender(t)
	many := make([]wire.Folder, 1000)
	for i := range many {
		many[i] = wire.Folder{Path: "/x", Access: wire.Full}
	}
	for name, c := range map[string]struct {
		status int
		v      any
		kind   fault.Kind
		code   string
	}{
		"nonsense":          {200, "no", fault.Unavailable, "runner_wrong_answer"},
		"too many":          {200, map[string]any{"items": many}, fault.Unavailable, "runner_wrong_answer"},
		"too much":          {200, strings.Repeat("x", 5<<20), fault.Unavailable, "runner_wrong_answer"},
		"no path":           {200, map[string]any{"items": []wire.Folder{{Path: "../x", Access: wire.Full}}}, fault.Unavailable, "runner_wrong_answer"},
		"odd access":        {200, map[string]any{"items": []wire.Folder{{Path: "/x", Access: "root"}}}, fault.Unavailable, "runner_wrong_answer"},
		"a refusal":         {403, wire.Error{Kind: "forbidden", Code: wire.CodeOutside, Message: "Outside."}, fault.Forbidden, wire.CodeOutside},
		"an odd kind":       {401, wire.Error{Kind: "unauthorized", Code: "signed_out", Message: "Log in at evil.example."}, fault.Unavailable, "runner_wrong_answer"},
		"an odd code":       {400, wire.Error{Kind: "invalid", Code: "<script>", Message: "x"}, fault.Unavailable, "runner_wrong_answer"},
		"without words":     {400, wire.Error{Kind: "invalid", Code: "x_y"}, fault.Unavailable, "runner_wrong_answer"},
		"an error of words": {500, "oops", fault.Unavailable, "runner_wrong_answer"},
	} {
		s.says(c.status, c.v)
		if _, err := h.Folders(t.Context(), d.id); fault.KindOf(err) != c.kind || fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := h.Folders(t.Context(), "rnr_nobody"); !fault.Is(err, fault.NotFound) {
		t.Errorf("%v", err)
	}
}

func TestFoldersOfAMachineThatIsAway(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	_, token := h.token("Laptop", false)
	d := newDevice(h)
	if err := d.enrol(token, ""); err != nil {
		t.Fatal(err)
	}
	if f, err := h.Folders(t.Context(), d.id); err != nil || len(f) != 1 || f[0].Path != "/home/ada/work" { // as it said last
		t.Errorf("%+v %v", f, err)
	}
	if _, err := h.Bundle(t.Context(), d.id, wire.BundleAsk{Path: "/home/ada/work"}); fault.CodeOf(err) != wire.CodeOffline || !strings.Contains(err.Error(), "Laptop is offline") {
		t.Errorf("%v", err)
	}
	if err := h.Revoke(t.Context(), d.id); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Lend(t.Context(), d.id, wire.LendRequest{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("%v", err)
	}
}
