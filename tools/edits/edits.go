// Package edits says which tool call of which agent made each change of a file, and undoes one of them among later ones. It reads the
// timeline, which has what really changed, and matches it with the agents' records, which are only claims: a call is named as certain
// only if its diff makes exactly the content that the timeline has.
//
// Goroutines: Run has one. Locks: readings of one workspace take turns.
package edits

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/locks"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/lifecycle"
)

// Config configures a Service.
type Config struct {
	Store      Store
	Snapshots  Snapshots
	Repository Repository
	Undoer     Undoer
	Workspaces Workspaces
	Sessions   Sessions
	// Actor returns a user with its rights.
	Actor  func(ctx context.Context, userID string) (accounts.Actor, error)
	Bus    *events.Bus      // tells of new snapshots; nil = nobody follows the timeline but Read
	Events events.Publisher // optional
	Settle time.Duration    // how long after a snapshot it is read; 0 = long enough for the agents' records
	After  func(time.Duration) <-chan time.Time
	Now    func() time.Time
	Log    *slog.Logger
}

// Service knows the edits of workspaces. Safe for concurrent use.
type Service struct {
	cfg   Config
	turns locks.Keyed // by workspace
}

// New returns a Service. It starts nothing and panics if a dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Snapshots == nil || cfg.Repository == nil || cfg.Undoer == nil || cfg.Workspaces == nil || cfg.Sessions == nil || cfg.Actor == nil {
		panic(errors.New("edits: Store, Snapshots, Repository, Undoer, Workspaces, Sessions and Actor are required"))
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.After == nil {
		cfg.After = time.After
	}
	cfg.Settle = cmp.Or(cfg.Settle, settleAfter)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Service{cfg: cfg}
}

// List returns a page of a workspace's edits, newest first, and how far the timeline was read.
func (s *Service) List(ctx context.Context, q Query) ([]Edit, string, Cursor, error) {
	items, next, err := s.cfg.Store.Edits(ctx, q)
	if err != nil {
		return nil, "", Cursor{}, err
	}
	c, err := s.cfg.Store.EditCursor(ctx, q.WorkspaceID)
	return items, next, c, err
}

// Get returns an edit of a workspace.
func (s *Service) Get(ctx context.Context, workspaceID, id string) (Edit, error) {
	e, err := s.cfg.Store.Edit(ctx, id)
	if err == nil && e.WorkspaceID != workspaceID || fault.Is(err, fault.NotFound) {
		return Edit{}, fault.New(fault.NotFound, "edit_not_found", "The workspace has no such edit.")
	}
	return e, err
}

// Diff is what an edit changed.
type Diff struct {
	Text      string // unified, without names of files
	Truncated bool
	Binary    bool // or too large to be compared by lines
	Expired   bool // the contents are not stored any more
}

// Diff returns what an edit changed.
func (s *Service) Diff(ctx context.Context, e Edit) (Diff, error) {
	if e.Binary || e.Before == e.After {
		return Diff{Binary: e.Binary}, nil
	}
	p, err := s.cfg.Repository.ProjectOf(ctx, e.WorkspaceID)
	if err != nil {
		return Diff{}, err
	}
	var d Diff
	d.Text, d.Truncated, d.Binary, err = s.cfg.Repository.DiffBlobs(ctx, p, e.Before, e.After, maxDiff)
	if fault.Is(err, fault.NotFound) {
		return Diff{Expired: true}, nil
	}
	return d, err
}

// UndoRequest says how to undo an edit.
type UndoRequest struct {
	SessionID        string // the session whose agent asks: it knows that its files change
	DryRun           bool
	EvenWhileWorking bool // even if an agent is working
}

