package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
)

// Files keeps states of workspaces' files, and undoes what was changed between them.
type Files interface {
	// Snapshot returns the ID of a snapshot of the files as they are.
	Snapshot(ctx context.Context, workspaceID string) (string, error)
	// Plan returns what to write so that what changed in spans, oldest first, is undone and other changes stay, with the paths. Error:
	// undo_conflict, when other changes contradict it.
	Plan(ctx context.Context, workspaceID string, spans []Span) (plan json.RawMessage, paths []string, err error)
	// Write writes a plan, all of it or nothing, and returns the snapshot from before. What is written already, stays. Error: agent_working,
	// while an agent of another session works, unless force is set.
	Write(ctx context.Context, userID, workspaceID, sessionID string, plan json.RawMessage, force bool) (snapshotID string, err error)
}

// Siblings makes workspaces that begin where another one was.
type Siblings interface {
	// Make makes a workspace with the files of another as they were, on a branch of its own, and returns when it is ready. With "" it makes a
	// name. Error: files_unknown, when no snapshot of them is kept.
	Make(ctx context.Context, actor accounts.Actor, workspaceID string, at FilesAt, name string) (id string, err error)
	// Remove removes a workspace that was made, in which nothing began.
	Remove(ctx context.Context, actor accounts.Actor, workspaceID string)
}

// FilesAt is a state of a workspace's files: that of a snapshot, or the newest one that is known from before a time; the zero FilesAt is how
// they are now.
type FilesAt struct {
	Snapshot string
	Before   int64 // ms UTC
}

// Span is what happened between two snapshots.
type Span struct{ Before, After string }

// UndoRequest says what to undo: a turn, and what came after it in the thread.
type UndoRequest struct {
	TurnID    string // "" = that of MessageID
	MessageID string // "", with TurnID "", = the newest prompt
	Files     bool   // also what it changed in files
	DryRun    bool   // only say what would be undone
	Force     bool   // even if another agent works in the workspace
	UserID    string
}

// UndoResult is what was undone.
type UndoResult struct {
	MessageID string // the first message that was
	Prompt    string // its text
	Messages  int
	Paths     []string // files that were changed
	Snapshot  string   // of all files before
}

// undoing is an undo of files that is stored before it is made.
type undoing struct {
	Owner     string          `json:"owner"`
	At        int64           `json:"at"`
	UserID    string          `json:"user_id"`
	MessageID string          `json:"message_id"`
	Plan      json.RawMessage `json:"plan"`
	Force     bool            `json:"force,omitempty"`
}

// Undo undoes a turn and what came after it: the model is no longer sent it, and with Files what it changed in files is undone, too, while
// later changes of others stay. Errors: turn_running, undo_running, nothing_to_undo, message_not_found, message_undone, files_unknown,
// undo_conflict, file_busy, agent_working.
func (s *Service) Undo(ctx context.Context, threadID string, r UndoRequest) (UndoResult, error) {
	v, err := s.cfg.Store.View(ctx, threadID, Window{})
	if err != nil {
		return UndoResult{}, err
	}
	at, err := v.undoFrom(r)
	if err != nil {
		return UndoResult{}, err
	}
	out := UndoResult{MessageID: v.Messages[at].ID, Prompt: textOf(v.Messages[at].Parts)}
	for _, m := range v.Messages[at:] {
		if m.State == Complete {
			out.Messages++
		}
	}
	if v.Turn != nil && v.Turn.State == TurnRunning && !r.DryRun { // Apply refuses it, too: this saves the plan
		return UndoResult{}, fault.New(fault.Conflict, "turn_running", "The agent is working. Wait until its turn has ended, or interrupt it.")
	}
	u := undoing{Owner: s.cfg.Owner, At: s.now(), UserID: r.UserID, MessageID: out.MessageID, Force: r.Force}
	if r.Files {
		if u.Plan, out.Paths, err = s.planOf(ctx, v, at); err != nil {
			return UndoResult{}, err
		}
	}
	if r.DryRun {
		return out, nil
	}
	if len(out.Paths) == 0 {
		_, err = s.cfg.Store.Apply(ctx, threadID, Change{At: u.At, NoTurn: true, Undo: u.MessageID, UndoFiles: r.Files, Thread: &ThreadChange{State: Idle}})
	} else {
		out.Snapshot, err = s.undoFiles(ctx, v.Thread, u)
	}
	if err != nil {
		return UndoResult{}, err
	}
	s.recordUndone(ctx, v, at)
	s.changed(ctx, v.Thread)
	return out, nil
}

// undoFrom returns where the turn to undo begins.
func (v View) undoFrom(r UndoRequest) (int, error) {
	turn := r.TurnID
	if turn == "" {
		for _, m := range slices.Backward(v.Messages) {
			if m.Role == User && (m.ID == r.MessageID || r.MessageID == "" && m.State == Complete) {
				turn = m.TurnID
				break
			}
		}
		if turn == "" && r.MessageID != "" {
			return 0, fault.New(fault.NotFound, "message_not_found", "The conversation has no such prompt.")
		}
	}
	gone := false
	for i, m := range v.Messages {
		if m.Role == User && m.TurnID == turn {
			if m.State == Complete {
				return i, nil
			}
			gone = true
		}
	}
	if gone {
		return 0, fault.New(fault.Conflict, "message_undone", "The message is no longer part of the conversation.")
	}
	return 0, fault.New(fault.Conflict, "nothing_to_undo", "The conversation has no such turn of a prompt to undo.")
}

