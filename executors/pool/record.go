package pool

import (
	"context"

	"github.com/parawork/parawork/executors"
)

// States of a warm sandbox.
const (
	Making = "making" // its executor is making it
	Ready  = "ready"
	Taken  = "taken"  // a making has it; what is left of it afterwards is ended, never given to another
	Ending = "ending" // it is being ended
)

// Record is the stored row of a sandbox that was made ahead of time. Times are ms UTC, 0 = not yet.
type Record struct {
	Handle     executors.Handle
	Class      string
	State      string
	Reason     string
	TakenBy    string // the sandbox it became
	CreatedAt  int64
	ReadyAt    int64
	LeaseUntil int64
	EndedAt    int64
}

// Store is what the pool needs of the storage.
type Store interface {
	InsertWarm(ctx context.Context, r Record) error
	// UpdateWarm writes handle, state, reason, ready, lease and end of one whose state is from; false when it is not, or it has ended.
	UpdateWarm(ctx context.Context, r Record, from string) (bool, error)
	// TakeWarm marks the oldest ready one of a class as taken by a sandbox; false when there is none. It never gives one to two callers.
	TakeWarm(ctx context.Context, kind executors.Kind, class, by string) (Record, bool, error)
	// OpenWarm returns all that have not ended, the oldest first.
	OpenWarm(ctx context.Context) ([]Record, error)
}
