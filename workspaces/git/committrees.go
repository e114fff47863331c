package git

import (
	"sync"
)

// CommitTrees remembers which tree and time commits have. A commit never changes.
type CommitTrees struct {
	mu *sync.Mutex
	of map[CommitKey]CommitTree
}

// CommitKey names a commit of a repository.
type CommitKey struct{ GitDir, Commit string }

// CommitTree is a commit's tree and when it was made.
type CommitTree struct {
	Tree string
	At   int64 // ms UTC
}

// commitTreesMost bounds what is remembered.
const commitTreesMost = 10_000

// NewCommitTrees makes an empty cache.
func NewCommitTrees() CommitTrees {
	return CommitTrees{mu: new(sync.Mutex), of: make(map[CommitKey]CommitTree)}
}

// Get returns what is remembered of a commit.
func (c *CommitTrees) Get(k CommitKey) (CommitTree, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.of[k]
	return t, ok
}

// Put remembers a commit's tree; the oldest ones are forgotten.
func (c *CommitTrees) Put(k CommitKey, t CommitTree) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.of) >= commitTreesMost {
		clear(c.of)
	}
	c.of[k] = t
}
