// Package tasks is the issue tracker of a project that people and agents share: tasks with priorities, dependencies and an assignee,
// of which `ready` are those that can be worked on now. A workspace in which a task is worked on fills in its files, and closes it
// when it is merged. The package also offers the tasks to agents as tools.
//
// Run owns the only goroutine; it ends with its context.
package tasks

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
)

// Limits.
const (
	MaxTasks        = 50_000 // of a project, closed ones included
	MaxDependencies = 100    // of a task
	MaxTitle        = 500    // characters
	MaxDescription  = 64 << 10
	MaxReason       = 2000 // characters
	MaxLabels       = 30
	MaxLabel        = 64  // characters
	MaxFiles        = 200 // of a task
	maxExternal     = 200 // characters
	maxBriefs       = 50  // tasks that an answer names beside its own
)

// Status is how far a task is.
type Status string

// The statuses.
const (
	Open       Status = "open"
	InProgress Status = "in_progress"
	Blocked    Status = "blocked" // somebody said so; what waits for another task stays open
	Closed     Status = "closed"
)

// Statuses are all of them, in the order in which work passes through them.
var Statuses = []Status{Open, InProgress, Blocked, Closed}

// Types are the kinds of tasks.
var Types = []string{"task", "bug", "feature", "epic", "chore"}

// Relation is how one task depends on another.
type Relation string

// The relations. "A blocks B" is stored as B depends on A.
const (
	Blocks         Relation = "blocks"       // it cannot begin before the other is closed
	ParentChild    Relation = "parent-child" // it is a part of the other
	DiscoveredFrom Relation = "discovered-from"
	Related        Relation = "related"
	Duplicates     Relation = "duplicates"
	Supersedes     Relation = "supersedes"
)

// Relations are all of them.
var Relations = []Relation{Blocks, ParentChild, DiscoveredFrom, Related, Duplicates, Supersedes}

// DefaultPriority is that of a task that names none: 0 is critical, 4 is some day.
const (
	DefaultPriority = 2
	LowestPriority  = 4
)

// Task is one piece of planned work. Its JSON form is that of the API and of the tools.
type Task struct {
	ID           string   `json:"id"`  // as people say it: PW-T12, unique in the team
	UID          string   `json:"uid"` // unique everywhere
	TeamID       string   `json:"-"`
	ProjectID    string   `json:"project_id"`
	Num          int64    `json:"-"`
	Title        string   `json:"title"`
	Description  string   `json:"description,omitempty"`
	Type         string   `json:"type"`
	Priority     int      `json:"priority"`
	Status       Status   `json:"status"`
	Reason       string   `json:"reason,omitempty"` // why it was closed
	Labels       []string `json:"labels"`
	Parent       string   `json:"parent,omitempty"`
	ParentUID    string   `json:"-"`
	BlockedBy    []string `json:"blocked_by"` // tasks that must be closed before it can begin
	Blockers     int      `json:"-"`          // how many there are
	Assignee     string   `json:"assignee"`   // id of a user or a session; "" = nobody
	AssigneeName string   `json:"assignee_name,omitempty"`
	WorkspaceID  string   `json:"workspace_id,omitempty"` // where it is worked on
	Files        []string `json:"files,omitempty"`        // that changed while it was worked on
	ExternalID   string   `json:"external_id,omitempty"`  // in the tracker it was imported from
	ExternalRef  string   `json:"external_ref,omitempty"` // the issue of a forge it stands for
	CreatedBy    string   `json:"created_by"`
	CreatedAt    int64    `json:"created_at"`
	UpdatedAt    int64    `json:"updated_at"`
	ClosedAt     int64    `json:"closed_at,omitempty"`
	ClaimedAt    int64    `json:"-"`
	LinkedAt     int64    `json:"-"`
	Version      int64    `json:"version"`
}

// Brief names a task in an answer about another.
type Brief struct {
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	Status   Status   `json:"status"`
	Priority int      `json:"priority"`
	Type     Relation `json:"type,omitempty"` // how they depend on each other
}

// Detail is a task with what it depends on.
type Detail struct {
	Task
	Dependencies []Brief      `json:"dependencies"` // what it depends on; its parent is in Parent
	Dependents   []Brief      `json:"dependents"`   // what depends on it
	Children     []Brief      `json:"children"`
	Artifacts    []Attachment `json:"artifacts"`
}

