// Package overlap predicts conflicts: which workspaces of a project change the same places, uncommitted work included, so that one of them
// will not merge cleanly after the other.
package overlap

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/workspaces"
)

// File is one file that two workspaces cannot both merge as it is.
type File struct {
	Path string `json:"path"` // wire form
	Kind string `json:"kind"` // content, add/add, modify/delete, ... as git calls it
}

// Overlap is two workspaces whose work conflicts. FirstID is the smaller id.
type Overlap struct {
	TeamID, ProjectID     string
	FirstID, SecondID     string
	FirstTree, SecondTree string // the compared trees
	Files                 []File
	At                    int64 // ms UTC

	// Of the workspaces, only their display data is set, not stored.
	First, Second Side
}

// Side is the display data of a workspace.
type Side struct {
	Num  int64
	Name string
}

// Other returns the other one of the two.
func (o Overlap) Other(workspaceID string) string {
	if o.FirstID == workspaceID {
		return o.SecondID
	}
	return o.FirstID
}

// Store stores overlaps.
type Store interface {
	// ReplaceOverlaps replaces all overlaps of the workspace with list, and returns the workspaces for which that changed anything.
	ReplaceOverlaps(ctx context.Context, workspaceID string, list []Overlap) (changed []string, err error)
	ProjectOverlaps(ctx context.Context, projectID string) ([]Overlap, error)
	TeamOverlaps(ctx context.Context, teamID string, workspaceIDs ...string) ([]Overlap, error)
	// NewestTrees returns the trees of the newest snapshot of each workspace of the project.
	NewestTrees(ctx context.Context, projectID string) (map[string]string, error)
}

// Workspaces reads the workspaces and compares their files.
type Workspaces interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
	// WorkspacesOf returns every workspace of a project that is not deleted.
	WorkspacesOf(ctx context.Context, projectID string) ([]workspaces.Workspace, error)
	// Active returns every workspace in which work goes on.
	Active(ctx context.Context) ([]workspaces.Workspace, error)
	Footprint(ctx context.Context, w workspaces.Workspace, tree string, known Footprint) (Footprint, error)
	Collide(ctx context.Context, projectID string, one Footprint, others []Footprint) ([][]workspaces.Conflict, error)
}

// Config configures a Service.
type Config struct {
	Store      Store
	Workspaces Workspaces
	Events     events.Publisher
	Bus        *events.Bus // source of change events; nil = only Changed reports changes
	Now        func() time.Time
	After      func(time.Duration) <-chan time.Time
	Settle     time.Duration // how long changes are collected before they are processed; default 2 s
	Log        *slog.Logger
}

// Service tracks the overlaps of workspaces. Safe for concurrent use.
type Service struct {
	cfg Config

	mu   sync.Mutex
	due  map[string]string // workspaces whose files may have changed, with their projects where known
	wake chan struct{}

	seen map[string]project // used only by Run, by project
}

// project caches the state of a project's workspaces, so that only changed ones are compared again.
type project map[string]Footprint

// New makes a Service. It starts nothing; it panics if a dependency is missing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Workspaces == nil {
		panic("overlap: Store and Workspaces are required")
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
	return &Service{cfg: cfg, due: map[string]string{}, wake: make(chan struct{}, 1), seen: map[string]project{}}
}

// Changed notes that a workspace's files, branch or state may have changed. It never blocks.
func (s *Service) Changed(workspaceID string) {
	s.changed(workspaceID, "")
}

func (s *Service) changed(workspaceID, projectID string) {
	s.mu.Lock()
	s.due[workspaceID] = cmp.Or(projectID, s.due[workspaceID])
	s.mu.Unlock()
	tasks.Wake(s.wake)
}

// all notes that any workspace may have changed.
func (s *Service) all(ctx context.Context) {
	list, err := s.cfg.Workspaces.Active(ctx)
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.WarnContext(ctx, "workspaces could not be listed for their overlaps", "error", err)
	}
	for _, w := range list {
		s.changed(w.ID, w.ProjectID)
	}
}

// listen receives change events until ctx ends.
func (s *Service) listen(ctx context.Context) {
	sub := s.cfg.Bus.Subscribe("", 0)
	defer sub.Close()
	s.all(ctx) // changes from before the start
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-sub.C:
			if sub.Missed() {
				s.all(ctx)
			}
			switch e.Type {
			case "workspace.updated", "changes.updated", "snapshots.updated":
				s.Changed(e.WorkspaceID)
			}
		}
	}
}

// Run processes changes until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	if s.cfg.Bus != nil {
		wg.Go(func() { s.listen(ctx) })
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		}
		select { // an agent's writes come in bursts
		case <-ctx.Done():
			return nil
		case <-s.cfg.After(s.cfg.Settle):
		}
		s.mu.Lock()
		due := s.due
		s.due = map[string]string{}
		s.mu.Unlock()
		for id, list := range s.byProject(ctx, due) {
			if err := s.Look(ctx, id, list); err != nil && ctx.Err() == nil {
				s.cfg.Log.WarnContext(ctx, "overlaps could not be computed", "project_id", id, "error", err)
			}
		}
	}
}

