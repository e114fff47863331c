package triggers

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/automations/jobs"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tenant"
)

// Config configures a Service. Fields without a comment are required.
type Config struct {
	Store   Store
	Jobs    Jobs
	Secrets Secrets
	// Actor returns a user with their memberships.
	Actor  func(ctx context.Context, userID string) (accounts.Actor, error)
	Events events.Publisher
	// Happened is called when a git host has reported something about a project, whatever automations do about it. Nil: nobody wants to know.
	Happened func(ctx context.Context, projectID string)
	// PublicURL is the address of the server; "" = unknown.
	PublicURL string
	Now       func() time.Time // nil = time.Now
	Look      time.Duration    // between looks at what is due or goes on; default 2 s
	Log       *slog.Logger     // nil = none
}

// Service keeps automations and acts for them. Safe for concurrent use.
type Service struct {
	cfg  Config
	poke chan struct{} // something is to be looked at now
}

// New returns a Service. It starts nothing; it panics when a required dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Jobs == nil || cfg.Secrets == nil || cfg.Actor == nil || cfg.Events == nil {
		panic(errors.New("triggers: a required dependency is missing"))
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Look, cfg.Log = cmp.Or(cfg.Look, 2*time.Second), cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Service{cfg: cfg, poke: make(chan struct{}, 1)}
}

const (
	keepRuns    = 90 * 24 * time.Hour
	keepSkipped = 7 * 24 * time.Hour // runs that started nothing: a git host reports much that nobody waits for
	forget      = time.Hour          // between looks for old rows
)

// Run acts for all automations until ctx ends. The next server goes on.
func (s *Service) Run(ctx context.Context) error {
	ctx = tenant.All(ctx, "automations of all teams act")
	tick, old := time.NewTicker(s.cfg.Look), time.NewTicker(forget)
	defer tick.Stop()
	defer old.Stop()
	for {
		s.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-s.poke:
		case <-old.C:
			now := s.cfg.Now()
			if err := s.cfg.Store.ForgetRuns(ctx, now.Add(-keepRuns).UnixMilli(), now.Add(-keepSkipped).UnixMilli()); err != nil && ctx.Err() == nil {
				s.cfg.Log.WarnContext(ctx, "old runs of automations could not be forgotten", "error", err)
			}
		}
	}
}

func (s *Service) wake() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }

func (s *Service) notify(ctx context.Context, a Automation) {
	s.cfg.Events.Publish(ctx, events.Event{Type: "automation.updated", ID: a.ID, TeamID: a.TeamID, Version: s.now()})
}

func bad(field, format string, args ...any) error {
	return fault.New(fault.Invalid, "invalid_automation", format, args...).With("field", field)
}

