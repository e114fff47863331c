package workspaces_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces"
)

// A folder that is one team's is no other team's, by whatever name it is called; a team of its own may have several projects in one.
func TestAFolderIsOneTeams(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHouse(t, db)
		_, other := storetest.Seed(t, db)
		add := func(team, path string) error {
			_, err := h.s.CreateProject(t.Context(), h.actor, team, workspaces.NewProject{Kind: "path", Path: path})
			return err
		}
		nested := func(dir string) string {
			must(t, os.MkdirAll(dir, 0o755))
			git(t, dir, "init", "-q", "-b", "main")
			write(t, dir, "a", "a")
			commitAll(t, dir, "first")
			return dir
		}
		outer := h.repo("outer")
		inside := nested(filepath.Join(outer, "vendor", "inside"))
		taken := nested(filepath.Join(h.roots, "team", "taken"))
		above := nested(filepath.Join(h.roots, "team"))
		must(t, add(h.team, outer))
		must(t, add(h.team, taken))

		link := filepath.Join(h.roots, "link")
		must(t, os.Symlink(outer, link))
		linked := filepath.Join(h.roots, "linked")
		git(t, outer, "worktree", "add", "-q", linked)
		bare := filepath.Join(h.roots, "bare")
		git(t, h.roots, "clone", "-q", "--bare", outer, bare)
		borrowing := filepath.Join(h.roots, "borrowing")
		git(t, h.roots, "clone", "-q", "--shared", outer, borrowing)
		names := map[string]string{"the same path": outer, "a link": link, "a worktree of the repository": linked, "a repository inside": inside,
			"a repository around": above, "a repository that borrows its objects": borrowing}
		mounted := filepath.Join(h.roots, "mounted")
		must(t, os.Mkdir(mounted, 0o755))
		if err := unix.Mount(outer, mounted, "", unix.MS_BIND, ""); err == nil {
			t.Cleanup(func() { _ = unix.Unmount(mounted, unix.MNT_DETACH) })
			names["a bind mount"] = mounted
		} else {
			t.Logf("bind mounts are not tried: %v", err)
		}
		for name, path := range names {
			t.Run(name, func(t *testing.T) { wantCode(t, add(other.ID, path), "folder_taken") })
		}
		_, err := h.s.CreateProject(t.Context(), h.actor, other.ID, workspaces.NewProject{Kind: "url", URL: "file://" + outer})
		wantCode(t, err, "folder_taken")
		must(t, add(other.ID, bare)) // a repository of its own
		must(t, add(h.team, above))
		wantCode(t, add(h.team, taken), "project_exists")

		// In the trash it is theirs still, and no longer once it is removed for good.
		p := h.pathProject(h.repo("trashed"))
		must(t, h.s.DeleteProject(t.Context(), h.actor, p.ID))
		wantCode(t, add(other.ID, p.Source), "folder_taken")
		must(t, h.s.Purge(t.Context(), workspaces.TrashProject, p.ID))
		must(t, add(other.ID, p.Source))
	})
}

// Of teams that add a folder at one moment one gets it.
func TestAFolderIsOneTeamsAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHouse(t, db)
		teams := []string{h.team}
		for range 7 {
			_, team := storetest.Seed(t, db)
			teams = append(teams, team.ID)
		}
		dir := h.repo("wanted")
		inside := filepath.Join(dir, "inside")
		must(t, os.MkdirAll(inside, 0o755))
		git(t, inside, "init", "-q", "-b", "main")
		write(t, inside, "a", "a")
		commitAll(t, inside, "first")
		var wg sync.WaitGroup
		errs := make([]error, len(teams))
		for i, team := range teams {
			wg.Go(func() {
				_, errs[i] = h.s.CreateProject(t.Context(), h.actor, team, workspaces.NewProject{Kind: "path", Path: []string{dir, inside}[i%2]})
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
