// Package triggers starts jobs by themselves: at times, when a git host or another program reports an event, or when a person asks. An
// automation says when (Trigger), what (Work, whose prompt is a template) and how much (Limits). Each time it acts is a Run.
//
// What happens is stored before it is acted on, and a job is asked for with the run's ID as its key, so that a killed server starts no work
// twice and loses none. An event acts at most once by its ID. While a run waits, further events are folded into it, so that a thousand events
// in a burst become the run that goes on and one after it.
//
// Goroutines: Run has one, which looks at what is due, waits or goes on. Nothing is kept in memory between its looks.
package triggers

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/automations/jobs"
	"github.com/parawork/parawork/internal/page"
)

// Kind says what an automation waits for.
type Kind string

// The kinds.
const (
	Schedule Kind = "schedule" // times of a cron expression
	Webhook  Kind = "webhook"  // any program that signs its requests
	GitHost  Kind = "git_host" // GitHub, GitLab, Gitea or Forgejo, by a webhook of a repository
	Manual   Kind = "manual"   // people and scripts alone
)

// Missed says what is done about times that passed while the server was down.
type Missed string

// What can be done about missed times.
const (
	RunOnce Missed = "run_once"
	Skip    Missed = "skip"
)

// Trigger says when an automation acts.
type Trigger struct {
	Kind     Kind   `json:"kind"`
	Cron     string `json:"cron,omitempty"`      // with Schedule: five fields, or @daily and the like
	TimeZone string `json:"time_zone,omitempty"` // with Schedule: an IANA name; "" = UTC
	Missed   Missed `json:"missed,omitempty"`    // with Schedule; "" = Skip

	Events   []string `json:"events,omitempty"`   // with GitHost: see Events; with Webhook: none
	Labels   []string `json:"labels,omitempty"`   // with GitHost: only what has one of these labels; empty = any
	Branches []string `json:"branches,omitempty"` // with GitHost: only these target branches, with * for any characters but /; empty = any
	Authors  []string `json:"authors,omitempty"`  // with GitHost: only what these people did, besides those who may write to the repository
}

// Limits bound what an automation may do.
type Limits struct {
	RunNano   int64 `json:"run_nano,omitempty"`   // of models, nano-USD: a run that has spent more is cancelled; 0 = none
	MonthNano int64 `json:"month_nano,omitempty"` // likewise, of all runs since the first of the month (UTC): none begins after it; 0 = none
}

// Limits of the package.
const (
	MaxAutomations = 1000     // of a team
	MaxName        = 100      // characters
	MaxTemplate    = 64 << 10 // bytes of a prompt
	MaxAttempts    = 4        // jobs of a run
	MaxFields      = 32 << 10
	MaxPayload     = 1 << 20 // bytes of a reported event
	maxFailures    = 5       // runs that failed in a row pause an automation
	maxDepth       = 3       // how many runs may have caused each other
)

// Automation is a stored automation. Times are ms UTC, 0 = never.
type Automation struct {
	ID, TeamID, CreatedBy string
	Name                  string
	Trigger               Trigger
	Work                  jobs.Request // Prompt is a template; see Fill
	Attempts              int          // jobs of each run
	Limits                Limits
	SecretID              string // what its reports are signed with

	Paused   bool
	Because  string // why Parawork paused it; "" = a person did
	Failures int    // runs that failed in a row
	NextAt   int64  // with Schedule
	Version  int64

	CreatedAt, UpdatedAt, RemovedAt int64
}

// State is how far a run has come.
type State string

// The states.
const (
	Waiting   State = "waiting"
	Running   State = "running"
	Completed State = "completed"
	Failed    State = "failed"
	Skipped   State = "skipped" // nothing was started; Code says why
)

// Ignored is the code of runs for events that their automation does not wait for.
const Ignored = "automation_ignored"

// Ended reports whether a state is final.
func (s State) Ended() bool { return s != Waiting && s != Running }

