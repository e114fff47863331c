package projects_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/reclaim"
	"golang.org/x/sys/unix"
)

// One team's folder cannot be another's, under any name; the same team may have several projects in it.
func TestFolderBelongsToOneTeam(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := wstest.New(t, db)
		_, other := storetest.Seed(t, db)
		add := func(team, path string) error {
			_, err := h.S.Projects.CreateProject(t.Context(), h.Actor, team, workspaces.NewProject{Kind: "path", Path: path})
			return err
		}
		nested := func(dir string) string {
			wstest.Must(t, os.MkdirAll(dir, 0o755))
			wstest.Git(t, dir, "init", "-q", "-b", "main")
			wstest.Write(t, dir, "a", "a")
			wstest.CommitAll(t, dir, "first")
			return dir
		}
		outer := h.Repo("outer")
		inside := nested(filepath.Join(outer, "vendor", "inside"))
		taken := nested(filepath.Join(h.Roots, "team", "taken"))
		above := nested(filepath.Join(h.Roots, "team"))
		wstest.Must(t, add(h.Team, outer))
		wstest.Must(t, add(h.Team, taken))

		link := filepath.Join(h.Roots, "link")
		wstest.Must(t, os.Symlink(outer, link))
		linked := filepath.Join(h.Roots, "linked")
		wstest.Git(t, outer, "worktree", "add", "-q", linked)
		bare := filepath.Join(h.Roots, "bare")
		wstest.Git(t, h.Roots, "clone", "-q", "--bare", outer, bare)
		borrowing := filepath.Join(h.Roots, "borrowing")
		wstest.Git(t, h.Roots, "clone", "-q", "--shared", outer, borrowing)
		names := map[string]string{"the same path": outer, "a link": link, "a worktree of the repository": linked, "a repository inside": inside,
			"a repository around": above, "a repository that borrows its objects": borrowing}
		mounted := filepath.Join(h.Roots, "mounted")
		wstest.Must(t, os.Mkdir(mounted, 0o755))
		if err := unix.Mount(outer, mounted, "", unix.MS_BIND, ""); err == nil {
			t.Cleanup(func() { _ = unix.Unmount(mounted, unix.MNT_DETACH) })
			names["a bind mount"] = mounted
		} else {
			t.Logf("bind mounts are not tried: %v", err)
		}
		for name, path := range names {
			t.Run(name, func(t *testing.T) { wstest.WantCode(t, add(other.ID, path), "folder_taken") })
		}
		_, err := h.S.Projects.CreateProject(t.Context(), h.Actor, other.ID, workspaces.NewProject{Kind: "url", URL: "file://" + outer})
		wstest.WantCode(t, err, "folder_taken")
		wstest.Must(t, add(other.ID, bare)) // a repository of its own
		wstest.Must(t, add(h.Team, above))
		wstest.WantCode(t, add(h.Team, taken), "project_exists")

		// In the trash it is still theirs, and no longer after a purge.
		p := h.PathProject(h.Repo("trashed"))
		wstest.Must(t, h.S.Projects.DeleteProject(t.Context(), h.Actor, p.ID))
		wstest.WantCode(t, add(other.ID, p.Source), "folder_taken")
		wstest.Must(t, h.S.Reclaim.Purge(t.Context(), reclaim.TrashProject, p.ID))
		wstest.Must(t, add(other.ID, p.Source))
	})
}

// Of teams that add a folder at the same time, one gets it.
func TestFolderBelongsToOneTeamConcurrently(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := wstest.New(t, db)
		teams := []string{h.Team}
		for range 7 {
			_, team := storetest.Seed(t, db)
			teams = append(teams, team.ID)
		}
		dir := h.Repo("wanted")
		inside := filepath.Join(dir, "inside")
		wstest.Must(t, os.MkdirAll(inside, 0o755))
		wstest.Git(t, inside, "init", "-q", "-b", "main")
		wstest.Write(t, inside, "a", "a")
		wstest.CommitAll(t, inside, "first")
		var wg sync.WaitGroup
		errs := make([]error, len(teams))
		for i, team := range teams {
			wg.Go(func() {
				_, errs[i] = h.S.Projects.CreateProject(t.Context(), h.Actor, team, workspaces.NewProject{Kind: "path", Path: []string{dir, inside}[i%2]})
			})
		}
		wg.Wait()
		got := 0
		for _, err := range errs {
			switch {
			case err == nil:
				got++
			case fault.CodeOf(err) != "folder_taken":
				t.Errorf("refused with %v", err)
			}
		}
		if got != 1 {
			t.Errorf("%d teams have it", got)
		}
	})
}
