package tasks

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/workspaces"
)

// Changed is the type of the event that a task changed. Its ID is the task's uid, or a project's when many changed at once.
const Changed = "task.changed"

// Projects knows projects and their workspaces.
type Projects interface {
	Project(ctx context.Context, id string) (workspaces.Project, error)
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
}

// Edits knows which files a session changed.
type Edits interface {
	// EditedPaths returns up to n paths, as in the API, of files that a session changed in a workspace since a moment (ms UTC), without what
	// was undone. If it changed none, they are those that changed without a known author. known is false if the workspace has no such session.
	EditedPaths(ctx context.Context, workspaceID, sessionID string, since int64, n int) (paths []string, known bool, err error)
}

// Outbox notes that a task changed, within the transaction that changes it, for what sends changes elsewhere.
type Outbox interface {
	TaskChanged(ctx context.Context, t Task) error
}

// Config configures a Service.
type Config struct {
	Store    Store
	Projects Projects
	Outbox   Outbox // nil = changes are sent nowhere
	Files    Files  // nil = tasks are written into no workspace
	// FileOf returns where a project keeps its tasks in its repository; "" = it has not said. nil = none has.
	FileOf  func(ctx context.Context, projectID string) (string, error)
	Edits   Edits            // nil = nobody knows which session changed which file
	Secrets tools.Secrets    // nil = teams have none
	Events  events.Publisher // nil = nobody listens
	Bus     *events.Bus      // source of events about workspaces; nil = Run looks only at the start
	Now     func() time.Time
	After   func(time.Duration) <-chan time.Time
	Settle  time.Duration // how long events are collected before Run looks; default 2 s
	Log     *slog.Logger
}

// Service manages tasks. Safe for concurrent use.
type Service struct{ cfg Config }

// NewService returns a Service. It starts nothing; it panics when a required dependency is missing.
func NewService(cfg Config) *Service {
	if cfg.Store == nil || cfg.Projects == nil {
		panic("tasks: Store and Projects are required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.After == nil {
		cfg.After = time.After
	}
	if cfg.Settle <= 0 {
		cfg.Settle = 2 * time.Second
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Service{cfg}
}

// changed notes a change within its transaction.
func (s *Service) changed(ctx context.Context, t Task) error {
	if s.cfg.Outbox == nil {
		return nil
	}
	return s.cfg.Outbox.TaskChanged(ctx, t)
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }

// publish tells who looks that tasks have changed.
func (s *Service) publish(ctx context.Context, teamID string, version int64, ids ...string) {
	if s.cfg.Events == nil {
		return
	}
	for _, one := range ids {
		s.cfg.Events.Publish(context.WithoutCancel(ctx), events.Event{Type: Changed, ID: one, TeamID: teamID, Version: version})
	}
}

// project checks that tasks can be kept in a project.
func (s *Service) project(ctx context.Context, who Who, projectID string) (string, error) {
	if who.ProjectID != "" {
		projectID = who.ProjectID
	}
	p, err := s.cfg.Projects.Project(ctx, projectID)
	if err == nil && p.TeamID != who.TeamID || fault.Is(err, fault.NotFound) {
		return "", fault.New(fault.NotFound, "project_not_found", "The team has no such project.").With("field", "project_id")
	}
	return p.ID, err
}

// Locate finds a task by PW-T12 or its uid among the teams of the context.
func (s *Service) Locate(ctx context.Context, ref string) (Task, error) {
	num, ok := numOf(ref)
	if !ok {
		t, err := s.cfg.Store.Task(ctx, ref)
		if fault.Is(err, fault.NotFound) {
			err = notFound(ref)
		}
		return t, err
	}
	found, err := s.cfg.Store.TasksByNum(ctx, num)
	switch {
	case err != nil:
		return Task{}, err
	case len(found) == 0:
		return Task{}, notFound(Key(num))
	case len(found) > 1:
		return Task{}, fault.New(fault.Conflict, "task_ambiguous", "Several of your teams have a task %s. Name it by its uid, which the list of a team's tasks has.", Key(num))
	}
	return found[0], nil
}

// find finds a task that who may see.
func (s *Service) find(ctx context.Context, who Who, ref string) (Task, error) {
	t, err := s.Locate(ctx, ref)
	if err != nil {
		return t, err
	}
	if t.TeamID != who.TeamID || who.ProjectID != "" && t.ProjectID != who.ProjectID {
		return Task{}, notFound(ref)
	}
	return t, nil
}

// sibling finds another task of a task's project.
func (s *Service) sibling(ctx context.Context, t Task, field, ref string) (Task, error) {
	other, err := s.find(ctx, Who{TeamID: t.TeamID, ProjectID: t.ProjectID}, ref)
	if fault.Is(err, fault.NotFound) {
		return other, notFound(ref).(*fault.Error).With("field", field)
	}
	return other, err
}

// assignee is who a task is assigned to, from what a caller wrote.
func (s *Service) assignee(ctx context.Context, who Who, name string) (string, error) {
	name = strings.TrimSpace(name)
	if name == "" {
		return "", nil
	}
	if name == "me" {
		return who.me(), nil
	}
	known, err := s.cfg.Store.Names(ctx, who.TeamID, []string{name})
	if err == nil && known[name] == "" {
		err = invalid("assignee", `The assignee must be "me", the id of a member or of a session of the team, or "" for nobody.`)
	}
	return name, err
}

// Create adds a task to a project. Errors: invalid_task, project_not_found, task_not_found, tasks_full.
func (s *Service) Create(ctx context.Context, who Who, n New) (Task, error) {
	projectID, err := s.project(ctx, who, n.ProjectID)
	if err != nil {
		return Task{}, err
	}
	now := s.now()
	t := Task{UID: id.New("tsk"), TeamID: who.TeamID, ProjectID: projectID, Title: n.Title, Description: n.Description, Type: cmp.Or(n.Type, Types[0]), Priority: DefaultPriority,
		Status: Open, Labels: n.Labels, ExternalRef: n.ExternalRef, CreatedBy: who.UserID, CreatedAt: now, UpdatedAt: now, Version: 1, Files: []string{}}
	if n.Priority != nil {
		t.Priority = *n.Priority
	}
	if t.Assignee, err = s.assignee(ctx, who, n.Assignee); err != nil {
		return Task{}, err
	}
	if err := tools.Hide(ctx, s.cfg.Secrets, who.TeamID, &t.Title, &t.Description); err != nil {
		return Task{}, err
	}
	if err := t.check(); err != nil {
		return Task{}, err
	}
	if len(n.BlockedBy) > MaxDependencies {
		return Task{}, invalid("blocked_by", "A task depends on at most %d others.", MaxDependencies)
	}
	if err := s.room(ctx, projectID, 1); err != nil {
		return Task{}, err
	}
	created := t
	err = s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		t := t
		if n.Parent != "" {
			p, err := s.sibling(ctx, t, "parent", n.Parent)
			if err != nil {
				return err
			}
			t.ParentUID, t.Parent = p.UID, p.ID
		}
		var err error
		if t, err = s.cfg.Store.InsertTask(ctx, t); err != nil {
			return err
		}
		depend := func(field, ref string, as Relation) error {
			other, err := s.sibling(ctx, t, field, ref)
			if err != nil {
				return err
			}
			return s.cfg.Store.PutDependency(ctx, t.TeamID, who.UserID, now, Dependency{TaskID: t.UID, DependsOn: other.UID, Type: as})
		}
		if n.From != "" {
			if err := depend("discovered_from", n.From, DiscoveredFrom); err != nil {
				return err
			}
		}
		for _, ref := range n.BlockedBy {
			if err := depend("blocked_by", ref, Blocks); err != nil {
				return err
			}
		}
		created = t
		if err := s.cfg.Store.Recount(ctx, []string{t.UID}); err != nil {
			return err
		}
		return s.changed(ctx, t)
	})
	if err != nil {
		return Task{}, err
	}
	s.publish(ctx, who.TeamID, now, created.UID)
	return s.one(ctx, created.UID)
}

