package checks

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/workspaces"
)

// EnqueueRequest is a request to merge when the workspace's turn comes.
type EnqueueRequest struct {
	Strategy     string // "" = the project's
	Message      string
	ExpectedHead string // head of the branch the user saw, "" = any
}

// endedShown is how many ended entries a queue shows.
const endedShown = 20

// Enqueue adds a workspace to the merge queue of its project.
func (s *Service) Enqueue(ctx context.Context, actor accounts.Actor, workspaceID string, r EnqueueRequest) (Entry, error) {
	w, p, err := s.of(ctx, workspaceID)
	if err != nil {
		return Entry{}, err
	}
	if r.Strategy == "" {
		r.Strategy = p.Merging.HowToMerge()
	}
	switch {
	case !slices.Contains([]string{workspaces.StrategyMerge, workspaces.StrategySquash, workspaces.StrategyRebase}, r.Strategy):
		return Entry{}, fault.New(fault.Invalid, "strategy_invalid", "The strategy is merge, squash or rebase.")
	case len(r.Message) > 64<<10 || !utf8.ValidString(r.Message) || strings.ContainsRune(r.Message, 0):
		return Entry{}, fault.New(fault.Invalid, "message_invalid", "The message must be text of at most 64 KiB.")
	case w.DeletedAt != 0 || w.State != workspaces.Ready && w.State != workspaces.Paused:
		return Entry{}, fault.New(fault.Conflict, "workspace_not_ready", "%s is not ready: its work cannot be merged now.", w.Key())
	}
	head, tree, err := s.cfg.Sandboxes.BranchNow(ctx, w.ID)
	if err != nil {
		return Entry{}, err
	}
	if r.ExpectedHead != "" && r.ExpectedHead != head {
		return Entry{}, fault.New(fault.Conflict, "head_moved", "%s has commits you have not seen. Nothing was done: look at what would be merged now, then decide again.", w.Branch).
			With("expected", r.ExpectedHead).With("head", head)
	}
	if err := s.approved(ctx, p, w, tree); err != nil {
		return Entry{}, err
	}
	now := s.now()
	e, err := s.cfg.Store.InsertEntry(ctx, Entry{ID: id.New("mqe"), TeamID: w.TeamID, ProjectID: w.ProjectID, WorkspaceID: w.ID, Base: w.Base, Strategy: r.Strategy,
		Message: r.Message, State: EntryWaiting, Head: head, AddedBy: actor.User.ID, CreatedAt: now, UpdatedAt: now})
	if err != nil {
		return e, err
	}
	s.note(ctx, w, actor.User.ID, "queue.added", "Added to the merge queue", e)
	s.notifyQueue(ctx, e)
	s.wake(e.ProjectID)
	return e, nil
}

// Dequeue removes the workspace from the queue. It cannot stop an entry that is landing.
func (s *Service) Dequeue(ctx context.Context, actor accounts.Actor, workspaceID string) error {
	open, err := s.cfg.Store.NewestEntry(ctx, workspaceID)
	if err != nil {
		return err
	}
	if open == nil || open.EndedAt != 0 {
		return fault.New(fault.NotFound, "not_queued", "The workspace is not in the merge queue.")
	}
	e, err := s.editEntry(ctx, open.ID, func(e *Entry) error {
		switch {
		case e.EndedAt != 0:
			return fault.New(fault.Conflict, "not_queued", "It has just left the queue: %s.", e.State)
		case e.State == EntryMerging:
			return fault.New(fault.Conflict, "merging_now", "It is being merged at this moment and cannot be stopped any more.")
		}
		e.State, e.Reason, e.EndedAt = EntryCancelled, "", s.now()
		return nil
	})
	if err != nil {
		return err
	}
	s.cancel(e.ID, errDequeued)
	if w, err := s.cfg.Records.Workspace(ctx, workspaceID); err == nil {
		s.note(ctx, w, actor.User.ID, "queue.removed", "Taken out of the merge queue", e)
	}
	return nil
}

