package threadstore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/media"
	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/store/threadstore"
	"github.com/parawork/parawork/workspaces"
)

// thread stores a team with a thread.
func thread(t *testing.T, db *store.DB) (ctx context.Context, s *threadstore.Threads, th agent.Thread) {
	t.Helper()
	user, team := storetest.Seed(t, db)
	rows := store.NewWorkspaces(db)
	if err := rows.InsertProject(t.Context(), workspaces.Project{ID: "prj_1", TeamID: team.ID, Name: "p", State: workspaces.ProjectReady, CreatedBy: user.ID}); err != nil {
		t.Fatal(err)
	}
	if _, err := rows.InsertWorkspace(t.Context(), workspaces.Workspace{ID: "ws_1", TeamID: team.ID, ProjectID: "prj_1", Name: "w", Branch: "b", State: workspaces.Ready, CreatedBy: user.ID}); err != nil {
		t.Fatal(err)
	}
	ctx, s = tenant.In(t.Context(), team.ID), threadstore.New(db)
	th = agent.Thread{ID: "thr_1", TeamID: team.ID, ProjectID: "prj_1", WorkspaceID: "ws_1", SessionID: "ses_1", Conversation: "c", CreatedBy: user.ID, Model: "m", Mode: agent.Build, State: agent.Idle,
		Version: 1, CreatedAt: 5, UpdatedAt: 5}
	if err := s.CreateThread(ctx, th); err != nil {
		t.Fatal(err)
	}
	return ctx, s, th
}

