package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/workspaces"
)

// Config configures a Service. Fields without a comment are required.
type Config struct {
	Store      Store
	Sessions   Sessions
	Terminals  Terminals
	Workspaces Workspaces
	Sandboxes  Sandboxes
	Places     Places
	Artifacts  Artifacts
	Hooks      Hooks
	// Actor returns a user with their memberships.
	Actor func(ctx context.Context, userID string) (accounts.Actor, error)
	// Admit returns why a user may not have an agent work in a workspace beyond what their role allows. Nil: nothing more is asked.
	Admit func(ctx context.Context, actor accounts.Actor, w workspaces.Workspace) error
	// Asks reports whether an agent asks for permissions, and can be started so that it does not.
	Asks func(agent string) bool
	// Spent returns what sessions have spent on models, in nano-USD, by session. Nil: nobody knows.
	Spent     func(ctx context.Context, sessionIDs ...string) (map[string]int64, error)
	Secrets   tools.Secrets // masks outputs; nil: teams have none
	PublicURL string        // of the server, for links; "" = without it
	Bus       *events.Bus   // what happened to sessions
	Events    events.Publisher
	Now       func() time.Time // nil = time.Now
	Look      time.Duration    // how often to look at what is followed besides after events; default 2 s
	Settle    time.Duration    // how long an agent that was never seen working is idle before its work counts as done; default 20 s
	AtOnce    int              // jobs of a team that do not wait; default AtOnce
	Log       *slog.Logger     // nil = none
}

const (
	atWork   = 16                  // jobs started or looked at at once
	keepRows = 30 * 24 * time.Hour // of jobs that are done
	forget   = time.Hour           // between looks for such rows
)

// Service runs jobs. Safe for concurrent use.
type Service struct {
	cfg   Config
	work  *tasks.Scope // once it has ended, the next server goes on
	looks *tasks.Looks

	mu       sync.Mutex
	followed map[string]*followed
	full     map[string]int64 // when a team, or a user in it, may try again to get a place; see queue.go
	changed  chan struct{}    // closed and replaced whenever a job changed
}

// New returns a Service. It starts nothing; it panics when a required dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Sessions == nil || cfg.Terminals == nil || cfg.Workspaces == nil || cfg.Sandboxes == nil || cfg.Places == nil || cfg.Artifacts == nil || cfg.Hooks == nil || cfg.Actor == nil ||
		cfg.Asks == nil || cfg.Bus == nil || cfg.Events == nil {
		panic(errors.New("jobs: a required dependency is missing"))
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Look, cfg.Settle, cfg.AtOnce = cmp.Or(cfg.Look, 2*time.Second), cmp.Or(cfg.Settle, 20*time.Second), cmp.Or(cfg.AtOnce, AtOnce)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	s := &Service{cfg: cfg, work: tasks.NewScope(tenant.All(context.Background(), "jobs go on when their caller has left")),
		followed: map[string]*followed{}, full: map[string]int64{}, changed: make(chan struct{})}
	s.looks = tasks.NewLooks(s.work, atWork, s.seeTo)
	return s
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }

// Recover reads which jobs an earlier server left. Run continues them.
func (s *Service) Recover(ctx context.Context) error {
	live, err := s.cfg.Store.LiveJobs(tenant.All(ctx, "jobs of all teams go on"))
	if err != nil {
		return fmt.Errorf("reading jobs: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range live {
		s.followed[j.ID] = &followed{}
		s.followed[j.ID].note(j)
	}
	return nil
}

// Run starts and follows jobs until ctx ends. The next server continues them.
func (s *Service) Run(ctx context.Context) error {
	sub := s.cfg.Bus.Subscribe("", 0)
	defer sub.Close()
	tick, old := time.NewTicker(s.cfg.Look), time.NewTicker(forget)
	defer tick.Stop()
	defer old.Stop()
	s.lookAtAll()
	for {
		select {
		case <-ctx.Done():
			s.work.End(context.Canceled)
			return nil
		case <-tick.C:
			s.lookAtAll()
		case <-old.C:
			if err := s.cfg.Store.ForgetJobs(tenant.All(ctx, "jobs of all teams are forgotten"), s.cfg.Now().Add(-keepRows).UnixMilli()); err != nil && ctx.Err() == nil {
				s.cfg.Log.WarnContext(ctx, "old jobs could not be forgotten", "error", err)
			}
		case e, ok := <-sub.C:
			switch {
			case !ok:
				<-ctx.Done()
			case e.Type == events.Resync || sub.Missed():
				s.lookAtAll()
			case e.Type == "session.updated":
				s.lookAtSession(e.ID)
			}
		}
	}
}

// Get returns a job. Errors: not_found.
func (s *Service) Get(ctx context.Context, id string) (Job, error) {
	j, err := s.cfg.Store.Job(ctx, id)
	if err == nil && j.RemovedAt != 0 {
		return Job{}, fault.New(fault.NotFound, "not_found", "There is no such job any more.")
	}
	return j, err
}

// List returns a page of a team's jobs, newest first, without their outputs.
func (s *Service) List(ctx context.Context, teamID string, f Filter, pg page.Page) ([]Job, string, error) {
	return s.cfg.Store.Jobs(ctx, teamID, f, pg)
}

// Deliveries returns the reports of a job's end to its webhook, newest first.
func (s *Service) Deliveries(ctx context.Context, j Job) ([]notify.Delivery, error) {
	if j.HookURL == "" {
		return nil, nil
	}
	return s.cfg.Hooks.Sent(ctx, j.ID)
}

// Spent returns what a job spent on models so far, in nano-USD; nil = unknown.
func (s *Service) Spent(ctx context.Context, j Job) *int64 {
	if j.CostNano != nil || j.Status.Ended() || j.StartedAt == 0 || s.cfg.Spent == nil {
		return j.CostNano
	}
	spent, err := s.cfg.Spent(ctx, j.SessionID)
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "what a job has spent could not be read", "job_id", j.ID, "error", err)
		return nil
	}
	nano, ok := spent[j.SessionID]
	if !ok {
		return nil
	}
	return &nano
}

