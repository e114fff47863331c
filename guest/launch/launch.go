// Package launch is the step between the server and the program that makes a box: what must happen in the new process itself
// before it becomes that program. It shows what is to be seen inside at paths that the box's user can reach, joins the limits,
// becomes that user, and hands over what the program reads from descriptors, so that nothing of it stands in an argument list.
//
// It runs with the server's rights and before anything of an agent's does; what it is told comes from the server alone.
package launch

import (
	"path/filepath"
	"strconv"
)

// Descriptors of a launch.
const (
	ListenFD = 3   // the guest's listening socket, handed on
	SpecFD   = 4   // the Spec, as JSON
	InfoFD   = 5   // where the program tells of the box, handed on
	firstFD  = 200 // far above what the program itself opens: what lies there is replaced, the Go runtime's own epoll among it
)

// stage is where sources are shown: in a mount namespace of the launch's own, so that nobody else sees it. It is a folder every
// machine has, and under which lies nothing that a box is to see.
const stage = "/sys"

// Spec says what one launch does.
type Spec struct {
	Sources []string `json:"sources,omitempty"` // files and folders shown at Staged; only for a server that is root
	UID     int      `json:"uid"`               // who the program runs as; -1 = who the server is
	GID     int      `json:"gid"`
	Groups  []int    `json:"groups,omitempty"` // beside GID
	Limits  Limits   `json:"limits"`
	Data    [][]byte `json:"data"` // what the program reads from DataFD
	Path    string   `json:"path"`
	Args    []string `json:"args"`
	Env     []string `json:"env"`
}

// Limits are bounds on each process, for what the kernel does not bound by group. 0 = as it is.
type Limits struct {
	OpenFiles uint64 `json:"open_files,omitempty"`
	FileSize  uint64 `json:"file_size,omitempty"` // bytes
	Processes uint64 `json:"processes,omitempty"` // of the user, so only where the user is the box's alone
}

// Staged is the path at which the launched program finds source i.
func Staged(i int) string { return filepath.Join(stage, strconv.Itoa(i)) }

// DataFD is the descriptor from which the launched program reads data i.
func DataFD(i int) int { return firstFD + i }