// planOf plans to undo what turns changed in files, from a message on.
func (s *Service) planOf(ctx context.Context, v View, at int) (json.RawMessage, []string, error) {
	turns, err := s.cfg.Store.TurnsFrom(ctx, v.Thread.ID, v.Messages[at].Seq)
	if err != nil {
		return nil, nil, err
	}
	var spans []Span
	for _, t := range turns {
		switch {
		case t.FilesBefore == "":
		case t.FilesBefore == NoSnapshot || t.FilesAfter == NoSnapshot || t.FilesAfter == "":
			return nil, nil, fault.New(fault.Conflict, "files_unknown", "No snapshot could be taken before or after the turn, so what it changed is not known. Undo it without files, and restore files in the timeline.")
		default:
			spans = append(spans, Span{t.FilesBefore, t.FilesAfter})
		}
	}
	if len(spans) == 0 {
		return nil, nil, nil
	}
	if s.cfg.Files == nil {
		return nil, nil, fault.New(fault.Conflict, "files_unknown", "This server keeps no snapshots of files. Undo the turn without files.")
	}
	return s.cfg.Files.Plan(ctx, v.Thread.WorkspaceID, spans)
}

// undoFiles stores the undo, writes the files, and then undoes the messages. A server that is killed between goes on with it in Recover.
func (s *Service) undoFiles(ctx context.Context, t Thread, u undoing) (snapshotID string, err error) {
	intent, err := json.Marshal(u)
	if err != nil {
		return "", err
	}
	text := string(intent)
	if _, err := s.cfg.Store.Apply(ctx, t.ID, Change{At: u.At, NoTurn: true, Undoing: &text}); err != nil {
		return "", err
	}
	return s.writeUndo(context.WithoutCancel(ctx), t, u)
}

// writeUndo does what is left of a stored undo: it is made, or is stored no more.
func (s *Service) writeUndo(ctx context.Context, t Thread, u undoing) (snapshotID string, err error) {
	var none string
	c := Change{NoTurn: true, Undoing: &none}
	if snapshotID, err = s.cfg.Files.Write(ctx, u.UserID, t.WorkspaceID, t.SessionID, u.Plan, u.Force); err == nil {
		failpoint.Reach(failpoint.TurnUndone)
		c.Undo, c.UndoFiles, c.Thread = u.MessageID, true, &ThreadChange{State: Idle}
	}
	c.At = s.now()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		_, stored := s.cfg.Store.Apply(ctx, t.ID, c)
		if stored == nil || fault.Is(stored, fault.NotFound) {
			return snapshotID, err
		}
		s.cfg.Log.Warn("the end of an undo could not be stored", "thread_id", t.ID, "error", stored)
		if !tasks.Sleep(s.life, wait) {
			return snapshotID, stored // the next server goes on with it
		}
	}
}

// recoverUndos goes on with the undos that an earlier server left.
func (s *Service) recoverUndos(ctx context.Context) error {
	threads, undos, err := s.cfg.Store.Undoing(tenant.All(ctx, "undos of all teams go on"))
	if err != nil {
		return err
	}
	for i, t := range threads {
		var u undoing
		if err := json.Unmarshal([]byte(undos[i]), &u); err != nil {
			return fmt.Errorf("agent: the undo of thread %s: %w", t.ID, err)
		}
		if u.Owner != s.cfg.Owner && s.now()-u.At < startsIn.Milliseconds() {
			continue // another server is at it
		}
		s.work.Go(func() {
			ctx := tenant.In(s.life, t.TeamID)
			if _, err := s.writeUndo(ctx, t, u); err != nil {
				s.cfg.Log.Warn("an undo that an earlier server left was not made", "thread_id", t.ID, "error", err)
			}
			s.changed(ctx, t)
		})
	}
	return nil
}

// snapshotIn bounds the time for which a turn waits for a snapshot.
const snapshotIn = 20 * time.Second

// snapshot takes a snapshot of the workspace's files, for an undo. A failure stops nothing: the turn cannot be undone with its files then.
func (r *running) snapshot(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, snapshotIn)
	defer cancel()
	id, err := r.svc.cfg.Files.Snapshot(ctx, r.thread.WorkspaceID)
	if err != nil || id == "" {
		r.svc.cfg.Log.Warn("no snapshot could be taken for a turn", "thread_id", r.thread.ID, "error", err)
		return NoSnapshot
	}
	return id
}

// beforeChange notes the files as they are before the first call of the turn that may change them. It returns the turn when that is new.
func (r *running) beforeChange(ctx context.Context, c *Call) *Turn {
	if r.svc.cfg.Files == nil || r.turn.FilesBefore != "" || !r.specs[c.Tool].Needs.Writes {
		return nil
	}
	r.turn.FilesBefore = r.snapshot(ctx)
	turn := *r.turn
	return &turn
}

// afterChanges notes the files as they are at the turn's end.
func (r *running) afterChanges(ctx context.Context) {
	if r.turn.FilesBefore != "" && r.turn.FilesBefore != NoSnapshot {
		r.turn.FilesAfter = r.snapshot(ctx)
	}
}
