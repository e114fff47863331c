package workspaces_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces"
)

// away are sandboxes with a disk of their own: real guests, a real Manager, folders that begin empty.
type away struct {
	*executortest.Managed
	t     testing.TB
	h     *house
	world *fake.World
	exec  *fake.Executor
	home  *fake.Executor // a place on this machine, to move to

	mu       sync.Mutex
	say      []string
	told     func(step string, done, all int64)
	arrivals map[string]arrival // by sandbox id
}

func (a *away) Ensure(ctx context.Context, id string) error {
	_, err := a.Manager.Ensure(ctx, id)
	return err
}

func (a *away) Live(id string) bool {
	_, ok := a.Manager.Live(id)
	return ok
}

const farKind executors.Kind = "far"

// farHouse is a house whose workspaces are far. wrap may lay something around their executor.
func farHouse(t testing.TB, wrap ...func(executors.Executor) executors.Executor) (*house, *away) {
	t.Helper()
	return farHouseWith(t, func(c *workspaces.Config) { c.DefaultExecutor = string(farKind) }, fake.Knobs{OwnDisk: true, Kind: farKind}, wrap...)
}

// farHouseWith is a farHouse with another place.
func farHouseWith(t testing.TB, change func(*workspaces.Config), knobs fake.Knobs, wrap ...func(executors.Executor) executors.Executor) (*house, *away) {
	t.Helper()
	db := storetest.SQLite(t)
	h := newHouse(t, db, change)
	h.stop()
	dir := t.TempDir()
	a := &away{t: t, h: h, world: fake.NewWorld(dir, nil), arrivals: make(map[string]arrival)}
	t.Cleanup(a.world.Close)
	a.exec, a.home = fake.New(a.world), fake.New(a.world)
	a.exec.Set(knobs)
	a.home.Set(fake.Knobs{Kind: "here"})
	var e executors.Executor = a.exec
	for _, w := range wrap {
		e = w(e)
	}
	a.Managed = executortest.NewManager(executortest.ManagerConfig{Executors: []executors.Executor{e, a.home}, Default: knobs.Kind, Store: store.NewExecutors(db),
		Workspaces: specs{h}, Log: slog.New(slog.DiscardHandler)})
	h.away = a
	a.Attach(executors.Participant{Making: func(ctx context.Context, c executors.Capabilities, s *executors.Spec) error {
		if manager.Trying(ctx) {
			return nil
		}
		if c.OwnDisk {
			return h.s.Afar(ctx, s.WorkspaceID)
		}
		return h.s.Unbox(ctx, s.WorkspaceID)
	}})
	a.Attach(executors.Participant{Arriving: func(ctx context.Context, r executors.Arrival) error {
		a.mu.Lock()
		a.arrivals[r.Place.SandboxID] = arrival{r.Spec.Folder, r.Place.Hello.Root}
		a.mu.Unlock()
		r.Say = func(step, _ string, done, all int64) {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.told != nil {
				a.told(step, done, all)
			}
			if n := len(a.say); n == 0 || a.say[n-1] != step {
				a.say = append(a.say, step)
			}
		}
		return h.s.Arrive(ctx, r)
	}})
	a.Attach(executors.Participant{Arriving: func(ctx context.Context, r executors.Arrival) error { return h.s.ArriveIgnored(ctx, r) }})
	a.Attach(executors.Participant{Arriving: func(ctx context.Context, r executors.Arrival) error { return h.s.ArriveSetup(ctx, r) }})
	a.Attach(executors.Participant{Live: func(p *executors.Place) { h.s.Awoke(p.WorkspaceID) }})
	leave := func(ctx context.Context, p *executors.Place) error {
		err := h.s.TakeLeave(ctx, p.WorkspaceID, p.Run)
		if err != nil && !workspaces.Refused(err) {
			t.Errorf("taking leave: %v", err)
		}
		if p.OwnDisk {
			a.mirror(ctx, p)
		}
		return err
	}
	a.Attach(executors.Participant{Home: leave})
	a.Attach(executors.Participant{Ending: func(ctx context.Context, p *executors.Place) { _ = leave(ctx, p) }})
	a.Attach(executors.Participant{Ended: func(r executors.Record) { h.s.SandboxEnded(r.WorkspaceID, r.Handle.ID) }})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = a.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	h.start()
	return h, a
}

// hook is for a service that was started anew: the Manager's hooks ask the house for it.
func (a *away) hook(parts) {}

// specs asks the house's present service.
type specs struct{ h *house }

func (s specs) Spec(ctx context.Context, id string) (executors.Spec, executors.Kind, error) {
	return s.h.s.Spec(ctx, id)
}

