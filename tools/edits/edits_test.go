package edits_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/edits"
	"github.com/parawork/parawork/tools/tooltest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/snapshot"
)

func TestMain(m *testing.M) { wstest.Main(m) }

// agents are sessions with a record.
type agents struct {
	rows []sessions.Session
	did  map[string][]conversation.Placed
}

func (a *agents) List(context.Context, string) ([]sessions.Session, error) { return a.rows, nil }

func (a *agents) Conversation(_ context.Context, id string, q conversation.Query) (sessions.Conversation, error) {
	all := a.did[id]
	return sessions.Conversation{Page: conversation.Page{Items: all[max(0, len(all)-q.Limit):], Total: len(all)}}, nil
}

// does adds a call to the record of a session.
func (a *agents) does(session string, it conversation.Item) {
	it.ID, it.At = fmt.Sprint("call", len(a.did[session])), time.Now().UnixMilli()
	if it.Status == "" {
		it.Status = conversation.OK
	}
	a.did[session] = append(a.did[session], conversation.Placed{Item: it})
}

// edits adds an edit to a record.
func (a *agents) edits(session, path, diff string) {
	a.does(session, conversation.Item{Kind: conversation.Edit, Tool: "Edit", Path: path, Diff: diff})
}

// bench is a workspace with an agent in it.
type bench struct {
	*wstest.Env
	bus    *events.Bus
	w      workspaces.Workspace
	s      *edits.Service
	agents *agents
	caller tools.Caller
}

func newBench(t *testing.T, h *wstest.Env) *bench {
	b := &bench{Env: h, bus: events.New(), w: h.Workspace(), agents: &agents{did: map[string][]conversation.Placed{}}}
	b.agents.rows = []sessions.Session{{ID: "ses_1", TeamID: h.Team, WorkspaceID: b.w.ID, Agent: "claude-code", State: state.Working, CreatedBy: h.Actor.User.ID}}
	b.agents.does("ses_1", conversation.Item{Kind: conversation.Prompt, Text: "Do it"})
	b.s = edits.New(edits.Config{Store: toolstore.NewEdits(h.Db), Snapshots: h.S.Snapshots, Repository: git.Contents{Repo: h.S.Repo}, Undoer: h.S.Lifecycle, Workspaces: h.S.Records, Sessions: b.agents, Bus: b.bus, Events: b.bus,
		Settle: time.Millisecond, Actor: func(context.Context, string) (accounts.Actor, error) { return h.Actor, nil }})
	b.caller = tools.Caller{TeamID: h.Team, WorkspaceID: b.w.ID, UserID: h.Actor.User.ID, SessionID: "ses_1", Agent: "claude-code"}
	h.Keep(b.w.ID, snapshot.Request{})
	b.list()
	return b
}

// list takes a snapshot, reads the timeline and returns all edits, oldest first.
func (b *bench) list() []edits.Edit {
	b.T.Helper()
	sn, err := b.S.Snapshots.Take(context.Background(), b.w.ID, snapshot.Request{Kind: snapshot.SnapPoll})
	wstest.Must(b.T, err)
	wstest.Must(b.T, b.s.Read(context.Background(), b.w.ID, time.UnixMilli(sn.At)))
	items, _, _, err := b.s.List(context.Background(), edits.Query{WorkspaceID: b.w.ID})
	wstest.Must(b.T, err)
	for i, j := 0, len(items)-1; i < j; i, j = i+1, j-1 {
		items[i], items[j] = items[j], items[i]
	}
	return items
}

func (b *bench) read(name string) string {
	b.T.Helper()
	text, err := os.ReadFile(filepath.Join(b.w.Path, name))
	if os.IsNotExist(err) {
		return "-"
	}
	wstest.Must(b.T, err)
	return string(text)
}

func (b *bench) undo(e edits.Edit) error {
	_, err := b.s.Undo(context.Background(), b.Actor, e, edits.UndoRequest{SessionID: "ses_1"})
	return err
}

const ten = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"

