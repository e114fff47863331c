package checkpoints_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/checkpoints"
	"github.com/parawork/parawork/tools/tooltest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/snapshot"
)

func TestMain(m *testing.M) { wstest.Main(m) }

// agents are sessions with a conversation.
type agents struct {
	mu   sync.Mutex
	rows []sessions.Session
	said map[string][]conversation.Placed
}

func (a *agents) Get(_ context.Context, id string) (sessions.Session, error) {
	for _, row := range a.rows {
		if row.ID == id {
			return row, nil
		}
	}
	return sessions.Session{}, fault.New(fault.NotFound, "not_found", "no such session")
}

func (a *agents) List(context.Context, string) ([]sessions.Session, error) { return a.rows, nil }

func (a *agents) Conversation(_ context.Context, id string, q conversation.Query) (sessions.Conversation, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.said[id]
	items := all[max(0, len(all)-q.Limit):]
	return sessions.Conversation{Page: conversation.Page{Items: items, Total: len(all)}}, nil
}

func (a *agents) say(id, who, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kind := conversation.Text
	if who == "user" {
		kind = conversation.Prompt
	}
	n := len(a.said[id])
	a.said[id] = append(a.said[id], conversation.Placed{Item: conversation.Item{ID: fmt.Sprint("item", n), Kind: kind, Text: text}})
}

// secret is what may not be stored.
const secret = "swordfish-of-the-team"

type secrets struct{}

func (secrets) InAnswers(context.Context, string) (*redact.Finder, error) {
	return redact.NewJSONFinder(secret), nil
}

// bench is a workspace with an agent in it.
type bench struct {
	*wstest.Env
	w       workspaces.Workspace
	s       *checkpoints.Service
	agents  *agents
	session sessions.Session
	caller  tools.Caller
}

func newBench(t *testing.T, h *wstest.Env) *bench {
	b := &bench{Env: h, w: h.Workspace(), agents: &agents{said: map[string][]conversation.Placed{}}}
	b.session = sessions.Session{ID: "ses_1", TeamID: h.Team, WorkspaceID: b.w.ID, Agent: "claude-code", State: state.Working, Prompt: "Begin", Conversation: "c1"}
	b.agents.rows = []sessions.Session{b.session}
	b.s = checkpoints.New(checkpoints.Config{Store: toolstore.NewCheckpoints(h.Db), Snapshots: h.S.Snapshots, Trees: h.S.Repo, Restorer: h.S.Lifecycle, Workspaces: h.S.Records, Sessions: b.agents,
		Secrets: secrets{}, Events: h.Bus, Actor: func(context.Context, string) (accounts.Actor, error) { return h.Actor, nil },
		Tasks: func(context.Context, string) ([]checkpoints.Task, error) {
			return []checkpoints.Task{{ID: "PW-T1", Title: "Write it", Status: "in_progress"}, {ID: "PW-T2", Title: "Done already", Status: "closed"}}, nil
		}})
	b.caller = tools.Caller{TeamID: h.Team, WorkspaceID: b.w.ID, UserID: h.Actor.User.ID, SessionID: b.session.ID, Agent: "claude-code"}
	return b
}

