// Package checkpoints marks states of a workspace that are worth going back to. A checkpoint is a snapshot of all files with what the
// files do not show: the end of the conversation, the tasks' states, the artifacts, and what to do next. People and agents take one;
// Parawork takes one for each prompt, before an agent compacts its conversation, and before a sandbox's run ends. A session that
// could not keep its conversation starts from its newest one.
//
// The timeline stores the files: while a checkpoint exists, its snapshot does. Goroutines: Run has a few, which take the automatic
// ones. Locks: the mutex of the queue is held for no I/O.
package checkpoints

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// Reason is why a checkpoint was taken.
type Reason string

// The reasons.
const (
	Manual     Reason = "manual"      // a person or an agent asked for it
	Prompt     Reason = "prompt"      // an agent got a prompt
	Timeout    Reason = "timeout"     // the sandbox's run ends
	TokenLimit Reason = "token_limit" // the agent is about to compact its conversation
)

// Checkpoint is a state of a workspace to go back to.
type Checkpoint struct {
	ID          string
	TeamID      string
	WorkspaceID string
	SessionID   string // the session it was taken in, or for; "" = none
	Agent       string // of that session
	SnapshotID  string
	Reason      Reason
	Note        string // of a prompt: its first line
	NextStep    string // what to do when the work is resumed
	Files       int    // that differ from the workspace's base
	Messages    Messages
	Tasks       []Task
	Artifacts   []string // their ids
	CreatedBy   string   // user; "" = Parawork
	At          int64    // ms UTC
}

// Messages are the end of a session's conversation, and where in it that is.
type Messages struct {
	Items int       `json:"items"`          // how many items the conversation had
	Last  string    `json:"last,omitempty"` // id of the last one
	Tail  []Message `json:"tail,omitempty"` // the last prompts and answers, oldest first; long ones are cut
}

// Message is a prompt or an answer.
type Message struct {
	Role string `json:"role"` // user, agent
	Text string `json:"text"`
	At   int64  `json:"at"`
}

// Task is the state of a task.
type Task struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Status string `json:"status"`
}

// Bounds of checkpoints.
const (
	MaxNote = 500  // characters
	MaxNext = 4000 // characters

	most       = 500 // checkpoints of one workspace
	mostTasks  = 50
	taskTitle  = 100 // characters
	tailItems  = 8
	tailText   = 2000      // characters of one message
	freshFor   = time.Hour // a snapshot that expires sooner is not reused
	markWithin = 5 * time.Minute
)

// Store stores checkpoints.
type Store interface {
	// InsertCheckpoint stores a checkpoint. If the workspace has most of them already, it removes the oldest automatic ones;
	// fault.Conflict, checkpoints_full, when all were asked for.
	InsertCheckpoint(ctx context.Context, c Checkpoint, most int) error
	// Checkpoint returns one; fault.NotFound when there is none.
	Checkpoint(ctx context.Context, id string) (Checkpoint, error)
	// Checkpoints returns a page of a workspace's, newest first.
	Checkpoints(ctx context.Context, workspaceID string, pg page.Page) ([]Checkpoint, string, error)
	// SessionCheckpoint returns the newest of a session; fault.NotFound when there is none.
	SessionCheckpoint(ctx context.Context, sessionID string) (Checkpoint, error)
	DeleteCheckpoint(ctx context.Context, id string) error
}

// Snapshots is the timeline of a workspace's files.
type Snapshots interface {
	Take(ctx context.Context, workspaceID string, f snapshot.Request) (snapshot.Snap, error)
	Now(ctx context.Context, workspaceID string) (snapshot.Snap, error)
	Snap(ctx context.Context, workspaceID, id string) (snapshot.Snap, error)
	// Patch returns the unified diff of two trees; the caller closes it.
	Patch(ctx context.Context, workspaceID string, from, to git.Tree, paths []string, lines int, ignoreSpace bool) (io.ReadCloser, error)
}

// Comparer lists the differences of two trees.
type Comparer interface {
	Compare(ctx context.Context, workspaceID string, from, to git.Tree, o git.CompareOptions) (git.Comparison, error)
}

// Restorer sets a workspace's files back.
type Restorer interface {
	RestoreSnapshot(ctx context.Context, actor accounts.Actor, sn snapshot.Snap, r snapshot.RestoreRequest) (snapshot.Restored, error)
}

// Workspaces knows the workspaces.
type Workspaces interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
}

// Sessions knows the sessions and what their agents said.
type Sessions interface {
	Get(ctx context.Context, id string) (sessions.Session, error)
	// List returns a workspace's sessions, newest first.
	List(ctx context.Context, workspaceID string) ([]sessions.Session, error)
	Conversation(ctx context.Context, id string, q conversation.Query) (sessions.Conversation, error)
}