// Outcome is the answer to closing a task.
type Outcome struct {
	Task
	NowReady     []Brief `json:"now_ready"`     // tasks that waited for nothing else
	OpenChildren []Brief `json:"open_children"` // that remain
	Warning      string  `json:"warning,omitempty"`
}

// Who acts, and on what. Its creator has checked that they may.
type Who struct {
	TeamID      string
	UserID      string
	SessionID   string // of the agent that acts; "" = a person or a script
	WorkspaceID string // where it acts; "" = nowhere in particular
	ProjectID   string // the only project whose tasks it may see; "" = all of the team
}

// me is whom "me" stands for.
func (w Who) me() string {
	if w.SessionID != "" {
		return w.SessionID
	}
	return w.UserID
}

// New is a task to create. Parent and BlockedBy name tasks of the project.
type New struct {
	ProjectID   string
	Title       string
	Description string
	Type        string
	Priority    *int
	Labels      []string
	Parent      string
	BlockedBy   []string
	Assignee    string
	ExternalRef string
	From        string // the task during which it was found
}

// Change changes a task; nil fields stay as they are.
type Change struct {
	Title        *string
	Description  *string
	Type         *string
	Priority     *int
	Status       *Status
	Reason       *string
	Labels       *[]string
	AddLabels    []string
	RemoveLabels []string
	Parent       *string // "" = none
	Assignee     *string // "me", an id, or "" for nobody
	ExternalRef  *string
	Version      int64 // refused unless the task still has it; 0 = whatever it is
}

// Query narrows a list.
type Query struct {
	TeamID    string
	ProjectID string   // "" = all of the team
	Statuses  []Status // none = all that are not closed
	Type      string
	Label     string
	Assignee  string
	Parent    string // id, as PW-T1
	ParentUID string
	Priority  *int
	Text      string   // in the title or the description
	Ready     bool     // open, and nothing blocks them
	For       []string // with Ready: only those that are free, or assigned to one of these
	Page      page.Page
}

// Dependency is that a task depends on another.
type Dependency struct {
	TaskID, DependsOn string // uids
	Type              Relation
	Other             Brief // the task at the other end of the question
}

// Link is a task that is worked on in a workspace, with what the workspace became.
type Link struct {
	Task                Task
	WorkspaceKey        string
	MergedAt, DeletedAt int64
	Private             bool
}

// Store keeps tasks. Ids in it are uids.
type Store interface {
	Rows
	Relationships
	Attachments
	// Links returns tasks that are not closed and have a workspace: one of these, or any where ids is nil.
	Links(ctx context.Context, ids []string) ([]Link, error)
	// Names returns how users and sessions of a team are called, by id.
	Names(ctx context.Context, teamID string, ids []string) (map[string]string, error)
	// ProjectDependencies returns what all tasks of a project depend on, their parents included. Other is the task itself.
	ProjectDependencies(ctx context.Context, projectID string) ([]Dependency, error)
	// ChangedPaths returns up to n paths of files that differ in a workspace.
	ChangedPaths(ctx context.Context, workspaceID string, n int) ([]string, error)
}

// Rows keeps the tasks themselves.
type Rows interface {
	Tx(ctx context.Context, fn func(ctx context.Context) error) error
	// InsertTask gives the task the team's next number.
	InsertTask(ctx context.Context, t Task) (Task, error)
	Task(ctx context.Context, uid string) (Task, error)
	// TasksByNum returns the tasks with a number, of every team that the context may see.
	TasksByNum(ctx context.Context, num int64) ([]Task, error)
	FindTasks(ctx context.Context, q Query) ([]Task, error)
	UpdateTask(ctx context.Context, t Task) error
	// ClaimTask assigns a task that is free, or assigned to one of from, and reports whether it did.
	ClaimTask(ctx context.Context, t Task, from []string) (bool, error)
	CountTasks(ctx context.Context, projectID string) (int, error)
	TaskByExternal(ctx context.Context, projectID, externalID string) (Task, error)
}