// A Run is one time that an automation acts, or decided not to.
type Run struct {
	ID, AutomationID, TeamID string
	EventID                  string            // at most one run of the automation has it
	Cause                    string            // "schedule", "missed", "event", "manual"
	Event                    string            // of a git host: which; "" = none
	Fields                   map[string]string // what the template may use
	Folded                   int               // further events that came while it waited, of which Fields has the last
	Depth                    int               // how many runs led to it
	State                    State
	JobIDs                   []string
	Code, Error              string
	CostNano                 *int64 // nil = unknown
	Version                  int64

	DueAt, CreatedAt, StartedAt, EndedAt int64
}

// Health sums up an automation for lists.
type Health struct {
	Last      *Run  // without those that were Ignored
	MonthNano int64 // spent since the first of the month
	Runs      int   // in the last 30 days
	Failed    int   // of those
}

// Store is the storage that the package needs. Errors: fault.NotFound for an unknown ID.
type Store interface {
	AutomationStore
	RunStore
	Tx(ctx context.Context, fn func(ctx context.Context) error) error
}

// AutomationStore keeps automations.
type AutomationStore interface {
	// InsertAutomation stores one, unless the team has most: then a fault "automations_full".
	InsertAutomation(ctx context.Context, a Automation, most int) error
	Automation(ctx context.Context, id string) (Automation, error)
	// Automations returns a page of those of a team that nobody removed, newest first.
	Automations(ctx context.Context, teamID string, pg page.Page) ([]Automation, string, error)
	// Due returns those whose time has come, oldest first.
	Due(ctx context.Context, now int64, limit int) ([]Automation, error)
	// EditAutomation lets fn change one in one transaction, and returns it as stored.
	EditAutomation(ctx context.Context, id string, fn func(*Automation) error) (Automation, error)
	// Health returns the last run of an automation, what its runs since month (ms) have spent, and how many since a time there were and failed.
	Health(ctx context.Context, automationID string, month, since int64) (Health, error)
}

// RunStore keeps their runs.
type RunStore interface {
	// InsertRun stores a run and that its event was seen. made is false when the event was seen before: then the run it went into is returned.
	// A waiting run takes the event in, when fold is set and there is one.
	InsertRun(ctx context.Context, r Run, fold bool) (stored Run, made bool, err error)
	AutomationRun(ctx context.Context, id string) (Run, error)
	Runs(ctx context.Context, automationID string, pg page.Page) ([]Run, string, error)
	// LiveRuns returns the runs that wait or go on: those that go on first, then the oldest.
	LiveRuns(ctx context.Context, limit int) ([]Run, error)
	EditRun(ctx context.Context, id string, fn func(*Run) error) (Run, error)
	// Spent returns what the runs of an automation since a time have spent, in nano-USD.
	Spent(ctx context.Context, automationID string, since int64) (int64, error)
	// RunOfBranch returns the run whose job made the workspace with a branch of a project.
	RunOfBranch(ctx context.Context, projectID, branch string) (Run, error)
	// ForgetRuns deletes runs that ended before a time and those that were skipped before another, what was seen before the first, and
	// automations that were removed and have no live run.
	ForgetRuns(ctx context.Context, before, skippedBefore int64) error
}

// Jobs do the work.
type Jobs interface {
	Create(ctx context.Context, actor accounts.Actor, teamID, key string, r jobs.Request) (jobs.Job, bool, error)
	Check(ctx context.Context, actor accounts.Actor, teamID string, r jobs.Request) error
	Get(ctx context.Context, id string) (jobs.Job, error)
	Cancel(ctx context.Context, id, by string) (jobs.Job, error)
	Spent(ctx context.Context, j jobs.Job) *int64
}

// Secrets keeps what reports are signed with, sealed.
type Secrets interface {
	KeepTeamSecret(ctx context.Context, teamID, name, value, by string) (secretID string, err error)
	TeamSecret(ctx context.Context, secretID, teamID, name string) (value string, err error)
	DropTeamSecret(ctx context.Context, secretID, teamID string) error
}
