package filesync_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
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
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	filesync "github.com/parawork/parawork/sync"
)

// realHarness has a Manager, a guest and a git worktree.
type realHarness struct {
	*harness
	world   *fake.World
	manager *executortest.Managed
	root    string
}

// Spec says where the workspace lives.
func (r *realHarness) Spec(_ context.Context, workspaceID string) (executors.Spec, executors.Kind, error) {
	return executors.Spec{TeamID: r.teamID, WorkspaceID: workspaceID, Root: r.root}, fake.New(r.world).Kind(), nil
}

func newRealHarness(t *testing.T) *realHarness {
	t.Helper()
	return newRealHarnessLogging(t, slog.New(slog.DiscardHandler))
}

func newRealHarnessLogging(t *testing.T, log *slog.Logger) *realHarness {
	t.Helper()
	db := storetest.SQLite(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &realHarness{root: filepath.Join(dir, "wt")}
	repo := filepath.Join(dir, "repo")
	put(t, filepath.Join(repo, "README.md"), "hello\n")
	put(t, filepath.Join(repo, "src/lib.go"), strings.Repeat("line\n", 30))
	git(t, repo, "init", "-q", "-b", "main")
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-qm", "base")
	git(t, repo, "worktree", "add", "-q", "-b", "work", r.root)

	r.world = fake.NewWorld(filepath.Join(dir, "world"), log)
	r.manager = executortest.NewManager(executortest.ManagerConfig{Executors: []executors.Executor{fake.New(r.world)},
		Store: store.NewExecutors(db), Workspaces: r, Log: log})
	r.harness = newHarnessLogging(t, db, r.manager, log)
	r.setBase(git(t, r.root, "rev-parse", "HEAD"))
	r.manager.Attach(executors.Participant{Live: r.service.Follow})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.manager.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
		r.world.Close()
	})
	r.run() // ends before the manager
	return r
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=T", "GIT_AUTHOR_EMAIL=t@example.org",
		"GIT_COMMITTER_NAME=T", "GIT_COMMITTER_EMAIL=t@example.org"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r *realHarness) put(name, text string) {
	r.t.Helper()
	put(r.t, filepath.Join(r.root, name), text)
}

func (r *realHarness) diff(path string) string {
	r.t.Helper()
	body, err := r.service.Diff(r.t.Context(), r.workspaceID, path, 3)
	if err != nil {
		r.t.Fatalf("diff of %q: %v", path, err)
	}
	defer body.Close()
	b, err := io.ReadAll(body)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b)
}

func find(items []guest.Change, path string) guest.Change {
	for _, c := range items {
		if c.Path == path {
			return c
		}
	}
	return guest.Change{}
}

func TestARealPlace(t *testing.T) {
	t.Parallel()
	r := newRealHarness(t)
	set, err := r.service.SyncNow(t.Context(), r.workspaceID)
	if err != nil || set.Version != 1 || len(set.Items) != 0 || set.Branch != "work" || set.HeadCommit != r.base || set.Error != "" {
		t.Fatalf("%+v %v", set, err)
	}
	odd := guest.EncodePath("caf\xe9\nx")
	r.put("caf\xe9\nx", "x\n")
	r.put("README.md", "hello\nworld\n")
	eventually(t, "the write is followed", func() bool {
		s := r.changes()
		return find(s.Items, odd).Status == "untracked" && find(s.Items, "README.md").Additions == 1
	})
	if text := r.diff("README.md"); !strings.Contains(text, "+world") {
		t.Errorf("diff: %s", text)
	}
	if text := r.diff(odd); !strings.Contains(text, "+x") {
		t.Errorf("diff: %s", text)
	}
	if text := r.diff("caf\xe9\nx"); !strings.Contains(text, "+x") { // raw bytes, as a script may send them
		t.Errorf("diff: %s", text)
	}
	git(t, r.root, "mv", "src/lib.go", "src/moved.go")
	if set, err = r.service.SyncNow(t.Context(), r.workspaceID); err != nil || find(set.Items, "src/moved.go").OldPath != "src/lib.go" {
		t.Fatalf("%+v %v", set, err)
	}
	if text := r.diff("src/moved.go"); !strings.Contains(text, "rename from src/lib.go") {
		t.Errorf("diff: %s", text)
	}
	if sums, err := r.service.Summaries(t.Context(), r.teamID); err != nil || sums[r.workspaceID].Files != 3 {
		t.Errorf("%+v %v", sums, err)
	}

	// The base moves: what was committed is no difference any more.
	git(t, r.root, "add", "-A")
	git(t, r.root, "commit", "-qm", "all")
	r.setBase(git(t, r.root, "rev-parse", "HEAD"))
	before := r.changes().Version
	if set, err = r.service.SyncNow(t.Context(), r.workspaceID); err != nil || len(set.Items) != 0 || set.Version <= before {
		t.Fatalf("%+v %v", set, err)
	}
	r.put("after.txt", "x\n")
	eventually(t, "the stream follows the new base", func() bool { return find(r.changes().Items, "after.txt").Status == "untracked" })

	// The place is destroyed: the set stays; a new place goes on with the version.
	before = r.changes().Version
	if err := r.manager.Destroy(t.Context(), r.workspaceID); err != nil {
		t.Fatal(err)
	}
	if set := r.changes(); len(set.Items) != 1 || set.Version != before {
		t.Fatalf("%+v", set)
	}
	r.put("more.txt", "x\n")
	if set, err = r.service.SyncNow(t.Context(), r.workspaceID); err != nil || len(set.Items) != 2 || set.Version <= before {
		t.Fatalf("%+v %v", set, err)
	}
	eventually(t, "the last version is published", func() bool {
		e := r.published()
		return len(e) > 0 && e[len(e)-1].Version == r.changes().Version
	})
}

