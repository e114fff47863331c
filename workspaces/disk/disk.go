// Package disk counts what a team's work takes on this server's disk, and frees space: only what nothing needs any more, never work.
//
// Goroutines: Run has one, which counts one team after the other.
package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/reclaim"
)

// Kind is what bytes on disk are for.
type Kind string

// Kinds of use.
const (
	Repositories Kind = "repositories" // clones, including what workspaces committed to them
	Worktrees    Kind = "worktrees"    // files of workspaces, ignored ones included
	Homes        Kind = "homes"        // of agents, and the git dirs of their sandboxes
	Snapshots    Kind = "snapshots"    // reachable only from hidden refs of workspaces; it is in the repositories
	Terminals    Kind = "terminals"    // output of sessions
	Caches       Kind = "caches"       // caches shared by a team's sandboxes
	Artifacts    Kind = "artifacts"    // files that agents and people keep, all versions
	Trash        Kind = "trash"        // deleted but restorable, including its share of the repositories
	Leftovers    Kind = "leftovers"    // of interrupted deletions
	Loose        Kind = "loose"        // loose objects of repositories, which packing makes smaller
)

// Frees are the kinds that can be freed, in that order.
var Frees = []Kind{Trash, Leftovers, Caches, Loose}

// Use is how much of the disk one kind takes.
type Use struct {
	Kind  Kind
	Items int
	Bytes int64
}

// Project is the disk use of a project's repository.
type Project struct {
	ID, Name string
	Bytes    int64
	Ours     bool // it is in the data folder; else in somebody's own folder, which does not count as used
}

// Workspace is the disk use of a workspace.
type Workspace struct {
	reclaim.WorkspaceUse
	Num       int64
	Name      string
	ProjectID string
	Deleted   bool
}

// Count is the disk use of a team's work at the time of counting. Times are ms UTC.
type Count struct {
	At         int64
	Bytes      int64 // all of it, each byte once
	By         []Use
	Free       []Use // what can be freed
	Projects   []Project
	Workspaces []Workspace // the largest first; includes others' private ones, which the caller must leave out
}

// Projects lists the projects of a team.
type Projects interface {
	Projects(ctx context.Context, teamID string, pg page.Page) ([]workspaces.Project, string, error)
}

// Records are the rows of workspaces.
type Records interface {
	WorkspacesOf(ctx context.Context, projectID string) ([]workspaces.Workspace, error)
}

// Reclaim counts and frees what workspaces take.
type Reclaim interface {
	Trashed(ctx context.Context, teamID string) ([]reclaim.Trashed, error)
	TrashedProject(ctx context.Context, id string) (workspaces.Project, error)
	UseOfWorkspace(ctx context.Context, workspaceID, gitDir string) (reclaim.WorkspaceUse, error)
	UseOfRepository(ctx context.Context, p workspaces.Project) (reclaim.RepositoryUse, error)
	NoteSize(ctx context.Context, kind reclaim.TrashKind, id string, bytes int64) error
	Leftovers(ctx context.Context) ([]string, int64, error)
	RemoveLeftovers(ctx context.Context) (int64, error)
	Purge(ctx context.Context, kind reclaim.TrashKind, id string) error
	Collect(ctx context.Context, p workspaces.Project) (int64, error)
}

// CacheRoom counts and empties the team's caches.
type CacheRoom interface {
	Bytes(ctx context.Context, teamID string) (int64, error)
	Empty(ctx context.Context, teamID string) error
}

// Config configures a Service. Projects, Records and Reclaim are required.
type Config struct {
	Projects Projects
	Records  Records
	Reclaim  Reclaim
	Caches   CacheRoom // nil = there are none
	// Artifacts counts a team's artifacts; nil = there are none.
	Artifacts func(ctx context.Context, teamID string) (items int, bytes int64, err error)
	Events    events.Publisher
	Now       func() time.Time
	Log       *slog.Logger
}

// Service counts and frees. Safe for concurrent use.
type Service struct {
	cfg Config

	mu     sync.Mutex
	counts map[string]Count // by team, the last count
	todo   []string         // teams to be counted
	now    string           // the team that is being counted
	wake   chan struct{}
}

// New makes a Service. It starts nothing.
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Service{cfg: cfg, counts: make(map[string]Count), wake: make(chan struct{}, 1)}
}

// staleAfter is how old a count may be before a read starts a new one.
const staleAfter = 2 * time.Minute

// Of returns the last count and whether a new one is running. It starts one when the last is old or missing.
func (s *Service) Of(teamID string) (c Count, known, counting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, known = s.counts[teamID]
	if !known || s.cfg.Now().Sub(time.UnixMilli(c.At)) > staleAfter {
		s.ask(teamID)
	}
	return c, known, s.now == teamID || slices.Contains(s.todo, teamID)
}

// ask queues a count of a team; the caller holds the lock.
func (s *Service) ask(teamID string) {
	if !slices.Contains(s.todo, teamID) && s.now != teamID {
		s.todo = append(s.todo, teamID)
	}
	tasks.Wake(s.wake)
}

