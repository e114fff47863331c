package issues

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	internaltasks "github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/tasks"
)

// Changed is the type of the event that a project's sync changed. Its ID is the project.
const Changed = "issue_sync.changed"

// How often forges are asked.
const (
	everySync   = 2 * time.Minute
	longest     = time.Hour // between tries at a forge that fails
	shortest    = 30 * time.Second
	look        = 5 * time.Second // between looks at what is due
	patience    = 3 * time.Minute // for one round of one project
	atOnce      = 4               // projects
	leaseFor    = 2 * time.Minute
	entriesOnce = 20 // of a project in a round
)

// Config configures a Service. Fields without a comment are required.
type Config struct {
	Store   Store
	Tasks   *tasks.Service
	Rows    tasks.Rows
	Forges  Forges
	Secrets tools.Secrets    // nil = teams have none
	Events  events.Publisher // nil = nobody listens
	Now     func() time.Time
	After   func(time.Duration) <-chan time.Time
	Log     *slog.Logger
}

// Service syncs issues. Safe for concurrent use; New starts nothing.
type Service struct {
	cfg  Config
	wake chan struct{}

	mu    sync.Mutex
	busy  map[string]bool      // projects
	pause map[string]time.Time // until when a project's outbox rests after its forge failed
}

// New returns a Service. It panics when a required dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Tasks == nil || cfg.Rows == nil || cfg.Forges == nil {
		panic("issues: Store, Tasks, Rows and Forges are required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.After == nil {
		cfg.After = time.After
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Service{cfg: cfg, wake: make(chan struct{}, 1), busy: map[string]bool{}, pause: map[string]time.Time{}}
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }

// Settings returns what a project has set.
func (s *Service) Settings(ctx context.Context, projectID string) (Settings, error) {
	set, err := s.cfg.Store.TaskSettings(ctx, projectID)
	if fault.Is(err, fault.NotFound) {
		return Settings{ProjectID: projectID, Direction: Off, Label: DefaultLabel, Page: 1}, nil
	}
	return set, err
}

// Change changes settings; nil fields stay as they are.
type Change struct {
	Direction *Direction
	Label     *string
	AllTasks  *bool
	File      *string
}

// Set changes a project's settings. The next round begins at once, and from the beginning where direction or label changed. Errors:
// invalid_task_settings.
func (s *Service) Set(ctx context.Context, teamID, projectID string, c Change) (Settings, error) {
	var set Settings
	err := s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		var err error
		if set, err = s.Settings(ctx, projectID); err != nil {
			return err
		}
		before := set
		set.TeamID = teamID
		assign(&set.Direction, c.Direction)
		assign(&set.Label, c.Label)
		assign(&set.AllTasks, c.AllTasks)
		assign(&set.File, c.File)
		if err := set.check(); err != nil {
			return err
		}
		if set.Direction != before.Direction || set.Label != before.Label {
			set.Since, set.Page, set.Reading, set.BegunAt, set.Error, set.Fails = 0, 1, 0, 0, "", 0
		}
		set.NextAt = 0
		return s.cfg.Store.PutTaskSettings(ctx, set)
	})
	if err != nil {
		return set, err
	}
	s.published(ctx, teamID, projectID)
	s.resume(projectID)
	return set, nil
}

