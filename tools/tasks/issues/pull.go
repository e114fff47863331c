package issues

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/tasks"
	"github.com/parawork/parawork/workspaces/forge"
)

// overlap is how far a round begins before the one before it ended, for changes that a forge shows late.
const overlap = time.Minute

// refs are how references to issues begin, by forge.
var refs = map[forge.Kind]string{forge.GitHub: "gh-", forge.GitLab: "gl-", forge.Gitea: "gt-", forge.Forgejo: "fj-"}

// pull reads what changed on the forge. The first round reads open issues with the label; later ones whatever changed, since an issue
// may have lost its label. A round that is cut goes on at its page: while pages are read issues only move to later ones.
func (s *Service) pull(ctx context.Context, repo *forge.Issues, set *Settings) error {
	skipped := ""
	for range maxPages {
		q := forge.IssueQuery{Since: set.Since, Page: max(set.Page, 1)}
		if set.Since == 0 {
			q.Label, q.Open = set.Label, true
		}
		page, err := repo.List(ctx, q)
		if err != nil {
			return err
		}
		if q.Page == 1 {
			set.BegunAt, set.Reading = page.At, set.Since
			if page.At == 0 { // its clock is unknown: allow for ours to be ahead
				set.BegunAt = s.cfg.Now().Add(-5 * time.Minute).UnixMilli()
			}
		}
		for _, i := range page.Issues {
			switch err := s.bring(ctx, repo.Place, *set, i); {
			case fault.Is(err, fault.Invalid): // one issue must not stop the others
				skipped = "Issue " + number(i.Number) + " was left out: " + fault.Words(err, "its text cannot be kept.")
			case err != nil:
				return err
			}
			set.Reading = max(set.Reading, i.UpdatedAt)
		}
		set.Page = q.Page + 1
		if !page.More {
			begun := set.BegunAt - overlap.Milliseconds()
			if set.Since == 0 {
				set.Since = max(begun, 1)
			} else { // where nothing changed the question stays the same, which costs nothing of the rate limit
				set.Since = max(set.Since, min(set.Reading, begun))
			}
			set.Page, set.SyncedAt, set.NextAt = 1, s.now(), s.cfg.Now().Add(everySync).UnixMilli()
			set.Fails, set.Error = 0, skipped
			if err := s.cfg.Store.SaveRound(ctx, *set); err != nil {
				return err
			}
			s.published(ctx, set.TeamID, set.ProjectID)
			return nil
		}
		if err := s.cfg.Store.SaveRound(ctx, *set); err != nil {
			return err
		}
	}
	return nil
}

// bring brings one issue into the tasks.
func (s *Service) bring(ctx context.Context, at forge.Place, set Settings, i forge.Issue) error {
	fields, err := s.read(ctx, set.TeamID, i)
	if err != nil {
		return err
	}
	return s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		l, err := s.cfg.Store.LinkAt(ctx, set.ProjectID, at.Host, at.Repository, i.Number)
		if fault.Is(err, fault.NotFound) {
			l, err = s.adopt(ctx, at, set, i)
		}
		if fault.Is(err, fault.NotFound) {
			return s.create(ctx, at, set, i, fields)
		}
		if err != nil {
			return err
		}
		return s.mergeIn(ctx, l, i, fields)
	})
}

// read is what a task takes from an issue, with the team's secrets masked.
func (s *Service) read(ctx context.Context, teamID string, i forge.Issue) (Fields, error) {
	f := read(i)
	return f, tools.Hide(ctx, s.cfg.Secrets, teamID, &f.Title, &f.Description)
}

func hasLabel(labels []string, label string) bool {
	return slices.ContainsFunc(labels, func(l string) bool { return strings.EqualFold(strings.TrimSpace(l), label) })
}

func linkTo(at forge.Place, t tasks.Task, i forge.Issue, base Fields, now int64) Link {
	return Link{TaskID: t.UID, TeamID: t.TeamID, ProjectID: t.ProjectID, Forge: at.Kind, Host: at.Host, Repository: at.Repository, Number: i.Number, URL: i.URL, Assignee: i.Assignee, Base: base, SyncedAt: now}
}

// adopt links an issue that this server asked for to its task, where the answer was lost. A mark alone is not enough, since anybody can
// write one: the task must be one of this project that has asked for an issue and has none.
func (s *Service) adopt(ctx context.Context, at forge.Place, set Settings, i forge.Issue) (Link, error) {
	none := fault.New(fault.NotFound, "task_not_found", "No task asked for this issue.")
	uid := marked(i.Body)
	if uid == "" {
		return Link{}, none
	}
	t, err := s.cfg.Rows.Task(ctx, uid)
	if err != nil {
		return Link{}, err
	}
	e, err := s.cfg.Store.Entry(ctx, uid)
	if err != nil {
		return Link{}, err
	}
	if _, err := s.cfg.Store.Link(ctx, uid); err == nil || t.ProjectID != set.ProjectID || e.AskedAt == 0 {
		return Link{}, none
	}
	l := linkTo(at, t, i, e.Posted, s.now())
	return l, s.link(ctx, l, t)
}