// Run performs requested counts until ctx is done.
func (s *Service) Run(ctx context.Context) error {
	for {
		s.mu.Lock()
		s.now = ""
		if len(s.todo) > 0 {
			s.now, s.todo = s.todo[0], s.todo[1:]
		}
		team := s.now
		s.mu.Unlock()
		if team == "" {
			select {
			case <-ctx.Done():
				return nil
			case <-s.wake:
			}
			continue
		}
		c, err := s.count(tenant.In(ctx, team), team)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			s.cfg.Log.WarnContext(ctx, "what a team's work takes on disk could not be counted", "team_id", team, "error", err)
			c.At = s.cfg.Now().UnixMilli() // do not retry at once
		}
		s.mu.Lock()
		if _, known := s.counts[team]; err == nil || !known {
			s.counts[team] = c
		}
		s.now = ""
		s.mu.Unlock()
		if s.cfg.Events != nil {
			s.cfg.Events.Publish(ctx, events.Event{Type: "disk.updated", ID: team, TeamID: team, Version: c.At})
		}
	}
}

// projects returns a team's projects, including those in the trash.
func (s *Service) projects(ctx context.Context, teamID string, trash []reclaim.Trashed) ([]workspaces.Project, error) {
	var all []workspaces.Project
	for cursor := ""; ; {
		items, next, err := s.cfg.Projects.Projects(ctx, teamID, page.Page{Cursor: cursor, Limit: 100})
		if err != nil {
			return nil, fmt.Errorf("listing projects: %w", err)
		}
		all = append(all, items...)
		if cursor = next; next == "" {
			break
		}
	}
	for _, t := range trash {
		if t.Kind != reclaim.TrashProject {
			continue
		}
		p, err := s.cfg.Reclaim.TrashedProject(ctx, t.ID)
		if err != nil {
			return nil, fmt.Errorf("reading a deleted project: %w", err)
		}
		all = append(all, p)
	}
	return all, nil
}

func (s *Service) count(ctx context.Context, teamID string) (Count, error) {
	c := Count{At: s.cfg.Now().UnixMilli()}
	by := map[Kind]*Use{}
	add := func(k Kind, n int64) {
		if by[k] == nil {
			by[k] = &Use{Kind: k}
		}
		by[k].Items++
		by[k].Bytes += n
	}
	trash, err := s.cfg.Reclaim.Trashed(ctx, teamID)
	if err != nil {
		return c, err
	}
	all, err := s.projects(ctx, teamID, trash)
	if err != nil {
		return c, err
	}
	dirs := map[string]string{}
	var loose, trashed Use
	for _, p := range all {
		dirs[p.ID] = p.GitDir
		u, err := s.cfg.Reclaim.UseOfRepository(ctx, p)
		if err != nil {
			s.cfg.Log.InfoContext(ctx, "a repository could not be counted", "project_id", p.ID, "error", err)
			continue
		}
		c.Projects = append(c.Projects, Project{p.ID, p.Name, u.Bytes, u.Ours})
		if u.Ours {
			add(Repositories, u.Bytes)
			c.Bytes += u.Bytes
			loose.Bytes += u.Loose
			loose.Items++
		}
		list, err := s.cfg.Records.WorkspacesOf(ctx, p.ID)
		if err != nil {
			return c, fmt.Errorf("listing workspaces: %w", err)
		}
		for _, w := range list {
			if err := s.workspace(ctx, &c, add, p.GitDir, Workspace{Num: w.Num, Name: w.Name, ProjectID: p.ID, WorkspaceUse: reclaim.WorkspaceUse{ID: w.ID}}); err != nil {
				return c, err
			}
		}
	}
	// Workspaces first: purging a project also needs what its workspaces stored to be gone from its repository.
	slices.SortStableFunc(trash, func(a, b reclaim.Trashed) int { return -cmp.Compare(a.Kind, b.Kind) })
	kept := map[string]int64{}
	for _, t := range trash {
		bytes := int64(0)
		if t.Kind == reclaim.TrashWorkspace {
			w := Workspace{Num: t.Num, Name: t.Name, ProjectID: t.ProjectID, Deleted: true, WorkspaceUse: reclaim.WorkspaceUse{ID: t.ID}}
			if err := s.workspace(ctx, &c, func(Kind, int64) {}, dirs[t.ProjectID], w); err != nil {
				return c, err
			}
			u := c.Workspaces[len(c.Workspaces)-1]
			bytes = u.Bytes()
			kept[t.ProjectID] += u.Kept
		} else if i := slices.IndexFunc(c.Projects, func(p Project) bool { return p.ID == t.ID }); i >= 0 && c.Projects[i].Ours {
			bytes = max(c.Projects[i].Bytes-kept[t.ID], 0)
		}
		trashed.Items, trashed.Bytes = trashed.Items+1, trashed.Bytes+bytes
		if err := s.cfg.Reclaim.NoteSize(ctx, t.Kind, t.ID, bytes); err != nil {
			return c, fmt.Errorf("noting a size: %w", err)
		}
	}
	if trashed.Items > 0 {
		by[Trash] = &Use{Trash, trashed.Items, trashed.Bytes}
	}
	c.Free = append(c.Free, Use{Trash, trashed.Items, trashed.Bytes})
	left, bytes, err := s.cfg.Reclaim.Leftovers(ctx)
	if err != nil {
		return c, fmt.Errorf("looking for leftovers: %w", err)
	}
	c.Free = append(c.Free, Use{Leftovers, len(left), bytes})
	if s.cfg.Caches != nil {
		n, err := s.cfg.Caches.Bytes(ctx, teamID)
		if err != nil {
			return c, fmt.Errorf("counting the caches: %w", err)
		}
		add(Caches, n)
		c.Bytes += n
		c.Free = append(c.Free, Use{Caches, 1, n})
	}
	if s.cfg.Artifacts != nil {
		items, n, err := s.cfg.Artifacts(ctx, teamID)
		if err != nil {
			return c, fmt.Errorf("counting the artifacts: %w", err)
		}
		by[Artifacts] = &Use{Artifacts, items, n}
		c.Bytes += n
	}
	c.Free = append(c.Free, Use{Loose, loose.Items, loose.Bytes})
	for _, k := range []Kind{Repositories, Worktrees, Homes, Snapshots, Terminals, Caches, Artifacts, Trash} {
		if by[k] != nil {
			c.By = append(c.By, *by[k])
		}
	}
	slices.SortStableFunc(c.Workspaces, func(a, b Workspace) int { return cmp.Compare(b.Bytes(), a.Bytes()) })
	return c, nil
}

