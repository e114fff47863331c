package filesync_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	filesync "github.com/parawork/parawork/sync"
)

// remoteHarness has a place with a disk of its own: the worktree inside is another folder than the one on the host.
type remoteHarness struct {
	*harness
	t       *testing.T
	dir     string
	repo    string
	host    string // the worktree on the host
	world   *fake.World
	manager *executortest.Managed
	place   *executors.Place
	inside  string // the worktree inside
	cfg     filesync.Config
	stop    func() // ends the service that runs
}

func (r *remoteHarness) Spec(_ context.Context, workspaceID string) (executors.Spec, executors.Kind, error) {
	return executors.Spec{TeamID: r.teamID, WorkspaceID: workspaceID, Root: r.host, Inside: "/work/p"}, fake.Kind, nil
}

// newRemoteHarness makes a repository with files and a place that has a copy of its worktree. tune changes the service's configuration.
func newRemoteHarness(t *testing.T, tune ...func(*filesync.Config)) *remoteHarness {
	t.Helper()
	db := storetest.SQLite(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &remoteHarness{t: t, dir: dir, repo: filepath.Join(dir, "repo"), host: filepath.Join(dir, "wt")}
	put(t, filepath.Join(r.repo, "README.md"), "hello\n")
	put(t, filepath.Join(r.repo, "src/lib.go"), strings.Repeat("line\n", 30))
	put(t, filepath.Join(r.repo, "src/deep/er/old.go"), "old\n")
	put(t, filepath.Join(r.repo, "run.sh"), "#!/bin/sh\n")
	put(t, filepath.Join(r.repo, ".gitignore"), "ignored/\n*.log\n")
	if err := os.Chmod(filepath.Join(r.repo, "run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("README.md", filepath.Join(r.repo, "link")); err != nil {
		t.Fatal(err)
	}
	git(t, r.repo, "init", "-q", "-b", "main")
	git(t, r.repo, "add", "-A")
	git(t, r.repo, "commit", "-qm", "base")
	git(t, r.repo, "worktree", "add", "-q", "-b", "work", r.host)

	r.world = fake.NewWorld(filepath.Join(dir, "world"), nil)
	ex := fake.New(r.world)
	ex.Set(fake.Knobs{OwnDisk: true})
	r.manager = executortest.NewManager(executortest.ManagerConfig{Executors: []executors.Executor{ex}, Store: store.NewExecutors(db), Workspaces: r})
	r.harness = newHarnessLogging(t, db, r.manager, slog.New(slog.DiscardHandler))
	r.setBase(git(t, r.host, "rev-parse", "HEAD"))
	r.cfg = filesync.Config{Store: r.store, Places: r.manager, Workspaces: r.harness, Events: r.harness, Trees: r, DataDir: filepath.Join(dir, "data"), HomeRoots: []string{".claude", ".claude.json"}, HomeSkip: []string{".claude/statsig"},
		HomeDir: func(string) string { return filepath.Join(dir, "home") }, Log: slog.New(slog.DiscardHandler)}
	for _, fn := range tune {
		fn(&r.cfg)
	}
	r.manager.Attach(executors.Participant{Arriving: func(_ context.Context, a executors.Arrival) error { return r.send(a.Place.Hello.Root) }})
	r.manager.Attach(executors.Participant{Arriving: func(ctx context.Context, a executors.Arrival) error { return r.service.Arrive(ctx, a) }})
	r.manager.Attach(executors.Participant{Live: func(p *executors.Place) { r.service.Follow(p) }})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.manager.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
		r.world.Close()
	})
	r.start()
	t.Cleanup(func() { r.stop() }) // before the manager ends
	if r.place, err = r.manager.Ensure(t.Context(), r.workspaceID); err != nil {
		t.Fatal(err)
	}
	r.inside = r.place.Hello.Root
	return r
}

// send does what the sending of a repository does: the worktree inside is as the one on the host.
func (r *remoteHarness) send(root string) error {
	cmd := exec.Command("sh", "-c", `git clone -q "$1" "$2" && cd "$2" && git checkout -q -B work origin/work &&
		cd "$3" && tar cf - --exclude=./.git . | (cd "$2" && find . -mindepth 1 -maxdepth 1 ! -name .git -exec rm -rf {} + && tar xf -)`, "sh", r.repo, root, r.host)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// start runs a service, as a server does that was started anew. tune changes it before.
func (r *remoteHarness) start(tune ...func(*filesync.Service)) {
	s := filesync.New(r.cfg)
	for _, fn := range tune {
		fn(s)
	}
	r.service = s
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		<-done
	}
	if r.place != nil {
		s.Follow(r.place)
	}
}

