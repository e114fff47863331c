package transcript_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/internal/bytelog"
	"github.com/parawork/parawork/internal/homedir"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/journal"
	"github.com/parawork/parawork/sessions/transcript"
	"github.com/parawork/parawork/workspaces"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	talk   = "8c2f4f0e-1111-4222-8333-444455556666"
	record = `{"type":"user","uuid":"u1","timestamp":"2099-01-02T03:04:05Z","message":{"role":"user","content":"find the swordfish"}}
{"type":"assistant","uuid":"a1","timestamp":"2099-01-02T03:04:06Z","message":{"id":"msg_1","model":"claude-opus-4-8","stop_reason":"end_turn","content":[{"type":"text","text":"found"}],"usage":{"input_tokens":10,"output_tokens":7}}}
`
)

// host is a session whose home lies in a folder.
type host struct {
	row  transcript.Row
	home string

	mu    sync.Mutex
	heard []agents.Mood
}

func (h *host) Row() transcript.Row { return h.row }

func (h *host) Source(context.Context) (conversation.Source, func(), error) {
	d, err := homedir.Open(h.home)
	if err != nil {
		return nil, nil, err
	}
	return d, func() { d.Close() }, nil
}

func (h *host) Observe(hint agents.Hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = append(h.heard, hint.Mood)
}

// counter rejects the first request.
type counter struct {
	mu      sync.Mutex
	refused bool
	all     []tokens.Request
}

func (c *counter) Record(_ context.Context, r tokens.Request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.refused {
		c.refused = true
		return errors.New("no room")
	}
	c.all = append(c.all, r)
	return nil
}

// room is the transcripts of a server, with homes below dir.
type room struct {
	*transcript.Transcripts
	dir   string
	meter counter
	ran   bool // sessions ran in homes of their places
	known bool
}

func newRoom(t *testing.T) *room {
	r := &room{dir: t.TempDir(), known: true}
	registry, err := agents.New(agents.Config{HomesDir: filepath.Join(r.dir, "homes"), SandboxesDir: filepath.Join(r.dir, "boxes"), WorktreesDir: filepath.Join(r.dir, "worktrees")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	group := new(tasks.Group)
	t.Cleanup(func() { cancel(); group.Close() })
	r.Transcripts = transcript.New(transcript.Config{Agents: registry, DataDir: r.dir, MaxBytes: 1 << 20, Meter: &r.meter,
		Workspace: func(_ context.Context, id string) (workspaces.Workspace, error) {
			return workspaces.Workspace{ID: id, ProjectID: "project"}, nil
		},
		RanInside: func(string) (bool, bool, error) { return r.ran, r.known, nil }, Tasks: group, Context: ctx, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	return r
}

// write writes a file below dir.
func (r *room) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What the record holds is kept, masked, by the time the session has ended; what models were asked is counted once the meter takes it.
func TestTheRecordIsFollowed(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	folder := filepath.Join(r.dir, "sessions", "ses_1")
	log, err := bytelog.Open(bytelog.Config{Dir: folder, MaxBytes: 1 << 20, RingBytes: 1 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	notes, err := journal.Open(journal.Config{Path: filepath.Join(folder, "journal")})
	if err != nil {
		t.Fatal(err)
	}
	h := &host{home: filepath.Join(r.dir, "homes", "ana"), row: transcript.Row{ID: "ses_1", TeamID: "team", WorkspaceID: "ws", Agent: agents.ClaudeCode, CreatedBy: "ana", Conversation: talk,
		StartedAt: 1, Worktree: "/work"}}
	s := r.Session(transcript.SessionConfig{ID: "ses_1", Host: h, Log: log, Journal: notes, Mask: func(text string) string { return strings.ReplaceAll(text, "swordfish", "*********") }})
	over := make(chan struct{})
	s.Follow(func() { close(over) })
	lines := strings.SplitAfter(record, "\n")
	r.write(t, "homes/ana/.claude/projects/-work/"+talk+".jsonl", lines[0])
	s.Read(t.Context())
	if page, err := r.Page("ses_1", conversation.Query{Limit: 10}); err != nil || len(page.Items) != 1 || page.Items[0].Text != "find the *********" {
		t.Fatalf("page %+v (%v)", page, err)
	}
	r.write(t, "homes/ana/.claude/projects/-work/"+talk+".jsonl", record)
	s.Read(t.Context()) // the meter refuses
	s.End()
	<-over
	sum, err := r.Summary("ses_1", "FOUND")
	if err != nil || sum.Prompt != "find the *********" || sum.Items < 2 || len(sum.Matches) != 1 || sum.More {
		t.Errorf("summary %+v (%v)", sum, err)
	}
	if none, err := r.Summary("ses_1", "swordfish"); err != nil || len(none.Matches) != 0 {
		t.Errorf("the secret is found: %+v (%v)", none, err)
	}
	if len(r.meter.all) != 1 || r.meter.all[0].ExternalID != "msg_1" || r.meter.all[0].ProjectID != "project" || !r.meter.all[0].Subscription {
		t.Errorf("counted %+v", r.meter.all)
	}
	s.Read(t.Context()) // nobody follows it any more: it does not wait
}

// A conversation goes along into the home of whoever goes on with it, named after the new worktree; without a word of where it ran it stays.
func TestTheRecordComesAlong(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.write(t, "boxes/ws/home/.claude/projects/-old/"+talk+".jsonl", record)
	old := transcript.Row{ID: "ses_1", WorkspaceID: "ws", Agent: agents.ClaudeCode, CreatedBy: "ana", Conversation: talk}
	to := transcript.Home{UserID: "ana", Worktree: "/new"}
	path := filepath.Join(r.dir, "homes", "ana", ".claude", "projects", "-new", talk+".jsonl")
	r.ran, r.known = true, false
	if err := r.Carry(t.Context(), old, to); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("it came along although nobody knows where it ran (%v)", err)
	}
	r.known = true
	if err := r.Carry(t.Context(), old, to); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != record {
		t.Errorf("the new home has %q (%v)", b, err)
	}
}
