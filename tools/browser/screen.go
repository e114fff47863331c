package browser

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/tools/browser/cdp"
	"github.com/parawork/parawork/tools/control"
)

// Bounds of what viewers get.
const (
	MaxViewers = 100 // of one workspace

	frameEvery  = 40 * time.Millisecond // between frames, on average
	framesAhead = 8                     // frames that may come at once: Chromium sends three of a tab without an acknowledgement
	stateEvery  = 50 * time.Millisecond // between states that a viewer gets, at least
	wakeEvery   = 5 * time.Millisecond  // between looks of a viewer at what changed, at least: a page may report changes without end
	turnsAtOnce = 20                    // changes of control and of recordings by one viewer, and turnsRate a second: each is audited or saved
	turnsRate   = 1
	maxFrame    = 4 << 20                // bytes of one; larger ones are not shown
	frameWindow = 2                      // frames a viewer may have that it has not acknowledged
	stallAfter  = 30 * time.Second       // without an acknowledgement a viewer is dropped
	quality     = 60                     // of JPEG
	lookAgain   = 5 * time.Second        // for a browser that an earlier server started
	rightsFor   = 500 * time.Millisecond // an answer about rights holds
)

// ErrStalled says that a viewer acknowledges nothing any more.
var ErrStalled = errors.New("the viewer does not take what it is sent")

// screen is what people see of a workspace's browser, and who controls it. There is one per workspace that has a browser or viewers. Its mu
// is taken last: with browser.mu held, never the other way round.
type screen struct {
	s           *Service
	workspaceID string
	lock        *control.Lock

	mu        sync.Mutex
	b         *browser // nil = none is connected
	viewers   map[*Viewer]struct{}
	recording *recording
	entries   int                                 // browsers that are connected, or on their way
	frame     *Frame                              // the newest, nil = none of the page that is shown
	seq       uint32                              // of frames
	version   int64                               // of everything but frames
	agentTab  int                                 // that an agent used last
	driver    func(took bool, why control.Reason) // Watching.Controlled of the person who has control
	ended     string                              // why the last browser ended
	changed   chan struct{}
	looked    time.Time
	place     *executors.Place // where a browser was looked for
}

// Frame is a picture of the page that is shown. It is made once, and shared by all viewers: nobody changes it.
type Frame struct {
	Seq     uint32
	At      time.Time
	Message []byte // what viewers are sent: u32 number, u16 tab, u16 width and u16 height of the page in CSS pixels, all big-endian, and the JPEG
}

// frameHead is how many bytes of a message come before the JPEG.
const frameHead = 10

// JPEG is the picture itself.
func (f *Frame) JPEG() []byte { return f.Message[frameHead:] }

func newFrame(seq uint32, tab, width, height int, at time.Time, jpeg []byte) *Frame {
	m := make([]byte, 0, frameHead+len(jpeg))
	m = binary.BigEndian.AppendUint32(m, seq)
	for _, n := range []int{tab, width, height} {
		m = binary.BigEndian.AppendUint16(m, uint16(min(n, 1<<16-1)))
	}
	return &Frame{Seq: seq, At: at, Message: append(m, jpeg...)}
}

// screenOf returns the workspace's screen, and makes it where there is none.
func (s *Service) screenOf(workspaceID string, use func(*screen)) *screen {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.screens[workspaceID]
	if c == nil {
		c = &screen{s: s, workspaceID: workspaceID, viewers: map[*Viewer]struct{}{}, changed: make(chan struct{}), version: 1}
		c.lock = control.New(control.Config{What: "browser", Gone: s.cfg.Gone, Now: s.cfg.Now, Changed: c.controlled})
		s.screens[workspaceID] = c
	}
	c.mu.Lock()
	use(c)
	c.mu.Unlock()
	return c
}

// dropScreen forgets a screen that nobody needs.
func (s *Service) dropScreen(c *screen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, _ := c.lock.State()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == 0 && len(c.viewers) == 0 && c.recording == nil && !state.Taken() && s.screens[c.workspaceID] == c {
		delete(s.screens, c.workspaceID)
		c.lock.Close()
	}
}