func (s *Service) byProject(ctx context.Context, due map[string]string) map[string][]string {
	out := map[string][]string{}
	for id, project := range due {
		if project == "" {
			w, err := s.cfg.Workspaces.Workspace(ctx, id)
			if err != nil {
				continue
			}
			project = w.ProjectID
		}
		out[project] = append(out[project], id)
	}
	return out
}

// Look computes the overlaps of these workspaces of a project with all others of it. Calls must not run concurrently.
func (s *Service) Look(ctx context.Context, projectID string, ids []string) error {
	all, err := s.cfg.Workspaces.WorkspacesOf(ctx, projectID)
	if err != nil {
		return err
	}
	trees, err := s.cfg.Store.NewestTrees(ctx, projectID)
	if err != nil {
		return err
	}
	known, now := s.seen[projectID], make(project, len(all))
	teams := map[string]string{}
	var errs []error
	for _, w := range all {
		teams[w.ID] = w.TeamID
		if w.State != workspaces.Ready && w.State != workspaces.Paused {
			continue
		}
		f, err := s.cfg.Workspaces.Footprint(ctx, w, trees[w.ID], known[w.ID])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		now[w.ID] = f
	}
	s.seen[projectID] = now
	reported, pairs := map[string]bool{}, found{}
	for _, id := range ids {
		f, active := now[id]
		was := known[id]
		if active && was.WorkspaceID != "" && was.Tree == f.Tree && was.Base == f.Base {
			continue // the others were compared with it when they changed
		}
		list, err := s.overlaps(ctx, projectID, teams[id], f, now, pairs)
		if err != nil {
			errs = append(errs, err)
			delete(now, id) // it will be compared again
			continue
		}
		changed, err := s.cfg.Store.ReplaceOverlaps(ctx, id, list)
		if err != nil {
			errs = append(errs, err)
			delete(now, id)
			continue
		}
		for _, c := range changed {
			reported[c] = true
		}
	}
	s.notify(ctx, reported, teams)
	return errors.Join(errs...)
}

// found are the conflicts of pairs merged in one call of Look, the smaller id first.
type found map[[2]string][]workspaces.Conflict

func pairOf(a, b string) [2]string {
	if b < a {
		a, b = b, a
	}
	return [2]string{a, b}
}

// overlaps compares one workspace with all others of its project.
func (s *Service) overlaps(ctx context.Context, projectID, teamID string, one Footprint, all project, pairs found) ([]Overlap, error) {
	if len(one.Files) == 0 {
		return nil, nil
	}
	var others, fresh []Footprint
	for id, f := range all {
		if id == one.WorkspaceID || !one.Meets(f) {
			continue
		}
		others = append(others, f)
		if _, ok := pairs[pairOf(one.WorkspaceID, id)]; !ok {
			fresh = append(fresh, f)
		}
	}
	lists, err := s.cfg.Workspaces.Collide(ctx, projectID, one, fresh)
	if err != nil {
		return nil, err
	}
	for i, o := range fresh {
		pairs[pairOf(one.WorkspaceID, o.WorkspaceID)] = lists[i]
	}
	var list []Overlap
	for _, o := range others {
		files := filesOf(pairs[pairOf(one.WorkspaceID, o.WorkspaceID)])
		if len(files) == 0 {
			continue
		}
		l := Overlap{TeamID: teamID, ProjectID: projectID, FirstID: one.WorkspaceID, FirstTree: one.Tree, SecondID: o.WorkspaceID, SecondTree: o.Tree, Files: files,
			At: s.cfg.Now().UnixMilli()}
		if l.SecondID < l.FirstID {
			l.FirstID, l.SecondID, l.FirstTree, l.SecondTree = l.SecondID, l.FirstID, l.SecondTree, l.FirstTree
		}
		list = append(list, l)
	}
	return list, nil
}

// notify publishes whose overlaps have changed. teams are those of the workspaces that are not deleted.
func (s *Service) notify(ctx context.Context, ids map[string]bool, teams map[string]string) {
	for id := range ids {
		team, there := teams[id]
		if !there {
			w, err := s.cfg.Workspaces.Workspace(ctx, id)
			if err != nil {
				continue
			}
			team = w.TeamID
		}
		if s.cfg.Events != nil {
			s.cfg.Events.Publish(ctx, events.Event{Type: "overlaps.updated", ID: id, WorkspaceID: id, TeamID: team, Version: s.cfg.Now().UnixMilli()})
		}
	}
}

// OfProject returns the overlaps of a project's workspaces.
func (s *Service) OfProject(ctx context.Context, projectID string) ([]Overlap, error) {
	return s.cfg.Store.ProjectOverlaps(ctx, projectID)
}

// OfTeam returns the overlaps of a team's workspaces, or those that any of the named ones has.
func (s *Service) OfTeam(ctx context.Context, teamID string, workspaceIDs ...string) ([]Overlap, error) {
	return s.cfg.Store.TeamOverlaps(ctx, teamID, workspaceIDs...)
}
