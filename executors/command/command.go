package command

import (
	"context"
)

// State is the state of a command, as in the API.
type State string

// States of a command. Completed means it ended by itself, also with a non-zero exit code; Failed that it could not start
// or was ended by somebody else's signal.
const (
	Pending   State = "pending"
	Executing State = "executing"
	Completed State = "completed"
	Failed    State = "failed"
	Cancelled State = "cancelled"
	TimedOut  State = "timed_out"
)

// Ended reports whether s is final.
func (s State) Ended() bool { return s != Pending && s != Executing }

// Request asks for a command. Exactly one of Argv and Command is set.
type Request struct {
	TeamID      string // whose workspace it must be; "" = who asks has seen to it
	WorkspaceID string
	ActorID     string
	Argv        []string          // the program and its arguments, passed on as they are
	Command     string            // a line for /bin/sh -c
	Cwd         string            // inside the root: relative to it, or absolute; "" = the root
	Env         map[string]string // on top of the sandbox's own
	TimeoutMs   int64             // 0 = DefaultTimeout
	Background  bool              // answer at once; the command goes on
}

// Command is the record of a command. Times are ms UTC, 0 = not yet.
type Command struct {
	ID          string
	TeamID      string
	WorkspaceID string
	SandboxID   string
	ActorID     string
	Argv        []string
	Cwd         string
	State       State
	Reason      string // why it failed, in words
	Background  bool
	ExitCode    *int
	Stdout      []byte // the first and the last OutputKeep bytes
	Stderr      []byte
	Truncated   bool // the middle of Stdout or Stderr is missing
	OwnSecrets  bool // it was given secrets that are its starter's own
	CreatedAt   int64
	StartedAt   int64
	EndedAt     int64
}

// DurationMs is how long the command ran, so far or in all; now is ms UTC.
func (c Command) DurationMs(now int64) int64 {
	switch {
	case c.StartedAt == 0:
		return 0
	case c.EndedAt == 0:
		return max(now-c.StartedAt, 0)
	}
	return max(c.EndedAt-c.StartedAt, 0)
}

// Kinds of an ExecEvent.
const (
	EventQueued  = "queued"  // Command is set: its place is away, and it waits for it
	EventStarted = "started" // Command is set: its id is known
	EventStdout  = "stdout"  // Data and Offset are set
	EventStderr  = "stderr"
	EventEnded   = "ended" // Command is set and final
)

// Event is one thing that happened to a streamed command.
type Event struct {
	Type    string
	Data    []byte // valid until the callback returns
	Offset  int64  // absolute offset of Data in its stream; a jump means that bytes in between were dropped
	Command *Command
}

// Store is what Commands needs of the storage.
type Store interface {
	InsertCommand(ctx context.Context, c Command) error
	// UpdateCommand writes everything that changes in a command's life. An ended command stays as it ended.
	UpdateCommand(ctx context.Context, c Command) error
	// Command returns the record; fault.NotFound when there is none.
	Command(ctx context.Context, id string) (Command, error)
	// OpenCommands returns every command that has not ended, without outputs.
	OpenCommands(ctx context.Context) ([]Command, error)
	// DropCommands removes commands that ended before the given time (ms UTC) and says how many.
	DropCommands(ctx context.Context, before int64) (int64, error)
}
