package disk_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/disk"
	"github.com/parawork/parawork/workspaces/reclaim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakes are a team's projects and workspaces with given sizes; counting bytes belongs to reclaim, and is tested there.
type fakes struct {
	t  *testing.T
	mu sync.Mutex

	projects   []workspaces.Project
	live       []workspaces.Workspace
	trash      []reclaim.Trashed
	repos      map[string]reclaim.RepositoryUse
	uses       map[string]reclaim.WorkspaceUse
	dirs       map[string]string // which git dir each workspace was counted with
	noted      map[string]int64
	left       int64
	cache      int64
	collected  []string
	broken     map[string]error // by id: counting, purging or collecting it fails
	failing    error            // of Trashed
	published  []events.Event
	purged     []string
	wrongScope bool
}

func newFakes(t *testing.T) *fakes {
	p := func(id, kind string) workspaces.Project {
		return workspaces.Project{ID: id, TeamID: "team_a", Name: "name of " + id, SourceKind: kind, GitDir: "/git/" + id}
	}
	return &fakes{
		t:        t,
		projects: []workspaces.Project{p("prj_one", workspaces.SourceURL), p("prj_two", workspaces.SourcePath), p("prj_gone", workspaces.SourceURL)},
		live: []workspaces.Workspace{{ID: "ws_small", ProjectID: "prj_one", Num: 1, Name: "small"}, {ID: "ws_large", ProjectID: "prj_two", Num: 2, Name: "large"},
			{ID: "ws_private", ProjectID: "prj_one", Num: 3, Name: "private", Private: true}},
		trash: []reclaim.Trashed{{Kind: reclaim.TrashWorkspace, ID: "ws_old", TeamID: "team_a", ProjectID: "prj_one", Num: 4, Name: "old", Bytes: -1},
			{Kind: reclaim.TrashWorkspace, ID: "ws_hidden", TeamID: "team_a", ProjectID: "prj_one", Num: 5, Name: "hidden", Private: true, Bytes: -1},
			{Kind: reclaim.TrashProject, ID: "prj_gone", TeamID: "team_a", ProjectID: "prj_gone", Name: "gone", Bytes: -1}},
		repos: map[string]reclaim.RepositoryUse{"prj_one": {Bytes: 1000, Loose: 70, Ours: true}, "prj_two": {Bytes: 5000, Loose: 900}, "prj_gone": {Bytes: 300, Loose: 5, Ours: true}},
		uses: map[string]reclaim.WorkspaceUse{"ws_small": {Worktree: 10, Home: 1, Kept: 4, History: 2}, "ws_large": {Worktree: 100, Home: 20, History: 3},
			"ws_private": {Worktree: 30}, "ws_old": {Home: 6, Kept: 40, History: 7}, "ws_hidden": {Kept: 11}},
		dirs: map[string]string{}, noted: map[string]int64{}, broken: map[string]error{}, left: 9, cache: 50,
	}
}

func (r *fakes) scope(ctx context.Context) {
	if s, ok := tenant.Of(ctx); !ok || !slices.Equal(s.Teams(), []string{"team_a"}) {
		r.wrongScope = true
	}
}

// Projects returns one per page, so that all pages are read.
func (r *fakes) Projects(ctx context.Context, teamID string, pg page.Page) ([]workspaces.Project, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := 0
	if pg.Cursor != "" {
		i = slices.IndexFunc(r.projects, func(p workspaces.Project) bool { return p.ID == pg.Cursor })
	}
	if teamID != "team_a" || i >= len(r.projects) || r.deleted(r.projects[i].ID) {
		return nil, "", nil
	}
	next := ""
	if i+1 < len(r.projects) && !r.deleted(r.projects[i+1].ID) {
		next = r.projects[i+1].ID
	}
	return r.projects[i : i+1], next, nil
}

func (r *fakes) deleted(id string) bool {
	return slices.ContainsFunc(r.trash, func(t reclaim.Trashed) bool { return t.ID == id }) || slices.Contains(r.purged, id)
}

