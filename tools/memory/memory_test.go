package memory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/memory"
	"github.com/parawork/parawork/tools/tooltest"
	"github.com/parawork/parawork/workspaces"
)

// shelf is a Store in memory.
type shelf struct {
	mu      sync.Mutex
	facts   []memory.Fact
	vectors map[string]modelVector
	stored  chan struct{} // told of vectors, where a test waits for them
}

type modelVector struct {
	model string
	bytes []byte
}

func (s *shelf) WithoutVector(_ context.Context, project, model string, most int) (out []memory.Fact, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.facts {
		if v, ok := s.vectors[f.ID]; f.ProjectID == project && len(out) < most && (!ok || v.model != model) {
			out = append(out, f)
		}
	}
	return out, nil
}

func (s *shelf) SetVectors(_ context.Context, model string, vectors []memory.Vector) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.vectors == nil {
		s.vectors = map[string]modelVector{}
	}
	for _, v := range vectors {
		s.vectors[v.FactID] = modelVector{model, v.Bytes}
	}
	if s.stored != nil {
		s.stored <- struct{}{}
	}
	return nil
}

func (s *shelf) Vectors(_ context.Context, project, session, model string) (out []memory.Vector, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.facts {
		if v, ok := s.vectors[f.ID]; ok && v.model == model && f.ProjectID == project && (f.SessionID == "" || f.SessionID == session) {
			out = append(out, memory.Vector{FactID: f.ID, Bytes: v.bytes})
		}
	}
	return out, nil
}

func (s *shelf) Remember(_ context.Context, f memory.Fact, most int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.facts = slices.DeleteFunc(s.facts, func(o memory.Fact) bool {
		return o.ProjectID == f.ProjectID && o.SessionID == f.SessionID && f.Key != "" && o.Key == f.Key
	})
	if len(s.facts) >= most {
		return fault.New(fault.Conflict, "memory_full", "full")
	}
	s.facts = append(s.facts, f)
	return nil
}

func (s *shelf) Facts(_ context.Context, project, session string, now int64) (out []memory.Fact, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range slices.Backward(s.facts) {
		if f.ProjectID == project && (f.SessionID == "" || f.SessionID == session) && (f.ExpiresAt == 0 || f.ExpiresAt > now) {
			out = append(out, f)
		}
	}
	return out, nil
}

func (s *shelf) Fact(_ context.Context, id string) (memory.Fact, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.facts, func(f memory.Fact) bool { return f.ID == id }); i >= 0 {
		return s.facts[i], nil
	}
	return memory.Fact{}, fault.New(fault.NotFound, "not_found", "There is none.")
}

func (s *shelf) Forget(_ context.Context, project, session, id, key string) (n int64, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.facts = slices.DeleteFunc(s.facts, func(f memory.Fact) bool {
		gone := f.ProjectID == project && (f.SessionID == "" || f.SessionID == session) && (f.ID == id || key != "" && f.Key == key)
		if gone {
			n++
		}
		return gone
	})
	return n, nil
}

func (*shelf) DropExpired(context.Context, int64) error { return nil }

type rows struct{}

func (rows) Workspace(ctx context.Context, id string) (workspaces.Workspace, error) {
	scope, ok := tenant.Of(ctx)
	team, project, found := strings.Cut(strings.TrimPrefix(id, "ws:"), "/")
	if !ok || !found || !slices.Equal(scope.Teams(), []string{team}) {
		return workspaces.Workspace{}, fault.New(fault.NotFound, "workspace_not_found", "There is none.")
	}
	return workspaces.Workspace{ID: id, TeamID: team, ProjectID: project}, nil
}

type hidden string

func (h hidden) InAnswers(context.Context, string) (*redact.Finder, error) {
	return redact.NewJSONFinder(string(h)), nil
}

func by(project, session string) tools.Caller {
	return tools.Caller{TeamID: "team_1", WorkspaceID: "ws:team_1/" + project, SessionID: session, UserID: "usr_1"}
}

// room is a Set with the tools on one clock.
type room struct {
	t   *testing.T
	set *tools.Set
	now time.Time
}