// Listed is an entry with its position in the queue and the checks that ran for it.
type Listed struct {
	Entry
	Place int // 1 = the next; 0 = it has ended
	Runs  []Run
}

// Queue returns a project's open entries in order, and the last that have ended.
func (s *Service) Queue(ctx context.Context, projectID string) (open, ended []Listed, err error) {
	o, err := s.cfg.Store.OpenEntries(ctx, projectID)
	if err != nil {
		return nil, nil, err
	}
	e, err := s.cfg.Store.EndedEntries(ctx, projectID, endedShown)
	if err != nil {
		return nil, nil, err
	}
	all, err := s.listed(ctx, append(slices.Clone(o), e...))
	if err != nil {
		return nil, nil, err
	}
	for i := range o {
		all[i].Place = i + 1
	}
	return all[:len(o)], all[len(o):], nil
}

// Newest returns the workspace's newest entry, nil when it was never in the queue.
func (s *Service) Newest(ctx context.Context, workspaceID string) (*Listed, error) {
	e, err := s.cfg.Store.NewestEntry(ctx, workspaceID)
	if err != nil || e == nil {
		return nil, err
	}
	all, err := s.listed(ctx, []Entry{*e})
	if err != nil {
		return nil, err
	}
	if e.EndedAt == 0 {
		open, err := s.cfg.Store.OpenEntries(ctx, e.ProjectID)
		if err != nil {
			return nil, err
		}
		all[0].Place = 1 + slices.IndexFunc(open, func(o Entry) bool { return o.ID == e.ID })
	}
	return &all[0], nil
}

func (s *Service) listed(ctx context.Context, list []Entry) ([]Listed, error) {
	out := make([]Listed, 0, len(list))
	ids := make([]string, 0, len(list))
	at := map[string]int{}
	for i, e := range list {
		out, ids = append(out, Listed{Entry: e}), append(ids, e.ID)
		at[e.ID] = i
	}
	runs, err := s.cfg.Store.QueueRuns(ctx, ids)
	for _, r := range runs {
		l := &out[at[r.QueueID]]
		l.Runs = append(l.Runs, r)
	}
	return out, err
}

// InQueue returns the open entries of a team's workspaces, by workspace.
func (s *Service) InQueue(ctx context.Context, teamID string) (map[string]Listed, error) {
	list, err := s.cfg.Store.TeamEntries(ctx, teamID)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	out, places := make(map[string]Listed, len(list)), map[string]int{}
	for _, e := range list {
		places[e.ProjectID]++
		out[e.WorkspaceID] = Listed{Entry: e, Place: places[e.ProjectID]}
	}
	return out, nil
}

// editEntry changes an entry and publishes the change.
func (s *Service) editEntry(ctx context.Context, id string, fn func(*Entry) error) (Entry, error) {
	e, err := s.cfg.Store.EditEntry(ctx, id, func(e *Entry) error {
		if err := fn(e); err != nil {
			return err
		}
		e.UpdatedAt = s.now()
		return nil
	})
	if err == nil {
		s.notifyQueue(ctx, e)
	}
	return e, err
}

func (s *Service) notifyQueue(ctx context.Context, e Entry) {
	s.publish(ctx, "queue.updated", e.ProjectID, e.WorkspaceID, e.TeamID)
}

// note writes a line into the workspace's timeline.
func (s *Service) note(ctx context.Context, w workspaces.Workspace, actorID, kind, text string, e Entry) {
	err := s.cfg.Records.Record(context.WithoutCancel(ctx), workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actorID, Kind: kind, Text: text,
		Data: map[string]any{"queue_id": e.ID, "base": e.Base, "strategy": e.Strategy, "head": e.Head, "commit": e.Commit}})
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "activity could not be recorded", "workspace_id", w.ID, "kind", kind, "error", err)
	}
}