// Config configures a Service.
type Config struct {
	Store      Store
	Snapshots  Snapshots
	Trees      Comparer
	Restorer   Restorer
	Workspaces Workspaces
	Sessions   Sessions
	// Actor returns a user with its rights.
	Actor   func(ctx context.Context, userID string) (accounts.Actor, error)
	Secrets tools.Secrets // nil = teams have no secrets
	// Tasks and Artifacts return what a workspace has of them. Nil: nothing.
	Tasks     func(ctx context.Context, workspaceID string) ([]Task, error)
	Artifacts func(ctx context.Context, workspaceID string) ([]string, error)
	Events    events.Publisher // optional
	Now       func() time.Time
	Log       *slog.Logger
}

// Service takes, compares and restores checkpoints. Safe for concurrent use.
type Service struct {
	cfg   Config
	marks marks
}

// New returns a Service. It starts nothing and panics if a dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Snapshots == nil || cfg.Trees == nil || cfg.Restorer == nil || cfg.Workspaces == nil || cfg.Sessions == nil || cfg.Actor == nil {
		panic(errors.New("checkpoints: Store, Snapshots, Trees, Restorer, Workspaces, Sessions and Actor are required"))
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Service{cfg: cfg, marks: newMarks()}
}

// Request is a request for a checkpoint.
type Request struct {
	WorkspaceID string
	SessionID   string // the session whose agent asks; "" = a person does
	UserID      string
	Note        string
	NextStep    string
}

// Create takes a checkpoint of the files as they are now, and waits until it is stored.
func (s *Service) Create(ctx context.Context, r Request) (Checkpoint, error) {
	r.Note, r.NextStep = strings.TrimSpace(safetext.Lines(r.Note)), strings.TrimSpace(safetext.Lines(r.NextStep))
	for _, f := range [...]struct {
		name, text string
		most       int
	}{{"note", r.Note, MaxNote}, {"next_step", r.NextStep, MaxNext}} {
		if len([]rune(f.text)) > f.most {
			return Checkpoint{}, fault.New(fault.Invalid, "checkpoint_text_too_long", "The field %s of a checkpoint has at most %d characters.", f.name, f.most).With("field", f.name)
		}
	}
	w, err := s.cfg.Workspaces.Workspace(ctx, r.WorkspaceID)
	if err != nil {
		return Checkpoint{}, err
	}
	c := Checkpoint{TeamID: w.TeamID, SessionID: r.SessionID, Reason: Manual, Note: r.Note, NextStep: r.NextStep, CreatedBy: r.UserID}
	if err := s.mask(ctx, &c); err != nil { // before the note becomes the snapshot's title
		return Checkpoint{}, err
	}
	if c.SessionID == "" {
		if c.SessionID, err = s.latest(ctx, w.ID); err != nil {
			return Checkpoint{}, err
		}
	}
	sn, err := s.cfg.Snapshots.Take(ctx, w.ID, snapshot.Request{Kind: snapshot.SnapManual, Title: safetext.Line(c.Note), ActorID: r.UserID, SessionID: r.SessionID})
	if err == nil && sn.ID == "" {
		err = fault.New(fault.Conflict, "no_snapshot", "The workspace has no files now, and there is no snapshot of it.")
	}
	if err != nil {
		return Checkpoint{}, err
	}
	return s.store(context.WithoutCancel(ctx), w, sn, c)
}

// latest is the session a person most likely means: the newest of an agent.
func (s *Service) latest(ctx context.Context, workspaceID string) (string, error) {
	all, err := s.cfg.Sessions.List(ctx, workspaceID)
	if err != nil {
		return "", err
	}
	for _, row := range all {
		if converses(row) {
			return row.ID, nil
		}
	}
	return "", nil
}

// converses reports whether a session's program is an agent with a conversation.
func converses(row sessions.Session) bool {
	return row.Conversation != "" || row.Prompt != ""
}