// room rejects n more tasks in a project that is full.
func (s *Service) room(ctx context.Context, projectID string, n int) error {
	there, err := s.cfg.Store.CountTasks(ctx, projectID)
	if err == nil && there+n > MaxTasks {
		err = fault.New(fault.TooLarge, "tasks_full", "The project would have more than %d tasks, closed ones included.", MaxTasks)
	}
	return err
}

// one reads a task as answers show it.
func (s *Service) one(ctx context.Context, uid string) (Task, error) {
	t, err := s.cfg.Store.Task(ctx, uid)
	if err != nil {
		return t, err
	}
	all := []Task{t}
	err = s.complete(ctx, all)
	return all[0], err
}

// complete fills in what blocks tasks and how their assignees are called.
func (s *Service) complete(ctx context.Context, all []Task) error {
	if len(all) == 0 {
		return nil
	}
	at := map[string]*Task{}
	var blocked, assigned []string
	for i := range all {
		t := &all[i]
		t.BlockedBy, at[t.UID] = []string{}, t
		if t.Blockers > 0 {
			blocked = append(blocked, t.UID)
		}
		if t.Assignee != "" && !slices.Contains(assigned, t.Assignee) {
			assigned = append(assigned, t.Assignee)
		}
	}
	if len(blocked) > 0 {
		deps, err := s.cfg.Store.Dependencies(ctx, blocked)
		if err != nil {
			return err
		}
		for _, d := range deps {
			if d.Type == Blocks && d.Other.Status != Closed {
				at[d.TaskID].BlockedBy = append(at[d.TaskID].BlockedBy, d.Other.ID)
			}
		}
	}
	if len(assigned) == 0 {
		return nil
	}
	names, err := s.cfg.Store.Names(ctx, all[0].TeamID, assigned)
	for i := range all {
		if all[i].Assignee != "" {
			all[i].AssigneeName = cmp.Or(names[all[i].Assignee], "a former member or session")
		}
	}
	return err
}

