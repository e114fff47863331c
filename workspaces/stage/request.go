package stage

// CommitRequest asks for a commit. Paths are literal, relative to the worktree, raw bytes; a folder stands for everything
// below it; a rename is committed whole when both names are given. Empty = everything that changed.
type CommitRequest struct {
	Message string
	Paths   []string // none = everything
	Parts   Parts    // instead of paths: files, hunks or lines
	Staged  bool     // instead of both: what is staged, and nothing else
}
