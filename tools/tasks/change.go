package tasks

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
)

// Update changes a task. Closing it this way answers nothing about what became ready: see Close. Errors: invalid_task, task_changed,
// task_not_found, task_cycle.
func (s *Service) Update(ctx context.Context, who Who, ref string, c Change) (Task, error) {
	t, err := s.find(ctx, who, ref)
	if err != nil {
		return Task{}, err
	}
	if err := tools.Hide(ctx, s.cfg.Secrets, who.TeamID, c.Title, c.Description, c.Reason); err != nil {
		return Task{}, err
	}
	var assignee string
	if c.Assignee != nil {
		if assignee, err = s.assignee(ctx, who, *c.Assignee); err != nil {
			return Task{}, err
		}
	}
	_, err = s.edit(ctx, t.UID, func(ctx context.Context, t *Task) error {
		if c.Version != 0 && c.Version != t.Version {
			return fault.New(fault.Conflict, "task_changed", "%s has changed since you read it. Read it again, then repeat the change.", t.ID).With("version", t.Version)
		}
		set(&t.Title, c.Title)
		set(&t.Description, c.Description)
		set(&t.Type, c.Type)
		set(&t.Priority, c.Priority)
		set(&t.ExternalRef, c.ExternalRef)
		set(&t.Labels, c.Labels)
		t.Labels = slices.DeleteFunc(append(slices.Clone(t.Labels), c.AddLabels...), func(l string) bool { return slices.Contains(c.RemoveLabels, l) })
		if c.Assignee != nil {
			t.Assignee = assignee
		}
		if c.Status != nil {
			if *c.Status == Open && t.Status == InProgress && c.Assignee == nil {
				t.Assignee = "" // who worked on it gives it back
			}
			s.setStatus(t, *c.Status)
		}
		if t.Status == Closed {
			set(&t.Reason, c.Reason)
		}
		if c.Parent != nil {
			return s.setParent(ctx, t, *c.Parent)
		}
		return nil
	})
	if err != nil {
		return Task{}, err
	}
	return s.one(ctx, t.UID)
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// reopened notes that a task is open again: the merge that closed it is past, and only a later one of its workspace closes it again.
func (t *Task) reopened(was, is Status, now int64) {
	if was == Closed && is != Closed && t.WorkspaceID != "" {
		t.LinkedAt = now
	}
}

// setStatus changes the status and what goes with it.
func (s *Service) setStatus(t *Task, to Status) {
	switch {
	case to == Closed && t.Status != Closed:
		t.ClosedAt = s.now()
	case to != Closed:
		t.reopened(t.Status, to, s.now())
		t.ClosedAt, t.Reason = 0, ""
	}
	t.Status = to
}

// edit changes a task in one transaction. When it is closed or opened again, what waits for it is counted again.
func (s *Service) edit(ctx context.Context, uid string, fn func(ctx context.Context, t *Task) error) (Task, error) {
	var t Task
	err := s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		var err error
		if t, err = s.cfg.Store.Task(ctx, uid); err != nil {
			return err
		}
		was, before := t.Status, t
		if err := fn(ctx, &t); err != nil {
			return err
		}
		if err := t.check(); err != nil {
			return err
		}
		t.UpdatedAt = max(s.now(), t.UpdatedAt)
		t.Version++
		if err := s.cfg.Store.UpdateTask(ctx, t); err != nil {
			return err
		}
		if t.Assignee != before.Assignee && before.ClaimedAt > 0 {
			if err := s.cfg.Store.KeepAttachments(ctx, before, t.UpdatedAt); err != nil {
				return err
			}
		}
		if err := s.changed(ctx, t); err != nil {
			return err
		}
		if (was == Closed) == (t.Status == Closed) {
			return nil
		}
		waiting, err := s.waitingFor(ctx, []string{uid})
		if err != nil {
			return err
		}
		return s.cfg.Store.Recount(ctx, waiting)
	})
	if err == nil {
		s.publish(ctx, t.TeamID, t.UpdatedAt, t.UID)
	}
	return t, err
}

// Close closes a task, and answers which tasks became ready by that and which of its children remain open. strict refuses to close a
// task with open children. A closed task keeps its reason unless a new one is given. Errors: task_has_open_children.
func (s *Service) Close(ctx context.Context, who Who, ref, reason string, strict bool) (Outcome, error) {
	t, err := s.find(ctx, who, ref)
	if err != nil {
		return Outcome{}, err
	}
	if err := tools.Hide(ctx, s.cfg.Secrets, who.TeamID, &reason); err != nil {
		return Outcome{}, err
	}
	s.addFiles(ctx, t)
	return s.close(ctx, t.UID, reason, strict)
}

