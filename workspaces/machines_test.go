package workspaces_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/executors/runner/folder"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
)

const (
	laptop                    = "rnr_laptop"
	laptopKind executors.Kind = executors.Runner + ":" + laptop
)

// owners is a member's own machine: what runs there on the repositories of its owner is the real thing, the way to it is not.
type owners struct {
	*folder.Folders
	t    testing.TB
	dir  string // the folder its owner allows
	away *away

	mu      sync.Mutex
	offline bool
	answer  func(ask wire.BundleAsk) (io.ReadCloser, error) // instead of its own bundles
	asked   []wire.BorrowAsk
	sent    int // bytes of bundles
}

func (o *owners) here() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.offline {
		return fault.New(fault.Unavailable, wire.CodeOffline, "Laptop is offline.")
	}
	return nil
}

func (o *owners) set(fn func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fn()
}

func (o *owners) Bundle(ctx context.Context, id string, ask wire.BundleAsk) (io.ReadCloser, error) {
	if err := o.here(); err != nil {
		return nil, err
	}
	o.mu.Lock()
	answer := o.answer
	o.mu.Unlock()
	if answer != nil {
		return answer(ask)
	}
	var b bytes.Buffer
	if err := o.Folders.Bundle(ctx, ask, &b); err != nil {
		return nil, err
	}
	o.set(func() { o.sent = b.Len() })
	return io.NopCloser(&b), nil
}

func (o *owners) Borrow(ctx context.Context, id string, ask wire.BorrowAsk) (wire.Borrowed, error) {
	if err := o.here(); err != nil {
		return wire.Borrowed{}, err
	}
	o.set(func() { o.asked = append(o.asked, ask) })
	return o.Folders.Borrow(ctx, ask)
}

// place is the sandbox of an id.
func (o *owners) place(sandboxID string) (*executors.Place, workspaces.Workspace) {
	for _, p := range o.away.OfKind(laptopKind) {
		if p.SandboxID == sandboxID {
			w, err := o.away.h.store.Workspace(context.Background(), p.WorkspaceID)
			must(o.t, err)
			return p, w
		}
	}
	return nil, workspaces.Workspace{}
}

func (o *owners) CopyIgnored(ctx context.Context, id string, ask wire.CopyAsk) (wire.Copied, error) {
	p := o.away.arriving(ask.SandboxID)
	files, err := o.Copy(ctx, p.folder, p.root, ask.Patterns)
	return wire.Copied{Files: files}, err
}

func (o *owners) Deliver(ctx context.Context, id string, ask wire.DeliverAsk) (wire.Delivered, error) {
	if err := o.here(); err != nil {
		return wire.Delivered{}, err
	}
	p, w := o.place(ask.SandboxID)
	return o.Folders.Deliver(ctx, folder.Delivery{Path: w.Folder, WorkspaceID: w.ID, Branch: ask.Branch, Run: p.Run})
}

// arrival is what is known of a sandbox while a workspace arrives there.
type arrival struct{ folder, root string }

func (a *away) arriving(sandboxID string) arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.arrivals[sandboxID]
}

// laptopHouse is a house with a member's machine, on which its workspaces live.
func laptopHouse(t testing.TB, change ...func(*workspaces.Config)) (*house, *away, *owners) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	o := &owners{t: t, dir: dir}
	o.Folders, err = folder.New(folder.Config{Dir: t.TempDir(), Allowed: func(path string) error {
		if path != dir && !strings.HasPrefix(path, dir+"/") {
			return fault.New(fault.Forbidden, wire.CodeOutside, "The folder lies outside those its owner allows.")
		}
		return nil
	}})
	must(t, err)
	h, a := farHouseWith(t, func(c *workspaces.Config) {
		c.Machines, c.DefaultExecutor = o, string(laptopKind)
		for _, fn := range change {
			fn(c)
		}
	}, fake.Knobs{OwnDisk: true, Kind: laptopKind})
	o.away = a
	return h, a, o
}

// folderRepo is a repository in a folder of the machine's owner.
func (o *owners) folderRepo(h *house, name string) string {
	o.t.Helper()
	from := h.longRepo(name)
	to := filepath.Join(o.dir, name)
	must(o.t, os.Rename(from, to))
	return to
}

func (h *house) machineProject(dir string) workspaces.Project {
	h.t.Helper()
	p, err := h.s.CreateProject(context.Background(), h.actor, h.team, workspaces.NewProject{Kind: workspaces.SourceRunner, RunnerID: laptop, Path: dir})
	must(h.t, err)
	return h.cloned(p.ID)
}