// Cancel ends a job: what was done stays. One that has ended is returned as it is. Errors: not_found.
func (s *Service) Cancel(ctx context.Context, id, by string) (Job, error) {
	j, err := s.decide(ctx, id, Cancelled, "job_cancelled", "It was cancelled by "+by+".")
	if errors.Is(err, errUnchanged) {
		return s.Get(ctx, id)
	}
	if err == nil {
		s.look(id)
	}
	return j, err
}

// Delete deletes a job with its artifacts; one that has not ended is cancelled first. Nobody sees it from here on, and a server that dies
// meanwhile goes on with it. Errors: not_found.
func (s *Service) Delete(ctx context.Context, id, by string) error {
	j, err := s.edit(ctx, id, func(j *Job) error {
		if j.RemovedAt != 0 {
			return errUnchanged
		}
		j.RemovedAt, j.Key = s.now(), "" // who asks with the key again means another job
		if j.Step == Done {
			j.Step = Removing
		} else if !j.decided() {
			s.ends(j, Cancelled, "job_cancelled", "It was deleted by "+by+".")
		}
		return nil
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	if err == nil {
		f := &followed{} // in place of one that may just be given up, because the job was done
		f.note(j)
		s.mu.Lock()
		s.followed[id] = f
		s.mu.Unlock()
		s.look(id)
	}
	return err
}

var errUnchanged = errors.New("nothing changed")

// decide stores how a job ends, once. What is left to be done about it is done by the step Ending.
func (s *Service) decide(ctx context.Context, id string, outcome Status, code, why string) (Job, error) {
	return s.edit(ctx, id, func(j *Job) error {
		if j.decided() {
			return errUnchanged
		}
		s.ends(j, outcome, code, why)
		return nil
	})
}

// decided reports whether it is known how a job ends.
func (j *Job) decided() bool {
	return j.Step == Ending || j.Step == Cleaning || j.Step == Removing || j.Step == Done
}

func (s *Service) ends(j *Job, outcome Status, code, why string) {
	j.Step, j.Outcome, j.Code, j.Error, j.Reason, j.EndedAt = Ending, outcome, code, why, "", s.now()
}

// edit changes a job and notifies whoever waits for it or shows it. fn returns errUnchanged to leave it alone.
func (s *Service) edit(ctx context.Context, id string, fn func(*Job) error) (Job, error) {
	j, err := s.cfg.Store.EditJob(ctx, id, func(j *Job) error {
		if err := fn(j); err != nil {
			return err
		}
		j.UpdatedAt = s.now()
		return nil
	})
	if err == nil {
		s.notify(ctx, j)
	}
	return j, err
}

func (s *Service) notify(ctx context.Context, j Job) {
	s.mu.Lock()
	close(s.changed)
	s.changed = make(chan struct{})
	if f := s.followed[j.ID]; f != nil {
		f.note(j)
	}
	s.mu.Unlock()
	s.cfg.Events.Publish(ctx, events.Event{Type: "job.changed", ID: j.ID, WorkspaceID: j.WorkspaceID, TeamID: j.TeamID, Version: j.Version})
}

// masked is a text with the team's secrets masked; "" when they cannot be read.
func (s *Service) masked(ctx context.Context, teamID, text string) string {
	if err := tools.Hide(ctx, s.cfg.Secrets, teamID, &text); err != nil {
		s.cfg.Log.WarnContext(ctx, "the output of a job is not stored: the team's secrets could not be read", "team_id", teamID, "error", err)
		return ""
	}
	return text
}

// actorOf returns the user of a job, after checking that they may still have agents work in a workspace of the team.
func (s *Service) actorOf(ctx context.Context, j Job) (accounts.Actor, error) {
	actor, err := s.cfg.Actor(ctx, j.CreatedBy)
	if err != nil {
		return actor, err
	}
	return actor, errors.Join(accounts.Can(actor, accounts.CreateWorkspace, accounts.InTeam(j.TeamID)), accounts.Can(actor, accounts.TypeTerminal, accounts.InTeam(j.TeamID)))
}
