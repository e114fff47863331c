package workspaces

import (
	"github.com/parawork/parawork/internal/redact"
)

// SecretFiles is what a workspace was ever given of secrets: files of its worktree, and values. The files are kept out of git when they are
// written, but an agent may let git see them again, or copy what is in them: no snapshot has it, no commit comes home with it, and nobody
// reads it.
type SecretFiles struct {
	Paths  map[string]bool // raw bytes, below the worktree
	Blobs  map[string]bool // git's names of what is in them, whatever file has it
	Sums   map[string]bool // sha256 hex of the same
	Values *redact.Finder  // of values that are long enough to be looked for in files; nil = none
	Masker *redact.Masker  // of all values, for names and messages; nil = none

	Hides func(value string) bool // not those that the base of the workspace shows to everybody anyway; nil = all
}