func (b *bench) create(note, next string) checkpoints.Checkpoint {
	b.T.Helper()
	c, err := b.s.Create(context.Background(), checkpoints.Request{WorkspaceID: b.w.ID, SessionID: b.session.ID, UserID: b.Actor.User.ID, Note: note, NextStep: next})
	wstest.Must(b.T, err)
	return c
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

func (b *bench) list() []checkpoints.Checkpoint {
	b.T.Helper()
	items, _, err := b.s.List(context.Background(), b.w.ID, page.Page{Limit: 200})
	wstest.Must(b.T, err)
	return items
}

// A restore brings back untracked files, removes what did not exist, and can itself be undone.
func TestRestoreSetsAllFilesBack(t *testing.T) {
	t.Parallel()
	wstest.EachEnv(t, func(t *testing.T, h *wstest.Env) {
		b := newBench(t, h)
		wstest.Write(t, b.w.Path, "untracked.txt", "first\n")
		b.agents.say("ses_1", "user", "Please use "+secret)
		b.agents.say("ses_1", "agent", "I did.")
		c := b.create("Before the risky part with "+secret, "Go on with part two")
		if c.Files != 1 || c.Agent != "claude-code" || c.Reason != checkpoints.Manual {
			t.Errorf("created %+v", c)
		}
		got, err := b.s.Get(t.Context(), c.ID)
		wstest.Must(t, err)
		sn, err := h.S.Snapshots.Snap(t.Context(), b.w.ID, got.SnapshotID)
		wstest.Must(t, err)
		all, _ := json.Marshal([]any{got, sn})
		if strings.Contains(string(all), secret) {
			t.Errorf("a secret is stored: %s", all)
		}
		if got.Messages.Items != 2 || len(got.Messages.Tail) != 2 || got.Messages.Tail[0].Role != "user" || got.NextStep != "Go on with part two" || len(got.Tasks) != 2 {
			t.Errorf("stored %+v", got)
		}
		wstest.Write(t, b.w.Path, "untracked.txt", "second\n")
		wstest.Write(t, b.w.Path, "later/new.txt", "new\n")
		d, err := b.s.Diff(t.Context(), got, checkpoints.DiffRequest{Fresh: true})
		wstest.Must(t, err)
		if d.Total != 2 || !strings.Contains(d.Patch, "+second") || !strings.Contains(d.Patch, "-first") || d.Additions != 2 {
			t.Errorf("the difference is %+v", d)
		}
		if d, err = b.s.Diff(t.Context(), got, checkpoints.DiffRequest{Paths: []string{"later"}}); err != nil || d.Total != 1 || strings.Contains(d.Patch, "second") {
			t.Errorf("the difference of one folder is %+v, %v", d, err)
		}
		done, err := b.s.Restore(t.Context(), h.Actor, got, checkpoints.RestoreRequest{})
		wstest.Must(t, err)
		if b.read("untracked.txt") != "first\n" || b.read("later/new.txt") != "-" || len(done.Changed) != 2 {
			t.Errorf("restored %v: %q, %q", done.Changed, b.read("untracked.txt"), b.read("later/new.txt"))
		}
		_, err = h.S.Lifecycle.RestoreSnapshot(t.Context(), h.Actor, done.Kept, snapshot.RestoreRequest{})
		wstest.Must(t, err)
		if b.read("untracked.txt") != "second\n" || b.read("later/new.txt") != "new\n" {
			t.Error("the restore could not be undone")
		}
	})
}

// The timeline forgets old snapshots, but none that a checkpoint refers to.
func TestSnapshotLivesAsLongAsItsCheckpoint(t *testing.T) {
	t.Parallel()
	wstest.EachEnv(t, func(t *testing.T, h *wstest.Env) {
		b := newBench(t, h)
		wstest.Write(t, b.w.Path, "a.txt", "one\n")
		c := b.create("", "")
		wstest.Write(t, b.w.Path, "a.txt", "two\n")
		other := h.Keep(b.w.ID, snapshot.Request{Kind: snapshot.SnapManual})
		wstest.Write(t, b.w.Path, "a.txt", "three\n")
		h.Keep(b.w.ID, snapshot.Request{})
		wstest.WantCode(t, func() error {
			sn, err := h.S.Snapshots.Snap(t.Context(), b.w.ID, c.SnapshotID)
			wstest.Must(t, err)
			return h.S.Snapshots.DeleteSnapshot(t.Context(), sn)
		}(), "snapshot_in_checkpoint")
		for _, id := range []string{c.SnapshotID, other.ID} {
			_, err := h.Store.EditSnapshot(t.Context(), id, func(s *snapshot.Snap) error { s.ExpiresAt = 1; return nil })
			wstest.Must(t, err)
		}
		_, err := h.S.Snapshots.PruneSnapshots(t.Context())
		wstest.Must(t, err)
		if got := h.FileOf(b.w, c.SnapshotID, "a.txt"); got != "one\n" {
			t.Errorf("the checkpoint has %q", got)
		}
		if _, err := h.S.Snapshots.Snap(t.Context(), b.w.ID, other.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("an expired snapshot is still there: %v", err)
		}
		wstest.Must(t, b.s.Delete(t.Context(), c))
		_, err = h.S.Snapshots.PruneSnapshots(t.Context())
		wstest.Must(t, err)
		if _, err := h.S.Snapshots.Snap(t.Context(), b.w.ID, c.SnapshotID); !fault.Is(err, fault.NotFound) {
			t.Errorf("the snapshot outlived its checkpoint: %v", err)
		}
	})
}

// Each prompt gets one mark, in the background; without a change of files they share a snapshot.
func TestPromptsAreMarked(t *testing.T) {
	t.Parallel()
	b := newBench(t, wstest.SQLiteEnv(t))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.s.Run(ctx) }()
	wstest.Write(t, b.w.Path, "a.txt", "one\n")
	b.s.Prompted(b.session, "Add a test\nwith details")
	b.s.Prompted(b.session, "Add a test\nwith details") // the agent's hook reports it, too
	wait(t, func() bool { return len(b.list()) == 1 })
	other := b.session
	other.ID = "ses_2"
	b.agents.rows = append(b.agents.rows, other)
	b.s.Prompted(other, "Another")
	wait(t, func() bool { return len(b.list()) == 2 })
	b.s.Compacting(other)
	wait(t, func() bool { return len(b.list()) == 3 })
	cancel()
	wstest.Must(t, <-ended)
	all := b.list()
	if all[2].Note != "Add a test" || all[2].Reason != checkpoints.Prompt || all[0].Reason != checkpoints.TokenLimit {
		t.Errorf("marked %+v", all)
	}
	if all[0].SnapshotID != all[1].SnapshotID || all[1].SnapshotID != all[2].SnapshotID {
		t.Errorf("nothing changed, and there are several snapshots: %+v", all)
	}
}

