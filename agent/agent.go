// Package agent is Parawork's own agent: it needs a model and a key, and no program in the sandbox. A thread is its conversation. A prompt
// starts a turn, and a turn is a sequence of steps: the model is asked by a provider (agent/providers), and the tools that it calls act
// in the workspace's sandbox (tools). The turn runs in the server, in one goroutine; everything that it does is stored before and after
// it is done, so that a turn goes on where it was when the server is killed.
//
// A session of this agent is a process in the sandbox like that of any other agent: `parawork-guest agent`, a line of text to type in and
// the conversation above it (Serve). Sessions start, stop, resume and move it, and know its state from here.
//
// Goroutines: one per turn under way, in the group for which Run waits; those of Serve end with its connection. Locks: Service.mu and
// running.mu, both leaves, held briefly and never during I/O.
package agent

import (
	"encoding/json"

	"github.com/parawork/parawork/agent/providers"
)

// Name is the agent's name in sessions, config.json and the API.
const Name = "parawork"

// Thread is a conversation. A session has one; a session that is resumed continues it.
type Thread struct {
	ID           string
	TeamID       string
	ProjectID    string
	WorkspaceID  string
	SessionID    string // the session it belongs to now
	Conversation string // sessions' ID of it: unique in a workspace
	ParentID     string // the thread it was forked from
	CreatedBy    string
	Model        string
	Mode         Mode
	State        ThreadState
	Reason       string // why it is in this state, as text
	Code         string // stable code of what failed
	Version      int64  // grows with every change of the thread, its messages, calls and turns
	CreatedAt    int64  // ms UTC
	UpdatedAt    int64
}

// ThreadState is what a thread does.
type ThreadState string

// The states of a thread.
const (
	Idle    ThreadState = "idle"
	Working ThreadState = "working"
	Waiting ThreadState = "waiting" // for an answer to a question
	Failed  ThreadState = "failed"  // its last turn failed: a prompt tries again
)

// Mode limits what the agent may do.
type Mode string

// The modes.
const (
	Build  Mode = "build"  // everything
	Plan   Mode = "plan"   // looks and plans; changes tasks only
	Ask    Mode = "ask"    // answers questions; changes nothing
	Review Mode = "review" // looks for faults; runs checks, changes no files
)

// Modes lists the modes.
var Modes = []Mode{Build, Plan, Ask, Review}

// Role says who a message is from.
type Role string

// The roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	Summary   Role = "summary" // replaces all messages before it in what the model is sent
	Clear     Role = "clear"   // the model is sent nothing before it
	Note      Role = "note"    // written by Parawork: what changed of what the agent read at the beginning
)

// MessageState is how far a message has come.
type MessageState string

// The states of a message.
const (
	Streaming MessageState = "streaming"
	Complete  MessageState = "complete"
	Discarded MessageState = "discarded" // an attempt that was cut: people can read it, the model is not sent it
	Undone    MessageState = "undone"    // taken back by a person
)

// Message is one message of a thread.
type Message struct {
	ID        string
	ThreadID  string
	TurnID    string
	Seq       int64 // position in the thread
	Role      Role
	State     MessageState
	UserID    string // who wrote it, with User
	Parts     []providers.Part
	Model     string
	Stop      providers.Stop
	Usage     providers.Usage
	Note      string // why it was discarded, as text
	Version   int64
	CreatedAt int64
	DoneAt    int64
}

// TurnState is how far a turn has come.
type TurnState string

// The states of a turn.
const (
	TurnRunning     TurnState = "running"
	TurnCompleted   TurnState = "completed"
	TurnInterrupted TurnState = "interrupted"
	TurnFailed      TurnState = "failed"
)

// Turn is what a prompt started.
type Turn struct {
	ID          string
	ThreadID    string
	TeamID      string
	State       TurnState
	Reason      string
	Code        string
	Steps       int64 // requests to the model that were answered
	Compactions int64
	FilesBefore string // snapshot of the files from before its first change; "" = it made none, NoSnapshot = there is none
	FilesAfter  string // snapshot from its end
	Owner       string // the server that runs it
	LeaseUntil  int64  // ms UTC
	Version     int64
	StartedAt   int64
	EndedAt     int64
}

// NoSnapshot stands for a snapshot that could not be taken.
const NoSnapshot = "?"

// CallState is how far a tool call has come.
type CallState string

// The states of a call.
const (
	CallPending CallState = "pending" // not begun
	CallAsked   CallState = "asked"   // a person is asked for permission
	CallRunning CallState = "running"
	CallDone    CallState = "done"
	CallFailed  CallState = "failed"  // the work failed, or the call was rejected
	CallDenied  CallState = "denied"  // by a person, or by the mode
	CallUnknown CallState = "unknown" // begun by a server that ended: nobody knows whether it was done
	CallSkipped CallState = "skipped" // not begun, because the turn was interrupted
)

// Ended reports whether the call has its result.
func (s CallState) Ended() bool { return s != CallPending && s != CallAsked && s != CallRunning }

// Call is a tool call of a message.
type Call struct {
	ID        string
	ThreadID  string
	TurnID    string
	MessageID string
	Ordinal   int64  // position in the message
	CallID    string // the model's ID of it
	Tool      string
	Args      json.RawMessage
	State     CallState
	Content   []providers.Part // the result, as the model is sent it
	Cut       bool             // something was left out of it
	Details   Details          // for people
	Version   int64
	StartedAt int64
	EndedAt   int64
}

// View is a thread with what changed in it since a version.
type View struct {
	Thread   Thread
	Messages []Message // in order
	Calls    []Call    // in order of their messages
	Turn     *Turn     // the newest one, changed or not
	More     bool      // there are older messages that the window's limit left out
}