func apply(ctx context.Context, t *testing.T, s *threadstore.Threads, c agent.Change) int64 {
	t.Helper()
	v, err := s.Apply(ctx, "thr_1", c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func message(id string, text string) *agent.Message {
	return &agent.Message{ID: id, ThreadID: "thr_1", TurnID: "trn_1", Role: agent.User, State: agent.Complete, Parts: []providers.Part{{Kind: providers.Text, Text: text}}, CreatedAt: 7}
}

// What is stored comes back as it was, and a view since a version holds what changed after it.
func TestThreadsKeepWhatTheyAreGiven(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, s, th := thread(t, db)
		if got, err := s.ThreadOf(ctx, "ws_1", "c"); err != nil || got != th {
			t.Errorf("%+v, %v", got, err)
		}
		if err := s.CreateThread(ctx, agent.Thread{ID: "thr_2", TeamID: th.TeamID, WorkspaceID: "ws_1", Conversation: "c"}); !fault.Is(err, fault.Conflict) {
			t.Errorf("a second thread of the conversation: %v", err)
		}
		turn := &agent.Turn{ID: "trn_1", ThreadID: "thr_1", TeamID: th.TeamID, State: agent.TurnRunning, Owner: "a", LeaseUntil: 100, StartedAt: 10}
		m := message("msg_1", "hello\nthere")
		first := apply(ctx, t, s, agent.Change{At: 10, Messages: []*agent.Message{m}, Turn: turn, NoTurn: true, Thread: &agent.ThreadChange{State: agent.Working}})
		answer := message("msg_2", "yes")
		answer.Role, answer.Model, answer.Stop, answer.Usage, answer.Note, answer.DoneAt = agent.Assistant, "m", providers.StopToolCalls, providers.Usage{Input: 3, CacheRead: 1 << 40}, "n", 12
		answer.Parts = append(answer.Parts, providers.Part{Kind: providers.ToolCall, CallID: "x", Name: "t", Args: json.RawMessage(`{"a":1}`)})
		call := &agent.Call{ID: "cll_1", ThreadID: "thr_1", TurnID: "trn_1", MessageID: "msg_2", Ordinal: 1, CallID: "x", Tool: "t", Args: json.RawMessage(`{"a":1}`), State: agent.CallDone,
			Content: []providers.Part{{Kind: providers.Image, MIME: "image/png", Data: []byte{0, 1}}}, Cut: true, StartedAt: 11, EndedAt: 12}
		second := apply(ctx, t, s, agent.Change{At: 12, Messages: []*agent.Message{answer}, Calls: []*agent.Call{call}, TurnID: "trn_1", Owner: "a", LastSeq: 1})
		if first != 2 || second != 3 || m.Seq != 1 || answer.Seq != 2 || answer.Version != 3 {
			t.Errorf("versions %d and %d, %+v", first, second, answer)
		}
		v, err := s.View(ctx, "thr_1", agent.Window{})
		if err != nil || len(v.Messages) != 2 || len(v.Calls) != 1 || v.Turn == nil {
			t.Fatalf("%+v, %v", v, err)
		}
		if !reflect.DeepEqual(v.Messages[1], *answer) || !reflect.DeepEqual(v.Calls[0], *call) || *v.Turn != *turn || v.Thread.State != agent.Working || v.Thread.UpdatedAt != 12 {
			t.Errorf("%+v", v)
		}
		if v, err = s.View(ctx, "thr_1", agent.Window{Since: first}); err != nil || len(v.Messages) != 1 || v.Messages[0].ID != "msg_2" || v.Turn == nil {
			t.Errorf("since %d: %+v, %v", first, v, err)
		}
		for _, c := range []struct {
			w        agent.Window
			messages string
			calls    int
			more     bool
		}{{agent.Window{Limit: 2}, "msg_1 msg_2", 1, false}, {agent.Window{Limit: 1}, "msg_2", 1, true}, {agent.Window{Before: 2, Limit: 1}, "msg_1", 0, false}, {agent.Window{Before: 1}, "", 0, false}} {
			v, err := s.View(ctx, "thr_1", c.w)
			var ids []string
			for _, m := range v.Messages {
				ids = append(ids, m.ID)
			}
			if err != nil || strings.Join(ids, " ") != c.messages || len(v.Calls) != c.calls || v.More != c.more {
				t.Errorf("%+v: %q, %d calls, more %v, %v", c.w, ids, len(v.Calls), v.More, err)
			}
		}
		apply(ctx, t, s, agent.Change{At: 13, Thread: &agent.ThreadChange{Model: "n", Mode: agent.Plan, SessionID: "ses_2"}}) // the state stays
		if got, err := s.Thread(ctx, "thr_1"); err != nil || got.State != agent.Working || got.Model != "n" || got.Mode != agent.Plan || got.SessionID != "ses_2" {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := s.Thread(tenant.In(t.Context(), "another"), "thr_1"); !fault.Is(err, fault.NotFound) {
			t.Errorf("another team's thread: %v", err)
		}
		if _, err := s.Apply(ctx, "none", agent.Change{At: 1}); !fault.Is(err, fault.NotFound) {
			t.Errorf("no thread: %v", err)
		}
	})
}

// A change is refused whose author believes the thread to be other than it is, and then nothing of it is stored.
func TestChangesThatComeTooLate(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, s, th := thread(t, db)
		turn := &agent.Turn{ID: "trn_1", ThreadID: "thr_1", TeamID: th.TeamID, State: agent.TurnRunning, Owner: "a", LeaseUntil: 100, StartedAt: 10}
		refused := func(code string, c agent.Change) {
			t.Helper()
			c.Messages = append(c.Messages, message("msg_9", "never"))
			if _, err := s.Apply(ctx, "thr_1", c); fault.CodeOf(err) != code {
				t.Errorf("not %s: %v", code, err)
			}
		}
		refused("turn_lost", agent.Change{TurnID: "trn_1"})
		apply(ctx, t, s, agent.Change{Messages: []*agent.Message{message("msg_1", "a"), message("msg_2", "b")}, Turn: turn, NoTurn: true})
		refused("turn_running", agent.Change{NoTurn: true})
		refused("turn_lost", agent.Change{TurnID: "trn_2"})
		refused("turn_lost", agent.Change{TurnID: "trn_1", Owner: "b"})
		refused("thread_moved", agent.Change{TurnID: "trn_1", Owner: "a", LastSeq: 1})
		refused("too_many_prompts", agent.Change{TurnID: "trn_1", MostPrompts: 2})
		refused("message_exists", agent.Change{Messages: []*agent.Message{message("msg_1", "other")}, Fresh: true})
		if v, err := s.View(ctx, "thr_1", agent.Window{}); err != nil || len(v.Messages) != 2 || v.Thread.Version != 2 {
			t.Errorf("%+v, %v", v, err)
		}

		all, err := s.Running(tenant.All(t.Context(), "test"))
		if err != nil || len(all) != 1 || all[0].ID != "trn_1" {
			t.Errorf("%+v, %v", all, err)
		}
		for _, c := range []struct {
			owner      string
			now, until int64
			mine       bool
		}{{"b", 50, 90, false}, {"a", 50, 200, true}, {"b", 150, 300, false}, {"b", 201, 300, true}, {"a", 250, 400, false}} {
			if mine, err := s.Claim(ctx, "trn_1", c.owner, c.now, c.until); err != nil || mine != c.mine {
				t.Errorf("%+v: %v %v", c, mine, err)
			}
		}
		turn.State, turn.EndedAt = agent.TurnCompleted, 300
		apply(ctx, t, s, agent.Change{Turn: turn, TurnID: "trn_1", Owner: "b"})
		if mine, err := s.Claim(ctx, "trn_1", "b", 301, 400); err != nil || mine {
			t.Errorf("an ended turn was claimed: %v", err)
		}
	})
}

