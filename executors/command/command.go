package command

import (
	"context"
)

// State is the state of a command, as in the API.
type State string

// States of a command. Completed means it exited on its own, also with a non-zero exit code; Failed that it could not start or was ended by
// a foreign signal.
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

// Request describes a command. Exactly one of Argv and Command is set.
type Request struct {
	TeamID      string // whose workspace it must be; "" = the caller has checked that
	WorkspaceID string
	ActorID     string
	Argv        []string          // the program and its arguments, passed on unchanged
	Command     string            // a line for /bin/sh -c
	Cwd         string            // inside the root: relative to it, or absolute; "" = the root
	Env         map[string]string // added to the sandbox's own
	TimeoutMs   int64             // 0 = Config.Timeout
	Sudo        bool              // as root, by the sandbox's own sudo; only in places that isolate
	Background  bool              // return at once; the command goes on
	Stdin       []byte            // what it reads; at most MaxStdin bytes
}

// MaxStdin is how much input a command may be given.
const MaxStdin = 1 << 20

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
	Reason      string // why it failed, for people
	Background  bool
	ExitCode    *int
	Stdout      []byte // the first and the last OutputKeep bytes
	Stderr      []byte
	Truncated   bool // the middle of Stdout or Stderr is missing
	OwnSecrets  bool // it received secrets that belong to its starter
	CreatedAt   int64
	StartedAt   int64
	EndedAt     int64
}

// DurationMs returns how long the command has run so far, or ran in all; now is ms UTC.
func (c Command) DurationMs(now int64) int64 {
	switch {
	case c.StartedAt == 0:
		return 0
	case c.EndedAt == 0:
		return max(now-c.StartedAt, 0)
	}
	return max(c.EndedAt-c.StartedAt, 0)
}

// Types of an Event.
const (
	EventQueued  = "queued"  // Command is set: its executor is unreachable, and it waits
	EventStarted = "started" // Command is set: its id is known
	EventStdout  = "stdout"  // Data and Offset are set
	EventStderr  = "stderr"
	EventEnded   = "ended" // Command is set and final
)

// Event is one thing that happened to a streamed command.
type Event struct {
	Type    string
	Data    []byte // valid until the callback returns
	Offset  int64  // absolute offset of Data in its stream; after a jump, bytes in between were dropped
	Command *Command
}

// Store is the storage Commands needs.
type Store interface {
	InsertCommand(ctx context.Context, c Command) error
	// UpdateCommand writes everything that changes in a command's life. It does not change an ended command.
	UpdateCommand(ctx context.Context, c Command) error
	// Command returns the record; fault.NotFound when there is none.
	Command(ctx context.Context, id string) (Command, error)
	// OpenCommands returns every command that has not ended, without outputs.
	OpenCommands(ctx context.Context) ([]Command, error)
	// DropCommands removes commands that ended before the given time (ms UTC) and returns how many.
	DropCommands(ctx context.Context, before int64) (int64, error)
}
