package agent

import (
	"context"

	"github.com/parawork/parawork/agent/media"
)

// Store stores threads. A missing row is fault.NotFound.
type Store interface {
	// CreateThread stores a new thread; fault.Conflict when its workspace has one with the same Conversation.
	CreateThread(ctx context.Context, t Thread) error
	// Thread returns a thread, ThreadOf that of a workspace with this Conversation.
	Thread(ctx context.Context, id string) (Thread, error)
	ThreadOf(ctx context.Context, workspaceID, conversation string) (Thread, error)
	// View returns a thread with a part of its rows, as of one moment.
	View(ctx context.Context, id string, w Window) (View, error)
	// Apply stores a change in one transaction and returns the thread's new version, which all changed rows have.
	Apply(ctx context.Context, threadID string, c Change) (version int64, err error)
	// Running returns the turns that have not ended.
	Running(ctx context.Context) ([]Turn, error)
	Edits
	// Claim makes owner the owner of a running turn until a time, unless another owner's lease has not run out at now. It returns false
	// for a turn that has ended.
	Claim(ctx context.Context, turnID, owner string, now, until int64) (bool, error)
	// Store has the contents that parts refer to.
	media.Store
}

// Window is a part of a thread's rows; the zero Window is all of them.
type Window struct {
	// Live is what the model is sent: from the newest summary or clear marker on, with the prompts of the turn that made the summary.
	// It goes with no other field.
	Live   bool
	Since  int64 // rows that changed after this version
	Before int64 // messages before this position, with their calls; 0 = until the end
	Limit  int   // so many messages at most, the newest, with their calls; 0 = any number
}

// Change is what Apply stores: rows are inserted, or replaced when they exist. A message without a Seq gets the next one.
type Change struct {
	At       int64 // ms UTC
	Thread   *ThreadChange
	Messages []*Message
	Calls    []*Call
	Turn     *Turn
	Media    []media.Content // what parts of the messages and calls refer to

	// The rest refuses the change where the thread is not as its author believes.
	NoTurn bool   // while a turn runs: fault.Conflict, turn_running
	TurnID string // unless this turn runs: fault.Conflict, turn_lost
	Owner  string // with TurnID: unless this server owns it; "" = whoever does
	// LastSeq: when there is a later message than this one: fault.Conflict, thread_moved. 0 = any.
	LastSeq int64
	// MostPrompts, with TurnID: when the turn has so many messages of users after its last answer: fault.RateLimited, too_many_prompts.
	// 0 = any number.
	MostPrompts int
	// Fresh refuses messages that exist: fault.Conflict, message_exists.
	Fresh bool

	// Undo names a message that becomes undone, with all complete ones after it that are stored already. fault.NotFound, message_not_found:
	// the thread does not have it. fault.Conflict, message_undone: it is not complete.
	Undo string
	// UndoFiles forgets, with Undo, which files the turns of these messages changed.
	UndoFiles bool
	// Undoing is, as JSON, an undo of files that is to be made; pointing to "" = it was. While there is one, a change with NoTurn is refused:
	// fault.Conflict, undo_running.
	Undoing *string
}

// Edits stores how people change threads.
type Edits interface {
	// DropFork removes a fork whose session was never stored; with "" all that were made before a time.
	DropFork(ctx context.Context, threadID string, before int64) error
	// TurnsFrom returns the turns of a thread's messages from a position on, oldest first.
	TurnsFrom(ctx context.Context, threadID string, seq int64) ([]Turn, error)
	// Undoing returns the undos of files that are being made, by thread, with the team of each.
	Undoing(ctx context.Context) ([]Thread, []string, error)
}

// ThreadChange holds what changes in a thread.
type ThreadChange struct {
	State     ThreadState // "" = stays, with Reason and Code
	Reason    string
	Code      string
	Model     string // "" = stays
	Mode      Mode   // "" = stays
	SessionID string // "" = stays
}