// Of turns that start at once one runs, and messages that are sent at once all have a place of their own.
func TestChangesAtOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, s, th := thread(t, db)
		var all sync.WaitGroup
		var mu sync.Mutex
		started := 0
		for i := range 8 {
			all.Go(func() {
				name := string(rune('a' + i))
				turn := &agent.Turn{ID: "trn_" + name, ThreadID: "thr_1", TeamID: th.TeamID, State: agent.TurnRunning, Owner: "a"}
				_, err := s.Apply(ctx, "thr_1", agent.Change{Turn: turn, NoTurn: true})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					started++
				} else if fault.CodeOf(err) != "turn_running" {
					t.Error(err)
				}
				if _, err := s.Apply(ctx, "thr_1", agent.Change{Messages: []*agent.Message{message("msg_"+name, "x")}}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		v, err := s.View(ctx, "thr_1", agent.Window{})
		if err != nil || started != 1 || len(v.Messages) != 8 || v.Messages[7].Seq != 8 {
			t.Errorf("%d turns started; %+v, %v", started, v.Messages, err)
		}
	})
}

// What the model is sent begins with the newest summary or clear marker that counts, and has the prompts of the turn that was summarized.
func TestTheLiveWindow(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, s, _ := thread(t, db)
		put := func(id, turn string, role agent.Role, state agent.MessageState) {
			t.Helper()
			m := message(id, id)
			m.TurnID, m.Role, m.State = turn, role, state
			var calls []*agent.Call
			if role == agent.Assistant {
				calls = []*agent.Call{{ID: "cll_" + id, ThreadID: "thr_1", TurnID: turn, MessageID: id, Tool: "t", Args: []byte(`{}`), State: agent.CallDone}}
			}
			apply(ctx, t, s, agent.Change{Messages: []*agent.Message{m}, Calls: calls})
		}
		live := func(want string) {
			t.Helper()
			v, err := s.View(ctx, "thr_1", agent.Window{Live: true})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range v.Messages {
				got = append(got, m.ID)
			}
			for _, c := range v.Calls {
				got = append(got, c.ID)
			}
			if s := strings.Join(got, " "); s != want {
				t.Errorf("%q, not %q", s, want)
			}
		}
		live("")
		put("a1", "trn_1", agent.User, agent.Complete)
		put("a2", "trn_1", agent.Assistant, agent.Complete)
		live("a1 a2 cll_a2")
		put("b1", "trn_2", agent.User, agent.Complete)
		put("b2", "trn_2", agent.Assistant, agent.Complete)
		put("b3", "trn_2", agent.Summary, agent.Streaming)
		live("a1 a2 b1 b2 b3 cll_a2 cll_b2")
		put("b3", "trn_2", agent.Summary, agent.Complete)
		put("b4", "trn_2", agent.User, agent.Complete)
		put("b5", "trn_2", agent.Assistant, agent.Complete)
		live("b1 b3 b4 b5 cll_b5")
		put("c1", "trn_3", agent.User, agent.Complete)
		put("c2", "trn_3", agent.Summary, agent.Discarded)
		live("b1 b3 b4 b5 c1 c2 cll_b5")
		put("d1", "", agent.Clear, agent.Complete)
		live("d1")
		put("e1", "trn_4", agent.User, agent.Complete)
		live("d1 e1")
	})
}

