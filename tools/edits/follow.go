package edits

import (
	"context"
	"slices"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// unreadAtOnce is how many workspaces are read in one pass.
const unreadAtOnce = 200

// Run reads the timelines as they grow, until ctx ends. What is to be read is in the database, so that nothing is lost when the server
// dies. A snapshot is read when the agents' records of its time are there.
func (s *Service) Run(ctx context.Context) error {
	ctx = tenant.All(ctx, "timelines of all teams")
	if s.cfg.Bus == nil {
		<-ctx.Done()
		return nil
	}
	sub := s.cfg.Bus.Subscribe("", 0)
	defer sub.Close()
	due := s.cfg.After(s.cfg.Settle) // what an earlier server left
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-sub.C:
			if due == nil && (sub.Missed() || e.Type == "snapshots.updated") {
				due = s.cfg.After(s.cfg.Settle)
			}
		case <-due:
			due = nil
			if s.readAll(ctx) {
				due = s.cfg.After(s.cfg.Settle)
			}
		}
	}
}

// readAll reads all timelines that have more, and reports whether some still have.
func (s *Service) readAll(ctx context.Context) (more bool) {
	ids, err := s.cfg.Store.Unread(ctx, unreadAtOnce)
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.WarnContext(ctx, "the timelines to read are not known", "error", err)
	}
	until := s.cfg.Now().Add(-s.cfg.Settle)
	for _, id := range ids {
		if err := s.Read(ctx, id, until); err != nil && ctx.Err() == nil && !fault.Is(err, fault.NotFound) {
			s.cfg.Log.WarnContext(ctx, "the edits of a workspace could not be read", "workspace_id", id, "error", err)
		}
	}
	again, err := s.cfg.Store.Unread(ctx, 1)
	return err == nil && len(again) > 0 || len(ids) == unreadAtOnce
}

// Read stores the edits of all snapshots of a workspace up to a time that were not read yet.
func (s *Service) Read(ctx context.Context, workspaceID string, until time.Time) error {
	unlock, err := s.turns.LockContext(ctx, workspaceID)
	if err != nil {
		return err
	}
	defer unlock()
	return s.in(ctx, workspaceID, func(ctx context.Context, w workspaces.Workspace) error {
		return s.read(ctx, w, until.UnixMilli())
	})
}

func (s *Service) read(ctx context.Context, w workspaces.Workspace, until int64) error {
	cur, err := s.cfg.Store.EditCursor(ctx, w.ID)
	if err != nil {
		return err
	}
	snaps, err := s.unread(ctx, w.ID, cur.At, until)
	if err != nil || len(snaps) == 0 {
		return err
	}
	p, err := s.cfg.Repository.ProjectOf(ctx, w.ID)
	if err != nil {
		return err
	}
	from := snapshot.Snap{Tree: cur.Tree, At: cur.At}
	if cur.At == 0 {
		from = snapshot.Snap{Tree: snaps[0].BaseCommit, At: min(w.CreatedAt, snaps[0].At)}
	} else if sn, err := s.cfg.Snapshots.Snap(ctx, w.ID, cur.SnapshotID); err == nil {
		from = sn
	} else if !fault.Is(err, fault.NotFound) {
		return err
	}
	h, err := s.history(ctx, w.ID, from.At)
	if err != nil {
		return err
	}
	found := false
	for _, sn := range snaps {
		next := Cursor{TeamID: w.TeamID, WorkspaceID: w.ID, SnapshotID: sn.ID, Tree: sn.Tree, At: sn.At}
		list, leftOut, err := s.between(ctx, interval{w: w, p: p, from: from, to: sn, history: &h})
		if err != nil {
			if from.ID != "" { // both exist, so it can be read later
				return err
			}
			s.cfg.Log.WarnContext(ctx, "what changed before the oldest snapshot is not known", "workspace_id", w.ID, "error", err)
		}
		next.LeftOut = leftOut
		if err := s.cfg.Store.AddEdits(ctx, next, named(list), most); err != nil {
			return err
		}
		for _, e := range list {
			found = true
			if e.UndoOf != "" { // the server may have died before it stored that
				if of, err := s.Get(ctx, w.ID, e.UndoOf); err == nil && (of.Path == e.Path || of.OldPath == e.Path && e.Kind == Renamed) { // not if the new name is still there
					if err := s.cfg.Store.SetUndone(ctx, of.ID, e.UserID, e.At); err != nil {
						return err
					}
				}
			}
		}
		from = sn
	}
	if found {
		s.changed(ctx, w.TeamID, w.ID)
	}
	return nil
}

// unread returns the snapshots after one time and up to another, oldest first. Of very many only the newest: the first one then has what
// changed in those before it.
func (s *Service) unread(ctx context.Context, workspaceID string, after, until int64) ([]snapshot.Snap, error) {
	var out []snapshot.Snap
	for pg := (page.Page{Limit: page.MaxLimit}); ; {
		items, next, err := s.cfg.Snapshots.Snapshots(ctx, workspaceID, nil, pg)
		if err != nil {
			return nil, err
		}
		for _, sn := range items {
			if sn.At <= after || len(out) == mostSnaps {
				next = ""
				break
			}
			if sn.At <= until {
				out = append(out, sn)
			}
		}
		if pg.Cursor = next; next == "" {
			slices.Reverse(out)
			return out, nil
		}
	}
}

// between returns the edits between two snapshots, and how many changes of files get no row.
func (s *Service) between(ctx context.Context, in interval) (list []Edit, leftOut int, err error) {
	if in.from.Tree == in.to.Tree {
		return nil, 0, nil
	}
	c, err := s.cfg.Repository.Compare(ctx, in.w.ID, git.Tree{Tree: in.from.Tree}, in.to.AsTree("", ""), git.CompareOptions{Renames: true})
	if err != nil {
		return nil, 0, err
	}
	leftOut = max(0, len(c.Files)-mostAtOnce)
	for _, f := range c.Files[:min(len(c.Files), mostAtOnce)] {
		if f.Mode == "160000" || f.OldMode == "160000" {
			continue
		}
		one, err := s.attribute(ctx, in, f)
		if err != nil {
			return nil, 0, err
		}
		list = append(list, one...)
	}
	slices.SortStableFunc(list, func(a, b Edit) int { return int(a.At - b.At) })
	return list, leftOut, nil
}