// mirror brings the files home, as the room that does so would: all that git tells of, and nothing else.
func (a *away) mirror(ctx context.Context, p *executors.Place) {
	w, err := a.h.store.Workspace(ctx, p.WorkspaceID)
	must(a.t, err)
	r, err := p.Run(ctx, executors.BoxCommand{Argv: []string{"git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"}})
	must(a.t, err)
	keep := map[string]bool{".git": true, ".env": true}
	for name := range strings.SplitSeq(string(r.Stdout), "\x00") {
		from := filepath.Join(p.Hello.Root, name)
		fi, err := os.Lstat(from)
		if name == "" || err != nil || fi.IsDir() {
			continue
		}
		keep[name] = true
		to := filepath.Join(w.Path, name)
		must(a.t, os.MkdirAll(filepath.Dir(to), 0o755))
		_ = os.Remove(to)
		if fi.Mode()&os.ModeSymlink != 0 {
			target, err := os.Readlink(from)
			must(a.t, err)
			must(a.t, os.Symlink(target, to))
			continue
		}
		b, err := os.ReadFile(from)
		must(a.t, err)
		must(a.t, os.WriteFile(to, b, fi.Mode().Perm()))
	}
	must(a.t, filepath.WalkDir(w.Path, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(w.Path, path)
		if !d.IsDir() && !keep[name] && !strings.HasPrefix(name, ".git") && !strings.HasPrefix(name, "ignored/") {
			return os.Remove(path)
		}
		return nil
	}))
}

// root is where a live sandbox's worktree lies.
func (a *away) root(w workspaces.Workspace) string {
	a.t.Helper()
	p, ok := a.Manager.Live(w.ID)
	if !ok {
		a.t.Fatal("there is no sandbox")
	}
	return p.Hello.Root
}

