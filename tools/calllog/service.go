package calllog

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/tools"
)

// Bounds of writing.
const (
	queued   = 512             // calls that wait for the writer
	together = 64              // in one transaction, or one read of all
	patience = 3 * time.Second // of a caller that must wait for its row, and of the last write
	trimAt   = 500             // new rows of a workspace after which its old ones are deleted
	dropping = time.Hour       // between two looks for rows past their age
	retrying = time.Second     // after the database refused
)

// Config configures a Service.
type Config struct {
	Store  Store
	Events events.Publisher // nil = nothing is published
	Now    func() time.Time
	After  func(time.Duration) <-chan time.Time // timer of retries; default time.After
	Log    *slog.Logger
}

// Service records calls of tools and lists them. Safe for concurrent use. Order of a start: New, Recover, Run.
type Service struct {
	cfg   Config
	queue chan Call

	mu    sync.Mutex
	ended bool          // Run has: rows are written by their callers
	grown map[scope]int // rows written since the scope was trimmed
}

// scope is what is trimmed together.
type scope struct{ teamID, workspaceID string }

var _ tools.Recorder = (*Service)(nil)

// New makes a Service. It starts nothing; it panics without a Store.
func New(cfg Config) *Service {
	if cfg.Store == nil {
		panic("calllog: Store is required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.After == nil {
		cfg.After = time.After
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Service{cfg: cfg, queue: make(chan Call, queued), grown: map[scope]int{}}
}

// Recover closes the calls that an earlier server left in the middle: whether they were done is unknown.
func (s *Service) Recover(ctx context.Context) error {
	return s.cfg.Store.CloseToolCalls(ctx, tools.Unknown, "The server stopped while it ran. It may have been done: look before you repeat it.")
}

// Begin stores the row of a call that changes something before it does. The caller waits for it.
func (s *Service) Begin(ctx context.Context, r tools.Record) { s.now(ctx, callOf(r)) }

// Record stores a call that has ended. It waits only when the writer cannot keep up or has ended.
func (s *Service) Record(ctx context.Context, r tools.Record) {
	if r.Caller.TeamID == "" { // a refused call of nobody: no team can see it
		return
	}
	c := callOf(r)
	if !s.enqueue(c) {
		s.now(ctx, c)
	}
}

// enqueue leaves a row to the writer; false when that has no room, or has ended.
func (s *Service) enqueue(c Call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	select {
	case s.queue <- c:
		return true
	default:
		return false
	}
}

// now writes a row while its caller waits, within bounds.
func (s *Service) now(ctx context.Context, c Call) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := s.save(ctx, []Call{c}); err != nil {
		s.lost(ctx, c, err)
	}
}

// Run writes what is recorded, and deletes what is too old, until ctx ends. What was recorded by then is written.
func (s *Service) Run(ctx context.Context) error {
	ctx = tenant.All(ctx, "the record of tool calls is written for all teams together")
	drop := time.NewTicker(dropping)
	defer drop.Stop()
	s.drop(ctx)
	for {
		select {
		case <-ctx.Done():
			s.flush(ctx)
			return nil
		case <-drop.C:
			s.drop(ctx)
		case c := <-s.queue:
			s.batch(ctx, c)
		}
	}
}

// flush writes what is left. Whatever is recorded from now on is written by its caller.
func (s *Service) flush(ctx context.Context) {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	for {
		select {
		case c := <-s.queue:
			s.batch(ctx, c)
		default:
			return
		}
	}
}

// batch writes a row and those that wait behind it. While the database is away and ctx lasts it tries again.
func (s *Service) batch(ctx context.Context, first Call) {
	rows := append(make([]Call, 0, together), first)
	for more := true; more && len(rows) < together; {
		select {
		case c := <-s.queue:
			rows = append(rows, c)
		default:
			more = false
		}
	}
	for {
		err := s.within(ctx, rows)
		if passes := fault.Is(err, fault.Unavailable) || fault.Is(err, fault.DiskFull); passes && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-s.cfg.After(retrying):
			}
			continue
		}
		if err == nil {
			return
		}
		break
	}
	for _, c := range rows { // one of them may be of a workspace that is gone
		if err := s.within(ctx, []Call{c}); err != nil {
			s.lost(ctx, c, err)
		}
	}
}