// store completes a checkpoint of a snapshot and stores it.
func (s *Service) store(ctx context.Context, w workspaces.Workspace, sn snapshot.Snap, c Checkpoint) (Checkpoint, error) {
	failpoint.Reach(failpoint.CheckpointTaken)
	c.ID, c.TeamID, c.WorkspaceID, c.SnapshotID, c.At = id.New("ckp"), w.TeamID, w.ID, sn.ID, s.cfg.Now().UnixMilli()
	diff, err := s.cfg.Trees.Compare(ctx, w.ID, git.Tree{Tree: sn.BaseCommit}, sn.AsTree("", ""), git.CompareOptions{})
	if err != nil {
		return Checkpoint{}, err
	}
	c.Files = len(diff.Files)
	if c.SessionID != "" {
		row, err := s.cfg.Sessions.Get(ctx, c.SessionID)
		if err != nil {
			return Checkpoint{}, err
		}
		if row.WorkspaceID != w.ID {
			return Checkpoint{}, fault.New(fault.NotFound, "session_not_found", "The workspace has no such session.")
		}
		c.Agent = row.Agent
		if c.Messages, err = s.messages(ctx, row.ID); err != nil {
			return Checkpoint{}, err
		}
	}
	if s.cfg.Tasks != nil {
		if c.Tasks, err = s.cfg.Tasks(ctx, w.ID); err != nil {
			return Checkpoint{}, err
		}
		c.Tasks = c.Tasks[:min(len(c.Tasks), mostTasks)]
		for i := range c.Tasks {
			c.Tasks[i].Title = safetext.Cut(c.Tasks[i].Title, taskTitle)
		}
	}
	if s.cfg.Artifacts != nil {
		if c.Artifacts, err = s.cfg.Artifacts(ctx, w.ID); err != nil {
			return Checkpoint{}, err
		}
		c.Artifacts = c.Artifacts[:min(len(c.Artifacts), mostTasks)]
	}
	if err := s.mask(ctx, &c); err != nil {
		return Checkpoint{}, err
	}
	if err := s.cfg.Store.InsertCheckpoint(ctx, c, most); err != nil {
		return Checkpoint{}, err
	}
	s.changed(ctx, c)
	return c, nil
}

// messages reads the end of a session's conversation.
func (s *Service) messages(ctx context.Context, sessionID string) (Messages, error) {
	c, err := s.cfg.Sessions.Conversation(ctx, sessionID, conversation.Query{Limit: tailItems, Kinds: []conversation.Kind{conversation.Prompt, conversation.Text}})
	if err != nil {
		return Messages{}, err
	}
	out := Messages{Items: c.Total}
	for _, it := range c.Items {
		role := "agent"
		if it.Kind == conversation.Prompt {
			role = "user"
		}
		out.Last = it.ID
		out.Tail = append(out.Tail, Message{role, safetext.Cut(it.Text, tailText), it.At})
	}
	return out, nil
}

// mask masks the team's secrets in every text of a checkpoint.
func (s *Service) mask(ctx context.Context, c *Checkpoint) error {
	texts := []*string{&c.Note, &c.NextStep}
	for i := range c.Messages.Tail {
		texts = append(texts, &c.Messages.Tail[i].Text)
	}
	for i := range c.Tasks {
		texts = append(texts, &c.Tasks[i].Title)
	}
	return tools.Hide(ctx, s.cfg.Secrets, c.TeamID, texts...)
}

// changed publishes that a workspace's checkpoints are others.
func (s *Service) changed(ctx context.Context, c Checkpoint) {
	if s.cfg.Events != nil {
		s.cfg.Events.Publish(ctx, events.Event{Type: "checkpoints.updated", ID: c.WorkspaceID, WorkspaceID: c.WorkspaceID, TeamID: c.TeamID, Version: s.cfg.Now().UnixMilli()})
	}
}

// Get returns a checkpoint.
func (s *Service) Get(ctx context.Context, id string) (Checkpoint, error) {
	c, err := s.cfg.Store.Checkpoint(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return Checkpoint{}, fault.New(fault.NotFound, "checkpoint_not_found", "There is no such checkpoint.")
	}
	return c, err
}

// in returns a checkpoint of a workspace.
func (s *Service) in(ctx context.Context, workspaceID, id string) (Checkpoint, error) {
	c, err := s.Get(ctx, id)
	if err == nil && c.WorkspaceID != workspaceID {
		return Checkpoint{}, fault.New(fault.NotFound, "checkpoint_not_found", "There is no such checkpoint.")
	}
	return c, err
}

// List returns a page of a workspace's checkpoints, newest first.
func (s *Service) List(ctx context.Context, workspaceID string, pg page.Page) ([]Checkpoint, string, error) {
	return s.cfg.Store.Checkpoints(ctx, workspaceID, pg)
}

// Delete removes a checkpoint. Its snapshot stays in the timeline until it expires.
func (s *Service) Delete(ctx context.Context, c Checkpoint) error {
	if err := s.cfg.Store.DeleteCheckpoint(ctx, c.ID); err != nil {
		return err
	}
	s.changed(ctx, c)
	return nil
}
