package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
)

func TestAProjectComesFromAFolderOfAMachine(t *testing.T) {
	t.Parallel()
	h, _, o := wstest.RunnerEnv(t)
	dir := o.FolderRepo(h, "app")
	wstest.Git(t, dir, "tag", "v1")
	wstest.Git(t, dir, "branch", "feature/a")
	p := h.MachineProject(dir)
	if p.State != workspaces.ProjectReady || p.Name != "app" || p.DefaultBranch != "main" || p.Source != dir || p.RunnerID != wstest.Laptop || p.FetchedAt == 0 || p.Progress != "" {
		t.Fatalf("%+v", p)
	}
	main := wstest.Git(t, dir, "rev-parse", "main")
	for _, ref := range []string{"refs/heads/main", "refs/remotes/origin/main", "refs/remotes/origin/feature/a", "refs/tags/v1"} {
		if got := wstest.Git(t, p.GitDir, "rev-parse", ref); got != main {
			t.Errorf("%s is at %s", ref, got)
		}
	}
	wstest.Git(t, p.GitDir, "fsck", "--strict")
	config := string(wstest.Read(t, p.GitDir, "config"))
	if strings.Contains(config, dir) {
		t.Errorf("the server's copy names a folder of the machine: %s", config)
	}
	// New commits come with the next fetch, and nothing else; deleted branches are gone; feature becomes a folder of names.
	wstest.Git(t, dir, "branch", "-D", "-q", "feature/a")
	wstest.Git(t, dir, "branch", "feature")
	wstest.Write(t, dir, "new.txt", "new")
	wstest.Git(t, dir, "add", "-A")
	wstest.Git(t, dir, "-c", "user.name=O", "-c", "user.email=o@localhost", "commit", "-q", "-m", "new")
	b, err := h.S.Ingest.Branches(context.Background(), p.ID, true)
	if err != nil || b.FetchError != "" {
		t.Fatalf("%+v %v", b, err)
	}
	if got := wstest.Git(t, p.GitDir, "for-each-ref", "--format=%(refname)", "refs/remotes"); got != "refs/remotes/origin/feature\nrefs/remotes/origin/main" {
		t.Errorf("%q", got)
	}
	if got, want := wstest.Git(t, p.GitDir, "rev-parse", "origin/main"), wstest.Git(t, dir, "rev-parse", "main"); got != want || o.Sent > 3000 {
		t.Errorf("origin/main is at %s, want %s; %d bytes were sent", got, want, o.Sent)
	}
	if b, err := h.S.Ingest.Branches(context.Background(), p.ID, true); err != nil || b.FetchError != "" { // nothing new
		t.Errorf("%+v %v", b.FetchError, err)
	}
	// A machine that is not there is no reason to forget what is known.
	o.Set(func() { o.Offline = true })
	if b, err := h.S.Ingest.Branches(context.Background(), p.ID, true); err != nil || b.FetchError != "Laptop is offline." || len(b.Items) != 3 {
		t.Errorf("%+v %v", b, err)
	}
}

func TestUnusableMachineFolder(t *testing.T) {
	t.Parallel()
	h, _, o := wstest.RunnerEnv(t)
	for _, n := range []workspaces.NewProject{{Path: "/x"}, {RunnerID: wstest.Laptop}, {RunnerID: wstest.Laptop, Path: "relative"}, {RunnerID: wstest.Laptop, Path: "/a/../b"}, {RunnerID: wstest.Laptop, Path: "/a\nb"}} {
		n.Kind = workspaces.SourceRunner
		if _, err := h.S.Projects.CreateProject(context.Background(), h.Actor, h.Team, n); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", n, err)
		}
	}
	if p := h.MachineProject(h.LongRepo("elsewhere")); p.State != workspaces.ProjectFailed || p.StateReason != "The folder is outside those its owner allows." {
		t.Errorf("%s: %s", p.State, p.StateReason)
	}
	o.Set(func() { o.Offline = true })
	if p := h.MachineProject(o.FolderRepo(h, "app")); p.State != workspaces.ProjectFailed || p.StateReason != "Laptop is offline." {
		t.Errorf("%s: %s", p.State, p.StateReason)
	}
}

