package workspaces

import "sync"

// commitTrees remembers which tree and time commits have. A commit never changes.
type commitTrees struct {
	mu *sync.Mutex
	of map[commitKey]commitTree
}

type commitKey struct{ gitDir, commit string }

type commitTree struct {
	tree string
	at   int64 // ms UTC
}

// commitTreesMost bounds what is remembered.
const commitTreesMost = 10_000

func newCommitTrees() commitTrees {
	return commitTrees{mu: new(sync.Mutex), of: make(map[commitKey]commitTree)}
}

func (c *commitTrees) get(k commitKey) (commitTree, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.of[k]
	return t, ok
}

func (c *commitTrees) put(k commitKey, t commitTree) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.of) >= commitTreesMost {
		clear(c.of)
	}
	c.of[k] = t
}
