// Package sessions manages the life of a session: one run of an agent or a shell in a workspace under a PTY; its viewers, seats,
// size and state, and how it starts, ends and is reconnected after a restart. Bytes come from the guest by absolute offset and
// belong to the server once appended.
//
// Each independent part has its own package: masks (secrets), history (output), transcript (the agent's record), question and
// prompt. Callers reach them through the fields of a Service. Each part has an object per session, which the type live owns, and
// sees its session through one small interface; no part depends on another.
//
// A live session and its viewers stay one type. A state frame shows the row, the evaluated state, who is at the terminal, who
// types, who holds the keyboard and who sizes it, as they are at one moment, and a key changes several of them. A second lock
// would be on the path of each key, and events between two halves would show combinations that never existed. So one mutex guards
// them, in groups.
//
// Goroutines: the package runs one that stores changes (Run), one per running session that copies its output (pump), and
// short-lived ones, all in one group for which Run waits.
//
// Locks, outermost first; a holder of one takes only those further down:
//
// \tstranding.turn a session that cannot be reconnected
// \ta question's turn who may settle it (question)
// \tsearch.claiming a conversation is claimed
// \tthe turn to type who writes to the program (prompt)
// \tlive.out.mu the stream between guest and log
// \tlive.mu the session: row, machine, seats, size, keyboard; its questions and its queue, too
// \tService.mu which sessions are in memory, and their references
// \tstrandings.mu and the locks of the parts
//
// Only turns and claiming are held while waiting for the guest or the storage.
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
	Permissions             string // agents.AskPermissions or agents.AllPermissions; "" = of a session older than this field
	State                   state.State
	StateReason             string
	StateAt                 int64
	Basis                   state.Basis // the evidence for State
	Title                   string
	Cols, Rows              uint16
	ExitCode                *int
	ExitSignal              string
	Bytes                   int64
	CreatedBy               string
	StartedAt, EndedAt      int64

	AgentName string             // display name; not stored
	Question  *question.Question // its current question, the oldest of several; not stored here
	CanResume bool               // Resume can continue it or start it again; not stored
	Watchers  []Watcher          // the people at its terminal; not stored
}

// Watcher is a person at a terminal, on any number of screens.
type Watcher struct {
	UserID, Name string
	Writer       bool // may type
	Guest        bool // watches by a link: UserID is the link's
	Screens      int
	Holds        bool // holds the keyboard
}

// Summary sums up the sessions of one workspace. State is that of the session that matters most, "" when there are none.
// Attention is as returned by the function Attention; At is since when.
type Summary struct {
	Sessions, Running        int
	State                    state.State
	Attention                string
	Agent, AgentName, Reason string // of the session SessionID; Reason as text
	SessionID                string // the session that State and Attention refer to
	At, Until                int64  // ms UTC; Until is when the limit ends, with the attention limited: 0 = unknown
	Watchers                 []Watcher
}

// AgentInfo describes an agent to a person: whether it can be started on this server and with which account.
type AgentInfo struct {
	agents.Info
	Account      *accounts.AgentAccount  // the default; nil: none chosen yet
	Usable       []accounts.AgentAccount // all accounts it may be started with: the person's own, then the team's
	InImages     bool                    // it is not on this server, but a sandbox with its own programs may have it
	Gateway      bool                    // key accounts go through the model gateway
	NeedsAccount bool                    // the agent talks to a model and no account was chosen
}

// StartRequest requests a session.
type StartRequest struct {
	ID         string // of the new session, chosen by a caller that stored it first and must know later whether it was started; "" = a new one
	Agent      string
	Prompt     string
	Argv       []string // for agent "command": the command; for others extra arguments
	Cols, Rows uint16   // 0 = 120x32
	Env        map[string]string
	AccountID  string // "" = the default

	// Permissions is agents.AskPermissions or agents.AllPermissions; "" = the default of config.json. AllPermissions where
	// nothing isolates the agent requires a confirmation.
	Permissions       string
	ConfirmNoBoundary bool
	light             bool   // who starts it has light terminals
	copied            string // the agent's ID of a conversation that was copied for the session; "" = it begins one
}