// within writes rows in a bounded time, also when ctx has ended.
func (s *Service) within(ctx context.Context, rows []Call) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return s.save(ctx, rows)
}

func (s *Service) lost(ctx context.Context, c Call, err error) {
	s.cfg.Log.WarnContext(ctx, "a tool call could not be recorded", "tool", c.Tool, "team_id", c.TeamID, "workspace_id", c.WorkspaceID, "outcome", c.Outcome, "error", err)
}

// save writes rows, notifies whoever looks at them, and keeps their number bounded.
func (s *Service) save(ctx context.Context, rows []Call) error {
	if err := s.cfg.Store.SaveToolCalls(ctx, rows); err != nil {
		return err
	}
	seen := map[scope]bool{}
	for _, c := range rows {
		of := scope{c.TeamID, c.WorkspaceID}
		if !seen[of] && c.WorkspaceID != "" && s.cfg.Events != nil {
			s.cfg.Events.Publish(ctx, events.Event{Type: "tools.called", ID: c.WorkspaceID, WorkspaceID: c.WorkspaceID, TeamID: c.TeamID, Version: s.cfg.Now().UnixMilli()})
		}
		seen[of] = true
		if s.full(of) {
			if err := s.cfg.Store.TrimToolCalls(ctx, of.teamID, of.workspaceID, KeepCalls); err != nil {
				s.cfg.Log.WarnContext(ctx, "old tool calls could not be deleted", "workspace_id", of.workspaceID, "error", err)
			}
		}
	}
	return nil
}

// maxGrown bounds how many workspaces are counted.
const maxGrown = 10_000

// full counts a new row, and reports whether its workspace is to be trimmed.
func (s *Service) full(of scope) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.grown) > maxGrown { // of workspaces that may be gone: they are counted anew
		clear(s.grown)
	}
	s.grown[of]++
	if s.grown[of] < trimAt {
		return false
	}
	delete(s.grown, of)
	return true
}

// drop deletes what is too old.
func (s *Service) drop(ctx context.Context) {
	before := s.cfg.Now().Add(-KeepFor).UnixMilli()
	for more := true; more && ctx.Err() == nil; {
		var err error
		if more, err = s.cfg.Store.DropToolCalls(ctx, before); err != nil {
			s.cfg.Log.WarnContext(ctx, "old tool calls could not be deleted", "error", err)
			return
		}
	}
}

// List returns a page of the calls that q selects, the newest first.
func (s *Service) List(ctx context.Context, q Query, p page.Page) (calls []Call, next string, err error) {
	key, ok, err := p.Key()
	if err != nil {
		return nil, "", err
	}
	if ok {
		q.After = &key
	}
	q.Limit = p.Size() + 1
	rows, err := s.cfg.Store.ToolCalls(ctx, q)
	if err != nil {
		return nil, "", err
	}
	calls, next = page.Cut(p, rows, keyOf)
	return calls, next, nil
}

// Each has fn read all calls that q selects, the oldest first.
func (s *Service) Each(ctx context.Context, q Query, fn func(Call) error) error {
	q.OldestFirst, q.Limit = true, together
	for {
		rows, err := s.cfg.Store.ToolCalls(ctx, q)
		if err != nil {
			return err
		}
		for _, c := range rows {
			if err := fn(c); err != nil {
				return err
			}
		}
		if len(rows) < q.Limit {
			return nil
		}
		last := keyOf(rows[len(rows)-1])
		q.After = &last
	}
}

func keyOf(c Call) page.Key { return page.Key{At: c.StartedAt, ID: c.ID} }
