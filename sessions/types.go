// Package sessions knows the life of a session: one run of an agent or a shell in a workspace under a PTY; its viewers, seats, size and state,
// how it starts, ends and is taken up after a restart. Bytes come from the guest by absolute offset and are the host's own once appended.
//
// What can stand alone is a part with a package of its own: masks (secrets), history (what was printed), transcript (what the agent writes
// down), question and prompt. Callers reach them by the fields of a Service. Each part has an object a session, which
// the type live owns, and knows its session through one small interface; none knows another.
//
// A live session and its viewers stay one type. A state frame shows the row, the verdict on the state, who is at the terminal, who types,
// who holds the keyboard and who sizes it, as they are at one moment, and a key changes several of them: a second lock would be on the path
// of each key, and events between two halves would show what never was together. So one mutex guards them, in groups.
//
// Goroutines: the package runs one that stores what changed (Run), one a running session that carries its output (pump), and short ones, all
// in one group that Run waits for.
//
// Locks, outermost first; whoever holds one takes only those further down:
//
//	stranding.turn        a session that cannot be taken up
//	a question's turn     who may settle it (question)
//	search.claiming       a conversation is claimed
//	the turn to type      who writes to the program (prompt)
//	live.out.mu           the stream between guest and log
//	live.mu               the session: row, machine, seats, size, keyboard; its questions and its queue, too
//	Service.mu            which sessions are in memory, and their references
//	strandings.mu and the locks of the parts
//
// The guest and the storage are waited for under turns and claiming alone.
package sessions

import (
	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/sessions/state"
)

// Session is the stored record of a session.
type Session struct {
	ID, TeamID, WorkspaceID string
	SandboxID               string
	Agent                   string
	Argv                    []string // without secrets
	Prompt                  string
	PromptSentAt            int64
	Conversation            string
	AccountID               string // the agent's account, "" = none was chosen
	Permissions             string // agents.AskPermissions or agents.AllPermissions; "" = before it was kept
	State                   state.State
	StateReason             string
	StateAt                 int64
	Basis                   state.Basis // what State rests on
	Title                   string
	Cols, Rows              uint16
	ExitCode                *int
	ExitSignal              string
	Bytes                   int64
	CreatedBy               string
	StartedAt, EndedAt      int64

	AgentName string             // for people; not stored
	Question  *question.Question // what it asks now, the oldest of several; not stored here
	CanResume bool               // Resume would go on with it or start it again; not stored
	Watchers  []Watcher          // who is at its terminal now; not stored
}

// Watcher is a person at a terminal, with however many screens.
type Watcher struct {
	UserID, Name string
	Writer       bool // may type
	Guest        bool // watches by a link: UserID is the link's
	Screens      int
	Holds        bool // holds the keyboard
}

// Summary is the sessions of one workspace in a line. State is that of the session that matters most, "" without any.
// Attention is as that function says; At is since when.
type Summary struct {
	Sessions, Running int
	State             state.State
	Attention         string
	Reason            string // in words
	SessionID         string // the session State and Attention speak of
	At                int64  // ms UTC
	Watchers          []Watcher
}

// AgentInfo tells one person about one agent: whether it can be started here and with which account.
type AgentInfo struct {
	agents.Info
	Account      *accounts.AgentAccount  // the default; nil: none chosen yet
	Usable       []accounts.AgentAccount // all it may be started with: the person's own, then the team's
	InImages     bool                    // it is not on this machine, but a place with programs of its own may have it
	Gateway      bool                    // accounts that are keys go through the model gateway
	NeedsAccount bool                    // the agent talks to a model and no account was chosen
}

// StartRequest asks for a session.
type StartRequest struct {
	Agent      string
	Prompt     string
	Argv       []string // for agent "command": the command; for others extra arguments
	Cols, Rows uint16   // 0 = 120x32
	Env        map[string]string
	AccountID  string // "" = the default

	// Permissions is agents.AskPermissions or agents.AllPermissions; "" = as config.json says. All of them where nothing keeps the agent in
	// are refused unless somebody has confirmed that.
	Permissions       string
	ConfirmNoBoundary bool
}