// left notes that a browser is connected no longer, or was not found or started.
func (c *screen) left() {
	c.mu.Lock()
	c.entries--
	c.mu.Unlock()
	c.s.dropScreen(c)
}

// bump tells viewers that something else than the picture changed.
func (c *screen) bump() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	c.wake()
}

// wake has viewers look again. The caller holds mu.
func (c *screen) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// connected shows a browser that was found or started.
func (c *screen) connected(b *browser) {
	c.mu.Lock()
	c.b, c.ended, c.frame = b, "", nil
	c.version++
	c.wake()
	c.mu.Unlock()
	b.mu.Lock()
	b.recast()
	b.mu.Unlock()
}

// gone notes that the browser has ended, or cannot be reached.
func (c *screen) gone(b *browser, why string) {
	c.mu.Lock()
	if c.b == b {
		c.b, c.frame, c.agentTab = nil, nil, 0
		c.ended = why
		c.version++
		c.wake()
	}
	c.mu.Unlock()
}

// watched reports whether anybody looks.
func (c *screen) watched() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.viewers) > 0 || c.recording != nil
}

// controlled tells whom it concerns that control changed.
func (c *screen) controlled(now, before control.State, why control.Reason) {
	c.mu.Lock()
	b, rec, told := c.b, c.recording, c.driver
	c.driver = nil
	for v := range c.viewers {
		if now.Taken() && v.who.Person.ID == now.Person.ID {
			c.driver = v.who.Controlled
		}
	}
	tell := c.driver
	c.version++
	c.wake()
	c.mu.Unlock()
	if before.Taken() && told != nil {
		told(false, cmp.Or(why, control.Replaced))
	}
	if tell != nil {
		tell(true, "")
	}
	if rec != nil {
		rec.act(action{By: cmp.Or(now.Person.Name, before.Person.Name), Tool: map[bool]string{true: "take_over", false: "give_back"}[now.Taken()]})
	}
	if b != nil && before.Taken() && !now.Taken() {
		b.mu.Lock()
		words := map[control.Reason]string{control.Gave: "gave it back", control.Left: "left", control.Revoked: "may not use it any more"}[why]
		b.notice("%s used the browser and %s. The page may have changed: take a snapshot.", before.Person.Name, words)
		for _, t := range b.tabs { // agents do not answer dialogs
			if t.dialog != nil {
				b.conn.Post(t.session, "Page.handleJavaScriptDialog", map[string]any{"accept": t.dialog.Type == "beforeunload"})
				t.dialog = nil
			}
		}
		b.mu.Unlock()
	}
	if !now.Taken() {
		c.s.dropScreen(c)
	}
}

// recast has Chromium send pictures of the active tab, and of no other; of none when nobody looks. The caller holds browser.mu.
func (b *browser) recast() {
	want := b.active
	if want != nil && want.crashed || !b.screen.watched() {
		want = nil
	}
	if b.cast == want {
		return
	}
	if b.cast != nil {
		b.conn.Post(b.cast.session, "Page.stopScreencast", nil)
	}
	b.cast = want
	b.screen.mu.Lock()
	b.screen.frame = nil
	b.screen.mu.Unlock()
	if want != nil {
		b.conn.Post(want.session, "Page.bringToFront", nil)
		b.conn.Post(want.session, "Page.startScreencast", map[string]any{"format": "jpeg", "quality": quality, "maxWidth": width, "maxHeight": height, "everyNthFrame": 1})
	}
}