// Relationships keeps what tasks are to each other.
type Relationships interface {
	PutDependency(ctx context.Context, teamID, userID string, at int64, d Dependency) error
	DropDependency(ctx context.Context, d Dependency) (bool, error)
	// Dependencies returns what tasks depend on; Dependents what depends on them.
	Dependencies(ctx context.Context, uids []string) ([]Dependency, error)
	Dependents(ctx context.Context, uids []string) ([]Dependency, error)
	// Children returns parts of tasks as Dependencies of type ParentChild, Parents what tasks are parts of.
	Children(ctx context.Context, uids []string) ([]Dependency, error)
	Parents(ctx context.Context, uids []string) ([]Dependency, error)
	// Reaches reports whether a task depends on another, directly or through others, by one relation.
	Reaches(ctx context.Context, from, to string, as Relation) (bool, error)
	// Recount counts again what blocks tasks.
	Recount(ctx context.Context, uids []string) error
}

// Key is how people say the task with a number.
func Key(num int64) string { return fmt.Sprintf("PW-T%d", num) }

var keyed = regexp.MustCompile(`^(?i:PW-)?[Tt]([1-9][0-9]{0,17})$`)

// numOf reads PW-T12, or T12.
func numOf(ref string) (int64, bool) {
	m := keyed.FindStringSubmatch(strings.TrimSpace(ref))
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	return n, err == nil
}

func invalid(field, format string, args ...any) error {
	return fault.New(fault.Invalid, "invalid_task", format, args...).With("field", field)
}

func notFound(ref string) error {
	if len(ref) > 64 {
		ref = "of that id"
	}
	return fault.New(fault.NotFound, "task_not_found", "There is no task %s in this project. List the tasks to see their ids.", ref)
}

// check rejects a task whose fields cannot be stored, and tidies them.
func (t *Task) check() error {
	t.Title = strings.Join(strings.Fields(t.Title), " ")
	t.Type, t.ExternalRef = strings.ToLower(strings.TrimSpace(t.Type)), strings.TrimSpace(t.ExternalRef)
	switch {
	case t.Title == "":
		return invalid("title", "The task has no title. Say in a few words what is to be done.")
	case utf8.RuneCountInString(t.Title) > MaxTitle:
		return invalid("title", "The title is longer than %d characters. Put the details into the description.", MaxTitle)
	case len(t.Description) > MaxDescription:
		return invalid("description", "The description is longer than %d KiB.", MaxDescription>>10)
	case !slices.Contains(Types, t.Type):
		return invalid("type", "The type %.40q is unknown. Use one of %s.", t.Type, strings.Join(Types, ", "))
	case t.Priority < 0 || t.Priority > LowestPriority:
		return invalid("priority", "The priority must be 0 (critical) to %d (some day).", LowestPriority)
	case !slices.Contains(Statuses, t.Status):
		return invalid("status", "The status %.40q is unknown. Use open, in_progress, blocked or closed.", t.Status)
	case utf8.RuneCountInString(t.Reason) > MaxReason:
		return invalid("reason", "The reason is longer than %d characters.", MaxReason)
	case utf8.RuneCountInString(t.ExternalRef) > maxExternal || utf8.RuneCountInString(t.ExternalID) > maxExternal:
		return invalid("external_ref", "The reference is longer than %d characters.", maxExternal)
	}
	for field, text := range map[string]string{"title": t.Title, "description": t.Description, "reason": t.Reason, "external_ref": t.ExternalRef} {
		if strings.ContainsRune(text, 0) || !utf8.ValidString(text) {
			return invalid(field, "The %s must be UTF-8 text without NUL characters.", field)
		}
	}
	return t.checkLabels()
}

func (t *Task) checkLabels() error {
	labels := []string{}
	for _, l := range t.Labels {
		l = strings.TrimSpace(l)
		if l == "" || slices.Contains(labels, l) {
			continue
		}
		if utf8.RuneCountInString(l) > MaxLabel || !utf8.ValidString(l) || strings.ContainsAny(l, "\"\\,<>&") || strings.ContainsFunc(l, func(r rune) bool { return r < ' ' }) {
			return invalid("labels", "The label %.80q must have at most %d characters, without quotes, commas, backslashes or angle brackets.", l, MaxLabel)
		}
		labels = append(labels, l)
	}
	if len(labels) > MaxLabels {
		return invalid("labels", "A task has at most %d labels.", MaxLabels)
	}
	t.Labels = labels
	return nil
}

func brief(t Task) Brief {
	return Brief{ID: t.ID, Title: t.Title, Status: t.Status, Priority: t.Priority}
}
