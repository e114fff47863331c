// Package issues keeps a project's tasks and the issues of its repository on a forge in step. Issues with a label become tasks; changes
// of tasks go to the forge through an outbox, whose rows are written in the transaction of the change. What both sides changed is decided
// field by field against the values they last had in common. The forge's texts are untrusted: they are bounded and cleaned.
//
// Run owns the goroutines; they end with its context. No lock and no transaction is held across a call to a forge.
package issues

import (
	"context"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools/tasks"
	"github.com/parawork/parawork/workspaces/forge"
)

// Limits.
const (
	MaxIssues   = 10_000 // of a project
	MaxAttempts = 10     // at sending one change, before somebody must retry it
	MaxHistory  = 50     // entries of a task
	maxPages    = 20     // of issues in one round; the next round goes on
)

// Direction is which way issues are synced.
type Direction string

// The directions.
const (
	Off  Direction = "off"
	Both Direction = "both"
	In   Direction = "in"  // issues become tasks; nothing is written to the forge
	Out  Direction = "out" // tasks become issues; nothing is read into tasks
)

func (d Direction) in() bool  { return d == Both || d == In }
func (d Direction) out() bool { return d == Both || d == Out }

// DefaultLabel is the label of issues to sync where a project names none.
const DefaultLabel = "parawork"

// Settings are what a project has set about its tasks, and how far its sync is. Times are ms UTC.
type Settings struct {
	ProjectID, TeamID string
	Direction         Direction
	Label             string
	AllTasks          bool   // every task becomes an issue, not only those with the label
	File              string // path of the tasks in the repository; "" = none

	Since    int64 // what changed on the forge before that was read
	Page     int   // next page of the round that goes on
	Reading  int64 // Since of the next round, as known so far
	BegunAt  int64 // the forge's time when the round began
	NextAt   int64
	Fails    int
	SyncedAt int64
	Error    string
}

// Fields are what a task and an issue have in common.
type Fields struct {
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Type        string   `json:"type"`
	Priority    int      `json:"priority"`
	Closed      bool     `json:"closed"`
	Labels      []string `json:"labels"`
	Cut         bool     `json:"cut,omitempty"` // the issue's text is longer than a task's may be
}

// Link is that a task is an issue.
type Link struct {
	TaskID, TeamID, ProjectID string
	Forge                     forge.Kind
	Host, Repository          string
	Number                    int64
	URL                       string
	Assignee                  string // names there
	Base                      Fields // as both sides last had them
	SyncedAt                  int64
}

// Entry is a change of a task that the forge does not have yet.
type Entry struct {
	TaskID, TeamID, ProjectID string
	Task, Title               string // PW-T12 and its title; only where entries are listed
	ChangedAt                 int64
	Revision                  int64
	Attempts                  int
	NextAt                    int64
	Lease                     int64
	AskedAt                   int64  // when a new issue was first asked for: it may be there
	Posted                    Fields // what it was asked for with
	Failed                    bool
	Error                     string
}

// Event is something that happened to a task that its fields no longer show.
type Event struct {
	ID, TeamID, TaskID string
	Kind, Text         string
	At                 int64
}

// Counts sums up the sync of a project.
type Counts struct{ Issues, Pending, Failed int }

// Store keeps settings, links and the outbox. A missing row is a fault.NotFound.
type Store interface {
	Tx(ctx context.Context, fn func(ctx context.Context) error) error
	SettingsStore
	Links
	OutboxStore
}

// SettingsStore keeps what projects have set.
type SettingsStore interface {
	// TaskSettings returns a project's settings; fault.NotFound when it has set nothing.
	TaskSettings(ctx context.Context, projectID string) (Settings, error)
	PutTaskSettings(ctx context.Context, s Settings) error
	// SaveRound stores how far a sync is, unless its direction or label has changed meanwhile.
	SaveRound(ctx context.Context, s Settings) error
	// DueSyncs returns projects whose forge is to be asked, or that have changes to send.
	DueSyncs(ctx context.Context, now int64, n int) ([]Settings, error)
	SyncCounts(ctx context.Context, projectID string) (Counts, error)
}

// Links keeps which task is which issue, and the history of tasks.
type Links interface {
	Link(ctx context.Context, taskID string) (Link, error)
	LinkAt(ctx context.Context, projectID, host, repository string, number int64) (Link, error)
	PutLink(ctx context.Context, l Link) error
	// AddEvent adds to a task's history, and removes the oldest entries beyond most.
	AddEvent(ctx context.Context, e Event, most int) error
	History(ctx context.Context, taskID string) ([]Event, error)
}

// OutboxStore keeps changes until the forge has them.
type OutboxStore interface {
	tasks.Outbox
	Entry(ctx context.Context, taskID string) (Entry, error)
	// Entries returns the outbox of a project, oldest first.
	Entries(ctx context.Context, projectID string, n int) ([]Entry, error)
	DueEntries(ctx context.Context, projectID string, now int64, n int) ([]Entry, error)
	// LeaseEntry takes an entry until a time, unless somebody else has it.
	LeaseEntry(ctx context.Context, taskID string, now, until int64) (bool, error)
	// SaveEntry stores how sending went, and ends the lease.
	SaveEntry(ctx context.Context, e Entry) error
	// DropEntry removes an entry unless its task has changed since; then it only ends the lease.
	DropEntry(ctx context.Context, e Entry) error
	// RetryEntries has a task's entry, or all of a project that failed, sent again now.
	RetryEntries(ctx context.Context, projectID, taskID string, now int64) (int, error)
}

// Forges finds the issues of projects.
type Forges interface {
	Issues(ctx context.Context, teamID, projectID string) (*forge.Issues, error)
}

func invalid(field, format string, args ...any) error {
	return fault.New(fault.Invalid, "invalid_task_settings", format, args...).With("field", field)
}
