package machines

import (
	"context"

	"github.com/parawork/parawork/internal/page"
)

// Page asks for a part of a list.
type Page = page.Page

// Store is the storage of the package. Every call joins the transaction in ctx. A missing row is a fault.NotFound, a name that is taken a
// fault.Conflict.
type Store interface {
	MachineStore
	ConnectionStore
	TokenStore
	KeyStore

	// Tx runs fn in one serializable transaction; fn may run several times.
	Tx(ctx context.Context, fn func(ctx context.Context) error) error
}

// MachineStore stores machines.
type MachineStore interface {
	// Runners returns all machines, the revoked too, oldest first.
	Runners(ctx context.Context) ([]Machine, error)
	Runner(ctx context.Context, id string) (Machine, error)
	// RunnerNames returns those of a user's machines in a team that are not revoked.
	RunnerNames(ctx context.Context, teamID, userID string) ([]string, error)
	InsertRunner(ctx context.Context, m Machine) error
	RenameRunner(ctx context.Context, id, name string, at int64) error
	// SetRunnerKey gives a machine that is not revoked another key, nil = none.
	SetRunnerKey(ctx context.Context, id string, key []byte, at int64) error
	RevokeRunner(ctx context.Context, id string, at int64) error
	// RunnerWork returns a team's workspaces that live on machines, newest first.
	RunnerWork(ctx context.Context, teamID string) ([]Work, error)
	// PruneRunners drops tokens and connections that ended before a time, and all but the newest most of a machine's connections.
	PruneRunners(ctx context.Context, before int64, most int) error
}

// ConnectionStore stores when machines were connected, and why that ended.
type ConnectionStore interface {
	// BeginConnection stores a connection and that its machine is online through it, with the machine's description of itself.
	BeginConnection(ctx context.Context, c Connection, m Machine) error
	// SawRunner stores a sign of life and a machine's description of itself.
	SawRunner(ctx context.Context, m Machine) error
	// EndConnection stores why a connection ended; the machine is offline then, unless a newer connection has it.
	EndConnection(ctx context.Context, c Connection) error
	// EndStaleConnections does so for all open connections: they belong to a server that died. Each ends when the machine was last seen.
	EndStaleConnections(ctx context.Context, reason string, now int64) error
	RunnerConnections(ctx context.Context, runnerID string, pg Page) ([]Connection, string, error)
}

// TokenStore stores the tokens by which machines enrol.
type TokenStore interface {
	InsertRunnerToken(ctx context.Context, t Token) error
	RunnerToken(ctx context.Context, id string) (Token, error)
	// RunnerTokens returns a team's tokens that are valid at a time, newest first.
	RunnerTokens(ctx context.Context, teamID string, at int64) ([]Token, error)
	// UseRunnerToken counts a use and records the machine; false when the token was revoked or used up meanwhile.
	UseRunnerToken(ctx context.Context, id, runnerID string, at int64) (bool, error)
	RevokeRunnerToken(ctx context.Context, id string, at int64) error
	// RevokeRenewals revokes the tokens that would give a machine a new key.
	RevokeRenewals(ctx context.Context, runnerID string, at int64) error
}

// KeyStore stores the instance's own keys.
type KeyStore interface {
	// InstanceKey returns a key of the instance; PutInstanceKey stores one, unless there is one of that name.
	InstanceKey(ctx context.Context, name string) (InstanceKey, error)
	PutInstanceKey(ctx context.Context, k InstanceKey) error
	// DeleteInstanceKey deletes one; it ignores a missing one.
	DeleteInstanceKey(ctx context.Context, name string) error
}

// Connection is one connection of a machine. Times are ms UTC.
type Connection struct {
	ID       string
	RunnerID string
	TeamID   string
	Address  string // the caller's address
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
	Version   int // of the key that sealed it
	CreatedAt int64
}
