package executors

import (
	"sync"
	"sync/atomic"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
)

// Place is a live sandbox with a guest in it, shared by everybody who works in the workspace. It tells of its own life (Asleep, Awake, Ending,
// Done), which who keeps it changes: the Manager, on a member's machine the machine. Safe for concurrent use.
type Place struct {
	SandboxID   string
	WorkspaceID string
	TeamID      string
	Kind        Kind
	Hello       guest.Hello // what the guest said of itself when the place became live
	Guest       *client.Client

	OwnDisk    bool // the worktree inside is a copy: see Participant.Arriving
	SharedHome bool // the home inside is somebody's own: see Capabilities

	frozen  atomic.Pointer[string] // why its guest cannot be asked; changed by Chill, Unfreeze and Thaw
	stirMu  sync.Mutex
	stirred chan struct{} // closed when the guest can be asked again; nil while it can

	endOnce sync.Once // closes ending
	ending  chan struct{}
	done    chan struct{}
	reason  string // why the place ended; written before done is closed

	useMu sync.Mutex
	busy  int    // commands of ours that run in it now
	uses  uint64 // how often somebody asked for it, or one of them began or ended
}

// NewPlace makes the place of a sandbox whose guest is still to be said hello to.
func NewPlace(sandboxID, workspaceID, teamID string, kind Kind) *Place {
	return &Place{SandboxID: sandboxID, WorkspaceID: workspaceID, TeamID: teamID, Kind: kind, ending: make(chan struct{}), done: make(chan struct{})}
}

// Ending is closed when the place's end has begun, at the latest with Done: before anything in it is ended on purpose, so that what
// fails from then on is no news.
func (p *Place) Ending() <-chan struct{} { return p.ending }

// Done is closed when the place has ended: destroyed or found gone.
func (p *Place) Done() <-chan struct{} { return p.done }

// Reason says in words why the place ended. Valid once Done is closed.
func (p *Place) Reason() string { return p.reason }

// BeginEnd closes Ending. It may be called again.
func (p *Place) BeginEnd() { p.endOnce.Do(func() { close(p.ending) }) }

// End wakes everybody who waits for the place's end. It is called once.
func (p *Place) End(reason string) {
	p.BeginEnd()
	p.reason = reason
	close(p.done)
}

// Asleep reports whether the place stands still, so that its guest cannot be asked.
func (p *Place) Asleep() bool { return p.frozen.Load() != nil }

// AsleepFor says why its guest cannot be asked, while it cannot.
func (p *Place) AsleepFor() (reason string, asleep bool) {
	if why := p.frozen.Load(); why != nil {
		return *why, true
	}
	return "", false
}

// Awake is closed while the place's guest can be asked: who was refused waits for it, and for Done.
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

// MarkSuspended notes that the guest cannot be asked from here on.
func (p *Place) MarkSuspended(reason string) {
	p.stirMu.Lock()
	defer p.stirMu.Unlock()
	p.frozen.Store(&reason)
	if p.stirred == nil {
		p.stirred = make(chan struct{})
	}
}

// Unfreeze lets the guest be asked again; who waits for that is told by Thaw.
func (p *Place) Unfreeze() { p.frozen.Store(nil) }

// MarkResumed notes that the guest can be asked again.
func (p *Place) MarkResumed() {
	p.stirMu.Lock()
	defer p.stirMu.Unlock()
	p.frozen.Store(nil)
	if p.stirred != nil {
		close(p.stirred)
		p.stirred = nil
	}
}

// Use notes that somebody works in the place until the returned func is called.
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

// Used says how often the place was used so far, and whether it is right now.
func (p *Place) Used() (times uint64, now bool) {
	p.useMu.Lock()
	defer p.useMu.Unlock()
	return p.uses, p.busy > 0
}
