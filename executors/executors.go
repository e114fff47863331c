// Package executors is the contract every place to work fulfils: an executor makes a place, starts the guest in it, hands back a byte pipe to
// it, and destroys it; everything else is the guest's. It holds what executors, the Manager (executors/manager) and those who work in sandboxes
// say to each other: what is asked for (Spec) and can be done (Capabilities), the stored row (Record), the live sandbox everybody shares (Place),
// and who takes part in its life (Participant). No executor knows another; this package knows none of them, nor who decides about them.
//
// Goroutines: none of its own; Place.Run has one for each output of the tool it runs while it runs. Locks: a Place's guard its own state, and
// none is held while a guest is asked.
package executors

import (
	"context"
	"errors"
	"io"
)

// Kind names a kind of place: "local", "bubblewrap", "docker", "runner", "e2b", ...
type Kind string

// Local is the server itself, without isolation: for people who trust each other.
const Local Kind = "local"

// ErrGone says that a handle's sandbox no longer exists.
var ErrGone = errors.New("sandbox is gone")

// Capabilities tell what a place can do now, in words for the UI where Reason and Isolation are concerned.
type Capabilities struct {
	Kind      Kind
	Name      string // "This server"
	Available bool
	Reason    string // why not available, "" when it is
	Away      bool   // it is not available because nobody hears it now; it comes back by itself, and commands wait for it
	AwaySince int64  // since when, ms UTC; 0 = not known
	Cure      string // what to do about it
	Isolation string // in words: "No isolation: the agent has the server user's rights"
	Isolated  bool
	Boundary  Boundary
	Limits    bool   // Spec.Limits are enforced
	Network   bool   // Spec.Network is enforced
	Host      bool   // programs are the host's own, found where the server finds them; else they are the image's
	StartMs   int64  // how long a sandbox takes to be made, as last measured or as known; 0 = not known
	Warning   string // in words: what works less well than it could, "" = nothing
	Brief     string // what agents are told of it beside their own instructions, "" = nothing
	Pause     bool
	Ports     bool
	PriceNano int64 // nano-USD per hour, of the default size; 0 = free
	Metered   bool  // its time counts in people's hours, and in how many run at once

	OwnDisk    bool            // the worktree inside is a copy: see Participant.Arriving
	Programs   map[string]bool // agents' programs that are known to be there, or not to be; nothing is known of others
	Gated      bool            // of a place with a disk of its own: its way out is a gate of this machine all the same
	SharedHome bool            // agents' home there is somebody's own: nothing of it is copied to or from it
	PauseFree  bool            // what is paused costs nothing and lives on by itself
	Sizes      []Size          // what can be chosen, the smallest first; none = limits say how much it gets
	LeaseMs    int64           // how long a sandbox lives that nobody extends; 0 = for ever
	MakeMs     int64           // how long making one may take; 0 = three minutes
	RunMs      int64           // how long one run may last; 0 = for ever
}

// Spec asks for a sandbox. ID is chosen by the caller: Create is idempotent on it.
type Spec struct {
	ID          string
	TeamID      string
	WorkspaceID string
	Root        string     // the worktree on the host
	Inside      string     // where the worktree lies in a place with a disk of its own; it names no path of the host
	Key         string     // what people call the workspace, such as PW-142
	Folder      string     // on a member's machine: the allowed folder whose repository it borrows; "" = none
	Size        Size       // what a place with sizes is asked for
	UserID      string     // who asked; "" = the server
	Warm        *Handle    // a warm sandbox to be taken instead of making one; see Warmer
	GitDirs     []string   // host git dirs the worktree needs
	MountSpec   *MountSpec // for places that isolate; nil elsewhere
	Limits      Limits
	Network     Network
	Gate        string            // folder on this machine with the socket of the only way out, shown at InsideGate; "" = no way out
	Caches      []Mount           // caches the team shares
	Groups      []int             // groups the processes belong to beside their own, which caches are shared through; only for a root server
	Env         map[string]string // given to every process in the sandbox: see GuestEnv
	Image       string            // what a container is made from; "" = the configured one
	ImageID     string            // the id of Image, where whoever chose it has judged that very image; the name is then for people alone
	ImageFor    string            // the project whose own images this may be made from
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

// Handle is what finds a sandbox again after a restart. It is stored before first use. State is the executor's own, opaque.
type Handle struct {
	Kind    Kind
	ID      string
	Version int
	State   []byte
}

// Executor makes sandboxes of one kind. Safe for concurrent use.
type Executor interface {
	Kind() Kind
	// Capabilities says what can be done now. It never fails for a place that merely cannot work: that is Available=false.
	Capabilities(ctx context.Context) (Capabilities, error)
	// Create is idempotent on s.ID. On error nothing is left behind.
	Create(ctx context.Context, s Spec) (Sandbox, error)
	// Recover finds a sandbox after a restart. ErrGone when it no longer exists.
	Recover(ctx context.Context, h Handle) (Sandbox, error)
	// List returns everything of ours that exists, for the reaper.
	List(ctx context.Context) ([]Handle, error)
}

// Sandbox is one live place with a guest in it.
type Sandbox interface {
	Handle() Handle
	// Token is the secret the guest asks of its host. It never leaves the server: not into logs, events or API answers.
	Token() string
	// Dial opens a pipe to the guest. It may be called again after a cut, and while other pipes are open: streams of a terminal
	// take one each.
	Dial(ctx context.Context) (io.ReadWriteCloser, error)
	// Destroy ends everything inside and removes the place. Idempotent.
	Destroy(ctx context.Context) error
}

// Pauser is an optional ability of a Sandbox: everything in it stands still between Pause and Resume, its guest too. Both are
// idempotent. Recover of one that stands still lets it go on, for a guest that stands still cannot say who it is: the Manager makes it
// stand still again.
type Pauser interface {
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
}

// Stopper is an optional ability of an Executor some of whose sandboxes have a disk of their own: Stop ends everything in the sandbox of h,
// whether its guest answers or not, and keeps that disk, which destroying it removes. Create with its id, and Recover, start it again. A
// sandbox without such a disk is destroyed. Idempotent.
type Stopper interface {
	Stop(ctx context.Context, h Handle) error
}

// RemnantKeeper is an optional ability of an Executor whose sandboxes, when their guest has died, leave the guest's own folder
// behind on this host: records of how processes ended and the output nobody had read yet (see guest.ReadProcessRecord).
type RemnantKeeper interface {
	// Remnants returns the guest's own folder of a sandbox that is gone, while it is there.
	Remnants(sandboxID string) (dir string, ok bool)
	// Sweep removes what is left of a sandbox that is gone. Idempotent. A sandbox that lives is left alone.
	Sweep(ctx context.Context, sandboxID string) error
}
