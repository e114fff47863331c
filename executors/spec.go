package executors

import (
	"maps"
	"slices"
	"strings"

	"github.com/parawork/parawork/guest"
)

// Boundary says how strongly an executor isolates an agent.
type Boundary string

// Boundaries, weakest first.
const (
	NoBoundary        Boundary = "none"      // the rights of the server's user
	ProcessBoundary   Boundary = "process"   // namespaces of the host's kernel: bubblewrap
	ContainerBoundary Boundary = "container" // a container of the host's kernel: Docker
	KernelBoundary    Boundary = "gvisor"    // a user-space kernel: gVisor
	MachineBoundary   Boundary = "microvm"   // a virtual machine
)

// Boundaries lists all boundaries, weakest first.
var Boundaries = []Boundary{NoBoundary, ProcessBoundary, ContainerBoundary, KernelBoundary, MachineBoundary}

// AtLeast reports whether b isolates an agent at least as strongly as least does. Every boundary is at least "".
func (b Boundary) AtLeast(least Boundary) bool {
	return least == "" || slices.Index(Boundaries, b) >= slices.Index(Boundaries, least)
}

// Mount shows a file or folder of this machine inside a sandbox.
type Mount struct {
	Source   string // absolute, on this machine
	Target   string // absolute, inside the sandbox
	ReadOnly bool
}

// MountSpec is what an isolated workspace sees of the host: its worktree, a git dir of its own that shares objects with the repository, and
// a home. Everything writable belongs to UID and GID.
type MountSpec struct {
	Mounts   []Mount // in order: a later one covers an earlier one
	Home     string  // the agents' home, inside the sandbox
	UID, GID int     // the user inside maps to this user outside; -1 = the server's own user
}

// Limits bound one sandbox. 0 = no limit set.
type Limits struct {
	CPUs        float64 `json:"cpus,omitempty"`         // cores
	MemoryMB    int64   `json:"memory_mb,omitempty"`    // MiB
	Processes   int64   `json:"processes,omitempty"`    // processes and threads
	DiskMB      int64   `json:"disk_mb,omitempty"`      // MiB of disk the sandbox may write in all
	WallMinutes int64   `json:"wall_minutes,omitempty"` // minutes a sandbox may live
}

// NetworkMode says which part of the network a sandbox may reach.
type NetworkMode string

// Modes of the network, as in the API.
const (
	NetworkOpen  NetworkMode = "open"  // all public addresses
	NetworkAllow NetworkMode = "allow" // names on a list
	NetworkNone  NetworkMode = "none"
	// NetworkHost is the network of the machine itself, with its own services and its neighbours. Only the owner of a machine chooses it,
	// for that machine; no server setting does.
	NetworkHost NetworkMode = "host"
)

// Network says which part of the network a sandbox may reach. Names may begin with "*." and end with ":port".
type Network struct {
	Mode  NetworkMode `json:"mode,omitempty"`
	Allow []string    `json:"allow,omitempty"`
}

// Paths inside every isolated sandbox.
const (
	InsideGuest    = "/opt/parawork/parawork-guest" // the guest program, read-only
	InsideCommand  = "/usr/local/bin/parawork"      // the same program as the tools' command line, in images: a login shell's PATH has this folder
	InsideGate     = "/run/parawork/gate"           // the folder with the socket of the only way out, read-only
	InsideGateSock = InsideGate + "/egress"         // that socket
	InsideGuestDir = "/run/parawork/guest"          // the guest's folder
)

// Metered is an optional ability of a Sandbox: figures measured by the host, which no guest can falsify.
type Metered interface {
	Figures() (Figures, error)
}

// Figures of a sandbox as the host measures them.
type Figures struct {
	CPUMs       int64 // CPU time used since it was made
	MemoryBytes int64
	MemoryPeak  int64
	Processes   int64 // and threads
	OOMKills    int64 // processes the kernel killed for lack of memory
	ThrottledMs int64 // time in which its CPU limit throttled it

	ForksRefused int64 // process starts that failed at its limit of processes
}

// Limiter is an optional ability of a Sandbox: its limits can change while it lives.
type Limiter interface {
	SetLimits(Limits) error
}

// GuestEnv encodes Spec.Env for the guest's own environment: executors add it when they start the guest, and the guest passes it to every
// process. A session's own environment overrides it.
func GuestEnv(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, guest.EnvGive+name+"="+env[name])
	}
	return out
}

// ProxyNames are the environment variables that name a program's proxies.
var ProxyNames = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"}

// ProxyEnv picks the proxy variables from an environment: a sandbox with the machine's own network needs them, too.
func ProxyEnv(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, value, _ := strings.Cut(entry, "=")
		return value == "" || !slices.Contains(ProxyNames, name)
	})
}
