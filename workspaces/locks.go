package workspaces

import (
	"github.com/parawork/parawork/internal/locks"
)

// Locks serialize requests. A request takes them in the order listed here; tests detect violations (locks.CheckOrder). There is one Locks,
// made at start, to which everything that works on workspaces holds a pointer. No other lock may be held while waiting for one of these.
type Locks struct {
	Busy      locks.Keyed // by workspace id: commit, merge, archive, delete and restore
	Homing    locks.Keyed // by workspace id: fetching a sandbox's commits into the repository
	Snapshots locks.Keyed // by workspace id: taking a snapshot
	Names     locks.Keyed // by project id: choosing a branch name and reserving it
	Repos     locks.Keyed // by git dir: writing a repository's refs
	Lending   locks.Keyed // by project id: packing the objects sandboxes may read
}

// NewLocks makes the Locks.
func NewLocks() *Locks {
	return &Locks{Busy: locks.Ordered(1, "busy"), Homing: locks.Ordered(2, "homing"), Snapshots: locks.Ordered(3, "snapshots"),
		Names: locks.Ordered(4, "names"), Repos: locks.Ordered(5, "repos"), Lending: locks.Ordered(6, "lending")}
}
