// Package launch is the step between the server and the program that creates a sandbox: what must happen in the new process
// itself before it becomes that program. It binds what is to be visible inside at paths that the sandbox's user can reach, joins
// the limits, becomes that user, and passes data to the program through descriptors, so that none of it appears in an argument
// list.
//
// It runs with the server's rights and before any code of an agent; its input comes only from the server.
package launch

import (
	"path/filepath"
	"strconv"
)

// Descriptors of a launch.
const (
	ListenFD = 3   // the guest's listening socket, passed on
	SpecFD   = 4   // the Spec, as JSON
	InfoFD   = 5   // where the program reports about the sandbox, passed on
	firstFD  = 200 // far above what the program itself opens: descriptors there are replaced, including the Go runtime's own epoll
)

// stage is where sources are bound: in a private mount namespace, so that nobody else sees it. It is a folder that every machine
// has, and below it is nothing a sandbox must see.
const stage = "/sys"

// Spec describes one launch.
type Spec struct {
	Sources []string `json:"sources,omitempty"` // files and folders bound at Staged; only for a server that is root
	UID     int      `json:"uid"`               // the user of the program; -1 = the server's
	GID     int      `json:"gid"`
	Groups  []int    `json:"groups,omitempty"` // in addition to GID
	Limits  Limits   `json:"limits"`
	Data    [][]byte `json:"data"` // what the program reads from DataFD
	Path    string   `json:"path"`
	Args    []string `json:"args"`
	Env     []string `json:"env"`
}

// Limits are bounds on each process, for what the kernel does not bound by group. 0 = unchanged.
type Limits struct {
	OpenFiles uint64 `json:"open_files,omitempty"`
	FileSize  uint64 `json:"file_size,omitempty"` // bytes
	Processes uint64 `json:"processes,omitempty"` // of the user, so only where the user belongs to one sandbox
}

// Staged is the path at which the launched program finds source i.
func Staged(i int) string { return filepath.Join(stage, strconv.Itoa(i)) }

// DataFD is the descriptor from which the launched program reads data i.
func DataFD(i int) int { return firstFD + i }