// link stores that a task is an issue, which its external reference says too.
func (s *Service) link(ctx context.Context, l Link, t tasks.Task) error {
	if err := s.cfg.Store.PutLink(ctx, l); err != nil || t.ExternalRef != "" {
		return err
	}
	ref := refOf(l)
	_, err := s.cfg.Tasks.Update(ctx, who(l), t.UID, tasks.Change{ExternalRef: &ref})
	return err
}

func refOf(l Link) string { return refs[l.Forge] + number(l.Number) }

func who(l Link) tasks.Who { return tasks.Who{TeamID: l.TeamID, ProjectID: l.ProjectID} }

// create makes a task of an open issue that has the label.
func (s *Service) create(ctx context.Context, at forge.Place, set Settings, i forge.Issue, f Fields) error {
	if f.Closed || !hasLabel(i.Labels, set.Label) || !set.Direction.in() {
		return nil
	}
	if err := s.room(ctx, set.ProjectID); err != nil {
		return err
	}
	l := Link{Forge: at.Kind, Number: i.Number}
	t, err := s.cfg.Tasks.Create(ctx, tasks.Who{TeamID: set.TeamID, ProjectID: set.ProjectID}, tasks.New{ProjectID: set.ProjectID, Title: f.Title, Description: f.Description, Type: f.Type,
		Priority: &f.Priority, Labels: f.Labels, ExternalRef: refOf(l)})
	if err != nil {
		return err
	}
	if err := s.cfg.Store.PutLink(ctx, linkTo(at, t, i, f, s.now())); err != nil {
		return err
	}
	return s.settle(ctx, t, f)
}

func (s *Service) room(ctx context.Context, projectID string) error {
	n, err := s.cfg.Store.SyncCounts(ctx, projectID)
	if err == nil && n.Issues >= MaxIssues {
		err = fault.New(fault.TooLarge, "issues_full", "The project is in step with %d issues already, which is the most. Use a label that fewer issues have.", MaxIssues)
	}
	return err
}

// settle removes a change from the outbox that the forge has already: what came from there is not sent back.
func (s *Service) settle(ctx context.Context, t tasks.Task, theirs Fields) error {
	if !fieldsOf(t).equal(theirs) {
		return nil
	}
	e, err := s.cfg.Store.Entry(ctx, t.UID)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.cfg.Store.DropEntry(ctx, e)
}

// mergeIn brings what changed of an issue into its task.
func (s *Service) mergeIn(ctx context.Context, l Link, i forge.Issue, theirs Fields) error {
	t, err := s.cfg.Rows.Task(ctx, l.TaskID)
	if err != nil {
		return err
	}
	ours := fieldsOf(t)
	merged, gone := merge(l.Base, ours, theirs)
	for _, g := range gone {
		e := Event{ID: id.New("the"), TeamID: t.TeamID, TaskID: t.UID, Kind: g.kind, Text: g.text, At: s.now()}
		if err := s.cfg.Store.AddEvent(ctx, e, MaxHistory); err != nil {
			return err
		}
	}
	if !merged.equal(ours) {
		if t, err = s.cfg.Tasks.Update(ctx, who(l), t.UID, s.changeOf(l, ours, merged)); err != nil {
			return err
		}
	}
	if !l.Base.equal(theirs) || l.Assignee != i.Assignee || l.URL != i.URL {
		l.Base, l.Assignee, l.URL, l.SyncedAt = theirs, i.Assignee, i.URL, s.now()
		if err := s.cfg.Store.PutLink(ctx, l); err != nil {
			return err
		}
	}
	return s.settle(ctx, t, theirs)
}

func (s *Service) changeOf(l Link, ours, merged Fields) (c tasks.Change) {
	if merged.Title != ours.Title {
		c.Title = &merged.Title
	}
	if merged.Description != ours.Description {
		c.Description = &merged.Description
	}
	if merged.Type != ours.Type {
		c.Type = &merged.Type
	}
	if merged.Priority != ours.Priority {
		c.Priority = &merged.Priority
	}
	if !slices.Equal(merged.Labels, ours.Labels) {
		c.Labels = &merged.Labels
	}
	if merged.Closed != ours.Closed {
		to, reason := tasks.Open, ""
		if merged.Closed {
			to, reason = tasks.Closed, "closed as "+l.Repository+"#"+number(l.Number)
		}
		c.Status, c.Reason = &to, &reason
	}
	return c
}
