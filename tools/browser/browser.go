// Package browser gives a workspace one browser: a Chromium in its sandbox that agents use by tools. The
// program beside Chromium is guest/browser, a process of the guest; the Service speaks the DevTools protocol with it over the process's
// standard input and output. The browser goes on while the server restarts, and is found again.
//
// Chromium, its pages and the program beside it are hostile: the Service bounds whatever they say. When a page floods, crashes, opens tabs or
// asks questions, the next answer says so, and nothing else happens.
//
// Goroutines: each browser in use has one that reads and one that writes its connection; Run has one that closes idle browsers. No lock is
// held during a call.
package browser

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/browser/cdp"
	"github.com/parawork/parawork/tools/control"
	"github.com/parawork/parawork/workspaces"
)

// Bounds of a browser.
const (
	MaxTabs       = 20
	DefaultMemory = 1536 << 20
	DefaultIdle   = 15 * time.Minute

	width, height = 1280, 800 // of a page, in CSS pixels
	maxNotices    = 20
	startTimeout  = 40 * time.Second
	lostPatience  = 3 * time.Second  // for the guest to say how the program beside a browser ended
	callTimeout   = 20 * time.Second // of one command of the protocol
	lookEvery     = 15 * time.Second // for idle browsers
	processLog    = 32 << 20         // bytes the guest keeps while the server is away
)

// processPrefix begins the ids of browsers' processes, by which they are found again.
const processPrefix = "brw"

// Sandboxes finds and makes sandboxes.
type Sandboxes interface {
	// Ensure returns the workspace's live sandbox, and wakes or makes it when there is none.
	Ensure(ctx context.Context, workspaceID string) (*executors.Place, error)
	// Live returns the workspace's live sandbox, which may be suspended, without making one.
	Live(workspaceID string) (*executors.Place, bool)
	// Place returns what a kind of executor can do now.
	Place(ctx context.Context, kind executors.Kind) (executors.Capabilities, bool)
}

// Workspaces knows the workspaces.
type Workspaces interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
}

// File is a screenshot or a recording to be saved as an artifact.
type File struct {
	TeamID, WorkspaceID, SessionID, UserID string
	Name, MIME                             string
	Body                                   io.Reader
	Size                                   int64
}

// Config is what a Service is made of. Sandboxes and Workspaces are required.
type Config struct {
	Sandboxes  Sandboxes
	Workspaces Workspaces
	Save       func(ctx context.Context, f File) (artifactID string, err error) // nil: screenshots and recordings cannot be saved

	Recordings   string        // folder of recordings that are not finished; "" = browsers cannot be recorded
	RecordAlways bool          // every browser that an agent uses is recorded
	Gone         time.Duration // how long a person who took over may be gone; 0 = control.DefaultGone

	Secrets tools.Secrets // masks what a recording says of actions; nil = teams have no secrets

	Memory    int64         // bytes a browser may use; 0 = DefaultMemory
	Idle      time.Duration // a browser that nobody uses for this long is closed; 0 = DefaultIdle
	AllowBare bool          // also in places that do not isolate, Chromium may run without a sandbox of its own
	Now       func() time.Time
	Log       *slog.Logger
}

// Service has the browsers. Safe for concurrent use.
type Service struct {
	cfg  Config
	life context.Context
	stop context.CancelFunc
	born time.Time // recordings that were written to before are of an earlier server
	work tasks.Group

	recorders atomic.Int64 // browsers that are being recorded

	mu       sync.Mutex
	browsers map[string]*entry // by workspace
	screens  map[string]*screen
	ends     map[string]string // why the last browser of a workspace ended, until the next one
}

// entry is a browser that is being found or started, or was.
type entry struct {
	place *executors.Place
	ready chan struct{} // closed when b or err is there
	gone  chan struct{} // closed when it is no longer the workspace's
	b     *browser
	err   error
}

// New returns a Service.
func New(cfg Config) *Service {
	cfg.Memory = cmp.Or(cfg.Memory, DefaultMemory)
	cfg.Idle = cmp.Or(cfg.Idle, DefaultIdle)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Service{cfg: cfg, browsers: map[string]*entry{}, screens: map[string]*screen{}, ends: map[string]string{}, born: time.Now()}
	s.life, s.stop = context.WithCancel(context.Background())
	return s
}

// Run closes idle browsers until ctx ends. The browsers themselves go on in their sandboxes.
func (s *Service) Run(ctx context.Context) error {
	s.recoverRecordings(tenant.All(ctx, "recordings of every team are saved"))
	tick := time.NewTicker(min(lookEvery, s.cfg.Idle))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			s.end()
			return nil
		case <-tick.C:
			for _, b := range s.open() {
				if b.idle() {
					b.close(fmt.Sprintf("Nobody used it for %s.", s.cfg.Idle))
				}
			}
		}
	}
}

