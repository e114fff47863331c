// Package lsp has the language servers of workspaces: one for each language in the sandbox of a workspace, shared by all agents and
// people who work there. A server is an ordinary process of the guest. It starts when somebody asks, is ended after it was idle for a
// while or used too much memory, and is replaced when it dies, a few times. Whatever it says is checked: a server that lies, floods or
// dies affects only the answers about its language.
//
// A server goes on while Parawork restarts: its process is the guest's, and a Record in the database says what it knows. The next run reads
// on in its output, waits until it answers, closes its documents, tells it of all files that may have changed, and opens what is asked for.
//
// Goroutines: Run has two; each language server has some while it lives, which Run waits for. Locks: Service.mu and server.mu are held for
// no I/O; a server's turn is held while documents are brought up to date, so that their versions grow in order.
package lsp

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/tools/lsp/languages"
	"github.com/parawork/parawork/workspaces"
)

// Bounds of language servers.
const (
	startWithin  = 60 * time.Second // from the program's start to its first answer
	askWithin    = 20 * time.Second // for an answer to a question
	idleAfter    = 10 * time.Minute
	watchEvery   = 5 * time.Second
	watchWithin  = 3 * time.Second
	endGrace     = 2 * time.Second
	lastWords    = 5 * time.Second // after its end, for what it wrote last
	maxDeaths    = 3               // of one language in one workspace,
	deathsWithin = 10 * time.Minute

	processPrefix = "lsp-" // of the ids of language servers' processes
)

// Sandboxes are the sandboxes language servers run in: the Manager's.
type Sandboxes interface {
	// Permit refuses a workspace whose executor its team no longer allows.
	Permit(ctx context.Context, workspaceID string) error
	// Ensure returns the workspace's live sandbox and makes one when there is none.
	Ensure(ctx context.Context, workspaceID string) (*executors.Place, error)
	// LiveAwake returns the workspace's live sandbox while it is not suspended.
	LiveAwake(workspaceID string) (*executors.Place, bool)
}

// Files are the files of workspaces.
type Files interface {
	// Changed returns the files that differ from the workspace's base as they are now.
	Changed(ctx context.Context, workspaceID string) ([]guest.Change, error)
	// Write writes a file whose contents have this sha256, in hex, so that the timeline sees it. path is in wire form.
	Write(ctx context.Context, workspaceID, path string, r io.Reader, ifMatch string) (guest.FileInfo, error)
}

// Workspaces knows the workspaces.
type Workspaces interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
}

// Config configures a Service.
type Config struct {
	Places     Sandboxes
	Files      Files
	Workspaces Workspaces
	Records    Records
	// Settings keeps what projects chose. Nil: all have the default.
	Settings Settings
	// MemoryMB ends a server that uses more; 0 = what its language allows.
	MemoryMB int64
	// Guard refuses a program that may not run in this kind of executor. Nil: all may.
	Guard func(ctx context.Context, p *executors.Place, argv []string) error
	// Events hear of changes of the servers of a workspace. Nil: nobody does.
	Events events.Publisher
	Now    func() time.Time
	After  func(time.Duration) <-chan time.Time // the clock of the watch
	Log    *slog.Logger
}

// Service has the language servers of all workspaces. Safe for concurrent use.
type Service struct {
	cfg  Config
	life context.Context // ends with Run
	end  context.CancelFunc
	work tasks.Group
	told told
	news news

	mu      sync.Mutex
	servers map[key]*server
	clients map[key][]*sharer
	deaths  map[key][]death
	ids     map[string]bool // of the processes of this run
}

type key struct{ workspaceID, language string }

type death struct {
	at    time.Time
	cause string
}

