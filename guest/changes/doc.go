// Package changes reports, inside a sandbox, which files of the worktree differ from the workspace's base commit, and shows the
// diff of one of them.
//
// It knows git's formats and nothing of processes, pipes or the host. A hostile agent may have written anything in the worktree
// and its git directory, so git never runs on them directly: it runs with a private git directory (shadow.go) that has a
// configuration of our own and a private copy of the index, and uses the repository's objects. No hook, filter, monitor, external
// diff or alias configured by the agent is ever used, the agent never meets an index.lock of ours, and the untracked cache is
// stored where nobody else needs it.
//
// A poll is one `git status`, which believes what git remembers of folders (status.go says how far); PollNow and Dirty instead
// list all folders. Because a second edit of a dirty file leaves status unchanged, every dirty path is stat'ed as well; only when
// the fingerprint of all this differs are details computed (details.go). The set of changes has a version that grows with each
// difference, and watchers are sent only what they do not have.
//
// Goroutines: a Poller starts none of its own. Watch runs in its caller; the file-system notifier lives as long as at least one
// Watch, which waits for it to end.
package changes