// end lets go of all browsers.
func (s *Service) end() {
	s.stop()
	s.work.Close()
}

// open are the browsers in use.
func (s *Service) open() (all []*browser) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.browsers {
		select {
		case <-e.ready:
			if e.b != nil {
				all = append(all, e.b)
			}
		default:
		}
	}
	return all
}

var errNotRunning = fault.New(fault.Conflict, "browser_not_running", "No browser runs in this workspace. Open a page first: browser_open.")

// check refuses a workspace of another team.
func (s *Service) check(ctx context.Context, teamID, workspaceID string) error {
	w, err := s.cfg.Workspaces.Workspace(ctx, workspaceID)
	if err != nil {
		return err
	}
	if w.TeamID != teamID {
		return fault.New(fault.NotFound, "not_found", "There is no such workspace.")
	}
	return nil
}

// browserOf returns the workspace's browser. With start it makes one, and the sandbox, where there is none.
func (s *Service) browserOf(ctx context.Context, workspaceID string, start bool) (*browser, error) {
	for {
		place, live := s.cfg.Sandboxes.Live(workspaceID)
		if start || live && place.Asleep() {
			var err error
			if place, err = s.cfg.Sandboxes.Ensure(ctx, workspaceID); err != nil {
				return nil, err
			}
		} else if !live {
			return nil, errNotRunning
		}
		e, err := s.entryOf(workspaceID, place, start)
		if err != nil {
			return nil, err
		}
		select {
		case <-e.ready:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if e.err != nil {
			if start && errors.Is(e.err, errNotRunning) { // somebody who does not start one was looking for it
				continue
			}
			return nil, e.err
		}
		select {
		case <-e.b.conn.Done(): // it ended a moment ago: who starts one waits for another, and everybody else reads why
		default:
			return e.b, nil
		}
		if !start {
			return e.b, nil
		}
		select {
		case <-e.gone:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// entryOf returns the entry of a browser that is in use or on its way; when there is none it has one found or started.
func (s *Service) entryOf(workspaceID string, place *executors.Place, start bool) (*entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.browsers[workspaceID]; e != nil && e.place == place {
		return e, nil
	}
	e := &entry{place: place, ready: make(chan struct{}), gone: make(chan struct{})}
	begun := s.work.Go(func() {
		defer close(e.gone)
		ctx, cancel := context.WithTimeout(s.life, startTimeout)
		defer cancel()
		c := s.screenOf(workspaceID, func(c *screen) { c.entries++ }) // the browser's for as long as it is connected, whoever looks
		defer c.left()
		b, err := s.connect(ctx, c, place, start)
		if err == nil {
			b.gone = e.gone
		} else {
			s.drop(workspaceID, e)
		}
		e.b, e.err = b, err
		close(e.ready)
		if err == nil {
			c.connected(b)
			select {
			case <-b.over:
			case <-s.life.Done():
				b.conn.Close()
				<-b.over
			}
			b.mu.Lock()
			why := b.ended
			b.mu.Unlock()
			s.ended(workspaceID, why)
			s.drop(workspaceID, e)
			c.gone(b, why)
		}
	})
	if !begun {
		return nil, fault.New(fault.Unavailable, "server_stopping", "The server is stopping. Try again in a moment.")
	}
	s.browsers[workspaceID] = e
	return e, nil
}

// maxEnds bounds the ends that are remembered.
const maxEnds = 1000

// ended remembers why a browser ended, for whoever uses the next one.
func (s *Service) ended(workspaceID, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if why == closedWords || why == "" {
		delete(s.ends, workspaceID)
	} else if len(s.ends) < maxEnds {
		s.ends[workspaceID] = why
	}
}

// takeEnd returns why the last browser ended, once.
func (s *Service) takeEnd(workspaceID string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	why := s.ends[workspaceID]
	delete(s.ends, workspaceID)
	return why
}

// closedWords is the reason of an end that somebody asked for.
const closedWords = "It was closed."

func (s *Service) drop(workspaceID string, e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.browsers[workspaceID] == e {
		delete(s.browsers, workspaceID)
	}
}

// browser is the browser of one workspace.
type browser struct {
	s           *Service
	workspaceID string
	place       *executors.Place
	process     string // id
	conn        *cdp.Conn
	over        chan struct{} // closed when conn has ended, and ended says why
	gone        chan struct{} // that of its entry

	screen *screen

	turn chan struct{} // one action at a time

	mu         sync.Mutex
	tabs       []*tab
	active     *tab
	count      int // tabs so far
	notices    []string
	cast       *tab      // that Chromium sends pictures of
	ackAt      time.Time // of the newest picture's acknowledgement
	lastNotice string
	retitling  bool // a title is about to be asked for
	used       time.Time
	start      guest.BrowserStart
	ended      string // why it has ended
}

// connect finds the running browser of a sandbox, or starts one.
func (s *Service) connect(ctx context.Context, c *screen, place *executors.Place, start bool) (*browser, error) {
	list, err := place.Guest.Processes(ctx)
	if err != nil {
		return nil, err
	}
	b := &browser{s: s, workspaceID: c.workspaceID, place: place, screen: c, over: make(chan struct{}), turn: make(chan struct{}, 1), used: s.cfg.Now()}
	from, found := int64(0), false
	for _, p := range list {
		switch {
		case !strings.HasPrefix(p.ID, processPrefix+"_"):
		case p.State == guest.Running:
			b.process, from, found = p.ID, p.Ends[guest.Stdout], true
		default:
			_ = place.Guest.Remove(ctx, p.ID) // an earlier one; the guest forgets it at some time anyway
		}
	}
	if b.process == "" {
		if !start {
			return nil, errNotRunning
		}
		if err := b.launch(ctx); err != nil {
			return nil, err
		}
		if why := s.takeEnd(c.workspaceID); why != "" {
			b.notice("The browser was started anew. The one before has ended: %s", why)
		}
	}
	if state, _ := c.lock.State(); found { // who had control before a restart has it no longer, and no ref is known
		b.notice("The server has found the browser again, as after a restart. %s control. Take a snapshot: earlier refs are no longer valid.", holder(state))
	}
	p, err := openPipe(place.Guest, b.process, from)
	if err != nil {
		return nil, err
	}
	b.conn = cdp.New(p, b.event)
	if !s.work.Go(func() {
		defer close(b.over)
		b.lost(b.conn.Run())
	}) {
		p.Close()
		return nil, fault.New(fault.Unavailable, "server_stopping", "The server is stopping. Try again in a moment.")
	}
	if err := b.attach(ctx); err != nil {
		b.conn.Close()
		return nil, b.startError(err)
	}
	return b, nil
}

// holder begins a sentence about who has control.
func holder(state control.State) string {
	if state.Taken() {
		return state.Person.Name + " has"
	}
	return "Agents have"
}

// launch starts the browser's program.
func (b *browser) launch(ctx context.Context) error {
	s := b.s
	argv := []string{guest.Self, "browser", "--id", b.workspaceID, "--memory", strconv.FormatInt(s.cfg.Memory, 10), "--idle", (2 * s.cfg.Idle).String()}
	if caps, ok := s.cfg.Sandboxes.Place(ctx, b.place.Kind); s.cfg.AllowBare || ok && caps.Isolated {
		argv = append(argv, "--no-sandbox")
	}
	b.process = id.New(processPrefix)
	p, err := b.place.Guest.Start(ctx, guest.ProcessSpec{ID: b.process, Argv: argv, Stdin: true, MaxLog: processLog})
	if err != nil {
		return err
	}
	if p.State != guest.Running && strings.HasPrefix(p.Reason, "start_failed") {
		return fault.New(fault.Unsupported, "browser_failed", "The browser could not be started: %.300s.", strings.TrimPrefix(p.Reason, "start_failed: "))
	}
	return nil
}

// attach has Chromium report its pages. A connection before ours may have done the same.
func (b *browser) attach(ctx context.Context) error {
	type autoAttach struct {
		AutoAttach bool             `json:"autoAttach"`
		Wait       bool             `json:"waitForDebuggerOnStart"`
		Flatten    bool             `json:"flatten"`
		Filter     []map[string]any `json:"filter,omitempty"`
	}
	pages := []map[string]any{{"type": "page"}, {"exclude": true}}
	for _, c := range []struct {
		method string
		params any
	}{
		{"Target.setAutoAttach", autoAttach{Flatten: true}},
		{"Target.setAutoAttach", autoAttach{AutoAttach: true, Flatten: true, Filter: pages}},
		{"Target.setDiscoverTargets", map[string]any{"discover": true, "filter": pages}},
		{"Browser.setDownloadBehavior", map[string]any{"behavior": "deny", "eventsEnabled": true}},
	} {
		if err := b.conn.Call(ctx, "", c.method, c.params, nil); err != nil {
			return err
		}
	}
	b.mu.Lock()
	tabs := slices.Clone(b.tabs)
	b.mu.Unlock()
	for _, t := range tabs { // a page that is only just coming up does not survive it when another one is opened in its place
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		_ = b.conn.Call(ctx, t.session, "Runtime.evaluate", map[string]any{"expression": "1"}, nil) // it may have crashed, or hang
		cancel()
	}
	return nil
}

// startError explains why a browser could not be started.
func (b *browser) startError(err error) error {
	<-b.over
	b.mu.Lock()
	why := b.ended
	b.mu.Unlock()
	switch {
	case strings.Contains(why, "was not found"):
		return fault.Wrap(err, fault.Unsupported, "browser_missing", "%s.", strings.TrimSuffix(why, "."))
	case strings.Contains(why, "cannot isolate"):
		return fault.Wrap(err, fault.Unsupported, "browser_unsafe", "%s. An operator can allow it nevertheless: browser.allowUnsandboxed in config.json.", strings.TrimSuffix(why, "."))
	case why != "":
		return fault.Wrap(err, fault.Unavailable, "browser_failed", "The browser could not be started: %s", why)
	}
	return fault.Wrap(err, fault.Unavailable, "browser_failed", "The browser does not answer. Close it with browser_close, and open the page again.")
}

// lost notes why the connection has ended. The program beside the browser says so itself, unless it was killed, or could not go on.
func (b *browser) lost(err error) {
	b.mu.Lock()
	told := b.ended != ""
	b.mu.Unlock()
	if told || b.s.life.Err() != nil {
		return
	}
	why := ""
	if errors.Is(err, io.EOF) {
		ctx, cancel := context.WithTimeout(b.s.life, lostPatience)
		defer cancel()
		why = b.lastWords(ctx)
	}
	b.s.cfg.Log.Info("the connection to a browser ended", "workspace_id", b.workspaceID, "error", err, "why", why)
	b.mu.Lock()
	b.ended = cmp.Or(b.ended, why)
	b.mu.Unlock()
}

// lastWords say how the program beside the browser ended: that which it wrote first when it could not go on.
func (b *browser) lastWords(ctx context.Context) string {
	p, err := b.place.Guest.Wait(ctx, b.process)
	if err != nil {
		return ""
	}
	how := p.Reason
	if p.ExitCode != nil {
		how = fmt.Sprintf("exit status %d", *p.ExitCode)
	}
	why := fmt.Sprintf("The program that runs it ended unexpectedly (%s).", how)
	out, err := b.place.Guest.Output(ctx, b.process, guest.Stderr, 0)
	if err != nil {
		return why
	}
	defer out.Close()
	words := make([]byte, 300)
	n, _ := io.ReadFull(out, words)
	if line, _, _ := strings.Cut(string(words[:n]), "\n"); line != "" {
		why += " Its words: " + clean(line, 300)
	}
	return why
}

// endedError says that the browser has ended.
func (b *browser) endedError(err error) error {
	if !errors.Is(err, cdp.ErrClosed) {
		return err
	}
	<-b.over
	b.mu.Lock()
	defer b.mu.Unlock()
	return fault.Wrap(err, fault.Conflict, "browser_ended", "The browser has ended. %s Open the page again: browser_open.", cmp.Or(b.ended, "The connection to it was lost."))
}

// close ends the browser's process.
func (b *browser) close(why string) {
	b.mu.Lock()
	b.ended = cmp.Or(b.ended, why)
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.s.life), callTimeout)
	defer cancel()
	if _, err := b.place.Guest.Stop(ctx, b.process, 3*time.Second); err != nil {
		b.s.cfg.Log.Warn("a browser could not be ended", "workspace_id", b.workspaceID, "error", err)
	}
	b.conn.Close()
}

// idle reports whether nobody has used the browser for long.
func (b *browser) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.place.Asleep() && b.s.cfg.Now().Sub(b.used) > b.s.cfg.Idle
}

// call has Chromium do a command for a tab, within a limit.
func (b *browser) call(ctx context.Context, session, method string, params, result any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, fault.New(fault.Timeout, "browser_timeout", "The page did not react within %s. Try again, or open it again.", callTimeout))
	defer cancel()
	err := b.conn.Call(ctx, session, method, params, result)
	if refusal, ok := errors.AsType[*cdp.Error](err); ok && strings.Contains(refusal.Message, "Target crashed") {
		return fault.Wrap(err, fault.Conflict, "browser_page_crashed", "The page crashed. The next call opens it again.")
	}
	return b.endedError(err)
}

// notice notes something that whoever uses the browser next should know. The caller holds mu.
func (b *browser) notice(format string, args ...any) {
	text := clean(fmt.Sprintf(format, args...), 500)
	if n := len(b.notices); n > 0 && b.notices[n-1] == text {
		return
	}
	if len(b.notices) >= maxNotices {
		b.notices = b.notices[1:]
	}
	b.notices = append(b.notices, text)
	b.lastNotice = text
	b.screen.bump()
}

// takeNotices returns what happened since the last call.
func (b *browser) takeNotices() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.notices
	b.notices = nil
	return n
}