func newRoom(t *testing.T, secret string) *room {
	t.Helper()
	r := &room{t: t, now: time.Unix(1_800_000_000, 0)}
	s := memory.New(memory.Config{Store: &shelf{}, Workspaces: rows{}, Secrets: hidden(secret), Now: func() time.Time { return r.now }})
	var err error
	if r.set, err = tools.New(tools.Config{Tools: s.Tools()}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *room) call(c tools.Caller, name string, args map[string]any) (tools.Result, error) {
	r.t.Helper()
	r.now = r.now.Add(time.Second)
	raw, err := json.Marshal(args)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.set.Call(r.t.Context(), c, name, raw)
}

func (r *room) remember(c tools.Caller, args map[string]any) {
	r.t.Helper()
	if _, err := r.call(c, "remember", args); err != nil {
		r.t.Fatal(err)
	}
}

func (r *room) recall(c tools.Caller, query string) string {
	r.t.Helper()
	res, err := r.call(c, "recall", map[string]any{"query": query})
	if err != nil {
		r.t.Fatal(err)
	}
	var a struct {
		Items []struct{ Text string }
	}
	if err := json.Unmarshal(res.Structured, &a); err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, f := range a.Items {
		out = append(out, f.Text)
	}
	return strings.Join(out, " | ")
}

func TestMemoryFollowsTheRulesOfTools(t *testing.T) {
	s := memory.New(memory.Config{Store: &shelf{}, Workspaces: rows{}})
	for i := range 20 {
		if _, err := s.Tools()[0].Call(tenant.In(t.Context(), "team_1"), tools.Caller{TeamID: "team_1", WorkspaceID: "ws:team_1/p", UserID: "usr_1"}, json.RawMessage(fmt.Sprintf(`{"text":"fact %d %s"}`, i, strings.Repeat("x", 2000)))); err != nil {
			t.Fatal(err)
		}
	}
	quick := map[string]string{"remember": `{"text":"a fact","key":"k"}`, "recall": `{"query":"nothing like it"}`, "forget": `{"key":"k"}`}
	large := map[string]string{"remember": `{"key":"l","text":"` + strings.Repeat("y", 8000) + `"}`, "recall": `{}`}
	for _, tool := range s.Tools() {
		name := tool.Spec().Name
		t.Run(name, func(t *testing.T) {
			subject := tooltest.Subject{Tool: tool, Caller: by("p", ""), Stranger: tools.Caller{TeamID: "team_2", WorkspaceID: "ws:team_1/p", UserID: "usr_2"}, Quick: json.RawMessage(quick[name])}
			if l, ok := large[name]; ok {
				subject.Large = json.RawMessage(l)
			}
			tooltest.Run(t, subject)
		})
	}
}

// Facts belong to their project, or to one session, and are found by words.
func TestWhoRecallsWhat(t *testing.T) {
	t.Parallel()
	const secret = "correct-horse-battery"
	r := newRoom(t, secret)
	r.remember(by("p", "s1"), map[string]any{"text": "Tests need a database", "tags": []string{"testing"}})
	r.remember(by("p", "s1"), map[string]any{"text": "Überraschung: the password is " + secret})
	r.remember(by("p", "s1"), map[string]any{"text": "Only mine about tests", "scope": "session"})
	r.remember(by("q", "s3"), map[string]any{"text": "Tests of another project"})
	for _, c := range []struct {
		who         tools.Caller
		query, want string
	}{
		{by("p", "s1"), "tests", "Only mine about tests | Tests need a database"},
		{by("p", "s2"), "tests", "Tests need a database"},
		{by("p", "s2"), "TESTING", "Tests need a database"},
		{by("p", "s2"), "data", "Tests need a database"},
		{by("p", "s2"), "atabase", ""},
		{by("p", "s2"), "zebra database", "Tests need a database"},
		{by("q", "s3"), "tests", "Tests of another project"},
		{by("p", "s2"), `' OR 1=1 -- tests" * NEAR(`, "Tests need a database"},
		{by("p", "s2"), `*`, ""},
		{by("p", "s2"), `"' OR '`, ""},
	} {
		if got := r.recall(c.who, c.query); got != c.want {
			t.Errorf("%q of %s: %q, not %q", c.query, c.who.WorkspaceID, got, c.want)
		}
	}
	if got := r.recall(by("p", "s2"), "überraschung"); !strings.HasPrefix(got, "Überraschung") || strings.Contains(got, secret) {
		t.Errorf("%q", got)
	}
	if n := strings.Count(r.recall(by("p", "s1"), ""), " | "); n != 2 {
		t.Errorf("all: %d", n+1)
	}
	if _, err := r.call(by("p", ""), "remember", map[string]any{"text": "x", "scope": "session"}); fault.CodeOf(err) != "memory_needs_session" {
		t.Errorf("a session's fact of nobody's session: %v", err)
	}
}

func TestKeysReplaceAndFactsExpire(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "correct-horse-battery")
	who := by("p", "s1")
	r.remember(who, map[string]any{"key": "build", "text": "make old"})
	r.remember(who, map[string]any{"key": "build", "text": "make new", "expires_in_days": 2})
	r.remember(who, map[string]any{"text": "session", "scope": "session"})
	if got := r.recall(who, ""); got != "session | make new" {
		t.Errorf("%q", got)
	}
	r.now = r.now.Add(49 * time.Hour)
	if got := r.recall(who, ""); got != "session" {
		t.Errorf("after two days: %q", got)
	}
	r.now = r.now.Add(30 * 24 * time.Hour)
	if got := r.recall(who, ""); got != "" {
		t.Errorf("after a month: %q", got)
	}
	r.remember(who, map[string]any{"key": "gone", "text": "x"})
	for _, stranger := range []tools.Caller{by("q", "s1")} {
		if res, err := r.call(stranger, "forget", map[string]any{"key": "gone"}); err != nil || string(res.Structured) != `{"forgotten":0}` {
			t.Errorf("another project forgot: %s %v", res.Structured, err)
		}
	}
	if res, err := r.call(who, "forget", map[string]any{"key": "gone"}); err != nil || string(res.Structured) != `{"forgotten":1}` {
		t.Errorf("%s %v", res.Structured, err)
	}
	if _, err := r.call(who, "forget", map[string]any{}); fault.CodeOf(err) != "memory_not_named" {
		t.Errorf("%v", err)
	}
}