// The list separates several edits between two snapshots, and undoes one of them among later ones.
func TestUndoKeepsLaterEdits(t *testing.T) {
	t.Parallel()
	wstest.EachEnv(t, func(t *testing.T, h *wstest.Env) {
		b := newBench(t, h)
		wstest.Write(t, b.w.Path, "f.txt", ten)
		b.agents.edits("ses_1", "f.txt", "+"+strings.ReplaceAll(strings.TrimSuffix(ten, "\n"), "\n", "\n+")+"\n")
		b.list()
		b.agents.edits("ses_1", "f.txt", "@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n")
		b.agents.edits("ses_1", "f.txt", "@@ -8,3 +8,3 @@\n 8\n-9\n+nine\n 10\n")
		b.agents.edits("ses_1", "f.txt", "-8\n+eight\n")
		wstest.Write(t, b.w.Path, "f.txt", "1\ntwo\n3\n4\n5\n6\n7\neight\nnine\n10\n")
		all := b.list()
		if len(all) != 4 || all[0].Kind != edits.Created || all[0].CallID != "call1" {
			t.Fatalf("%+v", all)
		}
		for i, e := range all {
			if e.Evidence != edits.ByRecord || e.CallID != fmt.Sprint("call", i+1) || e.SessionID != "ses_1" || e.Agent != "claude-code" || e.Turn != "call0" || i > 0 && (e.Before != all[i-1].After || e.Additions != 1 || e.Deletions != 1) {
				t.Errorf("edit %d: %+v", i, e)
			}
		}
		d, err := b.s.Diff(t.Context(), all[1])
		if err != nil || !strings.Contains(d.Text, "-2\n+two\n") || strings.Contains(d.Text, "nine") {
			t.Errorf("%+v, %v", d, err)
		}
		wstest.Must(t, b.undo(all[1]))
		if got := b.read("f.txt"); got != "1\n2\n3\n4\n5\n6\n7\neight\nnine\n10\n" {
			t.Errorf("undone: %q", got)
		}
		wstest.Must(t, b.undo(all[1])) // by somebody who had read it before: there is nothing left to do
		again, err := b.s.Get(t.Context(), b.w.ID, all[1].ID)
		wstest.Must(t, err)
		wstest.WantCode(t, b.undo(again), "edit_undone")
		err = b.undo(all[0])
		wstest.WantCode(t, err, "edit_conflict")
		if list := edits.Conflicts(err); len(list) == 0 || !strings.Contains(list[0].Present, "nine") {
			t.Errorf("conflicts: %+v", list)
		}
		after := b.list()
		last := after[len(after)-1]
		if len(after) != 5 || after[1].UndoneAt == 0 || after[1].UndoneBy != h.Actor.User.ID || last.UndoOf != all[1].ID || last.Evidence != edits.ByOperation || last.UserID != h.Actor.User.ID {
			t.Errorf("%+v", after)
		}
		wstest.Must(t, b.undo(last)) // an undo can be undone
		if got := b.read("f.txt"); !strings.Contains(got, "two") || !strings.Contains(got, "nine") {
			t.Errorf("redone: %q", got)
		}
	})
}

// What no record explains is named after what ran, and never as certain.
func TestAttributionIsNotGuessed(t *testing.T) {
	t.Parallel()
	b := newBench(t, wstest.SQLiteEnv(t))
	last := func() edits.Edit { all := b.list(); return all[len(all)-1] }
	wstest.Write(t, b.w.Path, "nobody.txt", "1\n")
	if e := last(); e.CallID != "" || e.SessionID != "" || e.Evidence != edits.ByInterval {
		t.Errorf("nobody: %+v", e)
	}
	b.agents.does("ses_1", conversation.Item{Kind: conversation.Tool, Tool: "Read"})
	b.agents.does("ses_1", conversation.Item{Kind: conversation.Tool, Tool: "Bash", Status: conversation.Running})
	wstest.Write(t, b.w.Path, "shell.txt", "1\n")
	if e := last(); e.Tool != "Bash" || e.CallID != "call2" || e.Evidence != edits.ByInterval {
		t.Errorf("one command: %+v", e)
	}
	b.agents.edits("ses_1", "lie.txt", "@@ -1,1 +1,1 @@\n-1\n+what it says\n")
	b.agents.edits("ses_1", "/etc/passwd", "+root\n")
	b.agents.edits("ses_1", "../out", "+x\n")
	wstest.Write(t, b.w.Path, "lie.txt", "what it did\n")
	if e := last(); e.Evidence != edits.ByInterval || e.CallID != "call3" {
		t.Errorf("a record that lies: %+v", e)
	}
	b.agents.does("ses_1", conversation.Item{Kind: conversation.Tool, Tool: "Bash", Status: conversation.Running})
	wstest.Write(t, b.w.Path, "two\nlines.txt", "1\n")
	if e := last(); e.CallID != "" || len(e.Calls) != 2 || e.SessionID != "ses_1" {
		t.Errorf("several: %+v", e)
	} else {
		wstest.Must(t, b.undo(e))
		if b.read("two\nlines.txt") != "-" {
			t.Error("a path with a line feed was not undone")
		}
	}
}

