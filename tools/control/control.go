// Package control decides who uses a screen of a workspace: its agents, or one person who has taken over. A browser and a desktop each have a
// Lock. Agents use the screen as long as nobody has taken over; then the agents' input and that of other people are refused until that person
// gives control back, or has been gone for a while.
//
// It starts no goroutine: a timer gives control back. No lock is held while a callback runs.
package control

import (
	"context"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// DefaultGone is how long a person may be gone before control goes back to agents.
const DefaultGone = 30 * time.Second

// Person is who may take over.
type Person struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// State says who controls the screen. The zero value: agents do.
type State struct {
	Person Person `json:"person"` // ID "" = nobody has taken over
	Since  int64  `json:"since"`  // ms UTC of the taking over
}

// Taken reports whether a person has taken over.
func (s State) Taken() bool { return s.Person.ID != "" }

// Reason says why a person has control no longer.
type Reason string

// The reasons.
const (
	Gave    Reason = "gave"    // the person gave it back
	Left    Reason = "left"    // the person has been gone for too long
	Revoked Reason = "revoked" // the person may not use it any more

	Replaced Reason = "replaced" // another person took over from them
)

// Config is what a Lock is made of. All of it is optional.
type Config struct {
	What    string        // what is controlled, as refusals call it: "browser", "desktop"
	Gone    time.Duration // 0 = DefaultGone
	Now     func() time.Time
	Changed func(now, before State, why Reason) // after each change, outside the lock; why "" = somebody took over
}

// Lock says who controls one screen. Safe for concurrent use.
type Lock struct {
	cfg Config

	mu      sync.Mutex
	state   State
	present map[string]int // connections of people, by their id
	free    *time.Timer    // gives control back when its holder has been gone for too long
	changed chan struct{}  // closed at the next change
}

// New returns a Lock that agents hold.
func New(cfg Config) *Lock {
	if cfg.What == "" {
		cfg.What = "screen"
	}
	if cfg.Gone == 0 {
		cfg.Gone = DefaultGone
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Lock{cfg: cfg, present: map[string]int{}, changed: make(chan struct{})}
}

// State returns who controls the screen, and a channel that is closed when that changes.
func (l *Lock) State() (State, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state, l.changed
}

// Take gives control to a person, also for whom it is theirs already. With force it is taken from another person.
func (l *Lock) Take(p Person, force bool) error {
	l.mu.Lock()
	if l.state.Person.ID == p.ID && p.ID != "" {
		l.mu.Unlock()
		return nil
	}
	if l.state.Taken() && !force {
		defer l.mu.Unlock()
		return l.held()
	}
	done := l.set(State{Person: p, Since: l.cfg.Now().UnixMilli()}, "")
	if l.present[p.ID] == 0 { // by a script, which has no connection
		l.leaveLater()
	}
	l.mu.Unlock()
	done()
	return nil
}

// Give gives control back to agents. Only the person who has it can.
func (l *Lock) Give(userID string, why Reason) error {
	l.mu.Lock()
	if l.state.Person.ID != userID || userID == "" {
		defer l.mu.Unlock()
		if l.state.Taken() {
			return l.held()
		}
		return fault.New(fault.Conflict, "control_not_taken", "You have not taken over the %s. Agents control it.", l.cfg.What)
	}
	done := l.set(State{}, why)
	l.mu.Unlock()
	done()
	return nil
}

// Agent refuses an agent's input while a person has control.
func (l *Lock) Agent() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.Taken() {
		return l.held()
	}
	return nil
}

// Human refuses a person's input unless they have control.
func (l *Lock) Human(userID string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.state.Taken() && l.state.Person.ID == userID:
		return nil
	case l.state.Taken():
		return l.held()
	}
	return fault.New(fault.Conflict, "control_not_taken", "Take over the %s first. Agents control it now.", l.cfg.What)
}

// Await waits until agents control the screen.
func (l *Lock) Await(ctx context.Context) error {
	for {
		state, changed := l.State()
		if !state.Taken() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Come notes a connection of a person, and returns what to call when it ends. Control stays with a person who comes back in time.
func (l *Lock) Come(userID string) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.present[userID]++
	if l.state.Person.ID == userID {
		l.stopTimer()
	}
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.present[userID]--; l.present[userID] > 0 {
			return
		}
		delete(l.present, userID)
		if l.state.Person.ID == userID {
			l.leaveLater()
		}
	})
}

// Close stops the timer. The Lock is not used any more.
func (l *Lock) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopTimer()
}

// leaveLater gives control back when its holder does not come in time. The caller holds mu.
func (l *Lock) leaveLater() {
	l.stopTimer()
	holder := l.state
	l.free = time.AfterFunc(l.cfg.Gone, func() {
		l.mu.Lock()
		if l.state != holder || l.present[holder.Person.ID] > 0 {
			l.mu.Unlock()
			return
		}
		done := l.set(State{}, Left)
		l.mu.Unlock()
		done()
	})
}

func (l *Lock) stopTimer() {
	if l.free != nil {
		l.free.Stop()
		l.free = nil
	}
}

// set changes who has control, and returns what to call without the lock. The caller holds mu.
func (l *Lock) set(to State, why Reason) (done func()) {
	l.stopTimer()
	before := l.state
	l.state = to
	close(l.changed)
	l.changed = make(chan struct{})
	return func() {
		if l.cfg.Changed != nil {
			l.cfg.Changed(to, before, why)
		}
	}
}

// held refuses somebody while a person has control. The caller holds mu.
func (l *Lock) held() error {
	s := l.state
	return fault.New(fault.Conflict, "control_taken", "%s has taken over the %s since %s. Wait until it is given back, or ask.",
		s.Person.Name, l.cfg.What, time.UnixMilli(s.Since).UTC().Format("15:04 UTC")).
		With("user_id", s.Person.ID).With("name", s.Person.Name).With("since", s.Since)
}
