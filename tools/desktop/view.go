package desktop

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools/control"
	"github.com/parawork/parawork/tools/desktop/rfb"
)

// Bounds of what people do.
const (
	MaxViewers = 16       // connections that show one desktop at once
	MaxWrite   = 64 << 10 // bytes that a viewer says at once

	touchEvery = time.Minute            // between notes at the desktop that somebody uses it
	inputsEach = 300                    // messages of input a second by one viewer; more wait
	bytesEach  = 64 << 10               // a second by one viewer, of any kind: the VNC server answers also those who only look
	eachWrite  = 64                     // bytes that a Write counts for, beside its own
	rightsFor  = 500 * time.Millisecond // an answer about rights holds
	sendWait   = 10 * time.Second       // for the VNC server to take input
)

// controlled is the lock of one desktop, and who looks at it. Service.mu guards what is below the lock.
type controlled struct {
	lock    *control.Lock
	viewers map[*View]struct{}
	changed chan struct{}   // closed when a viewer comes or goes, or control changes
	calls   int             // under way, which use the lock
	taken   context.Context // of who has taken over
}

// wake has viewers look at the state again. The caller holds Service.mu.
func (c *controlled) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// controlOf returns the lock of a workspace's desktop, and what to call when it is not used any more.
func (s *Service) controlOf(teamID, workspaceID string) (c *controlled, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c = s.controls[workspaceID]
	if c == nil {
		c = &controlled{viewers: map[*View]struct{}{}, changed: make(chan struct{})}
		c.lock = control.New(control.Config{What: "desktop", Changed: func(now, before control.State, why control.Reason) {
			s.turned(c, teamID, workspaceID, before, why)
			if !now.Taken() {
				s.forget(workspaceID)
			}
		}})
		s.controls[workspaceID] = c
	}
	c.calls++
	return c, sync.OnceFunc(func() {
		s.mu.Lock()
		c.calls--
		s.mu.Unlock()
		s.forget(workspaceID)
	})
}

// turned follows a change of control: nothing stays pressed, viewers see it, and the audit log says what no call says.
func (s *Service) turned(c *controlled, teamID, workspaceID string, before control.State, why control.Reason) {
	s.mu.Lock()
	c.wake()
	var views []*View
	for v := range c.viewers {
		views = append(views, v)
	}
	ctx := c.taken
	s.mu.Unlock()
	for _, v := range views {
		v.release()
	}
	if before.Taken() && why != control.Gave && ctx != nil && s.cfg.Audit != nil {
		why = cmp.Or(why, control.Replaced)
		e := audit.Entry{Chain: teamID, Action: "desktop.give_back", TargetKind: "workspace", TargetID: workspaceID, Data: map[string]string{"reason": string(why)}}
		if err := s.cfg.Audit.Append(ctx, e); err != nil {
			s.cfg.Log.Error("an audit entry could not be written", "workspace_id", workspaceID, "error", err)
		}
	}
}

// forget drops the lock of a desktop that nobody looks at, and that nobody has taken over or uses now.
func (s *Service) forget(workspaceID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.controls[workspaceID]
	if c == nil || c.calls > 0 {
		return
	}
	if state, _ := c.lock.State(); !state.Taken() {
		delete(s.controls, workspaceID)
	}
}

// known returns the lock of a desktop that somebody looks at or has taken over; nil for others.
func (s *Service) known(workspaceID string) *control.Lock {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.controls[workspaceID]; c != nil {
		return c.lock
	}
	return nil
}

// Control says who controls a workspace's desktop.
func (s *Service) Control(workspaceID string) control.State {
	lock := s.known(workspaceID)
	if lock == nil {
		return control.State{}
	}
	state, _ := lock.State()
	return state
}

// mayUse refuses a user while somebody else has control. Agents have no userID.
func (s *Service) mayUse(workspaceID, userID string) error {
	lock := s.known(workspaceID)
	if lock == nil || userID != "" && s.Control(workspaceID).Person.ID == userID {
		return nil
	}
	return lock.Agent()
}

// Take gives a person control of a running desktop. With force it is taken from another person.
func (s *Service) Take(ctx context.Context, teamID, workspaceID string, who control.Person, force bool) error {
	st, err := s.State(ctx, teamID, workspaceID)
	if err != nil {
		return err
	}
	if st.Status != Running {
		return errNotRunning
	}
	c, done := s.controlOf(teamID, workspaceID)
	defer done()
	if err := c.lock.Take(who, force); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.taken = context.WithoutCancel(ctx)
	return nil
}

// Give gives control back to agents. Only the person who has it can.
func (s *Service) Give(ctx context.Context, teamID, workspaceID, userID string) error {
	if err := s.check(ctx, teamID, workspaceID); err != nil {
		return err
	}
	c, done := s.controlOf(teamID, workspaceID)
	defer done()
	return c.lock.Give(userID, control.Gave)
}

// Looking asks for a view of a workspace's desktop.
type Looking struct {
	TeamID, WorkspaceID string
	Person              control.Person
	May                 func(ctx context.Context) error // refuses input of somebody who may only look; nil = may
}

// View is one person's connection to a desktop's screen. Show, Write and Next may be called by one goroutine each; the rest by any.
type View struct {
	s     *Service
	c     *controlled
	who   Looking
	place *executors.Place
	conn  net.Conn
	life  context.Context
	end   context.CancelFunc
	close func()
	pace  *rate.Limiter // of input
	flow  *rate.Limiter // of bytes
	lost  atomic.Bool   // the person may not use the desktop any more

	mu      sync.Mutex // guards the rest
	filter  rfb.Filter
	used    time.Time // of the last note at the desktop
	due     bool      // somebody has used it since
	checked time.Time // of the last look at the person's rights
}

