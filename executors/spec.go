package executors

import (
	"maps"
	"slices"
	"strings"

	"github.com/parawork/parawork/guest"
)

// Boundary says how strongly a place keeps an agent in.
type Boundary string

// Boundaries, weakest first.
const (
	NoBoundary        Boundary = "none"      // the rights of the server's user
	ProcessBoundary   Boundary = "process"   // namespaces of the host's kernel: bubblewrap
	ContainerBoundary Boundary = "container" // a container of the host's kernel: Docker
	KernelBoundary    Boundary = "gvisor"    // a kernel of its own in user space: gVisor
	MachineBoundary   Boundary = "microvm"   // a virtual machine
)

// Boundaries are all of them, weakest first.
var Boundaries = []Boundary{NoBoundary, ProcessBoundary, ContainerBoundary, KernelBoundary, MachineBoundary}

// AtLeast reports whether b keeps an agent in as strongly as least does, or more so. Every place is at least "".
func (b Boundary) AtLeast(least Boundary) bool {
	return least == "" || slices.Index(Boundaries, b) >= slices.Index(Boundaries, least)
}

// Mount shows a file or folder of this machine inside a place.
type Mount struct {
	Source   string // absolute, on this machine
	Target   string // absolute, inside the place
	ReadOnly bool
}

// MountSpec is what an isolated workspace is given of the host: its worktree, a git dir of its own that borrows the repository's
// objects, and a home. All that may be written belongs to UID and GID.
type MountSpec struct {
	Mounts   []Mount // in order: a later one lies over an earlier one
	Home     string  // the agents' home, inside the place
	UID, GID int     // the user inside owns what this user owns outside; -1 = the server's own user
}

// Limits bound one sandbox. 0 = no bound of one's own.
type Limits struct {
	CPUs        float64 `json:"cpus,omitempty"`         // cores
	MemoryMB    int64   `json:"memory_mb,omitempty"`    // MiB
	Processes   int64   `json:"processes,omitempty"`    // processes and threads
	DiskMB      int64   `json:"disk_mb,omitempty"`      // MiB of all the sandbox may write
	WallMinutes int64   `json:"wall_minutes,omitempty"` // minutes a sandbox may live
}

// NetworkMode says what of the network a place reaches.
type NetworkMode string

// Modes of the network, as in the API.
const (
	NetworkOpen  NetworkMode = "open"  // all public addresses
	NetworkAllow NetworkMode = "allow" // names on a list
	NetworkNone  NetworkMode = "none"
	// NetworkHost is the network of the machine itself, its own services and what stands beside it included. Only the owner of a machine
	// chooses it, for that machine: no setting of a server's does.
	NetworkHost NetworkMode = "host"
)

// Network is what of the network a place reaches. Names may begin with "*." and end with ":port".
type Network struct {
	Mode  NetworkMode `json:"mode,omitempty"`
	Allow []string    `json:"allow,omitempty"`
}

// Paths inside every isolating place.
const (
	InsideGuest    = "/opt/parawork/parawork-guest" // the guest's program, read-only
	InsideGate     = "/run/parawork/gate"           // the folder with the socket of the only way out, read-only
	InsideGateSock = InsideGate + "/egress"         // that socket
	InsideGuestDir = "/run/parawork/guest"          // the guest's own folder
)

// Metered is an optional ability of a Sandbox: its figures as the host sees them, which no guest can colour.
type Metered interface {
	Figures() (Figures, error)
}

// Figures of a sandbox as the host counts them.
type Figures struct {
	CPUMs       int64 // CPU time used since it was made
	MemoryBytes int64
	MemoryPeak  int64
	Processes   int64 // and threads
	OOMKills    int64 // processes the kernel has ended for want of memory
	ThrottledMs int64 // time in which it was held back by its CPU limit

	ForksRefused int64 // times no process could be started for its limit of processes
}

// Limiter is an optional ability of a Sandbox: new limits while it lives.
type Limiter interface {
	SetLimits(Limits) error
}

// GuestEnv is Spec.Env as the guest's own environment carries it: executors add it to what they start the guest with, and the guest
// gives it to every process. A session's own environment comes on top.
func GuestEnv(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, guest.EnvGive+name+"="+env[name])
	}
	return out
}

// ProxyNames are the variables that say which proxy programs go out through.
var ProxyNames = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"}

// ProxyEnv picks from an environment what says which proxy programs go out through: a place with the machine's own network needs it, too.
func ProxyEnv(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, value, _ := strings.Cut(entry, "=")
		return value == "" || !slices.Contains(ProxyNames, name)
	})
}
