package toolstore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/calllog"
)

func callsOf(t *testing.T, s calllog.Store, q calllog.Query) (ids []string) {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 100
	}
	rows, err := s.ToolCalls(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range rows {
		ids = append(ids, c.ID)
	}
	return ids
}

func TestToolCallRows(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		user, team := seed(t, db, "w1", "w2")
		_, other := storetest.Seed(t, db)
		s := toolstore.NewCalls(db)
		call := func(id, workspace, session, tool string, o tools.Outcome, at int64) calllog.Call {
			return calllog.Call{ID: id, TeamID: team.ID, WorkspaceID: workspace, SessionID: session, UserID: user.ID, Agent: "codex", Client: "c", Tool: tool, Arguments: "{}", Result: "r", Cause: "why",
				Outcome: o, Code: "bad", ResultBytes: 7, Truncated: true, StartedAt: at, DurationMs: 5}
		}
		want := call("a", "w1", "s1", "greet", tools.Failed, 1)
		if err := s.SaveToolCalls(ctx, []calllog.Call{want, call("b", "w1", "s2", "greet", tools.Done, 2), call("c", "w1", "s1", "wave", tools.Running, 2), call("d", "w2", "", "greet", tools.Done, 3),
			call("e", "", "", "greet", tools.Done, 4)}); err != nil {
			t.Fatal(err)
		}
		got, err := s.ToolCalls(ctx, calllog.Query{WorkspaceID: "w1", Outcome: tools.Failed, Limit: 10})
		if err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%+v %v", got, err)
		}
		for _, c := range []struct {
			q    calllog.Query
			want string
		}{
			{calllog.Query{WorkspaceID: "w1"}, "c b a"},
			{calllog.Query{WorkspaceID: "w1", OldestFirst: true}, "a b c"},
			{calllog.Query{WorkspaceID: "w1", SessionID: "s1"}, "c a"},
			{calllog.Query{WorkspaceID: "w1", Tool: "greet"}, "b a"},
			{calllog.Query{WorkspaceID: "w1", After: &page.Key{At: 2, ID: "c"}}, "b a"},
			{calllog.Query{WorkspaceID: "w1", After: &page.Key{At: 1, ID: "a"}, OldestFirst: true}, "b c"},
			{calllog.Query{WorkspaceID: "w1", Limit: 1}, "c"},
		} {
			if got := strings.Join(callsOf(t, s, c.q), " "); got != c.want {
				t.Errorf("%+v: %s, not %s", c.q, got, c.want)
			}
		}
		// Other teams read and change nothing, even with the ids.
		foreign := tenant.In(ctx, other.ID)
		if rows, err := s.ToolCalls(foreign, calllog.Query{WorkspaceID: "w1", Limit: 10}); err != nil || len(rows) != 0 {
			t.Errorf("another team reads %+v, %v", rows, err)
		}
		stolen := call("a", "", "", "greet", tools.Done, 1)
		stolen.TeamID = other.ID
		if err := s.SaveToolCalls(ctx, []calllog.Call{stolen}); err != nil {
			t.Errorf("an id of another team: %v", err)
		}
		if got := callsOf(t, s, calllog.Query{WorkspaceID: "w1", Outcome: tools.Failed}); len(got) != 1 {
			t.Error("another team replaced a call")
		}
		// A call that ends replaces the one that was announced.
		ended := call("c", "w1", "s1", "wave", tools.Done, 2)
		if err := s.SaveToolCalls(ctx, []calllog.Call{ended}); err != nil {
			t.Fatal(err)
		}
		if got := callsOf(t, s, calllog.Query{WorkspaceID: "w1", Outcome: tools.Running}); len(got) != 0 {
			t.Errorf("running: %v", got)
		}
		if err := s.TrimToolCalls(ctx, team.ID, "w1", 2); err != nil {
			t.Fatal(err)
		}
		if err := s.TrimToolCalls(ctx, team.ID, "", 0); err != nil {
			t.Fatal(err)
		}
		if got := callsOf(t, s, calllog.Query{}); strings.Join(got, " ") != "d c b" {
			t.Errorf("after the trim: %v", got)
		}
		if more, err := s.DropToolCalls(ctx, 3); err != nil || more {
			t.Fatal(more, err)
		}
		if got := callsOf(t, s, calllog.Query{}); strings.Join(got, " ") != "d" {
			t.Errorf("after the drop: %v", got)
		}
		if err := s.SaveToolCalls(ctx, []calllog.Call{call("f", "gone", "", "greet", tools.Done, 9)}); err == nil {
			t.Error("a call of a workspace that does not exist was stored")
		}
	})
}

