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

// State is what became of a question.
type State string

// States of a question.
const (
	Open      State = "open"
	Answered  State = "answered"
	Withdrawn State = "withdrawn" // the agent went on, was interrupted or ended
)

// How a question became known.
const (
	AskedByHook   = "hook"
	AskedOnScreen = "screen"
	AskedByNotice = "notice"
)

// ViaTerminal says that a question was answered by typing into the session's terminal.
const ViaTerminal = "terminal"

// Question is what an agent asked. An answered one says who answered; AnsweredBy is empty where somebody at the terminal did.
type Question struct {
	ID, TeamID, WorkspaceID, SessionID string
	Key                                string // names it within its session
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
	// CloseQuestion writes how an open question ended; false when it was not open any more.
	CloseQuestion(ctx context.Context, q Question) (bool, error)
	// WithdrawQuestions closes every open question of a session.
	WithdrawQuestions(ctx context.Context, sessionID string, at int64) error
	Question(ctx context.Context, id string) (Question, error)
	// Questions returns a page of a session's questions, newest first, and the cursor of the next.
	Questions(ctx context.Context, sessionID string, pg page.Page) ([]Question, string, error)
	// OpenQuestions returns the open questions of a team, oldest first.
	OpenQuestions(ctx context.Context, teamID string) ([]Question, error)
	// Marks returns what a user did with some items, by item.
	Marks(ctx context.Context, userID, teamID string, itemIDs []string) (map[string]Mark, error)
	// PutMark stores a mark; one without any content is removed.
	PutMark(ctx context.Context, m Mark) error
}

// Bounds of what an agent asks.
const (
	maxAskTitle   = 300
	maxAskDetail  = 16 << 10
	maxAskOptions = 32
	maxAskLabel   = 200
	maxAskWords   = 1000 // of an option's description
	maxAsked      = 32   // open questions of one session
)

// pending is an open question of a live session. All but turn is guarded by the session's lock.
type pending struct {
	turn chan struct{} // holds one token: who has it may settle the question
	q    Question      // never changes once it is not open
	kept bool          // it is stored: from then on people see it
	by   handOver      // hands the answer to the agent; nil while the agent is not heard of
	free func()        // lets the agent go on when others than by have ended the question; nil: nothing waits

	held   *Question // what it will be once the answers to the questions that go with it are given; nil: not answered yet
	there  string    // what was answered in the terminal, as far as that is known
	shown  time.Time // when its dialog was last seen on the screen
	busy   busyWords // of the terminal by then, or when it was asked
	recall time.Time // when it was taken up after a restart: keys of before are not known
}

// handOver hands an answer to the agent. An error of kind Gone or NotFound says that the agent waits for no answer any more.
type handOver func(ctx context.Context, who accounts.Actor, a agents.Answer) error

// cleanAsk bounds what an agent asks and makes it safe to show.
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
