package git

import (
	"sync"
)

// CommitTrees caches the trees and times of commits, which never change.
type CommitTrees struct {
	mu *sync.Mutex
	of map[CommitKey]CommitTree
}

// CommitKey identifies a commit of a repository.
type CommitKey struct{ GitDir, Commit string }

// CommitTree is a commit's tree and when it was made.
type CommitTree struct {
	Tree string
	At   int64 // ms UTC
}

// commitTreesMost bounds the cache.
const commitTreesMost = 10_000

// NewCommitTrees makes an empty cache.
func NewCommitTrees() CommitTrees {
	return CommitTrees{mu: new(sync.Mutex), of: make(map[CommitKey]CommitTree)}
}

// Get returns the cached tree of a commit.
func (c *CommitTrees) Get(k CommitKey) (CommitTree, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.of[k]
	return t, ok
}

// Put caches a commit's tree, and drops the oldest when the cache is full.
func (c *CommitTrees) Put(k CommitKey, t CommitTree) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.of) >= commitTreesMost {
		clear(c.of)
	}
	c.of[k] = t
}