// tool is a tool whose call does what a test says.
type tool struct {
	name string
	call func(context.Context) (tools.Result, error)
}

func (f tool) Spec() tools.Spec {
	return tools.Spec{Name: f.name, Title: "Greet", Description: "Greets somebody.", Group: "commands", Permission: tools.Allow, Needs: tools.Needs{Workspace: true, Writes: strings.HasPrefix(f.name, "write")},
		Arguments: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"name":{"type":"string","description":"Of whom."}}}`)}
}

func (f tool) Call(ctx context.Context, _ tools.Caller, _ json.RawMessage) (tools.Result, error) {
	return f.call(ctx)
}

type secrets []string

func (s secrets) InAnswers(context.Context, string) (*redact.Finder, error) {
	return redact.NewJSONFinder(s...), nil
}

// Every call is a row: what it was called with, what it answered and why it failed, without secrets.
func TestEveryToolCallIsARow(t *testing.T) {
	t.Parallel()
	const secret = "correct-horse-battery"
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		user, team := seed(t, db, "w1")
		s := toolstore.NewCalls(db)
		log := calllog.New(calllog.Config{Store: s})
		refuse := fault.New(fault.Conflict, "no_greeting", "There is nobody called %s.", secret)
		set, err := tools.New(tools.Config{Recorder: log, Secrets: secrets{secret}, Tools: []tools.Tool{
			tool{"read", func(context.Context) (tools.Result, error) {
				return tools.Result{Content: tools.Text("Hello " + secret + strings.Repeat("x", 9000))}, nil
			}},
			tool{"write", func(context.Context) (tools.Result, error) { return tools.Result{}, refuse }},
			tool{"write_badly", func(context.Context) (tools.Result, error) { panic("state") }},
		}})
		if err != nil {
			t.Fatal(err)
		}
		run, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- log.Run(run) }()
		caller := tools.Caller{TeamID: team.ID, WorkspaceID: "w1", SessionID: "ses_1", UserID: user.ID, Agent: "codex", Groups: tools.Selection{On: []string{"commands"}}}
		args := json.RawMessage(`{"name":"` + secret + `"}`)
		for _, name := range []string{"read", "write", "write_badly", "no_such_tool"} {
			_, _ = set.Call(t.Context(), caller, name, args)
		}
		var wg sync.WaitGroup
		const many = 150
		turns := make(chan struct{}, 10) // a caller may make few calls at once, and those it is refused are no rows
		for range many {
			wg.Go(func() {
				turns <- struct{}{}
				defer func() { <-turns }()
				c := caller
				c.SessionID = "ses_2"
				_, _ = set.Call(t.Context(), c, "read", args)
			})
		}
		wg.Wait()
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		_, _ = set.Call(t.Context(), caller, "read", nil) // after the end of the writer
		rows, err := s.ToolCalls(t.Context(), calllog.Query{WorkspaceID: "w1", SessionID: "ses_1", OldestFirst: true, Limit: 10})
		if err != nil || len(rows) != 5 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		for i, want := range []struct {
			tool    string
			outcome tools.Outcome
			code    string
		}{{"read", tools.Done, ""}, {"write", tools.Refused, "no_greeting"}, {"write_badly", tools.Broken, "tool_failed"}, {"no_such_tool", tools.Refused, "tool_not_found"}, {"read", tools.Done, ""}} {
			r := rows[i]
			if r.Tool != want.tool || r.Outcome != want.outcome || r.Code != want.code || r.Success() != (want.outcome == tools.Done) || r.Agent != "codex" || (r.Cause == "") != r.Success() {
				t.Errorf("%d: %+v", i, r)
			}
			if strings.Contains(r.Arguments+r.Cause+r.Result, secret) || len(r.Result) > 4<<10 {
				t.Errorf("%s shows a secret, or too much: %.200s %.200s %.200s", r.Tool, r.Arguments, r.Cause, r.Result)
			}
		}
		if r := rows[0]; !strings.HasPrefix(r.Result, "Hello ") || r.ResultBytes < 9000 || !strings.HasPrefix(r.Arguments, `{"name":`) {
			t.Errorf("%+v", r)
		}
		n := 0
		if err := log.Each(t.Context(), calllog.Query{WorkspaceID: "w1", SessionID: "ses_2"}, func(calllog.Call) error { n++; return nil }); err != nil || n != many {
			t.Errorf("%d of %d calls at once were recorded, %v", n, many, err)
		}
		var all []string
		for cursor := ""; ; {
			calls, next, err := log.List(t.Context(), calllog.Query{WorkspaceID: "w1"}, page.Page{Limit: 40, Cursor: cursor})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range calls {
				all = append(all, c.ID)
			}
			if cursor = next; next == "" {
				break
			}
		}
		if slices.Sort(all); len(slices.Compact(all)) != many+5 {
			t.Errorf("%d calls in the pages", len(all))
		}
	})
}

// A call that changes something and was cut by the server's death is a row that says so.
func TestCallsThatADyingServerCutAreUnknown(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		user, team := seed(t, db, "w1")
		s := toolstore.NewCalls(db)
		first := calllog.New(calllog.Config{Store: s})
		during := make(chan []calllog.Call, 2)
		look := func(context.Context) (tools.Result, error) {
			rows, err := s.ToolCalls(t.Context(), calllog.Query{WorkspaceID: "w1", Limit: 10})
			during <- rows
			return tools.Result{Content: tools.Text("done")}, err
		}
		set, err := tools.New(tools.Config{Recorder: first, Tools: []tools.Tool{tool{"write", look}}})
		if err != nil {
			t.Fatal(err)
		}
		caller := tools.Caller{TeamID: team.ID, WorkspaceID: "w1", UserID: user.ID}
		if _, err := set.Call(t.Context(), caller, "write", nil); err != nil { // the writer never runs: its end is in memory only, as when the server dies now
			t.Fatal(err)
		}
		if rows := <-during; len(rows) != 1 || rows[0].Outcome != tools.Running || rows[0].Success() {
			t.Fatalf("while it runs: %+v", rows)
		}
		next := calllog.New(calllog.Config{Store: s})
		if err := next.Recover(tenant.All(t.Context(), "test")); err != nil {
			t.Fatal(err)
		}
		rows, err := s.ToolCalls(t.Context(), calllog.Query{WorkspaceID: "w1", Limit: 10})
		if err != nil || len(rows) != 1 || rows[0].Outcome != tools.Unknown || rows[0].Cause == "" || rows[0].Success() {
			t.Errorf("after the start: %+v, %v", rows, err)
		}
	})
}

// away is a Store whose database is away for the first tries.
type away struct {
	calllog.Store
	mu    sync.Mutex
	tries int
	saved []calllog.Call
}

func (a *away) SaveToolCalls(_ context.Context, calls []calllog.Call) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tries > 0 {
		a.tries--
		return fault.New(fault.Unavailable, "database_unavailable", "away")
	}
	a.saved = append(a.saved, calls...)
	return nil
}

func (*away) DropToolCalls(context.Context, int64) (bool, error) { return false, nil }

// While the database is away for a moment, calls wait and none is lost.
func TestCallsWaitForTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &away{tries: 5}
		bus := events.New()
		log := calllog.New(calllog.Config{Store: db, Events: bus})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- log.Run(ctx) }()
		const many = 300
		for i := range many {
			log.Record(ctx, tools.Record{ID: fmt.Sprint(i), Caller: tools.Caller{TeamID: "team_1", WorkspaceID: "w1"}})
		}
		time.Sleep(10 * time.Second) // of the bubble
		stop()
		if err := <-ended; err != nil || len(db.saved) != many {
			t.Errorf("%d of %d saved, %v", len(db.saved), many, err)
		}
	})
}