// Look connects a person with the running desktop of a workspace. They see it, and drive it once they have taken over. It wakes nothing, and
// keeps nothing awake.
func (s *Service) Look(ctx context.Context, who Looking) (*View, error) {
	if err := s.check(ctx, who.TeamID, who.WorkspaceID); err != nil {
		return nil, err
	}
	place, live := s.cfg.Sandboxes.Live(who.WorkspaceID)
	if !live || place.Asleep() {
		return nil, errNotRunning
	}
	conn, err := s.vnc(ctx, place)
	if fault.CodeOf(err) == errNotRunning.Code {
		err = errNotRunning // the guest does not know how to start one
	}
	if err != nil {
		return nil, err
	}
	v := &View{s: s, who: who, place: place, conn: conn, pace: rate.NewLimiter(inputsEach, inputsEach), flow: rate.NewLimiter(bytesEach, 2*MaxWrite)}
	v.life, v.end = context.WithCancel(context.WithoutCancel(ctx))
	v.filter = rfb.Filter{To: sender{conn}, Drives: v.drives, Input: v.input}
	c, done := s.controlOf(who.TeamID, who.WorkspaceID)
	v.c = c
	s.mu.Lock()
	full := len(c.viewers) >= MaxViewers
	if !full {
		c.viewers[v] = struct{}{}
		c.wake()
	}
	s.mu.Unlock()
	if full {
		done()
		v.end()
		_ = conn.Close()
		return nil, errTooMany
	}
	leave := c.lock.Come(who.Person.ID)
	v.close = sync.OnceFunc(func() {
		v.end()
		_ = conn.Close()
		leave()
		s.mu.Lock()
		delete(c.viewers, v)
		c.wake()
		s.mu.Unlock()
		done()
	})
	return v, nil
}

// sender writes to a VNC server, which may hang.
type sender struct{ net.Conn }

func (w sender) Write(p []byte) (int, error) {
	defer time.AfterFunc(sendWait, func() { _ = w.Close() }).Stop() // the pipe of some sandboxes knows no deadlines
	return w.Conn.Write(p)
}

func (v *View) drives() bool { return !v.lost.Load() && v.c.lock.Human(v.who.Person.ID) == nil }

// input delays input that comes too fast, and refuses that of somebody who may not use the desktop any more. The caller holds mu.
func (v *View) input() error {
	if v.who.May != nil && time.Since(v.checked) > rightsFor {
		if v.who.May(v.life) != nil {
			v.lost.Store(true) // at once; Write does the rest without mu
			return nil
		}
		v.checked = time.Now()
	}
	v.due = true
	return v.pace.Wait(v.life)
}

// release releases what is held by a person who does not drive any more.
func (v *View) release() {
	v.mu.Lock()
	err := v.filter.Pass(nil)
	v.mu.Unlock()
	if err != nil {
		v.Close()
	}
}

// Write passes on what the viewer's program says, at most MaxWrite bytes, without the input of somebody who does not drive. It fails when the
// sandbox sleeps: nothing there would take it.
func (v *View) Write(p []byte) (int, error) {
	if err := v.flow.WaitN(v.life, len(p)+eachWrite); err != nil {
		return 0, err
	}
	if v.place.Asleep() {
		return 0, errNotRunning
	}
	v.mu.Lock()
	err := v.filter.Pass(p)
	touch := v.due && time.Since(v.used) > touchEvery
	if touch {
		v.used, v.due = time.Now(), false
	}
	v.mu.Unlock()
	if v.lost.Load() {
		v.Revoke()
		v.lost.Store(false) // whoever takes over again, may
	}
	if touch {
		v.place.Use()()
		ctx, cancel := context.WithTimeout(v.life, callTimeout)
		defer cancel()
		_, _ = v.s.ask(ctx, v.place, guest.DesktopRequest{}, false) // the next one makes up for it
	}
	return len(p), err
}

// Show passes on what the VNC server says until the desktop, or the connection to it, ends.
func (v *View) Show(to io.Writer) error {
	s := rfb.Screen{Drives: v.drives}
	return s.Copy(to, v.conn)
}

// Seen is what a viewer gets beside the picture.
type Seen struct {
	Control control.State `json:"control"`
	Yours   bool          `json:"yours"`   // the viewer's person has control
	Viewers int           `json:"viewers"` // connections
}

// Next waits until the state differs from the one before, and returns it.
func (v *View) Next(ctx context.Context, before *Seen) (Seen, error) {
	for {
		v.s.mu.Lock()
		now, changed := Seen{Viewers: len(v.c.viewers)}, v.c.changed
		v.s.mu.Unlock()
		now.Control, _ = v.c.lock.State()
		now.Yours = now.Control.Person.ID == v.who.Person.ID
		if before == nil || now != *before {
			return now, nil
		}
		select {
		case <-changed:
		case <-v.life.Done():
			return now, errors.New("the view is closed")
		case <-ctx.Done():
			return now, context.Cause(ctx)
		}
	}
}

// Revoke gives control back to agents for a person who may not use the desktop any more.
func (v *View) Revoke() { _ = v.c.lock.Give(v.who.Person.ID, control.Revoked) } // refused unless it is theirs

// Close ends the connection. The desktop goes on.
func (v *View) Close() { v.close() }