// What a machine sends is not trusted.
func TestHostileBundlesAreRefused(t *testing.T) {
	t.Parallel()
	h, _, o := wstest.RunnerEnv(t)
	dir := o.FolderRepo(h, "app")
	p := h.MachineProject(dir)
	before := wstest.Git(t, p.GitDir, "for-each-ref")
	main := wstest.Git(t, dir, "rev-parse", "main")
	var good bytes.Buffer
	wstest.Must(t, o.Folders.Bundle(context.Background(), wire.BundleAsk{Path: dir}, &good))
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
		"a tree":        "# v2 git bundle\n" + wstest.Git(t, dir, "rev-parse", "main^{tree}") + " refs/heads/main\n\n" + pack,
		"many branches": "# v2 git bundle\n" + strings.Repeat(main+" refs/heads/x\n", 100_000) + "\n" + pack,
	} {
		o.Set(func() {
			o.Answer = func(wire.BundleAsk) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
		})
		b, err := h.S.Ingest.Branches(context.Background(), p.ID, true)
		if err != nil || b.FetchError == "" {
			t.Errorf("%s: taken: %v", name, err)
		}
	}
	if after := wstest.Git(t, p.GitDir, "for-each-ref"); after != before {
		t.Errorf("was\n%s\nis\n%s", before, after)
	}
	// Names that lead elsewhere are left out, the others are taken.
	odd := "# v2 git bundle\n"
	for _, ref := range []string{"HEAD", "refs/heads/../../x", "refs/heads/-x", "refs/parawork/base/x", "refs/heads/a.lock", "refs/remotes/origin/y", "refs/heads/good"} {
		odd += main + " " + ref + "\n"
	}
	o.Set(func() {
		o.Answer = func(wire.BundleAsk) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(odd + "\n" + pack)), nil
		}
	})
	if b, err := h.S.Ingest.Branches(context.Background(), p.ID, true); err != nil || b.FetchError != "" {
		t.Errorf("%q %v", b.FetchError, err)
	}
	if got := wstest.Git(t, p.GitDir, "for-each-ref", "--format=%(refname)"); got != "refs/heads/main\nrefs/remotes/origin/good" {
		t.Errorf("%q", got)
	}
	// A machine that falls silent in the middle blocks nobody.
	o.Set(func() {
		o.Answer = func(wire.BundleAsk) (io.ReadCloser, error) {
			return silent{strings.NewReader(good.String()[:good.Len()/2]), make(chan struct{})}, nil
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := h.S.Ingest.Branches(ctx, p.ID, true); !errors.Is(err, context.DeadlineExceeded) {
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

func TestWorkspaceSharesTheFoldersObjects(t *testing.T) {
	t.Parallel()
	h, a, o := wstest.RunnerEnv(t)
	dir := o.FolderRepo(h, "app")
	big := strings.Repeat("a line of a large file that everybody has already\n", 2000)
	for i := range 20 { // what does not pack well
		var b strings.Builder
		for j := range 2000 {
			fmt.Fprintf(&b, "%d\n", i*7919+j*j*104729)
		}
		wstest.Write(t, dir, fmt.Sprintf("data/%d", i), b.String()+big)
	}
	wstest.Write(t, dir, ".env", "SECRET=1")
	wstest.Git(t, dir, "add", "-A")
	wstest.Git(t, dir, "-c", "user.name=O", "-c", "user.email=o@localhost", "commit", "-q", "-m", "data")
	p := h.MachineProject(dir)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	if w.Folder != dir || a.Exec.Specs()[0].Folder != dir {
		t.Fatalf("it borrows from %q, its sandbox from %q", w.Folder, a.Exec.Specs()[0].Folder)
	}
	root := a.Root(w)
	if got := strings.TrimSpace(string(wstest.Read(t, root, ".git/objects/info/alternates"))); got != dir+"/.git/objects" {
		t.Errorf("it borrows %q", got)
	}
	if got := a.Sh(w, "git count-objects -v | grep -E '^(in-pack|count)'"); got != "count: 0\nin-pack: 0" {
		t.Errorf("it was sent %q", got)
	}
	// All of the history is there, and the ignored file, which never passed through the server.
	for cmd, want := range map[string]string{"git status --porcelain": "", "git rev-list --count HEAD": wstest.Git(t, dir, "rev-list", "--count", "main"), "git fsck --strict": "",
		"git log -1 --format=%s": "data", "cat .env": "SECRET=1", "git branch --show-current": w.Branch} {
		if got := a.Sh(w, cmd); got != want {
			t.Errorf("%s: %q, want %q", cmd, got, want)
		}
	}
	if wstest.Exists(w.Path, ".env") {
		t.Error("an ignored file of the machine's is on the server")
	}
	// The owner deletes the branch's history: the work is not affected.
	wstest.Git(t, dir, "reset", "-q", "--hard", "HEAD~1")
	wstest.Git(t, dir, "reflog", "expire", "--expire=now", "--all")
	wstest.Git(t, dir, "gc", "-q", "--prune=now")
	a.Sh(w, "git fsck --strict; echo more > more; git add more; git commit -qm more")
	tip := a.Sh(w, "git rev-parse HEAD")

	// It is fetched, and delivered to the folder.
	d, err := h.S.Transfer.Deliver(context.Background(), h.Actor, w.ID)
	if err != nil || d.Branch != w.Branch || d.Commit != tip || wstest.Git(t, dir, "rev-parse", w.Branch) != tip {
		t.Fatalf("%+v %v", d, err)
	}
	wstest.Git(t, dir, "fsck", "--strict")
	a.End(w)
	if got := wstest.Git(t, p.GitDir, "rev-parse", w.Branch); got != tip {
		t.Errorf("the branch was fetched at %s, want %s", got, tip)
	}
	// The next sandbox shares the objects again; what was delivered to the folder is not sent.
	if got := a.Sh(w, "git count-objects -v | grep -E '^(in-pack|count)'; git rev-parse HEAD; cat more"); got != "count: 0\nin-pack: 0\n"+tip+"\nmore" {
		t.Errorf("%q", got)
	}
	// In another executor it shares nothing.
	a.End(w)
	w, _, err = h.S.Move(context.Background(), h.Actor, w.ID, "here", "")
	if err != nil || w.Folder != "" {
		t.Errorf("%q %v", w.Folder, err)
	}
	if _, err := h.S.Transfer.Deliver(context.Background(), h.Actor, w.ID); fault.CodeOf(err) != "no_runner_folder" {
		t.Errorf("%v", err)
	}
	if _, _, err = h.S.Move(context.Background(), h.Actor, w.ID, "here", dir); fault.CodeOf(err) != "folder_needs_runner" {
		t.Errorf("%v", err)
	}
}

// A folder that lacks the commits the work is based on does not prevent working.
func TestWithoutSharedObjectsEverythingIsSent(t *testing.T) {
	t.Parallel()
	h, a, o := wstest.RunnerEnv(t)
	other := o.FolderRepo(h, "other")
	wstest.Git(t, other, "checkout", "-q", "--orphan", "unrelated")
	wstest.Git(t, other, "-c", "user.name=O", "-c", "user.email=o@localhost", "commit", "-q", "-m", "unrelated")
	wstest.Git(t, other, "branch", "-D", "-q", "main")
	p := h.PathProject(h.LongRepo("app"))
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Folder: other})
	if wstest.Exists(a.Root(w), ".git/objects/info/alternates") {
		t.Error("it borrows what is of no use")
	}
	if got := a.Sh(w, "git log --format=%s; git fsck --strict"); got != "old t" {
		t.Errorf("%q", got)
	}
	// A clone of the same repository, of another age, is useful.
	clone := filepath.Join(o.Dir, "clone")
	wstest.Git(t, o.Dir, "clone", "-q", p.Source, clone)
	wstest.Write(t, p.Source, "later.txt", "later")
	wstest.Git(t, p.Source, "add", "-A")
	wstest.Git(t, p.Source, "-c", "user.name=O", "-c", "user.email=o@localhost", "commit", "-q", "-m", "later")
	w2 := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "two", Folder: clone})
	if got := a.Sh(w2, "cat .git/objects/info/alternates; git log -1 --format=%s; git rev-list --count HEAD; git fsck --strict"); got != clone+"/.git/objects\nlater\n22" {
		t.Errorf("%q", got)
	}
	if n := len(o.Asked); n == 0 || o.Asked[0].WorkspaceID != w.ID {
		t.Errorf("asked %+v", o.Asked)
	}
	if _, err := h.S.Lifecycle.Create(context.Background(), h.Actor, h.Team, workspaces.NewWorkspace{ProjectID: p.ID, Name: "three", Folder: "../x"}); fault.CodeOf(err) != "folder_invalid" {
		t.Errorf("%v", err)
	}
	if _, err := h.S.Lifecycle.Create(context.Background(), h.Actor, h.Team, workspaces.NewWorkspace{ProjectID: p.ID, Name: "three", Executor: "here", Folder: clone}); err == nil {
		_ = err // this harness has no Chooser but the Manager, which accepts any
		t.Error("a place that is no machine has a folder")
	}
}