// Get returns a task with everything it is related to.
func (s *Service) Get(ctx context.Context, who Who, ref string) (Detail, error) {
	t, err := s.find(ctx, who, ref)
	if err != nil {
		return Detail{}, err
	}
	return s.detail(ctx, who, t.UID)
}

func (s *Service) detail(ctx context.Context, who Who, uid string) (d Detail, err error) {
	if d.Task, err = s.one(ctx, uid); err != nil {
		return d, err
	}
	for _, part := range []struct {
		read func(context.Context, []string) ([]Dependency, error)
		to   *[]Brief
	}{{s.cfg.Store.Dependencies, &d.Dependencies}, {s.cfg.Store.Dependents, &d.Dependents}, {s.cfg.Store.Children, &d.Children}} {
		list, err := part.read(ctx, []string{uid})
		if err != nil {
			return d, err
		}
		*part.to = briefs(list)
	}
	d.Artifacts, err = s.cfg.Store.Attachments(ctx, d.Task, who, MaxArtifacts)
	return d, err
}

// briefs are the other ends of dependencies.
func briefs(list []Dependency) []Brief {
	out := make([]Brief, 0, len(list))
	for _, d := range list {
		b := d.Other
		if d.Type != ParentChild {
			b.Type = d.Type
		}
		out = append(out, b)
	}
	return out
}

// List returns a page of tasks, the most urgent first. Errors: invalid_task, invalid_cursor.
func (s *Service) List(ctx context.Context, who Who, q Query) ([]Task, string, error) {
	q.TeamID = who.TeamID
	if who.ProjectID != "" {
		q.ProjectID = who.ProjectID
	}
	for _, st := range q.Statuses {
		if !slices.Contains(Statuses, st) {
			return nil, "", invalid("status", "The status %.40q is unknown. Use open, in_progress, blocked or closed.", st)
		}
	}
	if len(q.Text) > MaxTitle || len(q.Label) > 4*MaxLabel {
		return nil, "", invalid("q", "The search text is too long.")
	}
	if q.Assignee == "me" {
		q.Assignee = who.me()
	}
	if q.Parent != "" {
		p, err := s.find(ctx, who, q.Parent)
		if err != nil {
			return nil, "", err
		}
		q.ParentUID = p.UID
	}
	rows, err := s.cfg.Store.FindTasks(ctx, q)
	if err != nil {
		return nil, "", err
	}
	items, next := page.Cut(q.Page, rows, func(t Task) page.Key { return page.Key{At: Order(t.Priority, t.Num), ID: t.UID} })
	return items, next, s.complete(ctx, items)
}

// Order is the place of a task in lists: by priority, then by age.
func Order(priority int, num int64) int64 { return int64(priority)<<56 | num }

// Ordered is the priority and the number that Order was made of.
func Ordered(at int64) (priority, num int64) { return at >> 56, at & (1<<56 - 1) }

// Claim assigns a task to the caller and starts it: of many who try, one succeeds. A task that waits for others cannot be claimed.
// Who has it already succeeds again. Errors: task_claimed, task_blocked, task_closed.
func (s *Service) Claim(ctx context.Context, who Who, ref string) (Task, error) {
	t, err := s.find(ctx, who, ref)
	if err != nil {
		return Task{}, err
	}
	now := s.now()
	was := t
	t.Assignee, t.Status, t.ClaimedAt, t.UpdatedAt = who.me(), InProgress, now, now
	if who.WorkspaceID != "" && t.WorkspaceID != who.WorkspaceID {
		t.WorkspaceID, t.LinkedAt = who.WorkspaceID, now
	}
	var won bool
	err = s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		if won, err = s.cfg.Store.ClaimTask(ctx, t, []string{who.me(), who.UserID}); err != nil || !won {
			return err
		}
		return s.changed(ctx, t)
	})
	if err != nil {
		return Task{}, err
	}
	if !won {
		return Task{}, s.whyNot(ctx, was)
	}
	s.publish(ctx, who.TeamID, now, t.UID)
	return s.one(ctx, t.UID)
}

// whyNot says why a task could not be claimed.
func (s *Service) whyNot(ctx context.Context, t Task) error {
	t, err := s.one(ctx, t.UID)
	switch {
	case err != nil:
		return err
	case t.Status == Closed:
		return fault.New(fault.Conflict, "task_closed", "%s is closed. Reopen it first, or take another task.", t.ID)
	case t.Blockers > 0:
		return fault.New(fault.Conflict, "task_blocked", "%s waits for %s. Take a task that is ready.", t.ID, strings.Join(t.BlockedBy, ", ")).With("blocked_by", t.BlockedBy)
	}
	return fault.New(fault.Conflict, "task_claimed", "%s is assigned to %s. Take another task that is ready.", t.ID, cmp.Or(t.AssigneeName, "somebody else")).With("assignee", t.Assignee)
}