// pictured takes a frame. It is acknowledged, which has Chromium send the next one, when that may come. The caller holds browser.mu.
func (b *browser) pictured(t *tab, e cdp.Event) {
	var p struct {
		Data     []byte `json:"data"`
		Session  int    `json:"sessionId"`
		Metadata struct {
			Width  float64 `json:"deviceWidth"`
			Height float64 `json:"deviceHeight"`
		} `json:"metadata"`
	}
	now := time.Now()
	at := b.ackAt.Add(frameEvery) // when the next frame may come
	if at.Before(now) {
		at = now
	}
	wait := at.Sub(now)
	if wait > framesAhead*frameEvery {
		return // Chromium waits for acknowledgements: these are not its own
	}
	b.ackAt = at
	if len(e.Params) > 2*maxFrame || !e.Into(&p) {
		p.Data, p.Session = nil, -1
		var id struct {
			Session int `json:"sessionId"`
		}
		if e.Into(&id) {
			p.Session = id.Session
		}
	} else if e.Picture != nil {
		p.Data = e.Picture
	}
	session, cast := t.session, p.Session
	ack := func() { b.conn.Post(session, "Page.screencastFrameAck", map[string]any{"sessionId": cast}) }
	if wait == 0 {
		ack()
	} else {
		time.AfterFunc(wait, ack)
	}
	b.retitleSoon(t)
	if t != b.cast || len(p.Data) == 0 || len(p.Data) > maxFrame {
		return
	}
	c := b.screen
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	c.frame = newFrame(c.seq, t.num, clamp(p.Metadata.Width, width), clamp(p.Metadata.Height, height), now, p.Data)
	c.wake()
}

// clamp is a size that Chromium says, or the one that was asked for.
func clamp(v float64, otherwise int) int {
	if v < 1 || v > maxCanvas {
		return otherwise
	}
	return int(v)
}

// Watching asks for a view of a workspace's browser.
type Watching struct {
	TeamID, WorkspaceID string
	Person              control.Person
	May                 func(ctx context.Context) error     // refuses input of somebody who may look only; nil = may
	Controlled          func(took bool, why control.Reason) // is called when the person takes over, and when that ends; nil = nobody asks
}

// Viewer is one person who looks at a browser. Next is called by one goroutine, Input by another one.
type Viewer struct {
	c     *screen
	who   Watching
	leave func()

	acked   chan struct{}
	turns   *rate.Limiter
	rights  time.Time // of the last answer
	allowed error

	// screen.mu guards these.
	sent, got uint32 // frames
	unacked   int

	// Of Next.
	version int64
	stateAt time.Time
	wokenAt time.Time
	seen    uint32
}

// Watch begins to show a workspace's browser. It starts none, and wakes no sandbox.
func (s *Service) Watch(ctx context.Context, who Watching) (*Viewer, error) {
	if err := s.check(ctx, who.TeamID, who.WorkspaceID); err != nil {
		return nil, err
	}
	v := &Viewer{who: who, acked: make(chan struct{}, 1), turns: rate.NewLimiter(turnsRate, turnsAtOnce)}
	full := false
	v.c = s.screenOf(who.WorkspaceID, func(c *screen) {
		if full = len(c.viewers) >= MaxViewers; !full {
			c.viewers[v] = struct{}{}
			c.version++
			c.wake()
		}
	})
	if full {
		return nil, fault.New(fault.Conflict, "browser_viewers_full", "%d people watch this browser, which is the limit. Try again later.", MaxViewers)
	}
	v.leave = v.c.lock.Come(who.Person.ID)
	v.c.recast()
	return v, nil
}

// recast looks again whether pictures are wanted.
func (c *screen) recast() {
	c.mu.Lock()
	b := c.b
	c.mu.Unlock()
	if b != nil {
		b.mu.Lock()
		b.recast()
		b.mu.Unlock()
	}
}

// Close ends the view.
func (v *Viewer) Close() {
	v.leave()
	v.c.mu.Lock()
	delete(v.c.viewers, v)
	v.c.version++
	v.c.wake()
	v.c.mu.Unlock()
	v.c.recast()
	v.c.s.dropScreen(v.c)
}

// Revoke gives control back at once, when the person may not use the browser any more.
func (v *Viewer) Revoke() { _ = v.c.lock.Give(v.who.Person.ID, control.Revoked) }