func (r *fakes) WorkspacesOf(_ context.Context, projectID string) (out []workspaces.Workspace, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.live {
		if w.ProjectID == projectID {
			out = append(out, w)
		}
	}
	return out, nil
}

func (r *fakes) Trashed(_ context.Context, teamID string) ([]reclaim.Trashed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if teamID != "team_a" {
		return nil, r.failing
	}
	out := slices.Clone(r.trash)
	for i, t := range out {
		if n, ok := r.noted[t.ID]; ok {
			out[i].Bytes = n
		}
	}
	return out, r.failing
}

func (r *fakes) TrashedProject(_ context.Context, id string) (workspaces.Project, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.projects {
		if p.ID == id && r.deleted(id) {
			return p, nil
		}
	}
	return workspaces.Project{}, errors.New("not in the trash")
}

func (r *fakes) UseOfWorkspace(ctx context.Context, id, gitDir string) (reclaim.WorkspaceUse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.scope(ctx)
	r.dirs[id] = gitDir
	u := r.uses[id]
	u.ID = id
	return u, r.broken[id]
}

func (r *fakes) UseOfRepository(ctx context.Context, p workspaces.Project) (reclaim.RepositoryUse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.scope(ctx)
	return r.repos[p.ID], r.broken[p.ID]
}

func (r *fakes) NoteSize(_ context.Context, _ reclaim.TrashKind, id string, bytes int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noted[id] = bytes
	return nil
}

func (r *fakes) Leftovers(context.Context) ([]string, int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left == 0 {
		return nil, 0, nil
	}
	return []string{"/data/.trash-1"}, r.left, nil
}

func (r *fakes) RemoveLeftovers(context.Context) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.left
	r.left = 0
	return n, r.broken["leftovers"]
}

func (r *fakes) Purge(_ context.Context, kind reclaim.TrashKind, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.trash, func(t reclaim.Trashed) bool { return t.ID == id && t.Kind == kind })
	if i < 0 {
		r.t.Errorf("%s %s is purged, which is not in the trash", kind, id)
		return nil
	}
	if err := r.broken[id]; err != nil {
		return err
	}
	r.trash = slices.Delete(r.trash, i, i+1)
	r.purged = append(r.purged, id)
	return nil
}

func (r *fakes) Collect(_ context.Context, p workspaces.Project) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.collected = append(r.collected, p.ID)
	return r.repos[p.ID].Loose, r.broken["collect "+p.ID]
}

func (r *fakes) Bytes(context.Context, string) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cache, nil
}

func (r *fakes) Empty(context.Context, string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cache = 0
	return r.broken["caches"]
}

func (r *fakes) Publish(_ context.Context, e events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.published = append(r.published, e)
}

// counted is what a team's look gives once it was counted, in a bubble of synctest.
func counted(t *testing.T, s *disk.Service, team string) disk.Count {
	t.Helper()
	s.Of(team)
	synctest.Wait()
	c, known, counting := s.Of(team)
	if !known || counting {
		t.Fatalf("%s: known %v, counting %v", team, known, counting)
	}
	return c
}

// with runs fn next to a Service that counts.
func with(t *testing.T, r *fakes, fn func(s *disk.Service)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := disk.New(disk.Config{Projects: r, Records: r, Reclaim: r, Caches: r, Events: r})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		fn(s)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	if r.wrongScope {
		t.Error("something was counted without the team's scope")
	}
}

func use(list []disk.Use, k disk.Kind) disk.Use {
	if i := slices.IndexFunc(list, func(u disk.Use) bool { return u.Kind == k }); i >= 0 {
		return list[i]
	}
	return disk.Use{}
}

