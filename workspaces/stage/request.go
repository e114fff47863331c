package stage

// CommitRequest is a request to commit. Paths are literal, relative to the worktree, raw bytes; a folder means everything below it; a
// rename is committed whole when both names are given. Empty = everything that changed.
type CommitRequest struct {
	Message string
	Paths   []string // none = everything
	Parts   Parts    // instead of paths: files, hunks or lines
	Staged  bool     // instead of both: only what is staged
}
