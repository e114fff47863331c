package issues

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools/tasks"
	"github.com/parawork/parawork/workspaces/forge"
)

// searchBack is how far before a request for an issue it is looked for, as clocks differ.
const searchBack = time.Hour

func number(n int64) string { return strconv.FormatInt(n, 10) }

// everywhere are the errors of a forge, not of one issue: the others would fail too.
var everywhere = []string{"forge_busy", "forge_unreachable", "forge_answer_wrong", "forge_token_refused", "forge_token_missing", "forge_not_allowed", "forge_not_found", "forge_moved", "forge_unknown", "issues_full"}

// forGood are errors that sending again does not change.
var forGood = []string{"forge_refused", "forge_issue_gone", "issue_elsewhere"}

// push sends what the forge does not have, a bounded number of changes.
func (s *Service) push(ctx context.Context, repo *forge.Issues, set Settings) error {
	due, err := s.cfg.Store.DueEntries(ctx, set.ProjectID, s.now(), entriesOnce)
	if err != nil {
		return err
	}
	for _, e := range due {
		won, err := s.cfg.Store.LeaseEntry(ctx, e.TaskID, s.now(), s.cfg.Now().Add(leaseFor).UnixMilli())
		if err != nil {
			return err
		}
		if !won {
			continue
		}
		if e, err = s.cfg.Store.Entry(ctx, e.TaskID); err != nil {
			return err
		}
		if err := s.send(ctx, repo, set, &e); err != nil {
			if serr := s.failed(context.WithoutCancel(ctx), e, err); serr != nil {
				return serr
			}
			if slices.Contains(everywhere, fault.CodeOf(err)) || ctx.Err() != nil {
				return err
			}
			continue
		}
		s.published(ctx, set.TeamID, set.ProjectID)
	}
	return nil
}

// failed stores why a change was not sent, and when it is tried again. Waiting because the forge asks for it is no attempt.
func (s *Service) failed(ctx context.Context, e Entry, err error) error {
	if fault.CodeOf(err) == "" && !errors.Is(err, context.DeadlineExceeded) {
		s.cfg.Log.WarnContext(ctx, "a change of a task was not sent", "task_id", e.TaskID, "error", err)
	}
	if errors.Is(err, context.Canceled) {
		return s.cfg.Store.SaveEntry(ctx, e) // the server stops: it says nothing about the forge
	}
	e.NextAt = s.cfg.Now().Add(s.wait(err, e.Attempts)).UnixMilli()
	if fault.CodeOf(err) != "forge_busy" {
		e.Attempts++
	}
	e.Failed = e.Attempts >= MaxAttempts || slices.Contains(forGood, fault.CodeOf(err))
	e.Error = fault.Words(err, "Something went wrong on this server; its log says what.")
	if serr := s.cfg.Store.SaveEntry(ctx, e); serr != nil {
		return serr
	}
	s.published(ctx, e.TeamID, e.ProjectID)
	return nil
}

// send brings one task to the forge.
func (s *Service) send(ctx context.Context, repo *forge.Issues, set Settings, e *Entry) error {
	t, err := s.cfg.Rows.Task(ctx, e.TaskID)
	if err != nil {
		return err
	}
	l, err := s.cfg.Store.Link(ctx, e.TaskID)
	switch {
	case fault.Is(err, fault.NotFound):
		return s.open(ctx, repo, set, t, e)
	case err != nil:
		return err
	case l.Host != repo.Host || l.Repository != repo.Repository:
		return fault.New(fault.Conflict, "issue_elsewhere", "%s is issue %d of %s on %s, but the project's repository is now %s on %s.", t.ID, l.Number, l.Repository, l.Host, repo.Repository, repo.Host)
	}
	return s.edit(ctx, repo, set, t, l, *e)
}