func TestEachByteIsCountedOnce(t *testing.T) {
	t.Parallel()
	r := newFakes(t)
	with(t, r, func(s *disk.Service) {
		if _, known, counting := s.Of("team_a"); known || !counting {
			t.Errorf("before the first count: known %v, counting %v", known, counting)
		}
		c := counted(t, s, "team_a")
		// The server's repositories, files, homes and histories, the caches; snapshots are in the repositories, and somebody's own folder does not count.
		if want := int64(1000 + 300 + 13 + 123 + 30 + 13 + 50); c.Bytes != want {
			t.Errorf("all of it is %d, want %d", c.Bytes, want)
		}
		for k, want := range map[disk.Kind]disk.Use{
			disk.Repositories: {Kind: disk.Repositories, Items: 2, Bytes: 1300}, disk.Worktrees: {Kind: disk.Worktrees, Items: 3, Bytes: 140},
			disk.Homes: {Kind: disk.Homes, Items: 3, Bytes: 21}, disk.Snapshots: {Kind: disk.Snapshots, Items: 3, Bytes: 4},
			disk.Terminals: {Kind: disk.Terminals, Items: 3, Bytes: 5}, disk.Caches: {Kind: disk.Caches, Items: 1, Bytes: 50},
		} {
			if got := use(c.By, k); got != want {
				t.Errorf("%s: %+v, want %+v", k, got, want)
			}
		}
		var names []string
		for _, w := range c.Workspaces {
			names = append(names, w.Name)
			if want := w.Name == "old" || w.Name == "hidden"; w.Deleted != want {
				t.Errorf("%s: deleted %v", w.Name, w.Deleted)
			}
		}
		if got := strings.Join(names, " "); got != "large old private small hidden" {
			t.Errorf("the largest does not stand first: %s", got)
		}
		// For one in the trash too: its snapshots are searched in its project's repository.
		if r.dirs["ws_old"] != "/git/prj_one" || r.dirs["ws_large"] != "/git/prj_two" {
			t.Errorf("counted with the wrong repository: %v", r.dirs)
		}
		if r.noted["ws_old"] != 53 || r.noted["ws_hidden"] != 11 || r.noted["prj_gone"] != 300 {
			t.Errorf("the trash has other sizes: %v", r.noted)
		}
		if len(r.published) != 1 || r.published[0].Type != "disk.updated" || r.published[0].TeamID != "team_a" || r.published[0].Version != c.At {
			t.Errorf("published %+v", r.published)
		}
	})
}

// A project in the trash whose workspace is there too: the workspace's snapshots are in the project's repository.
func TestDeletedWorkspacesSnapshotsAreFreedOnce(t *testing.T) {
	t.Parallel()
	r := newFakes(t)
	r.trash = append(r.trash, reclaim.Trashed{Kind: reclaim.TrashWorkspace, ID: "ws_lost", TeamID: "team_a", ProjectID: "prj_gone", Num: 6, Name: "lost", Bytes: -1})
	r.uses["ws_lost"] = reclaim.WorkspaceUse{Kept: 120, History: 8}
	with(t, r, func(s *disk.Service) {
		c := counted(t, s, "team_a")
		if got, want := use(c.Free, disk.Trash), (disk.Use{Kind: disk.Trash, Items: 4, Bytes: 53 + 11 + 300 + 8}); got != want {
			t.Errorf("emptying the trash would free %+v, want %+v", got, want)
		}
		// Separately: the workspace with its snapshots, then the project without it.
		if r.noted["ws_lost"] != 128 || r.noted["prj_gone"] != 180 {
			t.Errorf("the trash has other sizes: %v", r.noted)
		}
		f, err := s.Free(tenant.In(t.Context(), "team_a"), "team_a", []disk.Kind{disk.Trash}, nil)
		if err != nil || f.Bytes != 53+11+300+8 {
			t.Errorf("%d came free, %v", f.Bytes, err)
		}
	})
}

// What was reported as free is what is freed.
func TestFreesWhatWasPromised(t *testing.T) {
	t.Parallel()
	for _, k := range disk.Frees {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			r := newFakes(t)
			with(t, r, func(s *disk.Service) {
				promised := use(counted(t, s, "team_a").Free, k)
				if promised.Bytes == 0 {
					t.Fatalf("nothing of %s would be free", k)
				}
				f, err := s.Free(tenant.In(t.Context(), "team_a"), "team_a", []disk.Kind{k}, nil)
				if err != nil || len(f.Failed) > 0 {
					t.Fatalf("%v, failed: %v", err, f.Failed)
				}
				if k == disk.Loose { // somebody's own folder is never packed: Collect returns 0 for it
					f.Bytes -= r.repos["prj_two"].Loose
				}
				if f.Bytes != promised.Bytes {
					t.Errorf("%d came free, %d was promised", f.Bytes, promised.Bytes)
				}
				synctest.Wait()
				if left := use(counted(t, s, "team_a").Free, k); k != disk.Loose && left.Bytes != 0 {
					t.Errorf("it would still be free: %+v", left)
				}
				if k != disk.Trash && len(r.purged) > 0 {
					t.Errorf("the trash was emptied too: %v", r.purged)
				}
			})
		})
	}
}