func assign[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// check rejects settings that cannot be, and tidies them.
func (set *Settings) check() error {
	set.Label, set.File = strings.TrimSpace(set.Label), strings.TrimSpace(set.File)
	switch set.Direction {
	case Off, Both, In, Out:
	default:
		return invalid("direction", "The direction is off, both, in or out.")
	}
	if !storable(set.Label) {
		return invalid("label", "The label must have 1 to %d characters, without quotes, commas, backslashes or angle brackets.", tasks.MaxLabel)
	}
	if set.File == "" {
		return nil
	}
	return tasks.CheckFile(set.File)
}

// SyncNow has a project's forge asked at once, and what failed sent again.
func (s *Service) SyncNow(ctx context.Context, projectID string) (Settings, error) {
	set, err := s.Settings(ctx, projectID)
	if err != nil {
		return set, err
	}
	if set.Direction == Off {
		return set, fault.New(fault.Conflict, "issue_sync_off", "The sync with issues is off. Switch it on in the project's settings first.")
	}
	set.NextAt = 0
	if err := s.cfg.Store.SaveRound(ctx, set); err != nil {
		return set, err
	}
	if _, err := s.cfg.Store.RetryEntries(ctx, projectID, "", s.now()); err != nil {
		return set, err
	}
	s.resume(projectID)
	return set, nil
}

// Retry has the changes of one task sent again now. Errors: issue_change_not_found.
func (s *Service) Retry(ctx context.Context, t tasks.Task) error {
	n, err := s.cfg.Store.RetryEntries(ctx, t.ProjectID, t.UID, s.now())
	if err != nil {
		return err
	}
	if n == 0 {
		return fault.New(fault.NotFound, "issue_change_not_found", "No change of %s waits to be sent: the Git host has them all.", t.ID)
	}
	s.published(ctx, t.TeamID, t.ProjectID)
	s.resume(t.ProjectID)
	return nil
}

// Counts sums up the sync of a project.
func (s *Service) Counts(ctx context.Context, projectID string) (Counts, error) {
	return s.cfg.Store.SyncCounts(ctx, projectID)
}

// Outbox returns the changes that a project's forge does not have yet, oldest first.
func (s *Service) Outbox(ctx context.Context, projectID string) ([]Entry, error) {
	return s.cfg.Store.Entries(ctx, projectID, 200)
}

// State is how a task and its issue stand.
type State struct {
	Link    *Link  // nil = it is no issue
	Entry   *Entry // nil = the forge has everything
	History []Event
}

// StateOf returns how a task and its issue stand.
func (s *Service) StateOf(ctx context.Context, taskID string) (State, error) {
	var st State
	l, err := s.cfg.Store.Link(ctx, taskID)
	if err == nil {
		st.Link = &l
	} else if !fault.Is(err, fault.NotFound) {
		return st, err
	}
	e, err := s.cfg.Store.Entry(ctx, taskID)
	if err == nil {
		st.Entry = &e
	} else if !fault.Is(err, fault.NotFound) {
		return st, err
	}
	st.History, err = s.cfg.Store.History(ctx, taskID)
	return st, err
}

func (s *Service) published(ctx context.Context, teamID, projectID string) {
	if s.cfg.Events != nil {
		s.cfg.Events.Publish(context.WithoutCancel(ctx), events.Event{Type: Changed, ID: projectID, TeamID: teamID, Version: s.now()})
	}
}

// resume ends a project's pause and has Run look again.
func (s *Service) resume(projectID string) {
	s.mu.Lock()
	delete(s.pause, projectID)
	s.mu.Unlock()
	internaltasks.Wake(s.wake)
}

// Run syncs projects until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	all := tenant.All(ctx, "issues of all teams")
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		due, err := s.cfg.Store.DueSyncs(all, s.now(), 100)
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "the projects whose issues are synced could not be read", "error", err)
		}
		for _, set := range due {
			if !s.take(set.ProjectID) {
				continue
			}
			wg.Go(func() {
				defer s.release(set.ProjectID)
				s.round(tenant.In(ctx, set.TeamID), set)
			})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-s.cfg.After(look):
		}
	}
}

// take reserves a project for a round, unless one is going on, the project rests, or enough others are busy.
func (s *Service) take(projectID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until, ok := s.pause[projectID]; ok && s.cfg.Now().Before(until) || s.busy[projectID] || len(s.busy) >= atOnce {
		return false
	}
	delete(s.pause, projectID)
	s.busy[projectID] = true
	return true
}

func (s *Service) release(projectID string) {
	s.mu.Lock()
	delete(s.busy, projectID)
	s.mu.Unlock()
}

// round asks one project's forge, and sends what it does not have.
func (s *Service) round(ctx context.Context, set Settings) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := s.sync(ctx, set)
	if err == nil || ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		return
	}
	s.cfg.Log.InfoContext(ctx, "issues could not be synced", "project_id", set.ProjectID, "error", err)
	s.mu.Lock()
	s.pause[set.ProjectID] = s.cfg.Now().Add(s.wait(err, set.Fails))
	s.mu.Unlock()
}

// wait is how long to wait after an error: as long as the forge asks for, or longer each time.
func (s *Service) wait(err error, fails int) time.Duration {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		if until, ok := f.Details["until"].(int64); ok {
			return max(time.UnixMilli(until).Sub(s.cfg.Now()), time.Second)
		}
	}
	return min(shortest<<min(fails, 10), longest)
}

// sync is a round of one project: first what changed on its forge, then what changed here.
func (s *Service) sync(ctx context.Context, set Settings) error {
	before := set
	repo, err := s.cfg.Forges.Issues(ctx, set.TeamID, set.ProjectID)
	if err == nil && set.Direction.in() && set.NextAt <= s.now() {
		err = s.pull(ctx, repo, &set)
	}
	if err == nil && set.Direction.out() {
		err = s.push(ctx, repo, set)
	}
	if err != nil {
		set.Fails++
		set.Error = fault.Words(err, "Something went wrong on this server; its log says what.")
		set.NextAt = s.cfg.Now().Add(s.wait(err, set.Fails-1)).UnixMilli()
	} else if set.Fails > 0 {
		set.Fails, set.Error = 0, ""
	}
	if err != nil || set.Fails != before.Fails {
		if serr := s.cfg.Store.SaveRound(context.WithoutCancel(ctx), set); serr != nil {
			return errors.Join(err, serr)
		}
		s.published(ctx, set.TeamID, set.ProjectID)
	}
	return err
}

// Sync makes one round of a project now. It is what Run does with one that is due.
func (s *Service) Sync(ctx context.Context, projectID string) error {
	set, err := s.Settings(ctx, projectID)
	if err != nil || set.Direction == Off {
		return err
	}
	return s.sync(ctx, set)
}