func (a *Automation) check() error {
	t := &a.Trigger
	a.Name, a.Work.TimeoutMs = strings.TrimSpace(a.Name), cmp.Or(a.Work.TimeoutMs, jobs.DefTimeout)
	switch {
	case a.Name == "" || utf8.RuneCountInString(a.Name) > MaxName || strings.ContainsAny(a.Name, "\n\r\x00"):
		return bad("name", "An automation needs a name of at most %d characters in one line.", MaxName)
	case len(a.Work.Prompt) > MaxTemplate:
		return bad("work.prompt", "The prompt of an automation has at most %d KiB. Put long material into a file of the repository.", MaxTemplate>>10)
	case a.Attempts < 1 || a.Attempts > MaxAttempts:
		return bad("attempts", "A run makes 1 to %d attempts.", MaxAttempts)
	case a.Limits.RunNano < 0 || a.Limits.MonthNano < 0:
		return bad("limits", "A budget cannot be negative. 0 means none.")
	case a.Work.Webhook != nil || a.Work.SandboxID != "":
		return bad("work", "The work of an automation has no sandbox and no webhook of its own: each run has its own place.")
	case a.Attempts > 1 && a.Work.Branch != "":
		return bad("work.branch", "Several attempts cannot have the same branch. Leave out branch.")
	case a.Work.Branch != "" && t.Kind != Manual && !strings.Contains(a.Work.Branch, "{{"):
		return bad("work.branch", "Each run makes a branch of its own. Leave out branch, or name it by the event, such as fix-{{event.number}}.")
	}
	switch t.Kind {
	case Schedule:
		t.Missed = cmp.Or(t.Missed, Skip)
		if t.Missed != Skip && t.Missed != RunOnce {
			return bad("trigger.missed", "missed is %s or %s.", Skip, RunOnce)
		}
		if _, err := t.clock(); err != nil {
			return err
		}
		*t = Trigger{Kind: t.Kind, Cron: strings.TrimSpace(t.Cron), TimeZone: t.TimeZone, Missed: t.Missed}
	case GitHost:
		if len(t.Events) == 0 || len(t.Labels) > 20 || len(t.Branches) > 20 || len(t.Authors) > 100 {
			return bad("trigger.events", "Name the events to wait for, and at most 20 labels, 20 branches and 100 authors.")
		}
		for _, e := range t.Events {
			if !slices.Contains(Events, e) {
				return bad("trigger.events", "%.50q is no event of a git host. There are: %s.", e, strings.Join(Events, ", "))
			}
		}
		for _, b := range t.Branches {
			if _, err := path.Match(b, ""); err != nil || b == "" {
				return bad("trigger.branches", "%.100q is neither a branch nor a pattern of branches.", b)
			}
		}
		*t = Trigger{Kind: t.Kind, Events: t.Events, Labels: t.Labels, Branches: t.Branches, Authors: t.Authors}
	case Webhook, Manual:
		*t = Trigger{Kind: t.Kind}
	default:
		return bad("trigger.kind", "kind is %s, %s, %s or %s.", Schedule, Webhook, GitHost, Manual)
	}
	return nil
}

// next is when a schedule is due after a time, in ms; 0 = never.
func (a Automation) next(after time.Time) int64 {
	if a.Trigger.Kind != Schedule || a.Paused || a.RemovedAt != 0 {
		return 0
	}
	c, err := a.Trigger.clock()
	if err != nil { // it was checked: its time zone is gone from this machine
		return 0
	}
	t := c.after(after)
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func secretName(id string) string { return "automation " + id }

// Create stores an automation of a user in a team. For one that others report events to, secret signs their reports; it is shown once.
// Errors: invalid_automation, automations_full, and those of a job that is asked for.
func (s *Service) Create(ctx context.Context, actor accounts.Actor, teamID string, a Automation) (_ Automation, secret string, err error) {
	now := s.now()
	a.ID, a.TeamID, a.CreatedBy, a.Version, a.CreatedAt, a.UpdatedAt = id.New("aut"), teamID, actor.User.ID, 1, now, now
	a.Attempts = max(a.Attempts, 1)
	if err := a.check(); err != nil {
		return a, "", err
	}
	if err := s.cfg.Jobs.Check(ctx, actor, teamID, a.Work); err != nil {
		return a, "", err
	}
	a.NextAt = a.next(s.cfg.Now())
	err = s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		if a.Trigger.Kind == Webhook || a.Trigger.Kind == GitHost {
			secret = rand.Text()
			if a.SecretID, err = s.cfg.Secrets.KeepTeamSecret(ctx, teamID, secretName(a.ID), secret, actor.User.ID); err != nil {
				return err
			}
		}
		return s.cfg.Store.InsertAutomation(ctx, a, MaxAutomations)
	})
	if err != nil {
		return a, "", err
	}
	s.notify(ctx, a)
	return a, secret, nil
}

// Get returns an automation that nobody removed. Errors: not_found.
func (s *Service) Get(ctx context.Context, id string) (Automation, error) {
	a, err := s.cfg.Store.Automation(ctx, id)
	if err == nil && a.RemovedAt != 0 {
		return Automation{}, fault.New(fault.NotFound, "not_found", "There is no such automation any more.")
	}
	return a, err
}

// List returns a page of a team's automations, newest first.
func (s *Service) List(ctx context.Context, teamID string, pg page.Page) ([]Automation, string, error) {
	return s.cfg.Store.Automations(ctx, teamID, pg)
}

// Health returns how the runs of an automation went.
func (s *Service) Health(ctx context.Context, id string) (Health, error) {
	return s.cfg.Store.Health(ctx, id, s.month(), s.cfg.Now().AddDate(0, 0, -30).UnixMilli())
}