func (r *remoteHarness) in(name string) string     { return filepath.Join(r.inside, name) }
func (r *remoteHarness) onHost(name string) string { return filepath.Join(r.host, name) }

// sync brings everything home.
func (r *remoteHarness) sync() {
	r.t.Helper()
	if _, err := r.service.SyncNow(r.t.Context(), r.workspaceID); err != nil {
		r.t.Fatalf("bringing files home: %v", err)
	}
}

func (r *remoteHarness) home() filesync.Home {
	r.t.Helper()
	h, err := r.service.Home(r.t.Context(), r.workspaceID)
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

// listing describes all files below a folder, without .git folders at its root.
func listing(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if rel == ".git" {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		switch {
		case d.IsDir():
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			out[rel] = "link " + target
			return err
		case !d.Type().IsRegular():
			return nil
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		out[rel] = fmt.Sprintf("%v %q", fi.Mode().Perm()&0o100 != 0, b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// same fails unless both worktrees hold the same; except are names only one of them may have.
func (r *remoteHarness) same(except ...string) {
	r.t.Helper()
	in, out := listing(r.t, r.inside), listing(r.t, r.host)
	for _, name := range except {
		delete(in, name)
		delete(out, name)
	}
	for name, what := range in {
		if out[name] != what {
			r.t.Errorf("%q: inside %.80s, on the host %.80s", name, what, out[name])
		}
	}
	for name, what := range out {
		if _, ok := in[name]; !ok {
			r.t.Errorf("%q: on the host alone: %.80s", name, what)
		}
	}
	left, err := filepath.Glob(filepath.Join(r.dir, "data/sync/*/*"))
	if err != nil || len(left) > 0 {
		r.t.Errorf("unfinished files are left: %q %v", left, err)
	}
}

// Worktree answers for workspaces.
func (r *remoteHarness) Worktree(context.Context, string) (string, error) { return r.host, nil }

// Team answers for workspaces.
func (r *remoteHarness) Team(context.Context, string) (string, error) { return r.teamID, nil }

// BaseFiles answers for workspaces.
func (r *remoteHarness) BaseFiles(_ context.Context, _, commit string, paths []string) ([]filesync.BaseFile, error) {
	out, err := r.git("ls-tree", "-r", "-t", "-l", "-z", "--full-tree", commit)
	if err != nil {
		return nil, err
	}
	var files []filesync.BaseFile
	for rec := range strings.SplitSeq(out, "\x00") {
		head, path, ok := strings.Cut(rec, "\t")
		f := strings.Fields(head)
		if !ok || paths != nil && !slices.Contains(paths, path) {
			continue
		}
		size, _ := strconv.ParseInt(f[3], 10, 64)
		files = append(files, filesync.BaseFile{Path: path, Mode: f[0], Size: size, OID: f[2]})
	}
	return files, nil
}

// BaseDiff answers for workspaces.
func (r *remoteHarness) BaseDiff(_ context.Context, _, from, to string) ([]string, error) {
	out, err := r.git("diff-tree", "-r", "-z", "--name-only", "--no-renames", from, to)
	return strings.FieldsFunc(out, func(c rune) bool { return c == 0 }), err
}

// BaseBlobs answers for workspaces.
func (r *remoteHarness) BaseBlobs(_ context.Context, _ string, files []filesync.BaseFile, fn func(filesync.BaseFile, io.Reader) error) error {
	for _, f := range files {
		out, err := r.git("cat-file", "blob", f.OID)
		if err == nil {
			err = fn(f, strings.NewReader(out))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// HostDiff answers for workspaces.
func (r *remoteHarness) HostDiff(_ context.Context, _ string, d filesync.HostDiff, w io.Writer) error {
	_, err := fmt.Fprintf(w, "diff of %s, %s, %d bytes\n", d.Path, d.Mode, d.Size)
	return err
}

func (r *remoteHarness) git(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = r.repo
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	return out.String(), err
}

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return ctx, cancel
}
