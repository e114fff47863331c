// Package sessions knows the life of a session: one run of an agent or a shell in a workspace under a PTY; its byte log,
// viewers, seats, size and state. Bytes come from the guest by absolute offset and are the host's own once appended.
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