// month is the first of the month (UTC), in ms.
func (s *Service) month() int64 {
	y, m, _ := s.cfg.Now().UTC().Date()
	return time.Date(y, m, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
}

// Update changes an automation, which goes on running as its owner: the caller must be allowed to say what that user does. A continued one
// counts its failures anew. Errors: invalid_automation, and those of a job that is asked for.
func (s *Service) Update(ctx context.Context, id string, change func(*Automation)) (Automation, error) {
	before, err := s.Get(ctx, id)
	if err != nil {
		return before, err
	}
	a := before
	change(&a)
	if a.Trigger.Kind != before.Trigger.Kind {
		return a, bad("trigger.kind", "What an automation waits for stays of one kind. Make a new one.")
	}
	if err := a.check(); err != nil {
		return a, err
	}
	if !a.Paused {
		actor, err := s.cfg.Actor(ctx, a.CreatedBy)
		if err != nil {
			return a, err
		}
		if err := s.cfg.Jobs.Check(ctx, actor, a.TeamID, a.Work); err != nil {
			return a, err
		}
	}
	out, err := s.cfg.Store.EditAutomation(ctx, id, func(now *Automation) error {
		now.Name, now.Trigger, now.Work, now.Attempts, now.Limits = a.Name, a.Trigger, a.Work, a.Attempts, a.Limits
		if now.Paused != a.Paused || !a.Paused {
			now.Paused, now.Because, now.Failures = a.Paused, "", 0
		}
		now.UpdatedAt, now.NextAt = s.now(), now.next(s.cfg.Now())
		return nil
	})
	if err == nil {
		s.notify(ctx, out)
		s.wake()
	}
	return out, err
}

// Renew replaces what the reports of an automation are signed with. Errors: automation_has_no_secret.
func (s *Service) Renew(ctx context.Context, actor accounts.Actor, id string) (secret string, err error) {
	a, err := s.Get(ctx, id)
	if err != nil {
		return "", err
	}
	if a.SecretID == "" {
		return "", fault.New(fault.Conflict, "automation_has_no_secret", "Nobody reports events to this automation, so nothing signs them.")
	}
	secret = rand.Text()
	err = s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		fresh, err := s.cfg.Secrets.KeepTeamSecret(ctx, a.TeamID, secretName(a.ID), secret, actor.User.ID)
		if err != nil {
			return err
		}
		if _, err = s.cfg.Store.EditAutomation(ctx, id, func(a *Automation) error { a.SecretID = fresh; return nil }); err != nil {
			return err
		}
		return s.cfg.Secrets.DropTeamSecret(ctx, a.SecretID, a.TeamID)
	})
	return secret, err
}

// Delete removes an automation. A run that goes on is cancelled; what runs made stays.
func (s *Service) Delete(ctx context.Context, id string) error {
	a, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	err = s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.cfg.Store.EditAutomation(ctx, id, func(a *Automation) error {
			a.RemovedAt, a.Paused, a.NextAt, a.SecretID = s.now(), true, 0, ""
			return nil
		}); err != nil || a.SecretID == "" {
			return err
		}
		return s.cfg.Secrets.DropTeamSecret(ctx, a.SecretID, a.TeamID)
	})
	if err != nil {
		return fmt.Errorf("removing an automation: %w", err)
	}
	s.notify(ctx, a)
	s.wake()
	return nil
}

// EventsURL is where events are reported to an automation.
func (s *Service) EventsURL(id string) string {
	return s.cfg.PublicURL + "/api/v1/automations/" + id + "/events"
}

// Runs returns a page of an automation's runs, newest first.
func (s *Service) Runs(ctx context.Context, id string, pg page.Page) ([]Run, string, error) {
	return s.cfg.Store.Runs(ctx, id, pg)
}

// Preview returns what a run would ask for with a sample of an event, and what would keep it from acting; "" = nothing.
func (a Automation) Preview(h http.Header, sample []byte, now time.Time) (work jobs.Request, unknown []string, ignored string, err error) {
	fields, ignored, err := a.understand(h, sample)
	if err != nil {
		return work, nil, "", err
	}
	work, unknown = a.work(fields, now)
	return work, unknown, ignored, nil
}