// workspace adds what one workspace takes. Its snapshots are in the repository, which is counted already.
func (s *Service) workspace(ctx context.Context, c *Count, add func(Kind, int64), gitDir string, w Workspace) error {
	u, err := s.cfg.Reclaim.UseOfWorkspace(ctx, w.ID, gitDir)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		s.cfg.Log.InfoContext(ctx, "a workspace could not be counted", "workspace_id", w.ID, "error", err)
	}
	w.WorkspaceUse = u
	add(Worktrees, u.Worktree)
	add(Homes, u.Home)
	add(Snapshots, u.Kept)
	add(Terminals, u.History)
	c.Bytes += u.Worktree + u.Home + u.History
	c.Workspaces = append(c.Workspaces, w)
	return nil
}

// Freed is the result of freeing disk space.
type Freed struct {
	Bytes  int64
	Items  int
	Failed []string // sentences: what could not be done, and why
}

// Free frees what nothing needs any more. It loses no work except what is already deleted. hidden are workspaces in the trash that the
// caller cannot see: they stay. Errors: invalid_parameter.
func (s *Service) Free(ctx context.Context, teamID string, what []Kind, hidden map[string]bool) (Freed, error) {
	var out Freed
	for _, k := range what {
		if !slices.Contains(Frees, k) {
			return out, fault.New(fault.Invalid, "invalid_parameter", "%q cannot be freed. Choose one of %v.", k, Frees).With("field", "what")
		}
	}
	trash, err := s.cfg.Reclaim.Trashed(ctx, teamID)
	if err != nil {
		return out, err
	}
	failed := func(what string, err error) {
		words := what + ": "
		if f, ok := errors.AsType[*fault.Error](err); ok {
			words += f.Message
		} else {
			words += "it did not work."
			s.cfg.Log.WarnContext(ctx, "disk space could not be freed", "team_id", teamID, "what", what, "error", err)
		}
		out.Failed = append(out.Failed, words)
	}
	if slices.Contains(what, Trash) {
		for _, kind := range []reclaim.TrashKind{reclaim.TrashWorkspace, reclaim.TrashProject} {
			for _, t := range trash {
				if t.Kind != kind || hidden[t.ID] {
					continue
				}
				if err := s.cfg.Reclaim.Purge(ctx, kind, t.ID); err != nil {
					failed(t.Name, err)
					continue
				}
				out.Items++
				out.Bytes += max(t.Bytes, 0)
			}
		}
	}
	if slices.Contains(what, Leftovers) {
		n, err := s.cfg.Reclaim.RemoveLeftovers(ctx)
		if err != nil {
			failed("Leftovers", err)
		}
		out.Bytes += n
	}
	if slices.Contains(what, Caches) && s.cfg.Caches != nil {
		n, err := s.cfg.Caches.Bytes(ctx, teamID)
		if err == nil {
			err = s.cfg.Caches.Empty(ctx, teamID)
		}
		if err != nil {
			failed("Caches", err)
		} else {
			out.Items++
			out.Bytes += n
		}
	}
	if slices.Contains(what, Loose) || slices.Contains(what, Trash) {
		rest, err := s.cfg.Reclaim.Trashed(ctx, teamID)
		if err != nil {
			return out, err
		}
		all, err := s.projects(ctx, teamID, rest)
		if err != nil {
			return out, err
		}
		for _, p := range all {
			n, err := s.cfg.Reclaim.Collect(ctx, p)
			if err != nil {
				failed(p.Name, err)
				continue
			}
			if slices.Contains(what, Loose) {
				out.Bytes += n
			}
		}
	}
	s.mu.Lock()
	delete(s.counts, teamID)
	s.ask(teamID)
	s.mu.Unlock()
	return out, nil
}
