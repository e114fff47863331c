package executors

import (
	"sync"
	"sync/atomic"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
)

// Place is a live sandbox with a guest in it, shared by everybody who works in the workspace. Its state (Asleep, Awake, Ending, Done) is
// changed by its owner: the Manager or, on a member's machine, the machine program. Safe for concurrent use.
type Place struct {
	SandboxID   string
	WorkspaceID string
	TeamID      string
	Kind        Kind
	Hello       guest.Hello // what the guest said about itself when the sandbox became live
	Guest       *client.Client

	OwnDisk    bool // the worktree inside is a copy: see Participant.Arriving
	SharedHome bool // the home inside belongs to a person: see Capabilities

	frozen  atomic.Pointer[string] // why the guest cannot be called; changed by MarkSuspended, Unfreeze and MarkResumed
	stirMu  sync.Mutex
	stirred chan struct{} // closed when the guest can be called again; nil while it can

	endOnce sync.Once // closes ending
	ending  chan struct{}
	done    chan struct{}
	reason  string // why the sandbox ended; written before done is closed

	useMu sync.Mutex
	busy  int    // our commands that run in it now
	uses  uint64 // how often it was requested, or a command in it began or ended
}

// NewPlace makes the Place of a sandbox whose guest has not been greeted yet.
func NewPlace(sandboxID, workspaceID, teamID string, kind Kind) *Place {
	return &Place{SandboxID: sandboxID, WorkspaceID: workspaceID, TeamID: teamID, Kind: kind, ending: make(chan struct{}), done: make(chan struct{})}
}

// Ending is closed when the sandbox begins to end, at the latest together with Done. It is closed before anything inside is ended on
// purpose, so that watchers do not report the failures that follow.
func (p *Place) Ending() <-chan struct{} { return p.ending }

// Done is closed when the sandbox has ended: destroyed or found gone.
func (p *Place) Done() <-chan struct{} { return p.done }

// Reason says why the sandbox ended, in a sentence. Valid once Done is closed.
func (p *Place) Reason() string { return p.reason }

// BeginEnd closes Ending. Idempotent.
func (p *Place) BeginEnd() { p.endOnce.Do(func() { close(p.ending) }) }

// End closes Done, which wakes everybody who waits for the sandbox's end. It is called once.
func (p *Place) End(reason string) {
	p.BeginEnd()
	p.reason = reason
	close(p.done)
}

// Asleep reports whether the sandbox is suspended, so that its guest cannot be called.
func (p *Place) Asleep() bool { return p.frozen.Load() != nil }

// AsleepFor returns why the guest cannot be called, while that is so.
func (p *Place) AsleepFor() (reason string, asleep bool) {
	if why := p.frozen.Load(); why != nil {
		return *why, true
	}
	return "", false
}

// Awake is closed while the guest can be called. Callers that were refused wait for it, and for Done.
func (p *Place) Awake() <-chan struct{} {
	p.stirMu.Lock()
	defer p.stirMu.Unlock()
	if p.stirred == nil {
		return alreadyAwake
	}
	return p.stirred
}

var alreadyAwake = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// MarkSuspended notes that the guest cannot be called from now on.
func (p *Place) MarkSuspended(reason string) {
	p.stirMu.Lock()
	defer p.stirMu.Unlock()
	p.frozen.Store(&reason)
	if p.stirred == nil {
		p.stirred = make(chan struct{})
	}
}

// Unfreeze lets callers reach the guest again; MarkResumed wakes those that wait for it.
func (p *Place) Unfreeze() { p.frozen.Store(nil) }

// MarkResumed notes that the guest can be called again, and wakes those that wait.
func (p *Place) MarkResumed() {
	p.stirMu.Lock()
	defer p.stirMu.Unlock()
	p.frozen.Store(nil)
	if p.stirred != nil {
		close(p.stirred)
		p.stirred = nil
	}
}

// Use notes that somebody works in the sandbox until the returned func is called.
func (p *Place) Use() func() {
	p.useMu.Lock()
	p.busy++
	p.uses++
	p.useMu.Unlock()
	return sync.OnceFunc(func() {
		p.useMu.Lock()
		p.busy--
		p.uses++
		p.useMu.Unlock()
	})
}

// Used returns how often the sandbox was used so far, and whether it is in use now.
func (p *Place) Used() (times uint64, now bool) {
	p.useMu.Lock()
	defer p.useMu.Unlock()
	return p.uses, p.busy > 0
}
