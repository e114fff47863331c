package machines

import (
	"context"

	"github.com/parawork/parawork/internal/page"
)

// Page asks for a part of a list.
type Page = page.Page

// Store is what the room keeps. Every call joins the transaction in ctx. What is not there is a fault.NotFound, a name that is taken a
// fault.Conflict.
type Store interface {
	MachineStore
	ConnectionStore
	TokenStore
	KeyStore

	// Tx runs fn in one serializable transaction; fn may run several times.
	Tx(ctx context.Context, fn func(ctx context.Context) error) error
}

// MachineStore keeps machines.
type MachineStore interface {
	// Runners returns all machines, the revoked too, oldest first.
	Runners(ctx context.Context) ([]Machine, error)
	Runner(ctx context.Context, id string) (Machine, error)
	// RunnerNames are those of a user's machines in a team that are not revoked.
	RunnerNames(ctx context.Context, teamID, userID string) ([]string, error)
	InsertRunner(ctx context.Context, m Machine) error
	RenameRunner(ctx context.Context, id, name string, at int64) error
	// SetRunnerKey gives a machine that is not revoked another key, nil = none.
	SetRunnerKey(ctx context.Context, id string, key []byte, at int64) error
	RevokeRunner(ctx context.Context, id string, at int64) error
	// RunnerWork returns a team's workspaces that live on machines, newest first.
	RunnerWork(ctx context.Context, teamID string) ([]Work, error)
	// PruneRunners drops tokens and connections that ended before a time, and of a machine's connections all but the newest most.
	PruneRunners(ctx context.Context, before int64, most int) error
}

// ConnectionStore keeps when machines were connected, and why that ended.
type ConnectionStore interface {
	// BeginConnection stores a connection and that its machine is online through it, with what the machine says of itself.
	BeginConnection(ctx context.Context, c Connection, m Machine) error
	// SawRunner stores a sign of life and what a machine says of itself.
	SawRunner(ctx context.Context, m Machine) error
	// EndConnection stores why a connection ended; the machine is offline then, unless a newer connection has it.
	EndConnection(ctx context.Context, c Connection) error
	// EndStaleConnections does so for all that are open: they are of a server that died. Each ends when the machine was last seen.
	EndStaleConnections(ctx context.Context, reason string, now int64) error
	RunnerConnections(ctx context.Context, runnerID string, pg Page) ([]Connection, string, error)
}

// TokenStore keeps the tokens machines enrol with.
type TokenStore interface {
	InsertRunnerToken(ctx context.Context, t Token) error
	RunnerToken(ctx context.Context, id string) (Token, error)
	// RunnerTokens returns a team's tokens that can be used at a time, newest first.
	RunnerTokens(ctx context.Context, teamID string, at int64) ([]Token, error)
	// UseRunnerToken counts a use and notes the machine; false when the token was revoked or used up meanwhile.
	UseRunnerToken(ctx context.Context, id, runnerID string, at int64) (bool, error)
	RevokeRunnerToken(ctx context.Context, id string, at int64) error
	// RevokeRenewals revokes the tokens that would give a machine a new key.
	RevokeRenewals(ctx context.Context, runnerID string, at int64) error
}

// KeyStore keeps the instance's own keys.
type KeyStore interface {
	// InstanceKey returns a key of the instance; PutInstanceKey stores one, unless there is one of that name.
	InstanceKey(ctx context.Context, name string) (InstanceKey, error)
	PutInstanceKey(ctx context.Context, k InstanceKey) error
	// DeleteInstanceKey forgets one; one that is not there is left alone.
	DeleteInstanceKey(ctx context.Context, name string) error
}

// Connection is one of a machine's. Times are ms UTC.
type Connection struct {
	ID       string
	RunnerID string
	TeamID   string
	Address  string // where it called from
	Version  string
	BeganAt  int64
	EndedAt  int64  // 0 = open
	Reason   string // why it ended, in words
}

// InstanceKey is a key pair of the instance, its private half sealed.
type InstanceKey struct {
	Name      string
	Public    []byte
	Sealed    []byte
	Version   int // of the key it is sealed with
	CreatedAt int64
}