// New returns a Service. It starts nothing and panics if a dependency is missing.
func New(cfg Config) *Service {
	if cfg.Places == nil || cfg.Files == nil || cfg.Workspaces == nil || cfg.Records == nil {
		panic(errors.New("lsp: Places, Files, Workspaces and Records are required"))
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.After == nil {
		cfg.After = time.After
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	s := &Service{cfg: cfg, servers: map[key]*server{}, clients: map[key][]*sharer{}, deaths: map[key][]death{}, ids: map[string]bool{}, news: newNews()}
	s.life, s.end = context.WithCancel(tenant.All(context.Background(), "language servers are shared by all who work in a workspace"))
	return s
}

// Participant finds the language servers again that an earlier run of Parawork left in a sandbox.
func (s *Service) Participant() executors.Participant {
	return executors.Participant{Name: "language servers", Live: func(p *executors.Place) {
		s.work.Go(func() {
			for language := range s.inherit(p, "") {
				l, _ := languages.ByID(language)
				_, _ = s.server(s.life, p, l) // its end says why
			}
		})
	}}
}

// Run watches the language servers until ctx ends. It returns when nothing follows them any more; the next run finds them again.
func (s *Service) Run(ctx context.Context) error {
	var published sync.WaitGroup
	published.Go(func() { s.publish(ctx) })
	defer published.Wait()
	for {
		select {
		case <-ctx.Done():
			s.end()
			s.work.Close()
			return nil
		case <-s.cfg.After(watchEvery):
			s.watch()
		}
	}
}

// watch ends servers that were idle for a while or use too much memory.
func (s *Service) watch() {
	s.mu.Lock()
	var all []*server
	for _, sv := range s.servers {
		all = append(all, sv)
	}
	now := s.cfg.Now()
	for k, list := range s.deaths { // nobody needs the old ones
		if now.Sub(list[len(list)-1].at) > deathsWithin {
			delete(s.deaths, k)
		}
	}
	s.mu.Unlock()
	var looks sync.WaitGroup
	for _, sv := range all {
		looks.Go(sv.look)
	}
	looks.Wait()
}

// look ends the server if it was idle for a while or uses too much memory.
func (sv *server) look() {
	select {
	case <-sv.ready:
	default:
		return
	}
	if sv.startErr != nil || sv.place.Asleep() {
		return
	}
	if sv.idleSince(sv.s.cfg.Now()) >= idleAfter {
		sv.conn.End(errIdle)
		return
	}
	ctx, cancel := context.WithTimeout(sv.s.life, watchWithin)
	defer cancel()
	w, err := sv.place.Guest.Work(ctx, sv.id)
	if err != nil {
		return // whoever reads its output learns that it has ended
	}
	sv.mu.Lock()
	sv.rss = w.RSSBytes
	sv.mu.Unlock()
	if limit := cmp.Or(sv.s.cfg.MemoryMB, sv.lang.MemoryMB); w.RSSBytes > limit<<20 {
		sv.conn.End(fault.New(fault.TooLarge, "language_server_memory", "it used more than %d MB of memory", limit))
	}
}

var (
	errIdle      = errors.New("nobody needed it")
	errRestarted = errors.New("somebody restarted it")
)

func (s *Service) ours(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[id]
}

// admit checks that a team may have programs run in a workspace, and returns its sandbox.
func (s *Service) admit(ctx context.Context, teamID, workspaceID string) (*executors.Place, error) {
	w, err := s.cfg.Workspaces.Workspace(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	if w.TeamID != teamID {
		return nil, fault.New(fault.NotFound, "workspace_not_found", "There is no such workspace.")
	}
	switch mode, err := s.AfterEdits(ctx, w.ProjectID); {
	case err != nil:
		return nil, err
	case mode == Off:
		return nil, fault.New(fault.Conflict, "languages_off", "Language servers are switched off in this project. An admin can switch them on in the project's settings.")
	}
	if err := s.cfg.Places.Permit(ctx, workspaceID); err != nil {
		return nil, err
	}
	return s.cfg.Places.Ensure(ctx, workspaceID)
}

// inside returns the path of a file relative to the worktree, in wire form: callers in a sandbox also name files by their absolute paths.
func inside(p *executors.Place, file string) (string, error) {
	rel := strings.TrimPrefix(file, strings.TrimSuffix(guest.EncodePath(p.Hello.Root), "/")+"/")
	return rel, guest.CheckPath(rel)
}

// server returns the live server of a language in a sandbox and starts one when there is none.
func (s *Service) server(ctx context.Context, p *executors.Place, l languages.Language) (*server, error) {
	sv, err := s.serverOnce(ctx, p, l)
	if errors.Is(err, errNotResumed) { // it has been ended, and forgotten
		sv, err = s.serverOnce(ctx, p, l)
	}
	return sv, err
}

func (s *Service) serverOnce(ctx context.Context, p *executors.Place, l languages.Language) (*server, error) {
	k := key{p.WorkspaceID, l.ID}
	s.mu.Lock()
	sv := s.servers[k]
	if sv != nil && sv.place != p { // its sandbox has ended
		sv = nil
	}
	if sv == nil {
		if err := s.mayStart(k, l); err != nil {
			s.mu.Unlock()
			return nil, err
		}
		sv = newServer(s, p, l)
		s.servers[k], s.ids[sv.id] = sv, true
		if !s.work.Go(func() { sv.run(s.life) }) {
			delete(s.servers, k)
			s.mu.Unlock()
			return nil, executors.ErrStopping()
		}
	}
	s.mu.Unlock()
	select {
	case <-sv.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return sv, sv.startErr
}

// mayStart refuses a language whose servers died too often. Called with mu held.
func (s *Service) mayStart(k key, l languages.Language) error {
	now := s.cfg.Now()
	recent := 0
	var last death
	for _, d := range s.deaths[k] {
		if now.Sub(d.at) < deathsWithin {
			recent, last = recent+1, d
		}
	}
	if recent < maxDeaths {
		return nil
	}
	return fault.New(fault.Unavailable, "language_server_failing", "The language server for %s ended %d times within %d minutes, the last time because %s. It is started again in some minutes, or at once after a restart of it (lsp_restart).",
		l.Title, recent, int(deathsWithin.Minutes()), last.cause)
}

// left forgets a server that has ended, and remembers why it died.
func (s *Service) left(sv *server, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{sv.place.WorkspaceID, sv.lang.ID}
	if s.servers[k] == sv {
		delete(s.servers, k)
	}
	delete(s.ids, sv.id)
	s.news.add(sv.place)
	if cause != nil {
		list := append(s.deaths[k], death{s.cfg.Now(), cause.Error()})
		s.deaths[k] = list[max(0, len(list)-maxDeaths):]
	}
}

// Restart ends the server of a language, and forgets how often it died: the next question starts one.
func (s *Service) Restart(ctx context.Context, teamID, workspaceID, language string) error {
	if _, ok := languages.ByID(language); !ok {
		return errNoLanguage(language)
	}
	if _, err := s.admit(ctx, teamID, workspaceID); err != nil {
		return err
	}
	k := key{workspaceID, language}
	s.mu.Lock()
	sv := s.servers[k]
	delete(s.deaths, k)
	s.mu.Unlock()
	if sv == nil {
		return nil
	}
	sv.conn.End(errRestarted)
	select {
	case <-sv.gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Status is what is known of the server of a language in a workspace.
type Status struct {
	Language string
	Title    string
	State    string // off, starting, ready
	Program  string
	Version  string
	Doing    string // what it says it is doing, such as "Loading packages"
	PID      int
	Since    int64 // ms UTC, of its start
	RSSBytes int64
	Failure  string // why the last one ended; "" = it did not fail lately
}

// Reachable reports whether a workspace's sandbox runs, so that a question to its language servers starts and wakes nothing else.
func (s *Service) Reachable(workspaceID string) bool {
	_, awake := s.cfg.Places.LiveAwake(workspaceID)
	return awake
}

// Statuses returns the state of each language's server in a workspace. It starts nothing.
func (s *Service) Statuses(workspaceID string) []Status {
	var out []Status
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range languages.All() {
		k := key{workspaceID, l.ID}
		st := Status{Language: l.ID, Title: l.Title, State: "off"}
		if list := s.deaths[k]; len(list) > 0 {
			st.Failure = list[len(list)-1].cause
		}
		if sv := s.servers[k]; sv != nil {
			sv.describe(&st)
		}
		out = append(out, st)
	}
	return out
}

func errNoLanguage(language string) error {
	var ids []string
	for _, l := range languages.All() {
		ids = append(ids, l.ID)
	}
	return fault.New(fault.Invalid, "language_unknown", "There is no language server for %.50q. There is one for %s.", language, strings.Join(ids, ", "))
}