// Undo undoes one edit in the present file and keeps later ones. Errors: edit_undone, edit_conflict (nothing is written), edit_expired.
func (s *Service) Undo(ctx context.Context, actor accounts.Actor, e Edit, r UndoRequest) (lifecycle.UndoneChange, error) {
	if e.UndoneAt != 0 {
		return lifecycle.UndoneChange{}, fault.New(fault.Conflict, "edit_undone", "This edit is undone already.")
	}
	if r.SessionID != "" && !r.EvenWhileWorking {
		var err error
		if r.EvenWhileWorking, err = s.worksAlone(ctx, e.WorkspaceID, r.SessionID); err != nil {
			return lifecycle.UndoneChange{}, err
		}
	}
	done, err := s.cfg.Undoer.UndoChange(ctx, actor, e.WorkspaceID, lifecycle.UndoRequest{FileChange: e.change(), Title: e.ID, SessionID: r.SessionID, DryRun: r.DryRun, EvenWhileWorking: r.EvenWhileWorking})
	if err != nil || r.DryRun {
		return done, err
	}
	ctx = context.WithoutCancel(ctx)
	if err := s.cfg.Store.SetUndone(ctx, e.ID, actor.User.ID, s.cfg.Now().UnixMilli()); err != nil {
		return done, err
	}
	s.changed(ctx, e.TeamID, e.WorkspaceID)
	return done, nil
}

// change is what an edit did to its file.
func (e Edit) change() lifecycle.FileChange {
	c := lifecycle.FileChange{Path: guest.DecodePath(e.Path), Before: git.FileEntry{Mode: e.BeforeMode, OID: e.Before}, After: git.FileEntry{Mode: e.AfterMode, OID: e.After}}
	if e.OldPath != "" {
		c.OldPath = guest.DecodePath(e.OldPath)
	}
	return c
}

// worksAlone reports whether no agent works in the workspace but this session's.
func (s *Service) worksAlone(ctx context.Context, workspaceID, sessionID string) (bool, error) {
	all, err := s.cfg.Sessions.List(ctx, workspaceID)
	for _, row := range all {
		if row.ID != sessionID && row.State == state.Working {
			return false, nil
		}
	}
	return err == nil, err
}

// Verified notes how the project's checks ended for the edits whose result is in a tree. It logs errors: a mark is missing then.
func (s *Service) Verified(ctx context.Context, workspaceID, tree string, success bool) {
	if tree == "" {
		return
	}
	if err := s.verified(ctx, workspaceID, tree, success); err != nil && ctx.Err() == nil {
		s.cfg.Log.WarnContext(ctx, "that edits were verified could not be stored", "workspace_id", workspaceID, "error", err)
	}
}

func (s *Service) verified(ctx context.Context, workspaceID, tree string, success bool) error {
	if err := s.Read(ctx, workspaceID, s.cfg.Now()); err != nil {
		return err
	}
	p, err := s.cfg.Repository.ProjectOf(ctx, workspaceID)
	if err != nil {
		return err
	}
	mark := "failed"
	if success {
		mark = "passed"
	}
	for q := (Query{WorkspaceID: workspaceID}); ; {
		list, next, err := s.cfg.Store.Edits(ctx, q)
		if err != nil {
			return err
		}
		var paths, ids []string
		for _, e := range list {
			if p := guest.DecodePath(e.Path); !slices.Contains(paths, p) {
				paths = append(paths, p)
			}
		}
		has, err := s.cfg.Repository.TreeFiles(ctx, p, tree, paths)
		if err != nil {
			return err
		}
		for _, e := range list {
			if has[guest.DecodePath(e.Path)].OID == e.After {
				ids = append(ids, e.ID)
			}
		}
		if len(ids) > 0 {
			if err := s.cfg.Store.SetVerified(ctx, ids, tree, mark, s.cfg.Now().UnixMilli()); err != nil {
				return err
			}
		}
		if q.Page.Cursor = next; next == "" {
			break
		}
	}
	w, err := s.cfg.Workspaces.Workspace(ctx, workspaceID)
	if err == nil {
		s.changed(ctx, w.TeamID, w.ID)
	}
	return err
}

// changed publishes that a workspace's edits are others.
func (s *Service) changed(ctx context.Context, teamID, workspaceID string) {
	if s.cfg.Events != nil {
		s.cfg.Events.Publish(ctx, events.Event{Type: "edits.updated", ID: workspaceID, WorkspaceID: workspaceID, TeamID: teamID, Version: s.cfg.Now().UnixMilli()})
	}
}

// in runs fn for a workspace in the rights of its team.
func (s *Service) in(ctx context.Context, workspaceID string, fn func(context.Context, workspaces.Workspace) error) error {
	w, err := s.cfg.Workspaces.Workspace(ctx, workspaceID)
	if err != nil {
		return err
	}
	return fn(tenant.In(ctx, w.TeamID), w)
}
