package conversation

import "github.com/parawork/parawork/internal/homedir"

// Source gives access to the folder in which an agent writes: a homedir.Dir where that is on this server, otherwise a client's
// Home, which reads through the guest.
type Source interface {
	// Glob returns the names that match a pattern of path.Match, in order; none for a missing folder.
	Glob(pattern string) ([]string, error)
	// Open opens a regular file; fs.ErrNotExist when there is none with that name.
	Open(name string) (homedir.File, error)
}