// open makes an issue of a task. That it is about to ask is stored first: a server that died in between looks for the issue.
func (s *Service) open(ctx context.Context, repo *forge.Issues, set Settings, t tasks.Task, e *Entry) error {
	if e.AskedAt > 0 {
		found, err := s.find(ctx, repo, t, *e)
		if err != nil {
			return err
		}
		if found.Number > 0 {
			return s.opened(ctx, repo, set, t, *e, found)
		}
	} else if t.Status == tasks.Closed || !set.AllTasks && !hasLabel(t.Labels, set.Label) {
		return s.cfg.Store.DropEntry(ctx, *e)
	}
	if err := s.room(ctx, set.ProjectID); err != nil {
		return err
	}
	f := fieldsOf(t)
	var label []string
	if !hasLabel(f.Labels, set.Label) {
		label = append(label, set.Label)
	}
	labels := labelsOf(Fields{Type: tasks.Types[0], Priority: tasks.DefaultPriority}, f, label)
	e.AskedAt, e.Posted = s.now(), f
	e.Posted.Closed = false
	keep := *e
	keep.Lease = s.cfg.Now().Add(leaseFor).UnixMilli()
	if err := s.cfg.Store.SaveEntry(ctx, keep); err != nil {
		return err
	}
	i, err := repo.Create(ctx, f.Title, bodyOf(t, f), labels)
	if err != nil {
		return err
	}
	failpoint.Reach(failpoint.IssueOpened)
	return s.opened(ctx, repo, set, t, *e, i)
}

// find looks for the issue that was asked for before. Lists of issues are up to date, which a forge's search is not.
func (s *Service) find(ctx context.Context, repo *forge.Issues, t tasks.Task, e Entry) (forge.Issue, error) {
	q := forge.IssueQuery{Since: e.AskedAt - searchBack.Milliseconds()}
	for q.Page = 1; q.Page <= maxPages; q.Page++ {
		page, err := repo.List(ctx, q)
		if err != nil {
			return forge.Issue{}, err
		}
		for _, i := range page.Issues {
			if marked(i.Body) == t.UID {
				return i, nil
			}
		}
		if !page.More {
			break
		}
	}
	return forge.Issue{}, nil
}

// opened stores which issue a task became. What changed of either since it was asked for is merged like any other change.
func (s *Service) opened(ctx context.Context, repo *forge.Issues, set Settings, t tasks.Task, e Entry, i forge.Issue) error {
	theirs, err := s.read(ctx, set.TeamID, i)
	if err != nil {
		return err
	}
	return s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		l := linkTo(repo.Place, t, i, e.Posted, s.now())
		if err := s.link(ctx, l, t); err != nil {
			return err
		}
		if set.Direction.in() {
			if err := s.mergeIn(ctx, l, i, theirs); err != nil {
				return err
			}
		}
		return s.sent(ctx, t.UID, e.Posted)
	})
}

// sent ends the entry of a task, unless the task has other fields than were sent: then it is sent once more.
func (s *Service) sent(ctx context.Context, taskID string, fields Fields) error {
	e, err := s.cfg.Store.Entry(ctx, taskID) // before the task: a change that comes after it is another revision
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	t, err := s.cfg.Rows.Task(ctx, taskID)
	if err != nil {
		return err
	}
	if fieldsOf(t).equal(fields) {
		return s.cfg.Store.DropEntry(ctx, e)
	}
	e.Lease, e.Attempts, e.Error, e.NextAt = 0, 0, "", s.now()
	return s.cfg.Store.SaveEntry(ctx, e)
}

// edit changes the issue of a task, after it has read what the issue is now.
func (s *Service) edit(ctx context.Context, repo *forge.Issues, set Settings, t tasks.Task, l Link, e Entry) error {
	raw, err := repo.Get(ctx, l.Number)
	if err != nil {
		return err
	}
	theirs, err := s.read(ctx, set.TeamID, raw)
	if err != nil {
		return err
	}
	base := l.Base
	if set.Direction.in() {
		if err := s.cfg.Store.Tx(ctx, func(ctx context.Context) error { return s.mergeIn(ctx, l, raw, theirs) }); err != nil {
			return err
		}
		if t, err = s.cfg.Rows.Task(ctx, t.UID); err != nil {
			return err
		}
		base = theirs
	}
	ours := fieldsOf(t)
	if c, any := changeOf(t, base, ours, raw); any {
		if raw, err = repo.Edit(ctx, l.Number, c); err != nil {
			return err
		}
		failpoint.Reach(failpoint.IssueChanged)
		if theirs, err = s.read(ctx, set.TeamID, raw); err != nil {
			return err
		}
	}
	return s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		l.URL, l.Assignee, l.SyncedAt = raw.URL, raw.Assignee, s.now()
		if l.Base = ours; set.Direction.in() {
			l.Base = theirs
		}
		if err := s.cfg.Store.PutLink(ctx, l); err != nil {
			return err
		}
		return s.sent(ctx, t.UID, ours)
	})
}