// Next waits for what the viewer has not seen: the newest frame, or else the state. Frames it was too slow for are left out. ErrStalled: the
// viewer has acknowledged nothing for a long time.
func (v *Viewer) Next(ctx context.Context) (*Frame, *View, error) {
	var stalled <-chan time.Time
	for {
		v.c.look(v.who.WorkspaceID)
		v.c.mu.Lock()
		changed, version, frame := v.c.changed, v.c.version, v.c.frame
		blocked := v.unacked >= frameWindow
		if frame != nil && frame.Seq != v.seen && !blocked {
			v.seen, v.sent = frame.Seq, frame.Seq
			v.unacked++
			v.c.mu.Unlock()
			return frame, nil, nil
		}
		v.c.mu.Unlock()
		wait := lookAgain
		if version != v.version {
			if wait = stateEvery - time.Since(v.stateAt); wait <= 0 {
				v.version, v.stateAt = version, time.Now()
				view := v.c.view(v.who.Person.ID)
				return nil, &view, nil
			}
		}
		if blocked && stalled == nil {
			stalled = time.After(stallAfter)
		} else if !blocked {
			stalled = nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
			if rest := wakeEvery - time.Since(v.wokenAt); rest > 0 {
				tasks.Sleep(ctx, rest)
			}
			v.wokenAt = time.Now()
		case <-v.acked:
		case <-timer.C:
		case <-stalled:
			return nil, nil, ErrStalled
		case <-v.c.s.life.Done():
			return nil, nil, fault.New(fault.Unavailable, "server_stopping", "The server is stopping. Try again in a moment.")
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
		timer.Stop()
	}
}

// ack notes that the viewer has drawn a frame.
func (v *Viewer) ack(seq uint32) {
	v.c.mu.Lock()
	waited := v.unacked >= frameWindow
	if seq == v.sent || seq-v.got < 1<<31 && seq != v.got {
		v.got = seq
		v.unacked = max(v.unacked-1, 0)
		if seq == v.sent {
			v.unacked = 0
		}
	}
	v.c.mu.Unlock()
	if !waited {
		return
	}
	select {
	case v.acked <- struct{}{}:
	default:
	}
}

// look finds a browser that an earlier server has started, in a sandbox that is awake.
func (c *screen) look(workspaceID string) {
	c.mu.Lock()
	found := c.b != nil
	c.mu.Unlock()
	if found {
		return
	}
	place, live := c.s.cfg.Sandboxes.Live(workspaceID)
	if !live || place.Asleep() {
		return
	}
	c.mu.Lock()
	due := c.b == nil && (c.place != place || time.Since(c.looked) >= 12*lookAgain)
	if due {
		c.place, c.looked = place, time.Now()
	}
	c.mu.Unlock()
	if due {
		_, _ = c.s.entryOf(workspaceID, place, false) // it shows itself when it is found
	}
}

// View is what a viewer knows beside the picture.
type View struct {
	Running   bool          `json:"running"`
	Asleep    bool          `json:"asleep"`
	Ended     string        `json:"ended"` // why the last browser ended
	Tabs      []tabShown    `json:"tabs"`
	AgentTab  int           `json:"agent_tab"` // that an agent used last; 0 = none
	Control   control.State `json:"control"`
	Yours     bool          `json:"yours"`
	Viewers   int           `json:"viewers"`
	Recording bool          `json:"recording"`
	Notice    string        `json:"notice"` // what happened last by itself
}

// view describes the browser to a person.
func (c *screen) view(userID string) View {
	state, _ := c.lock.State()
	c.mu.Lock()
	b := c.b
	v := View{Running: b != nil, Ended: c.ended, Tabs: []tabShown{}, AgentTab: c.agentTab, Control: state, Yours: state.Taken() && state.Person.ID == userID,
		Viewers: len(c.viewers), Recording: c.recording != nil}
	c.mu.Unlock()
	if b != nil {
		v.Asleep = b.place.Asleep()
		b.mu.Lock()
		v.Tabs, v.Notice = b.list(), b.lastNotice
		if !slices.ContainsFunc(b.tabs, func(t *tab) bool { return t.num == v.AgentTab }) {
			v.AgentTab = 0
		}
		b.mu.Unlock()
	}
	return v
}

// Encode is the state as JSON.
func (v View) Encode() ([]byte, error) {
	return json.Marshal(struct {
		Type string `json:"type"`
		View
	}{"state", v})
}