func (s *Service) close(ctx context.Context, uid, reason string, strict bool) (Outcome, error) {
	var out Outcome
	_, err := s.edit(ctx, uid, func(ctx context.Context, t *Task) error {
		out = Outcome{NowReady: []Brief{}, OpenChildren: []Brief{}}
		children, err := s.cfg.Store.Children(ctx, []string{uid})
		if err != nil {
			return err
		}
		for _, c := range children {
			if c.Other.Status != Closed {
				out.OpenChildren = append(out.OpenChildren, briefs([]Dependency{c})...)
			}
		}
		if n := len(out.OpenChildren); n > 0 {
			ids := make([]string, 0, min(n, maxBriefs))
			for _, c := range out.OpenChildren[:min(n, maxBriefs)] {
				ids = append(ids, c.ID)
			}
			out.OpenChildren = out.OpenChildren[:len(ids)]
			out.Warning = fmt.Sprintf("%d of its children are still open: %s.", n, strings.Join(ids, ", "))
			if strict {
				return fault.New(fault.Conflict, "task_has_open_children", "%s was not closed: %s Close them first.", t.ID, out.Warning).With("open_children", ids)
			}
		}
		s.setStatus(t, Closed)
		if reason != "" {
			t.Reason = reason
		}
		return nil
	})
	if err != nil {
		return Outcome{}, err
	}
	waited, err := s.cfg.Store.Dependents(ctx, []string{uid})
	if err != nil {
		return Outcome{}, err
	}
	for _, d := range waited {
		if d.Type != Blocks || d.Other.Status != Open || len(out.NowReady) >= maxBriefs {
			continue
		}
		if t, err := s.cfg.Store.Task(ctx, d.TaskID); err == nil && t.Blockers == 0 {
			out.NowReady = append(out.NowReady, brief(t))
			s.publish(ctx, t.TeamID, s.now(), t.UID)
		}
	}
	out.Task, err = s.one(ctx, uid)
	return out, err
}

// setParent makes a task a part of another, or of none.
func (s *Service) setParent(ctx context.Context, t *Task, ref string) error {
	if ref == "" {
		t.Parent, t.ParentUID = "", ""
		return nil
	}
	p, err := s.sibling(ctx, *t, "parent", ref)
	if err != nil {
		return err
	}
	if err := s.acyclic(ctx, *t, p, ParentChild); err != nil {
		return err
	}
	t.Parent, t.ParentUID = p.ID, p.UID
	return nil
}

// Depend has a task depend on another: with Blocks, it waits for it. A pair of tasks has one relation beside that of parent and
// child; a new one replaces it. Errors: task_cycle, task_not_found, invalid_task.
func (s *Service) Depend(ctx context.Context, who Who, ref, on string, as Relation) (Detail, error) {
	if !slices.Contains(Relations, as) {
		return Detail{}, invalid("type", "The type %.40q is unknown. Use one of blocks, parent-child, discovered-from, related, duplicates, supersedes.", as)
	}
	t, err := s.find(ctx, who, ref)
	if err != nil {
		return Detail{}, err
	}
	_, err = s.edit(ctx, t.UID, func(ctx context.Context, t *Task) error {
		if as == ParentChild {
			return s.setParent(ctx, t, on)
		}
		other, err := s.sibling(ctx, *t, "depends_on", on)
		if err != nil {
			return err
		}
		there, err := s.cfg.Store.Dependencies(ctx, []string{t.UID})
		if err != nil {
			return err
		}
		if len(there) >= MaxDependencies {
			return invalid("depends_on", "A task depends on at most %d others.", MaxDependencies)
		}
		if err := s.acyclic(ctx, *t, other, as); err != nil {
			return err
		}
		if err := s.cfg.Store.PutDependency(ctx, t.TeamID, who.UserID, s.now(), Dependency{TaskID: t.UID, DependsOn: other.UID, Type: as}); err != nil {
			return err
		}
		return s.recount(ctx, t)
	})
	if err != nil {
		return Detail{}, err
	}
	return s.detail(ctx, who, t.UID)
}

// Undepend removes what relates a task to another, also that the other is its parent. Removing what is not there succeeds.
func (s *Service) Undepend(ctx context.Context, who Who, ref, on string) (Detail, error) {
	t, err := s.find(ctx, who, ref)
	if err != nil {
		return Detail{}, err
	}
	_, err = s.edit(ctx, t.UID, func(ctx context.Context, t *Task) error {
		other, err := s.sibling(ctx, *t, "depends_on", on)
		if err != nil {
			return err
		}
		if _, err := s.cfg.Store.DropDependency(ctx, Dependency{TaskID: t.UID, DependsOn: other.UID}); err != nil {
			return err
		}
		if t.ParentUID == other.UID {
			t.Parent, t.ParentUID = "", ""
		}
		return s.recount(ctx, t)
	})
	if err != nil {
		return Detail{}, err
	}
	return s.detail(ctx, who, t.UID)
}

// recount counts again what blocks a task that is being edited.
func (s *Service) recount(ctx context.Context, t *Task) error {
	if err := s.cfg.Store.Recount(ctx, []string{t.UID}); err != nil {
		return err
	}
	now, err := s.cfg.Store.Task(ctx, t.UID)
	t.Blockers = now.Blockers
	return err
}
