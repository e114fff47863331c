// Package overlap sees conflicts coming: which workspaces of a project change the same places, uncommitted work included, so that one of
// them will not merge after the other.
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

// File is one file two workspaces cannot both bring home as it is.
type File struct {
	Path string `json:"path"` // wire form
	Kind string `json:"kind"` // content, add/add, modify/delete, ... as git calls it
}

// Overlap is two workspaces whose work conflicts. FirstID is the smaller id.
type Overlap struct {
	TeamID, ProjectID     string
	FirstID, SecondID     string
	FirstTree, SecondTree string // what was compared
	Files                 []File
	At                    int64 // ms UTC

	// Of who is stored: how people know the two.
	First, Second Side
}

// Side is how people know a workspace.
type Side struct {
	Num  int64
	Name string
}

// Other is the other one of the two.
func (o Overlap) Other(workspaceID string) string {
	if o.FirstID == workspaceID {
		return o.SecondID
	}
	return o.FirstID
}

// Store is what the room needs of the storage.
type Store interface {
	// ReplaceOverlaps makes list all there is of overlaps of the workspace, and returns the workspaces for which that changed anything.
	ReplaceOverlaps(ctx context.Context, workspaceID string, list []Overlap) (changed []string, err error)
	ProjectOverlaps(ctx context.Context, projectID string) ([]Overlap, error)
	TeamOverlaps(ctx context.Context, teamID string, workspaceIDs ...string) ([]Overlap, error)
	// NewestTrees returns what the newest snapshot of each workspace of the project has.
	NewestTrees(ctx context.Context, projectID string) (map[string]string, error)
}

// Workspaces is what the room needs of the workspaces.
type Workspaces interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
	// WorkspacesOf returns every workspace of a project that is not deleted.
	WorkspacesOf(ctx context.Context, projectID string) ([]workspaces.Workspace, error)
	// Active returns every workspace that is worked in.
	Active(ctx context.Context) ([]workspaces.Workspace, error)
	Footprint(ctx context.Context, w workspaces.Workspace, tree string, known Footprint) (Footprint, error)
	Collide(ctx context.Context, projectID string, one Footprint, others []Footprint) ([][]workspaces.Conflict, error)
}

// Config is what a Service is made of.
type Config struct {
	Store      Store
	Workspaces Workspaces
	Events     events.Publisher
	Bus        *events.Bus // what changed is heard there; nil = it is only told by Changed
	Now        func() time.Time
	After      func(time.Duration) <-chan time.Time
	Settle     time.Duration // how long changes are gathered before anybody looks; default 2 s
	Log        *slog.Logger
}

// Service is the room. Safe for concurrent use.
type Service struct {
	cfg Config

	mu   sync.Mutex
	due  map[string]string // workspaces whose files may have changed, with their projects where these are known
	wake chan struct{}

	seen map[string]project // of Run alone, by project
}

// project is what is known of a project's workspaces, so that only what changed is looked at again.
type project map[string]Footprint

// New makes a Service. It starts nothing; it panics without a room it needs.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Workspaces == nil {
		panic("overlap: Store and Workspaces are needed")
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

// Changed says that a workspace's files, branch or state may have changed. It never blocks.
func (s *Service) Changed(workspaceID string) {
	s.changed(workspaceID, "")
}

func (s *Service) changed(workspaceID, projectID string) {
	s.mu.Lock()
	s.due[workspaceID] = cmp.Or(projectID, s.due[workspaceID])
	s.mu.Unlock()
	tasks.Wake(s.wake)
}

// all says that any workspace may have changed.
func (s *Service) all(ctx context.Context) {
	list, err := s.cfg.Workspaces.Active(ctx)
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.WarnContext(ctx, "workspaces could not be listed for their overlaps", "error", err)
	}
	for _, w := range list {
		s.changed(w.ID, w.ProjectID)
	}
}

// listen hears what changes, until ctx ends.
func (s *Service) listen(ctx context.Context) {
	sub := s.cfg.Bus.Subscribe("", 0)
	defer sub.Close()
	s.all(ctx) // while no server ran
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

// Run looks at what changed, until ctx ends.
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
		select { // what an agent writes comes in bursts
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
				s.cfg.Log.WarnContext(ctx, "overlaps could not be worked out", "project_id", id, "error", err)
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

// Look works out the overlaps of these workspaces of a project with all others of it. It is not for several at once.
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
			delete(now, id) // it is looked at again
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

// found are the conflicts of pairs that were merged in one look, the smaller id first.
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

// tell says whose overlaps have changed. teams are those of the workspaces that are not deleted.
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