// What a step reads is found by an index, so that a step costs the same however long its thread is. These are the statements of View.
func TestStepsReadWhatChanged(t *testing.T) {
	db := storetest.SQLite(t)
	ctx, s, _ := thread(t, db)
	long := strings.Repeat("x", 2000)
	for i := range 40 {
		c := agent.Change{}
		for j := range 50 {
			m := message(fmt.Sprintf("msg_%d_%d", i, j), long)
			m.Role = agent.Assistant
			c.Messages = append(c.Messages, m)
			c.Calls = append(c.Calls, &agent.Call{ID: "cll_" + m.ID, ThreadID: "thr_1", TurnID: "trn_1", MessageID: m.ID, Tool: "t", Args: []byte(`{}`), State: agent.CallDone, Content: []providers.Part{{Kind: providers.Text, Text: long}}})
		}
		apply(ctx, t, s, c)
	}
	apply(ctx, t, s, agent.Change{Messages: []*agent.Message{{ID: "sum", ThreadID: "thr_1", Role: agent.Summary, State: agent.Complete}}})
	read := func(w agent.Window) (n int, took time.Duration) {
		t.Helper()
		took = time.Hour
		for range 5 {
			start := time.Now()
			v, err := s.View(ctx, "thr_1", w)
			if err != nil {
				t.Fatal(err)
			}
			n, took = len(v.Messages)+len(v.Calls), min(took, time.Since(start))
		}
		return n, took
	}
	_, all := read(agent.Window{})
	for _, w := range []agent.Window{{Live: true}, {Since: 41}, {Since: 41, Limit: 500}, {Limit: 1}} {
		if n, took := read(w); n != 1 || took > all/20 {
			t.Errorf("%+v: %d rows in %s; all rows take %s", w, n, took, all)
		}
	}
}

func TestWhatAThreadHasRead(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, s, _ := thread(t, db)
		if _, found, err := s.Briefing(ctx, "thr_1"); found || err != nil {
			t.Errorf("%v %v", found, err)
		}
		want := agent.Briefing{Begin: "msg_1", Sections: []agent.Section{{Title: "a", Text: "b", Moving: true}}, Known: map[string]string{"a": "x"}}
		for _, b := range []agent.Briefing{{}, want} {
			if err := s.SetBriefing(ctx, "thr_1", b); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.SetBriefing(tenant.In(t.Context(), "another"), "thr_1", agent.Briefing{}); err != nil {
			t.Fatal(err)
		}
		if got, found, err := s.Briefing(ctx, "thr_1"); err != nil || !found || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v %v %v", got, found, err)
		}
	})
}

// Contents belong to a thread of a team; each is stored once, and the oldest go when there are too many.
func TestMedia(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, s, th := thread(t, db)
		keep := func(at int64, m media.Content) {
			t.Helper()
			apply(ctx, t, s, agent.Change{At: at, Media: []media.Content{m}})
		}
		first, second := media.New("image/png", []byte("first")), media.New(media.Text, []byte("second"))
		keep(1, first)
		keep(2, second)
		keep(3, first)
		if got, err := s.Media(ctx, th.WorkspaceID, first.ID); err != nil || got.MIME != "image/png" || string(got.Data) != "first" {
			t.Errorf("%+v, %v", got, err)
		}
		for what, in := range map[string]context.Context{"another workspace": ctx, "another team": tenant.In(t.Context(), "another")} {
			workspace := th.WorkspaceID
			if what == "another workspace" {
				workspace = "ws_9"
			}
			if _, err := s.Media(in, workspace, first.ID); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: %v", what, err)
			}
		}
		fork := th
		fork.ID, fork.Conversation, fork.ParentID, fork.WorkspaceID = "thr_2", "conv_2", th.ID, th.WorkspaceID
		if err := s.CreateThread(ctx, fork); err != nil {
			t.Fatal(err)
		}
		if n := count(ctx, t, db, "thr_2"); n != 2 {
			t.Errorf("the fork has %d contents", n)
		}
		s.BoundMedia(12)
		keep(4, media.New("image/png", []byte("third")))
		if a, b := count(ctx, t, db, th.ID), count(ctx, t, db, "thr_2"); a != 2 || b != 2 { // first was used again after second
			t.Errorf("%d are left, and %d in the fork", a, b)
		}
	})
}

func count(ctx context.Context, t *testing.T, db *store.DB, threadID string) (n int) {
	t.Helper()
	if err := db.QueryRow(ctx, `SELECT COUNT(*) FROM thread_media WHERE thread_id = ? AND {team}`, threadID).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