// sh runs a script where the agent works.
func (a *away) sh(w workspaces.Workspace, script string) string {
	a.t.Helper()
	out, err := a.trySh(w, script)
	if err != nil {
		a.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(out)
}

func (a *away) trySh(w workspaces.Workspace, script string) (string, error) {
	p, err := a.Manager.Ensure(context.Background(), w.ID)
	must(a.t, err)
	env := map[string]string{"HOME": p.Hello.Home, "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@localhost", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@localhost"}
	r, err := p.Run(context.Background(), executors.BoxCommand{Argv: []string{"/bin/sh", "-ec", "exec 2>&1; " + script}, Env: env})
	must(a.t, err)
	if r.ExitCode != 0 {
		return string(r.Stdout), os.ErrInvalid
	}
	return string(r.Stdout), nil
}

func (a *away) creates() int { return a.exec.Creates() }

// end ends the sandbox and waits until the worktree is led home.
func (a *away) end(w workspaces.Workspace) {
	a.t.Helper()
	must(a.t, a.Destroy(context.Background(), w.ID))
	a.led(w)
}

func (a *away) led(w workspaces.Workspace) {
	a.t.Helper()
	waitFor(a.t, "the worktree to be led home", func() bool { return !exists(a.h.data, "boxes/"+w.ID+"/far") })
}

// longRepo is a repository with a history that is longer than what work needs.
func (h *house) longRepo(name string) string {
	dir := h.repo(name)
	var in strings.Builder
	for i := range 20 {
		text := "old " + string(rune('a'+i))
		fmt.Fprintf(&in, "commit refs/heads/main\ncommitter A <a@localhost> %d +0000\ndata %d\n%s\n", 1_700_000_000+i, len(text), text)
		if i == 0 {
			in.WriteString("from refs/heads/main^0\n")
		}
		fmt.Fprintf(&in, "M 100644 inline old/file\ndata %d\n%s\n\n", i+1, strings.Repeat("x", i+1))
	}
	cmd := exec.Command("git", "fast-import", "--quiet")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(in.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("fast-import: %v\n%s", err, out)
	}
	git(h.t, dir, "reset", "-q", "--hard")
	return dir
}

func TestAWorkspaceArrivesAfar(t *testing.T) {
	t.Parallel()
	h, a := farHouse(t)
	dir := h.longRepo("My Project")
	write(t, dir, ".env", "SECRET=1\n")
	write(t, dir, "ignored/out.o", "built")
	p := h.pathProject(dir)
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	root := a.root(w)
	if got := strings.Join(a.say, " "); got != "send checkout" {
		t.Errorf("steps: %s", got)
	}
	if s := a.exec.Specs()[0]; s.Inside != "/work/my-project" {
		t.Errorf("it lies at %q", s.Inside)
	}
	for name, want := range map[string]string{"git status --porcelain": "", "git branch --show-current": w.Branch, "git log --format=%s": "old t",
		"git merge-base HEAD main": git(t, dir, "rev-parse", "main"), "git config --get core.worktree || echo none": "none", "cat .env": "SECRET=1", "ls": "a.txt\ndir\nold",
		"git rev-parse origin/main": git(t, dir, "rev-parse", "main"), "git rev-list --count --all": "1", "git fsck --strict": ""} {
		if got := a.sh(w, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	// Nothing in it names this machine's folders.
	must(t, filepath.WalkDir(filepath.Join(root, ".git"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(h.data)) || bytes.Contains(b, []byte(h.roots)) {
			t.Errorf("%s names a folder of the host", path)
		}
		return err
	}))
	if left, _ := filepath.Glob(filepath.Join(h.data, "parcels", "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestWorkTravels has one piece of work go from place to place, with everything that is not committed.
func TestWorkTravels(t *testing.T) {
	t.Parallel()
	h, a := farHouse(t)
	dir := h.longRepo("r")
	p := h.pathProject(dir)
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	a.sh(w, "echo 1 > one; git add one; git commit -qm one; echo changed >> a.txt; git rm -q dir/b.txt; ln -s a.txt link; printf x > 'new file'; chmod +x 'new file'; echo staged > staged; git add staged; echo more >> staged; git branch other HEAD~1; git tag v1")
	a.sh(w, "git switch -q other; git switch -q -; git stash -q -u; git stash apply -q --index")
	want := a.sh(w, "git status --porcelain; git log --format=%H; git stash list --format=%H; git branch --show-current; cat staged; git show :staged; stat -c '%a %N' link 'new file'")
	for round := range 2 {
		a.end(w)
		if a.Awake(w.ID) {
			t.Fatal("it is still awake")
		}
		// The linked worktree stands where the sandbox stood.
		if got := git(t, w.Path, "status", "--porcelain"); got != " M a.txt\nD  dir/b.txt\nAM staged\n?? link\n?? \"new file\"" {
			t.Errorf("round %d: status of the linked worktree:\n%s", round, got)
		}
		if got := git(t, w.Path, "log", "-1", "--format=%s"); got != "one" {
			t.Errorf("the linked worktree is at %q", got)
		}
		if got := a.sh(w, "git status --porcelain; git log --format=%H; git stash list --format=%H; git branch --show-current; cat staged; git show :staged; stat -c '%a %N' link 'new file'"); got != want {
			t.Errorf("round %d:\n%s\nwant\n%s", round, got, want)
		}
		if got := a.sh(w, "git rev-parse other v1 | sort -u | wc -l; git fsck --strict"); got != "2" {
			t.Errorf("branches: %q", got)
		}
	}
}

// TestNobodyIsWokenForTheHost does without a sandbox what the host can do alone.
func TestNobodyIsWokenForTheHost(t *testing.T) {
	t.Parallel()
	h, a := farHouse(t)
	dir := h.longRepo("r")
	p := h.pathProject(dir)
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	a.sh(w, "echo 1 > one; git add one; git commit -qm one; echo loose > loose; echo 2 >> a.txt")
	a.end(w)
	n := a.creates()
	list, err := h.s.Commits(context.Background(), w.ID)
	must(t, err)
	if len(list) != 1 || list[0].Subject != "one" {
		t.Errorf("commits: %+v", list)
	}
	loss, err := h.s.Loss(context.Background(), w.ID)
	must(t, err)
	if loss.UncommittedCount != 2 || loss.UnmergedCommits != 1 {
		t.Errorf("loss: %+v", loss)
	}
	r := h.merge(w, "merge")
	if !r.Merged || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "2 uncommitted changes") {
		t.Errorf("merge: %+v", r)
	}
	if got := git(t, dir, "log", "-1", "--format=%s", "main"); got != "one" {
		t.Errorf("main is at %q", got)
	}
	arch, err := h.s.Archive(context.Background(), h.actor, w.ID)
	must(t, err)
	if arch.Snapshot == nil || arch.Snapshot.Uncommitted != 2 {
		t.Errorf("snapshot: %+v", arch.Snapshot)
	}
	w, err = h.s.Restore(context.Background(), h.actor, w.ID)
	must(t, err)
	if got := a.creates(); got != n {
		t.Errorf("%d sandboxes were made for it", got-n)
	}
	if got := a.sh(w, "git status --porcelain; cat loose"); got != "M a.txt\n?? loose\nloose" {
		t.Errorf("after the restore:\n%s", got)
	}
}
