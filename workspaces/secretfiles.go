package workspaces

import (
	"github.com/parawork/parawork/internal/redact"
)

// SecretFiles lists all secrets a workspace was ever given: files of its worktree, and values. The server excludes the files from git when
// it writes them, but an agent may make git see them again or copy their content. The server keeps them out of snapshots, rejects commits
// that contain them, and lets nobody read them.
type SecretFiles struct {
	Paths  map[string]bool // raw bytes, below the worktree
	Blobs  map[string]bool // git object ids of their contents, whatever file has it
	Sums   map[string]bool // sha256 hex of their contents
	Values *redact.Finder  // matcher of values long enough to be searched for in files; nil = none
	Masker *redact.Masker  // matcher of all values, for names and messages; nil = none

	Hides func(value string) bool // reports false for those that the workspace's base exposes anyway; nil = all are secret
}