// An undo changes nothing outside the workspace, and nothing that it cannot merge.
func TestUndoIsSafe(t *testing.T) {
	t.Parallel()
	b := newBench(t, wstest.SQLiteEnv(t))
	outside := t.TempDir()
	wstest.Write(t, outside, "file.txt", "new\n")
	wstest.Write(t, b.w.Path, "dir/file.txt", "old\n")
	b.list()
	wstest.Write(t, b.w.Path, "dir/file.txt", "new\n")
	e := b.list()[1]
	wstest.Must(t, os.RemoveAll(filepath.Join(b.w.Path, "dir")))
	wstest.Must(t, os.Symlink(outside, filepath.Join(b.w.Path, "dir")))
	wstest.WantCode(t, b.undo(e), "edit_conflict")
	if text, _ := os.ReadFile(filepath.Join(outside, "file.txt")); string(text) != "new\n" {
		t.Errorf("outside: %q", text)
	}
	wstest.Write(t, b.w.Path, "bin", "a\x00b")
	b.list()
	wstest.Write(t, b.w.Path, "bin", "a\x00c")
	all := b.list()
	e = all[len(all)-1]
	if !e.Binary {
		t.Errorf("%+v", e)
	}
	wstest.Write(t, b.w.Path, "bin", "a\x00d")
	wstest.WantCode(t, b.undo(e), "edit_conflict")
	wstest.Write(t, b.w.Path, "bin", "a\x00c")
	wstest.Must(t, b.undo(e))
	if b.read("bin") != "a\x00b" {
		t.Errorf("bin: %q", b.read("bin"))
	}
	wstest.Must(t, os.Remove(filepath.Join(b.w.Path, "bin")))
	all = b.list()
	if e = all[len(all)-1]; e.Kind != edits.Deleted {
		t.Fatalf("%+v", e)
	}
	if done, err := b.s.Undo(t.Context(), b.Actor, e, edits.UndoRequest{DryRun: true, SessionID: "ses_1"}); err != nil || !done.Changed || b.read("bin") != "-" {
		t.Errorf("a dry run: %+v, %v", done, err)
	}
	wstest.Must(t, b.undo(e))
	if b.read("bin") != "a\x00b" {
		t.Errorf("bin came back as %q", b.read("bin"))
	}
	if _, err := b.s.Get(t.Context(), "ws_other", e.ID); fault.CodeOf(err) != "edit_not_found" {
		t.Errorf("%v", err)
	}
}

// Many changes at once are bounded and counted; checks mark what they ran on.
func TestEditsAreBoundedAndVerified(t *testing.T) {
	t.Parallel()
	b := newBench(t, wstest.SQLiteEnv(t))
	for i := range 600 {
		wstest.Write(t, b.w.Path, fmt.Sprintf("many/%04d.txt", i), fmt.Sprint(i, "\n"))
	}
	b.list()
	_, _, c, err := b.s.List(t.Context(), edits.Query{WorkspaceID: b.w.ID})
	if err != nil || c.LeftOut != 100 {
		t.Errorf("left out %d, %v", c.LeftOut, err)
	}
	one, _, _, err := b.s.List(t.Context(), edits.Query{WorkspaceID: b.w.ID, Path: "many/0007.txt"})
	if err != nil || len(one) != 1 {
		t.Fatalf("%+v, %v", one, err)
	}
	sn, err := b.S.Snapshots.Now(t.Context(), b.w.ID)
	wstest.Must(t, err)
	wstest.Write(t, b.w.Path, "many/0007.txt", "later\n")
	b.list()
	b.s.Verified(t.Context(), b.w.ID, sn.Tree, true)
	one, _, _, err = b.s.List(t.Context(), edits.Query{WorkspaceID: b.w.ID, Path: "many/0007.txt"})
	if err != nil || len(one) != 2 || one[0].Verified != "" || one[1].Verified != "passed" || one[1].Tree != sn.Tree {
		t.Errorf("%+v, %v", one, err)
	}
}

// Run reads by itself what the timeline gets.
func TestRunFollowsTheTimeline(t *testing.T) {
	t.Parallel()
	b := newBench(t, wstest.SQLiteEnv(t))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.s.Run(ctx) }()
	wstest.Write(t, b.w.Path, "a.txt", "1\n")
	b.Keep(b.w.ID, snapshot.Request{Kind: snapshot.SnapPoll})
	b.bus.Publish(t.Context(), events.Event{Type: "snapshots.updated", WorkspaceID: b.w.ID, TeamID: b.Team})
	deadline := time.Now().Add(time.Minute)
	for n := 0; n == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the edit was not read")
		}
		list, _, _, err := b.s.List(t.Context(), edits.Query{WorkspaceID: b.w.ID})
		wstest.Must(t, err)
		if n = len(list); n == 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
	cancel()
	wstest.Must(t, <-ended)
}

func TestTools(t *testing.T) {
	t.Parallel()
	b := newBench(t, wstest.SQLiteEnv(t))
	wstest.Write(t, b.w.Path, "a.txt", ten)
	b.list()
	wstest.Write(t, b.w.Path, "a.txt", "changed\n")
	e := b.list()[1]
	stranger := b.caller
	stranger.TeamID = "team_other"
	for i, args := range []string{`{}`, `{"id":"` + e.ID + `"}`, `{"id":"` + e.ID + `","dry_run":true}`} {
		tooltest.Run(t, tooltest.Subject{Tool: b.s.Tools()[i], Caller: b.caller, Stranger: stranger, Quick: json.RawMessage(args)})
	}
	wstest.Write(t, b.w.Path, "a.txt", "other\n")
	set, err := tools.New(tools.Config{Tools: b.s.Tools()})
	wstest.Must(t, err)
	r, err := set.Call(t.Context(), b.caller, "edit_undo", json.RawMessage(`{"id":"`+e.ID+`"}`))
	wstest.Must(t, err)
	if !r.IsError || !strings.Contains(string(r.Structured), `"present":"other\n"`) || b.read("a.txt") != "other\n" {
		t.Errorf("a conflict: %s", r.Structured)
	}
}