func TestFreeLeavesHiddenAndContinuesAfterFailures(t *testing.T) {
	t.Parallel()
	r := newFakes(t)
	r.broken["ws_old"] = fault.New(fault.Conflict, "workspace_busy", "It is being restored.")
	r.broken["caches"] = errors.New("permission denied: /data/caches/secret")
	with(t, r, func(s *disk.Service) {
		counted(t, s, "team_a")
		ctx := tenant.In(t.Context(), "team_a")
		if _, err := s.Free(ctx, "team_a", []disk.Kind{disk.Trash, disk.Worktrees}, nil); fault.CodeOf(err) != "invalid_parameter" {
			t.Errorf("files of workspaces can be made free: %v", err)
		}
		if len(r.purged) > 0 {
			t.Fatalf("a refused request removed %v", r.purged)
		}
		f, err := s.Free(ctx, "team_a", disk.Frees, map[string]bool{"ws_hidden": true})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Join(r.purged, " ") != "prj_gone" {
			t.Errorf("purged %v", r.purged)
		}
		if len(f.Failed) != 2 || f.Failed[0] != "old: It is being restored." || f.Failed[1] != "Caches: it did not work." {
			t.Errorf("failed: %q", f.Failed)
		}
		if want := int64(300 + 9 + 70 + 900); f.Bytes != want {
			t.Errorf("%d came free, want %d", f.Bytes, want)
		}
		// Repositories of deleted projects are not packed.
		if strings.Join(r.collected, " ") != "prj_one prj_two" {
			t.Errorf("packed %v", r.collected)
		}
	})
}

func TestOldCountsAreRefreshedOneAtATime(t *testing.T) {
	t.Parallel()
	r := newFakes(t)
	with(t, r, func(s *disk.Service) {
		first := counted(t, s, "team_a")
		for range 5 { // young: the same count
			s.Of("team_a")
		}
		synctest.Wait()
		if len(r.published) != 1 {
			t.Errorf("looking at a young count counted %d times", len(r.published))
		}
		time.Sleep(3 * time.Minute) // of the bubble's clock
		for range 5 {
			if c, known, counting := s.Of("team_a"); !known || !counting || c.At != first.At {
				t.Errorf("an old count is not shown while it is counted anew: %v %v %d", known, counting, c.At)
			}
		}
		synctest.Wait()
		if c, _, _ := s.Of("team_a"); len(r.published) != 2 || c.At <= first.At {
			t.Errorf("counted %d times, at %d and %d", len(r.published), first.At, c.At)
		}
		// A failed count leaves the last one; one team's failure does not affect another's.
		time.Sleep(3 * time.Minute)
		r.mu.Lock()
		r.failing = errors.New("the database is away")
		r.mu.Unlock()
		s.Of("team_a")
		synctest.Wait()
		if c, known, _ := s.Of("team_a"); !known || c.Bytes != first.Bytes {
			t.Errorf("a count that failed took the last one's place: %+v", c)
		}
	})
}

// An unreadable workspace or repository is left out, and the rest is counted.
func TestUnreadableIsLeftOut(t *testing.T) {
	t.Parallel()
	r := newFakes(t)
	r.broken["ws_large"], r.broken["prj_gone"] = errors.New("gone"), errors.New("gone")
	with(t, r, func(s *disk.Service) {
		c := counted(t, s, "team_a")
		if len(c.Projects) != 2 || use(c.By, disk.Repositories).Bytes != 1000 || len(c.Workspaces) != 5 {
			t.Errorf("%+v", c)
		}
	})
}
