package workspaces

import (
	"github.com/parawork/parawork/internal/locks"
)

// Locks exclude requests from each other, in the order in which one request takes them: tests report who does not (locks.CheckOrder).
// There is one Locks, made at the start, to which everything that works on workspaces holds a pointer. Locks that are not here are
// never held while another one is waited for.
type Locks struct {
	Busy      locks.Keyed // by workspace id: commit, merge, archive, delete and restore
	Homing    locks.Keyed // by workspace id: bringing a sandbox's commits home
	Snapshots locks.Keyed // by workspace id: taking a snapshot
	Names     locks.Keyed // by project id: choosing a branch name and reserving it
	Repos     locks.Keyed // by git dir: writing a repository's refs
	Lending   locks.Keyed // by project id: packing what sandboxes may read
}

// NewLocks makes the Locks.
func NewLocks() *Locks {
	return &Locks{Busy: locks.Ordered(1, "busy"), Homing: locks.Ordered(2, "homing"), Snapshots: locks.Ordered(3, "snapshots"),
		Names: locks.Ordered(4, "names"), Repos: locks.Ordered(5, "repos"), Lending: locks.Ordered(6, "lending")}
}
