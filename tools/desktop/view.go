package desktop

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/tools/control"
	"github.com/parawork/parawork/tools/desktop/rfb"
)

// MaxViewers bounds the people who look at one desktop at once, by their connections.
const MaxViewers = 16

// touchEvery is how often the Service notes at the desktop that somebody uses it.
const touchEvery = time.Minute

// controlled is the lock of one desktop.
type controlled struct {
	lock    *control.Lock
	viewers int // guarded by Service.mu
}

// lockOf returns the lock of a workspace's desktop, and counts a viewer of it.
func (s *Service) lockOf(workspaceID string, viewer int) (*control.Lock, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.controls[workspaceID]
	if c == nil {
		c = &controlled{lock: control.New(control.Config{What: "desktop", Changed: func(now, _ control.State, _ control.Reason) {
			if !now.Taken() {
				s.forget(workspaceID)
			}
		}})}
		s.controls[workspaceID] = c
	}
	if c.viewers+viewer > MaxViewers {
		return nil, false
	}
	c.viewers += viewer
	return c.lock, true
}

// forget drops the lock of a desktop that nobody looks at and nobody has taken over.
func (s *Service) forget(workspaceID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.controls[workspaceID]
	if c == nil || c.viewers > 0 {
		return
	}
	if state, _ := c.lock.State(); !state.Taken() {
		delete(s.controls, workspaceID)
	}
}

// agent refuses an agent's input while a person has control.
func (s *Service) agent(workspaceID string) error {
	s.mu.Lock()
	c := s.controls[workspaceID]
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	return c.lock.Agent()
}

// View is one person's connection to a desktop's screen. Read and Write may be called by one goroutine each; Close by any.
type View struct {
	s      *Service
	place  *executors.Place
	conn   io.ReadWriteCloser
	lock   *control.Lock
	filter rfb.Filter
	who    control.Person
	close  func()

	mu   sync.Mutex
	used time.Time
}

// Look connects a person with the running desktop of a workspace. They see it, and drive it once they have taken over.
func (s *Service) Look(ctx context.Context, teamID, workspaceID string, who control.Person) (*View, error) {
	if err := s.check(ctx, teamID, workspaceID); err != nil {
		return nil, err
	}
	place, live := s.cfg.Sandboxes.Live(workspaceID)
	if !live || place.Asleep() { // looking wakes nothing
		return nil, errNotRunning
	}
	conn, err := s.vnc(ctx, place)
	if err != nil {
		return nil, err
	}
	lock, ok := s.lockOf(workspaceID, 1)
	if !ok {
		_ = conn.Close()
		return nil, errTooMany
	}
	leave := lock.Come(who.ID)
	v := &View{s: s, place: place, conn: conn, lock: lock, who: who}
	v.close = sync.OnceFunc(func() {
		_ = conn.Close()
		leave()
		s.mu.Lock()
		if c := s.controls[workspaceID]; c != nil {
			c.viewers--
		}
		s.mu.Unlock()
		s.forget(workspaceID)
	})
	v.filter = rfb.Filter{Drives: func() bool { return lock.Human(who.ID) == nil }, Input: v.touch}
	return v, nil
}

// touch notes that the person uses the desktop, which keeps the sandbox awake.
func (v *View) touch() {
	v.mu.Lock()
	due := time.Since(v.used) > touchEvery
	if due {
		v.used = time.Now()
	}
	v.mu.Unlock()
	if !due {
		return
	}
	v.place.Use()()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	_, _ = v.s.ask(ctx, v.place, guest.DesktopRequest{}, false) // the next one makes up for it
}

// Lock is who controls the desktop.
func (v *View) Lock() *control.Lock { return v.lock }

// Done is closed when the sandbox has ended.
func (v *View) Done() <-chan struct{} { return v.place.Done() }

// Read reads what the VNC server says.
func (v *View) Read(p []byte) (int, error) { return v.conn.Read(p) }

// Write passes on what the viewer's program says, without the input of somebody who does not drive.
func (v *View) Write(p []byte) (int, error) {
	out, err := v.filter.Pass(p)
	if err != nil {
		return 0, err
	}
	if len(out) > 0 {
		if _, err := v.conn.Write(out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Close ends the connection. The desktop goes on.
func (v *View) Close() { v.close() }