// carefully tries what writes, renames and removes only what somebody saw.
func carefully(t *testing.T, s *filesync.Service, workspaceID string) {
	t.Helper()
	ctx := t.Context()
	put := func(path, text, ifMatch string, mode uint32) (guest.FileInfo, error) {
		return s.Put(ctx, workspaceID, path, strings.NewReader(text), ifMatch, mode)
	}
	info, err := put("careful/a.sh", "1", "", 0o755)
	if err != nil || info.Mode&0o100 == 0 {
		t.Fatalf("%+v %v", info, err)
	}
	if _, err := put("careful/a.sh", "2", "", 0); fault.CodeOf(err) != "file_exists" {
		t.Errorf("a new file in the place of another: %v", err)
	}
	if again, err := put("careful/a.sh", "2", info.Hash, 0); err != nil || again.Mode&0o100 == 0 {
		t.Errorf("%+v %v", again, err)
	}
	if err := s.RemoveIf(ctx, workspaceID, "careful/a.sh", info.Hash); !fault.Is(err, fault.Precondition) {
		t.Errorf("removing what nobody saw: %v", err)
	}
	if _, err := put("careful/there", "x", "", 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rename(ctx, workspaceID, "careful/a.sh", "careful/there"); fault.CodeOf(err) != "file_exists" {
		t.Errorf("a name that is taken: %v", err)
	}
	info, err = s.Rename(ctx, workspaceID, "careful/a.sh", "careful/deep/b.sh")
	if err != nil || info.Path != "careful/deep/b.sh" || info.Mode&0o100 == 0 {
		t.Fatalf("%+v %v", info, err)
	}
	if _, err := s.Stat(ctx, workspaceID, "careful/a.sh"); !fault.Is(err, fault.NotFound) {
		t.Errorf("the old name: %v", err)
	}
	if err := s.RemoveIf(ctx, workspaceID, "careful/deep/b.sh", info.Hash); err != nil {
		t.Error(err)
	}
}

func TestFilesOfARealPlace(t *testing.T) {
	t.Parallel()
	r := newRealHarness(t)
	ctx := t.Context()
	sum := func(s string) string { h := sha256.Sum256([]byte(s)); return hex.EncodeToString(h[:]) }

	info, err := r.service.Write(ctx, r.workspaceID, "new/deep/file.txt", strings.NewReader("one"), "")
	if err != nil || info.Hash != sum("one") || info.Size != 3 {
		t.Fatalf("%+v %v", info, err)
	}
	body, info, err := r.service.Read(ctx, r.workspaceID, "new/deep/file.txt")
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(body)
	body.Close()
	if err != nil || string(b) != "one" || info.Size != 3 {
		t.Fatalf("%q %+v %v", b, info, err)
	}
	if _, err := r.service.Write(ctx, r.workspaceID, "new/deep/file.txt", strings.NewReader("two"), sum("other")); !fault.Is(err, fault.Precondition) {
		t.Fatalf("a file that moved on: %v", err)
	}
	if _, err := r.service.Write(ctx, r.workspaceID, "new/deep/file.txt", strings.NewReader("two"), `"`+sum("one")+`"`); err != nil {
		t.Fatal(err)
	}
	if _, err := r.service.Write(ctx, r.workspaceID, "x", strings.NewReader("two"), "latest"); !fault.Is(err, fault.Invalid) {
		t.Fatalf("no hash: %v", err)
	}
	eventually(t, "the write is followed", func() bool { return find(r.changes().Items, "new/deep/file.txt").Hash == sum("two") })

	carefully(t, r.service, r.workspaceID)
	odd := guest.EncodePath("\xff name")
	if _, err := r.service.Write(ctx, r.workspaceID, odd, strings.NewReader("z"), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(r.root, "\xff name")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", "."} {
		folder, err := r.service.Tree(ctx, r.workspaceID, dir)
		if err != nil {
			t.Fatal(err)
		}
		names := make(map[string]string)
		for _, e := range folder.Entries {
			names[e.Path] = e.Type
		}
		if names["src"] != "dir" || names["README.md"] != "file" || names[odd] != "file" {
			t.Fatalf("got %v", names)
		}
	}
	if f, err := r.service.Tree(ctx, r.workspaceID, "new/deep"); err != nil || f.Truncated || len(f.Entries) != 1 || f.Entries[0].Path != "new/deep/file.txt" {
		t.Fatalf("%+v %v", f, err)
	}
	if err := r.service.Remove(ctx, r.workspaceID, odd); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.service.Read(ctx, r.workspaceID, odd); !fault.Is(err, fault.NotFound) {
		t.Fatalf("after its removal: %v", err)
	}
	put(t, filepath.Join(filepath.Dir(r.root), "secret"), "secret")
	if err := os.Symlink("../secret", filepath.Join(r.root, "leak")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"../secret", "/etc/passwd", "a/../../secret", "leak", "\x00", ".git", "src/.git/config"} {
		if body, _, err := r.service.Read(ctx, r.workspaceID, path); err == nil {
			b, _ := io.ReadAll(body)
			t.Errorf("%q reads %q", path, b)
		}
		if _, err := r.service.Write(ctx, r.workspaceID, path, strings.NewReader("x"), ""); err == nil && path != "leak" {
			t.Errorf("%q is written", path)
		}
		if path != "leak" {
			if err := r.service.Remove(ctx, r.workspaceID, path); err == nil {
				t.Errorf("%q is removed", path)
			}
			if body, err := r.service.Diff(ctx, r.workspaceID, path, 3); err == nil {
				if b, err := io.ReadAll(body); err == nil {
					t.Errorf("%q diffs as %q", path, b)
				}
				body.Close()
			}
		}
	}
	if b, _ := os.ReadFile(filepath.Join(filepath.Dir(r.root), "secret")); string(b) != "secret" {
		t.Errorf("a file outside holds %q", b)
	}
}

func TestAWorkspaceWithoutABase(t *testing.T) {
	t.Parallel()
	r := newRealHarness(t)
	r.setBase("")
	if _, err := r.service.SyncNow(t.Context(), r.workspaceID); !fault.Is(err, fault.Conflict) {
		t.Fatal(err)
	}
	if _, err := r.service.Diff(t.Context(), r.workspaceID, "x", 3); !fault.Is(err, fault.Conflict) {
		t.Fatal(err)
	}
}

// What is ended on purpose fails nothing.
func TestAPlannedEndIsNoWarning(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(writer(func(b []byte) { mu.Lock(); out.Write(b); mu.Unlock() }), nil))
	r := newRealHarnessLogging(t, log)
	for range 3 {
		if _, err := r.service.SyncNow(t.Context(), r.workspaceID); err != nil {
			t.Fatal(err)
		}
		if err := r.manager.Destroy(t.Context(), r.workspaceID); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if strings.Contains(out.String(), "WARN") {
		t.Errorf("logged:\n%s", out.String())
	}
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) { w(b); return len(b), nil }
