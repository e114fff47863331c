// Package executors defines the contract of every executor: an executor makes a sandbox, starts the guest in it, returns a byte pipe to
// the guest, and destroys the sandbox; the guest does everything else. The package holds the types that executors, the Manager
// (executors/manager) and the users of sandboxes exchange: the request (Spec), the abilities (Capabilities), the stored row (Record), the
// live
// sandbox everybody shares (Place), and the participants in its life (Participant). No executor knows another. This package knows no
// executor
// and none of the packages that choose between them.
//
// Goroutines: the package starts none, except that Place.Run reads each output of a tool in a goroutine while the tool runs. Locks: a
// Place's
// locks guard its own state, and none is held during a call to the guest.
package executors

import (
	"context"
	"errors"
	"io"
)

// Kind names a kind of executor: "local", "bubblewrap", "docker", "runner", "e2b", ...
type Kind string

// Local runs on the server itself, without isolation: for people who trust each other.
const Local Kind = "local"

// ErrGone says that a handle's sandbox no longer exists.
var ErrGone = errors.New("sandbox is gone")

// Capabilities say what an executor can do now. Reason and Isolation are sentences for the UI.
type Capabilities struct {
	Kind      Kind
	Name      string // "This server"
	Available bool
	Reason    string // why it is not available, "" when it is
	NotSetUp  bool   // it is not available because nobody said how it is reached: no fault
	Away      bool   // it is unreachable for now; it comes back without help, and commands wait for it
	AwaySince int64  // since when, ms UTC; 0 = not known
	Cure      string // what to do about it
	Isolation string // for people: "No isolation: the agent has the server user's rights"
	Isolated  bool
	Boundary  Boundary
	Limits    bool   // Spec.Limits are enforced
	Network   bool   // Spec.Network is enforced
	Host      bool   // programs are the host's own, found where the server finds them; otherwise they come from the image
	StartMs   int64  // how long making a sandbox takes, as last measured or as known; 0 = unknown
	Warning   string // for people: what works less well than it could, "" = nothing
	Brief     string // what agents read about it in addition to their own instructions, "" = nothing
	Pause     bool
	Ports     bool
	PriceNano int64 // nano-USD per hour, of the default size; 0 = free
	Metered   bool  // its time counts towards people's quotas of hours and of concurrent sandboxes

	OwnDisk    bool            // the worktree inside is a copy: see Participant.Arriving
	Programs   map[string]bool // whether agents' programs are installed, where that is known; an agent that is not listed is unknown
	Gated      bool            // with OwnDisk: its traffic nevertheless leaves through a gate of this machine
	SharedHome bool            // agents' home in it belongs to a person: nothing is copied to or from it
	PauseFree  bool            // a paused sandbox costs nothing and lives on without this server
	Sizes      []Size          // the sizes to choose from, the smallest first; none = limits say how much a sandbox gets
	LeaseMs    int64           // how long a sandbox lives unless its lease is extended; 0 = forever
	MakeMs     int64           // how long making one may take; 0 = three minutes
	RunMs      int64           // how long one run may last; 0 = unlimited
	LatencyMs  int64           // the last measured round trip between this server and the place; 0 = not measured
	ProbeURL   string          // what a browser asks to measure its own round trip; "" = nothing
}

// Spec describes the sandbox to make. The caller chooses ID: Create is idempotent on it.
type Spec struct {
	ID          string
	TeamID      string
	WorkspaceID string
	Root        string     // the worktree on the host
	Inside      string     // where the worktree lies in a sandbox with a disk of its own; not a path of the host
	Key         string     // the workspace's name for people, such as PW-142
	Folder      string     // on a member's machine: the allowed folder whose repository the worktree shares objects with; "" = none
	Size        Size       // the requested size, for executors with sizes
	UserID      string     // the user who asked; "" = the server
	Warm        *Handle    // the warm sandbox to use instead of making one; see Warmer
	GitDirs     []string   // host git dirs the worktree needs
	MountSpec   *MountSpec // for executors that isolate; nil elsewhere
	Limits      Limits
	Network     Network
	Gate        string            // host folder with the socket of the only way out, mounted at InsideGate; "" = no way out
	Caches      []Mount           // caches the team shares
	Groups      []int             // supplementary groups of the processes, through which caches are shared; only for a server that runs as root
	Env         map[string]string // environment of every process in the sandbox: see GuestEnv
	Image       string            // the image a container is made from; "" = the configured one
	ImageID     string            // the id of Image once that exact image has been approved; the name is then only for display
	ImageFor    string            // the project whose own images this sandbox may be made from
}

// State of a sandbox.
type State string

// States of a sandbox, as in the API.
const (
	Starting State = "starting"
	Running  State = "running"
	Paused   State = "paused"
	Stopping State = "stopping"
	Gone     State = "gone"
	Failed   State = "failed"
)

// Handle identifies a sandbox across restarts. It is stored before first use. State belongs to the executor and is opaque to others.
type Handle struct {
	Kind    Kind
	ID      string
	Version int
	State   []byte
}

// Executor makes sandboxes of one kind. Safe for concurrent use.
type Executor interface {
	Kind() Kind
	// Capabilities says what the executor can do now. An executor that cannot work returns Available=false, not an error.
	Capabilities(ctx context.Context) (Capabilities, error)
	// Create makes the sandbox. It is idempotent on s.ID. On error it leaves nothing behind.
	Create(ctx context.Context, s Spec) (Sandbox, error)
	// Recover finds a sandbox again after a restart. ErrGone when it no longer exists.
	Recover(ctx context.Context, h Handle) (Sandbox, error)
	// List returns every sandbox of this installation that exists, for the reaper.
	List(ctx context.Context) ([]Handle, error)
}

// Sandbox is one live sandbox with a guest in it.
type Sandbox interface {
	Handle() Handle
	// Token is the secret by which the guest authenticates its host. It never leaves the server: not in logs, events or API responses.
	Token() string
	// Dial opens a pipe to the guest. Callers may dial again after a pipe was cut, and while other pipes are open: each terminal stream uses
	// one.
	Dial(ctx context.Context) (io.ReadWriteCloser, error)
	// Destroy ends everything inside and removes the sandbox. Idempotent.
	Destroy(ctx context.Context) error
}

// Pauser is an optional ability of a Sandbox: between Pause and Resume everything in it is suspended, its guest too. Both are idempotent.
// Recover of a suspended sandbox resumes it, because a suspended guest cannot identify itself: the Manager suspends it again.
type Pauser interface {
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
}

// Stopper is an optional ability of an Executor some of whose sandboxes have a disk of their own: Stop ends everything in the sandbox of h,
// whether or not its guest answers, and preserves the disk. Only Destroy removes the disk. Create with the same id, and Recover, start the
// sandbox again. Stop destroys a sandbox without such a disk. Idempotent.
type Stopper interface {
	Stop(ctx context.Context, h Handle) error
}

// RemnantKeeper is an optional ability of an Executor that leaves the guest's folder on this host when a guest has died: it records how
// processes ended and holds output that was not yet read (see guest.ReadProcessRecord).
type RemnantKeeper interface {
	// Remnants returns the guest's folder of a sandbox that is gone, while the folder exists.
	Remnants(sandboxID string) (dir string, ok bool)
	// Sweep removes what is left of a sandbox that is gone. Idempotent. It does not touch a live sandbox.
	Sweep(ctx context.Context, sandboxID string) error
}