func wait(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Before a sandbox ends each running agent gets a checkpoint, once for one state; its successor starts from it.
func TestSandboxEndIsMarkedAndHandedOver(t *testing.T) {
	t.Parallel()
	b := newBench(t, wstest.SQLiteEnv(t))
	wstest.Write(t, b.w.Path, "a.txt", "one\n")
	b.agents.say("ses_1", "user", "Refactor the parser")
	b.Keep(b.w.ID, snapshot.Request{Reason: "stop"})
	b.s.BeforeEnd(t.Context(), b.w.ID)
	b.s.BeforeEnd(t.Context(), b.w.ID)
	all := b.list()
	if len(all) != 1 || all[0].Reason != checkpoints.Timeout || all[0].SessionID != "ses_1" {
		t.Fatalf("marked %+v", all)
	}
	b.agents.say("ses_1", "agent", "Half of it is done.")
	text, err := b.s.Handover(t.Context(), b.session)
	wstest.Must(t, err)
	for _, want := range []string{"Refactor the parser", "Half of it is done.", "PW-T1", "What to do next", all[0].ID} {
		if !strings.Contains(text, want) {
			t.Errorf("the handover lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "PW-T2") {
		t.Errorf("a closed task is handed over:\n%s", text)
	}
	if text, err := b.s.Handover(t.Context(), sessions.Session{ID: "ses_unknown"}); err != nil || text != "" {
		t.Errorf("nothing is known, and there is a handover: %q, %v", text, err)
	}
	b.agents.said["ses_1"] = nil
	for range 20 {
		b.agents.say("ses_1", "agent", strings.Repeat("long ", 1000))
	}
	next := b.create("", "Only this: "+strings.Repeat("x", 100))
	text, err = b.s.Handover(t.Context(), b.session)
	wstest.Must(t, err)
	if len(text) > 13_000 || !strings.Contains(text, next.NextStep) {
		t.Errorf("a handover of %d bytes, next step in it: %v", len(text), strings.Contains(text, next.NextStep))
	}
}

// What a checkpoint shows of itself is bounded.
func TestTextsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, wstest.SQLiteEnv(t))
	_, err := b.s.Create(t.Context(), checkpoints.Request{WorkspaceID: b.w.ID, UserID: b.Actor.User.ID, Note: strings.Repeat("n", checkpoints.MaxNote+1)})
	wstest.WantCode(t, err, "checkpoint_text_too_long")
	_, err = b.s.Create(t.Context(), checkpoints.Request{WorkspaceID: b.w.ID, UserID: b.Actor.User.ID, NextStep: strings.Repeat("n", checkpoints.MaxNext+1)})
	wstest.WantCode(t, err, "checkpoint_text_too_long")
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Details["field"] != "next_step" {
		t.Errorf("the error names another field than the API: %v", err)
	}
}

// While another agent works, an agent may not change the files under it; its own work is no obstacle.
func TestAgentRestoresItsOwnWork(t *testing.T) {
	t.Parallel()
	b := newBench(t, wstest.SQLiteEnv(t))
	wstest.Write(t, b.w.Path, "a.txt", "one\n")
	c := b.create("", "")
	wstest.Write(t, b.w.Path, "a.txt", "two\n")
	set, err := tools.New(tools.Config{Tools: b.s.Tools()})
	wstest.Must(t, err)
	r, err := set.Call(t.Context(), b.caller, "checkpoint_restore", json.RawMessage(`{"id":"`+c.ID+`","paths":["a.txt"]}`))
	wstest.Must(t, err)
	var out struct {
		Changed []string
		Safety  string `json:"safety_snapshot"`
	}
	wstest.Must(t, json.Unmarshal(r.Structured, &out))
	if len(out.Changed) != 1 || b.read("a.txt") != "one\n" || b.FileOf(b.w, out.Safety, "a.txt") != "two\n" {
		t.Errorf("restored %+v, the file has %q", out, b.read("a.txt"))
	}
	_, err = set.Call(t.Context(), b.caller, "checkpoint_restore", json.RawMessage(`{"id":"`+c.ID+`","paths":["../other"]}`))
	wstest.WantCode(t, err, "invalid_path")
	elsewhere := b.caller
	elsewhere.WorkspaceID = b.Ready(workspaces.NewWorkspace{ProjectID: b.w.ProjectID, Name: "Other"}).ID
	for _, name := range []string{"checkpoint_restore", "checkpoint_diff"} {
		_, err = set.Call(t.Context(), elsewhere, name, json.RawMessage(`{"id":"`+c.ID+`"}`))
		wstest.WantCode(t, err, "checkpoint_not_found")
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	b := newBench(t, wstest.SQLiteEnv(t))
	for i := range 100 {
		wstest.Write(t, b.w.Path, fmt.Sprintf("file-%d.txt", i), strings.Repeat("a line\n", 20))
	}
	empty := b.create("", "")
	for i := range 30 {
		b.create(fmt.Sprintf("note %d %s", i, strings.Repeat("n", 150)), strings.Repeat("next ", 50))
	}
	for i := range 100 {
		wstest.Write(t, b.w.Path, fmt.Sprintf("file-%d.txt", i), strings.Repeat("another\n", 20))
	}
	stranger := b.caller
	stranger.TeamID = "team_other"
	args := map[string][2]string{
		"checkpoint_create":  {`{"note":"before"}`, ""},
		"checkpoint_list":    {`{"limit":2}`, `{"limit":100}`},
		"checkpoint_diff":    {`{"id":"` + empty.ID + `","path":"file-1.txt"}`, `{"id":"` + empty.ID + `"}`},
		"checkpoint_restore": {`{"id":"` + empty.ID + `","paths":["none"]}`, ""},
	}
	for _, tool := range b.s.Tools() {
		t.Run(tool.Spec().Name, func(t *testing.T) {
			a := args[tool.Spec().Name]
			subject := tooltest.Subject{Tool: tool, Caller: b.caller, Stranger: stranger, Quick: json.RawMessage(a[0])}
			if a[1] != "" {
				subject.Large = json.RawMessage(a[1])
			}
			tooltest.Run(t, subject)
		})
	}
}