func TestAProjectComesFromAFolderOfAMachine(t *testing.T) {
	t.Parallel()
	h, _, o := laptopHouse(t)
	dir := o.folderRepo(h, "app")
	git(t, dir, "tag", "v1")
	git(t, dir, "branch", "feature/a")
	p := h.machineProject(dir)
	if p.State != workspaces.ProjectReady || p.Name != "app" || p.DefaultBranch != "main" || p.Source != dir || p.RunnerID != laptop || p.FetchedAt == 0 || p.Progress != "" {
		t.Fatalf("%+v", p)
	}
	main := git(t, dir, "rev-parse", "main")
	for _, ref := range []string{"refs/heads/main", "refs/remotes/origin/main", "refs/remotes/origin/feature/a", "refs/tags/v1"} {
		if got := git(t, p.GitDir, "rev-parse", ref); got != main {
			t.Errorf("%s is at %s", ref, got)
		}
	}
	git(t, p.GitDir, "fsck", "--strict")
	config := string(read(t, p.GitDir, "config"))
	if strings.Contains(config, dir) {
		t.Errorf("the server's copy names a folder of the machine: %s", config)
	}
	// What is new there comes with the next fetch, and no more than that; what went is gone; feature becomes a name of another sort.
	git(t, dir, "branch", "-D", "-q", "feature/a")
	git(t, dir, "branch", "feature")
	write(t, dir, "new.txt", "new")
	git(t, dir, "add", "-A")
	git(t, dir, "-c", "user.name=O", "-c", "user.email=o@localhost", "commit", "-q", "-m", "new")
	b, err := h.s.Branches(context.Background(), p.ID, true)
	if err != nil || b.FetchError != "" {
		t.Fatalf("%+v %v", b, err)
	}
	if got := git(t, p.GitDir, "for-each-ref", "--format=%(refname)", "refs/remotes"); got != "refs/remotes/origin/feature\nrefs/remotes/origin/main" {
		t.Errorf("%q", got)
	}
	if got, want := git(t, p.GitDir, "rev-parse", "origin/main"), git(t, dir, "rev-parse", "main"); got != want || o.sent > 3000 {
		t.Errorf("origin/main is at %s, want %s; %d bytes were sent", got, want, o.sent)
	}
	if b, err := h.s.Branches(context.Background(), p.ID, true); err != nil || b.FetchError != "" { // nothing new
		t.Errorf("%+v %v", b.FetchError, err)
	}
	// A machine that is not there is no reason to forget what is known.
	o.set(func() { o.offline = true })
	if b, err := h.s.Branches(context.Background(), p.ID, true); err != nil || b.FetchError != "Laptop is offline." || len(b.Items) != 3 {
		t.Errorf("%+v %v", b, err)
	}
}

func TestAFolderThatCannotBeHad(t *testing.T) {
	t.Parallel()
	h, _, o := laptopHouse(t)
	for _, n := range []workspaces.NewProject{{Path: "/x"}, {RunnerID: laptop}, {RunnerID: laptop, Path: "relative"}, {RunnerID: laptop, Path: "/a/../b"}, {RunnerID: laptop, Path: "/a\nb"}} {
		n.Kind = workspaces.SourceRunner
		if _, err := h.s.CreateProject(context.Background(), h.actor, h.team, n); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", n, err)
		}
	}
	if p := h.machineProject(h.longRepo("elsewhere")); p.State != workspaces.ProjectFailed || p.StateReason != "The folder lies outside those its owner allows." {
		t.Errorf("%s: %s", p.State, p.StateReason)
	}
	o.set(func() { o.offline = true })
	if p := h.machineProject(o.folderRepo(h, "app")); p.State != workspaces.ProjectFailed || p.StateReason != "Laptop is offline." {
		t.Errorf("%s: %s", p.State, p.StateReason)
	}
}

