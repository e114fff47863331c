package question

import (
	"context"
	"slices"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions/agents"
)

// State is the state of a question.
type State string

// States of a question.
const (
	Open      State = "open"
	Answered  State = "answered"
	Withdrawn State = "withdrawn" // the agent continued, was interrupted or ended
)

// How a question became known.
const (
	AskedByHook   = "hook"
	AskedOnScreen = "screen"
	AskedByNotice = "notice"
	AskedByAgent  = "agent" // by an agent that works in the server
)

// ViaTerminal is the Via of a question that was answered by typing into the session's terminal.
const ViaTerminal = "terminal"

// Question is a question of an agent. AnsweredBy is empty where somebody at the terminal answered.
type Question struct {
	ID, TeamID, WorkspaceID, SessionID string
	Key                                string // identifies it within its session
	agents.Ask
	Source     string
	AskedAt    int64
	State      State
	AnsweredBy string
	AnsweredAt int64 // also when it was withdrawn
	Answer     string
	Via        string

	AnsweredByName string // not stored
}

// Store is what questions and inboxes need of the storage.
type Store interface {
	InsertQuestion(ctx context.Context, q Question) error
	// CloseQuestion stores how an open question ended; false when it was no longer open.
	CloseQuestion(ctx context.Context, q Question) (bool, error)
	// WithdrawQuestions closes every open question of a session.
	WithdrawQuestions(ctx context.Context, sessionID string, at int64) error
	Question(ctx context.Context, id string) (Question, error)
	// AnsweredQuestion returns the newest answered question of a session with a key; fault.NotFound when there is none.
	AnsweredQuestion(ctx context.Context, sessionID, key string) (Question, error)
	// Questions returns a page of a session's questions, newest first, and the cursor of the next.
	Questions(ctx context.Context, sessionID string, pg page.Page) ([]Question, string, error)
	// OpenQuestions returns the open questions of a team, oldest first.
	OpenQuestions(ctx context.Context, teamID string) ([]Question, error)
	// Marks returns a user's marks of some items, by item.
	Marks(ctx context.Context, userID, teamID string, itemIDs []string) (map[string]Mark, error)
	// PutMark stores a mark; it removes one without content.
	PutMark(ctx context.Context, m Mark) error
}

// Bounds of a question.
const (
	maxAskTitle   = 300
	maxAskDetail  = 16 << 10
	maxAskOptions = 32
	maxAskLabel   = 200
	maxAskWords   = 1000 // of an option's description
	maxAsked      = 32   // open questions of one session
)

// pending is an open question of a live session. The session's lock guards all but turn.
type pending struct {
	turn chan struct{} // holds one token: its owner may settle the question
	q    Question      // never changes once it is not open
	kept bool          // it is stored: from then on people see it
	by   handOver      // delivers the answer to the agent; nil while the agent's hook is not connected
	free func()        // lets the agent continue when something other than by ended the question; nil: nothing waits

	settled func() // called once an answer is stored; nil: nobody waits for that

	held   *Question // what it becomes once the questions that belong to it are answered; nil: not answered yet
	there  string    // the answer given in the terminal, as far as known
	shown  time.Time // when its dialog was last seen on the screen
	busy   busyWords // of the terminal by then, or when it was asked
	recall time.Time // when it was restored after a restart: earlier keys are unknown
}

// handOver delivers an answer to the agent. An error of kind Gone or NotFound means that the agent no longer waits for an answer.
type handOver func(ctx context.Context, who accounts.Actor, a agents.Answer) error

// cleanAsk bounds a question and makes it safe to show.
func cleanAsk(a agents.Ask) agents.Ask {
	a.Title = safetext.Cut(safetext.OneLine(a.Title), maxAskTitle)
	a.Detail = safetext.Cut(safetext.Lines(a.Detail), maxAskDetail)
	a.Options = slices.Clone(a.Options[:min(len(a.Options), maxAskOptions)])
	for i := range a.Options {
		o := &a.Options[i]
		o.Label, o.Description = safetext.Cut(safetext.OneLine(o.Label), maxAskLabel), safetext.Cut(safetext.Lines(o.Description), maxAskWords)
	}
	return a
}