// What a machine sends is not believed.
func TestHostileBundlesAreRefused(t *testing.T) {
	t.Parallel()
	h, _, o := laptopHouse(t)
	dir := o.folderRepo(h, "app")
	p := h.machineProject(dir)
	before := git(t, p.GitDir, "for-each-ref")
	main := git(t, dir, "rev-parse", "main")
	var good bytes.Buffer
	must(t, o.Folders.Bundle(context.Background(), wire.BundleAsk{Path: dir}, &good))
	_, pack, _ := strings.Cut(good.String(), "\n\n")
	never := strings.Repeat("d", 40)
	for name, text := range map[string]string{
		"nothing":       "",
		"words":         "hello\n\n",
		"no end":        "# v2 git bundle\n" + strings.Repeat("x", 100_000),
		"no branches":   "# v2 git bundle\n\n" + pack,
		"no commit":     "# v2 git bundle\nmain refs/heads/main\n\n" + pack,
		"not there":     "# v2 git bundle\n" + never + " refs/heads/main\n\n" + pack,
		"other format":  "# v3 git bundle\n@object-format=sha256\n" + strings.Repeat("d", 64) + " refs/heads/main\n\n" + pack,
		"odd ability":   "# v3 git bundle\n@filter=blob:none\n" + main + " refs/heads/main\n\n" + pack,
		"cut":           good.String()[:good.Len()-200],
		"changed":       strings.Replace(good.String(), pack, pack[:len(pack)/2]+"x"+pack[len(pack)/2+1:], 1),
		"a tree":        "# v2 git bundle\n" + git(t, dir, "rev-parse", "main^{tree}") + " refs/heads/main\n\n" + pack,
		"many branches": "# v2 git bundle\n" + strings.Repeat(main+" refs/heads/x\n", 100_000) + "\n" + pack,
	} {
		o.set(func() {
			o.answer = func(wire.BundleAsk) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
		})
		b, err := h.s.Branches(context.Background(), p.ID, true)
		if err != nil || b.FetchError == "" {
			t.Errorf("%s: taken: %v", name, err)
		}
	}
	if after := git(t, p.GitDir, "for-each-ref"); after != before {
		t.Errorf("was\n%s\nis\n%s", before, after)
	}
	// Names that lead elsewhere are left out, the others are taken.
	odd := "# v2 git bundle\n"
	for _, ref := range []string{"HEAD", "refs/heads/../../x", "refs/heads/-x", "refs/parawork/base/x", "refs/heads/a.lock", "refs/remotes/origin/y", "refs/heads/good"} {
		odd += main + " " + ref + "\n"
	}
	o.set(func() {
		o.answer = func(wire.BundleAsk) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(odd + "\n" + pack)), nil
		}
	})
	if b, err := h.s.Branches(context.Background(), p.ID, true); err != nil || b.FetchError != "" {
		t.Errorf("%q %v", b.FetchError, err)
	}
	if got := git(t, p.GitDir, "for-each-ref", "--format=%(refname)"); got != "refs/heads/main\nrefs/remotes/origin/good" {
		t.Errorf("%q", got)
	}
	// A machine that falls silent in the middle holds nobody up.
	o.set(func() {
		o.answer = func(wire.BundleAsk) (io.ReadCloser, error) {
			return silent{strings.NewReader(good.String()[:good.Len()/2]), make(chan struct{})}, nil
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := h.s.Branches(ctx, p.ID, true); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if left, _ := filepath.Glob(p.GitDir + "/objects/tmp_objdir*"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// silent says no more after what it has.
type silent struct {
	r      io.Reader
	closed chan struct{}
}

func (s silent) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil {
		<-s.closed
	}
	return n, err
}

func (s silent) Close() error { close(s.closed); return nil }

func TestAWorkspaceBorrowsFromTheFolder(t *testing.T) {
	t.Parallel()
	h, a, o := laptopHouse(t)
	dir := o.folderRepo(h, "app")
	big := strings.Repeat("a line of a large file that everybody has already\n", 2000)
	for i := range 20 { // what does not pack well
		var b strings.Builder
		for j := range 2000 {
			fmt.Fprintf(&b, "%d\n", i*7919+j*j*104729)
		}
		write(t, dir, fmt.Sprintf("data/%d", i), b.String()+big)
	}
	write(t, dir, ".env", "SECRET=1")
	git(t, dir, "add", "-A")
	git(t, dir, "-c", "user.name=O", "-c", "user.email=o@localhost", "commit", "-q", "-m", "data")
	p := h.machineProject(dir)
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	if w.Folder != dir || a.exec.Specs()[0].Folder != dir {
		t.Fatalf("it borrows from %q, its sandbox from %q", w.Folder, a.exec.Specs()[0].Folder)
	}
	root := a.root(w)
	if got := strings.TrimSpace(string(read(t, root, ".git/objects/info/alternates"))); got != dir+"/.git/objects" {
		t.Errorf("it borrows %q", got)
	}
	if got := a.sh(w, "git count-objects -v | grep -E '^(in-pack|count)'"); got != "count: 0\nin-pack: 0" {
		t.Errorf("it was sent %q", got)
	}
	// All of the history is there, and the ignored file, which never came by the server.
	for cmd, want := range map[string]string{"git status --porcelain": "", "git rev-list --count HEAD": git(t, dir, "rev-list", "--count", "main"), "git fsck --strict": "",
		"git log -1 --format=%s": "data", "cat .env": "SECRET=1", "git branch --show-current": w.Branch} {
		if got := a.sh(w, cmd); got != want {
			t.Errorf("%s: %q, want %q", cmd, got, want)
		}
	}
	if exists(w.Path, ".env") {
		t.Error("an ignored file of the machine's is on the server")
	}
	// The owner throws the branch's history away: the work does not notice.
	git(t, dir, "reset", "-q", "--hard", "HEAD~1")
	git(t, dir, "reflog", "expire", "--expire=now", "--all")
	git(t, dir, "gc", "-q", "--prune=now")
	a.sh(w, "git fsck --strict; echo more > more; git add more; git commit -qm more")
	tip := a.sh(w, "git rev-parse HEAD")

	// It comes home, and goes to the folder.
	d, err := h.s.Deliver(context.Background(), h.actor, w.ID)
	if err != nil || d.Branch != w.Branch || d.Commit != tip || git(t, dir, "rev-parse", w.Branch) != tip {
		t.Fatalf("%+v %v", d, err)
	}
	git(t, dir, "fsck", "--strict")
	a.end(w)
	if got := git(t, p.GitDir, "rev-parse", w.Branch); got != tip {
		t.Errorf("the branch came home at %s, want %s", got, tip)
	}
	// The next sandbox borrows again; what the folder got it is not sent.
	if got := a.sh(w, "git count-objects -v | grep -E '^(in-pack|count)'; git rev-parse HEAD; cat more"); got != "count: 0\nin-pack: 0\n"+tip+"\nmore" {
		t.Errorf("%q", got)
	}
	// In another place it borrows nothing.
	a.end(w)
	w, _, err = h.s.Move(context.Background(), h.actor, w.ID, "here", "")
	if err != nil || w.Folder != "" {
		t.Errorf("%q %v", w.Folder, err)
	}
	if _, err := h.s.Deliver(context.Background(), h.actor, w.ID); fault.CodeOf(err) != "no_runner_folder" {
		t.Errorf("%v", err)
	}
	if _, _, err = h.s.Move(context.Background(), h.actor, w.ID, "here", dir); fault.CodeOf(err) != "folder_needs_runner" {
		t.Errorf("%v", err)
	}
}

// A folder that lacks what the work stands on is no reason not to work.
func TestWithoutALoanEverythingIsSent(t *testing.T) {
	t.Parallel()
	h, a, o := laptopHouse(t)
	other := o.folderRepo(h, "other")
	git(t, other, "checkout", "-q", "--orphan", "unrelated")
	git(t, other, "-c", "user.name=O", "-c", "user.email=o@localhost", "commit", "-q", "-m", "unrelated")
	git(t, other, "branch", "-D", "-q", "main")
	p := h.pathProject(h.longRepo("app"))
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Folder: other})
	if exists(a.root(w), ".git/objects/info/alternates") {
		t.Error("it borrows what is of no use")
	}
	if got := a.sh(w, "git log --format=%s; git fsck --strict"); got != "old t" {
		t.Errorf("%q", got)
	}
	// A clone of the same, of another age, is of use.
	clone := filepath.Join(o.dir, "clone")
	git(t, o.dir, "clone", "-q", p.Source, clone)
	write(t, p.Source, "later.txt", "later")
	git(t, p.Source, "add", "-A")
	git(t, p.Source, "-c", "user.name=O", "-c", "user.email=o@localhost", "commit", "-q", "-m", "later")
	w2 := h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "two", Folder: clone})
	if got := a.sh(w2, "cat .git/objects/info/alternates; git log -1 --format=%s; git rev-list --count HEAD; git fsck --strict"); got != clone+"/.git/objects\nlater\n22" {
		t.Errorf("%q", got)
	}
	if n := len(o.asked); n == 0 || o.asked[0].WorkspaceID != w.ID {
		t.Errorf("asked %+v", o.asked)
	}
	if _, err := h.s.Create(context.Background(), h.actor, h.team, workspaces.NewWorkspace{ProjectID: p.ID, Name: "three", Folder: "../x"}); fault.CodeOf(err) != "folder_invalid" {
		t.Errorf("%v", err)
	}
	if _, err := h.s.Create(context.Background(), h.actor, h.team, workspaces.NewWorkspace{ProjectID: p.ID, Name: "three", Executor: "here", Folder: clone}); err == nil {
		_ = err // this house has no Chooser but the Manager, which takes what it is told
		t.Error("a place that is no machine has a folder")
	}
}
