package folder_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner/folder"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
)

// machine is one with an allowed folder, which has a repository.
type machine struct {
	*folder.Folders
	allowed string // what the owner allows
	repo    string
}

func newMachine(t *testing.T) machine {
	t.Helper()
	allowed, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := machine{allowed: allowed, repo: filepath.Join(allowed, "app")}
	m.Folders, err = folder.New(folder.Config{Dir: t.TempDir(), Allowed: func(path string) error {
		if path != allowed && !strings.HasPrefix(path, allowed+"/") || strings.Contains(strings.TrimPrefix(path, allowed), "/.") {
			return fault.New(fault.Forbidden, wire.CodeOutside, "It lies outside.")
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	newRepo(t, m.repo)
	return m
}

func newRepo(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "init", "-q", "-b", "main")
	commit(t, dir, "one.txt", "one")
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := try(dir, args...)
	if err != nil {
		t.Fatalf("git %q in %s: %v\n%s", args, dir, err, out)
	}
	return out
}

func try(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-c", "user.name=Owner", "-c", "user.email=owner@example.org", "-c", "protocol.file.allow=always"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func commit(t *testing.T, dir, name, text string) string {
	t.Helper()
	write(t, filepath.Join(dir, name), text)
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "add "+name)
	return git(t, dir, "rev-parse", "HEAD")
}

func code(t *testing.T, err error, want string) {
	t.Helper()
	if fault.CodeOf(err) != want {
		t.Errorf("code %q (%v), want %q", fault.CodeOf(err), err, want)
	}
}

func TestBundleIsOneGitTakes(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	first := git(t, m.repo, "rev-parse", "HEAD")
	git(t, m.repo, "tag", "-m", "the first", "v1")
	git(t, m.repo, "switch", "-q", "-c", "feature/x")
	tip := commit(t, m.repo, "two.txt", "two")
	var b bytes.Buffer
	if err := m.Bundle(t.Context(), wire.BundleAsk{Path: m.repo}, &b); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(b.String(), "# v2 git bundle\n"+tip+" HEAD\n"+tip+" refs/heads/feature/x\n") {
		t.Errorf("it begins with %.200q", b.String())
	}
	file := filepath.Join(t.TempDir(), "b.bundle")
	write(t, file, b.String())
	copied := t.TempDir()
	git(t, copied, "clone", "-q", "--bare", file, "c.git")
	c := filepath.Join(copied, "c.git")
	if got := git(t, c, "for-each-ref", "--format=%(refname)"); got != "refs/heads/feature/x\nrefs/heads/main\nrefs/tags/v1" {
		t.Errorf("%q", got)
	}
	git(t, c, "fsck", "--strict")

	// What the server has is not sent again; what it says it has and has not, or cannot have from here, counts for nothing.
	more := commit(t, m.repo, "three.txt", strings.Repeat("three\n", 1000))
	b.Reset()
	have := []string{tip, strings.Repeat("a", 40), "--upload-pack=x", git(t, m.repo, "rev-parse", "HEAD^{tree}")}
	if err := m.Bundle(t.Context(), wire.BundleAsk{Path: m.repo, Have: have}, &b); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(b.String(), "# v2 git bundle\n-"+tip+"\n"+more+" HEAD\n") || b.Len() > 2000 {
		t.Errorf("%d bytes, begins with %.200q", b.Len(), b.String())
	}
	write(t, file, b.String())
	git(t, c, "fetch", "-q", file, "+refs/heads/*:refs/remotes/origin/*")
	if got := git(t, c, "rev-parse", "refs/remotes/origin/feature/x"); got != more {
		t.Errorf("%s, want %s", got, more)
	}
	// A bundle of nothing new tells where the branches are.
	b.Reset()
	if err := m.Bundle(t.Context(), wire.BundleAsk{Path: m.repo, Have: []string{more, first}}, &b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), more+" refs/heads/feature/x\n") {
		t.Errorf("%.300q", b.String())
	}
}

func TestCommitsNobodyKeepsAreNotCountedOn(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	lost := commit(t, m.repo, "lost.txt", "lost")
	git(t, m.repo, "reset", "-q", "--hard", "HEAD^")
	main := git(t, m.repo, "rev-parse", "HEAD")
	got, err := m.Lend(t.Context(), wire.LendRequest{WorkspaceID: "ws_1", Path: m.repo, Commits: []string{lost, main}})
	if err != nil || !slices.Equal(got.Commits, []string{main}) {
		t.Fatalf("%+v %v", got, err)
	}
}

func TestWhatIsLentIsKeptAndGivenBack(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	lent := commit(t, m.repo, "two.txt", "two")
	reported, err := m.Lend(t.Context(), wire.LendRequest{WorkspaceID: "ws_1", Path: m.repo})
	if err != nil || !slices.Equal(reported.Tips, []string{lent}) || len(reported.Commits) > 0 {
		t.Fatalf("%+v %v", reported, err)
	}
	if refs := git(t, m.repo, "for-each-ref"); strings.Contains(refs, "parawork") {
		t.Errorf("asking left %s", refs)
	}
	for range 2 { // again, too
		got, err := m.Lend(t.Context(), wire.LendRequest{WorkspaceID: "ws_1", Path: m.repo, Commits: []string{lent}})
		if err != nil || !slices.Equal(got.Commits, []string{lent}) || !slices.Equal(got.Objects, []string{m.repo + "/.git/objects"}) {
			t.Fatalf("%+v %v", got, err)
		}
	}
	mounts, err := m.Objects(t.Context(), m.repo)
	if err != nil || len(mounts) != 1 || !mounts[0].ReadOnly || mounts[0].Source != m.repo+"/.git/objects" {
		t.Errorf("%+v %v", mounts, err)
	}
	// The owner rewrites history and runs git gc: shared objects stay.
	git(t, m.repo, "reset", "-q", "--hard", "HEAD^")
	git(t, m.repo, "reflog", "expire", "--expire=now", "--all")
	git(t, m.repo, "gc", "-q", "--prune=now")
	git(t, m.repo, "cat-file", "-e", lent)
	// A private git dir works on them.
	box := filepath.Join(t.TempDir(), "box")
	git(t, filepath.Dir(box), "init", "-q", box)
	write(t, box+"/.git/objects/info/alternates", mounts[0].Target+"\n")
	git(t, box, "reset", "-q", "--hard", lent)
	for range 2 {
		if err := m.Release(t.Context(), m.repo, "ws_1"); err != nil {
			t.Fatal(err)
		}
	}
	if refs := git(t, m.repo, "for-each-ref"); strings.Contains(refs, "parawork") {
		t.Errorf("left: %s", refs)
	}
	_, err = m.Lend(t.Context(), wire.LendRequest{WorkspaceID: "../../heads", Path: m.repo, Commits: []string{lent}})
	code(t, err, "workspace_id_invalid")
}

func TestAlternatesAreLentToo(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	second := filepath.Join(m.allowed, "second")
	git(t, m.allowed, "clone", "-q", "--shared", m.repo, second)
	mounts, err := m.Objects(t.Context(), second)
	if err != nil || len(mounts) != 2 || mounts[1].Target != m.repo+"/.git/objects" {
		t.Fatalf("%+v %v", mounts, err)
	}
	worktree := filepath.Join(m.allowed, "linked")
	git(t, m.repo, "worktree", "add", "-q", "-b", "linked", worktree)
	if is, branch := m.Look(t.Context(), worktree); !is || branch != "linked" {
		t.Errorf("%v %q", is, branch)
	}
	if is, _ := m.Look(t.Context(), m.allowed); is {
		t.Error("a folder with repositories is none")
	}
}

func TestPartsOfAHistoryAreNotCounted(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	commit(t, m.repo, "two.txt", "two")
	shallow := filepath.Join(m.allowed, "shallow")
	git(t, m.allowed, "clone", "-q", "--depth=1", "file://"+m.repo, shallow)
	code(t, m.Bundle(t.Context(), wire.BundleAsk{Path: shallow}, new(bytes.Buffer)), "folder_shallow")
	b, err := m.Lend(t.Context(), wire.LendRequest{WorkspaceID: "ws_1", Path: shallow})
	if err != nil || b.Reason == "" || len(b.Objects) > 0 {
		t.Errorf("%+v %v", b, err)
	}
	empty := filepath.Join(m.allowed, "empty")
	git(t, m.allowed, "init", "-q", empty)
	code(t, m.Bundle(t.Context(), wire.BundleAsk{Path: empty}, new(bytes.Buffer)), "repository_empty")
}

// A server that is hostile, or a repository that is, leads nowhere else.
func TestNothingOutsideIsReached(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	secret := filepath.Join(t.TempDir(), "secret")
	newRepo(t, secret)
	plant := func(name string, fill func(dir string)) string {
		dir := filepath.Join(m.allowed, name)
		fill(dir)
		return dir
	}
	symlink := func(from, to string) {
		t.Helper()
		if err := os.Symlink(from, to); err != nil {
			t.Fatal(err)
		}
	}
	fresh := func(dir string) string { newRepo(t, dir); return filepath.Join(dir, ".git") }
	for name, path := range map[string]string{
		"named":      secret,
		"hidden":     plant(".hidden", func(dir string) { newRepo(t, dir) }),
		"a git dir":  m.repo + "/.git",
		"in hidden":  plant("leads", func(dir string) { write(t, dir+"/.git", "gitdir: "+m.allowed+"/.hidden/.git\n") }),
		"by dots":    m.repo + "/../../" + filepath.Base(filepath.Dir(secret)) + "/secret",
		"a link":     plant("link", func(dir string) { symlink(secret, dir) }),
		"a git file": plant("gitfile", func(dir string) { write(t, dir+"/.git", "gitdir: "+secret+"/.git\n") }),
		"a git link": plant("gitlink", func(dir string) { _ = os.Mkdir(dir, 0o755); symlink(secret+"/.git", dir+"/.git") }),
		"commondir": plant("commondir", func(dir string) {
			g := fresh(dir)
			write(t, g+"/commondir", secret+"/.git\n")
		}),
		"objects": plant("objects", func(dir string) {
			g := fresh(dir)
			if err := os.Rename(g+"/objects", g+"/old"); err != nil {
				t.Fatal(err)
			}
			symlink(secret+"/.git/objects", g+"/objects")
		}),
		"alternates": plant("alternates", func(dir string) { write(t, fresh(dir)+"/objects/info/alternates", secret+"/.git/objects\n") }),
		"alternates of alternates": plant("alternates2", func(dir string) {
			write(t, fresh(dir)+"/objects/info/alternates", m.allowed+"/alternates/.git/objects\n")
		}),
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			code(t, m.Bundle(t.Context(), wire.BundleAsk{Path: path}, &b), wire.CodeOutside)
			if b.Len() > 0 {
				t.Errorf("sent %d bytes", b.Len())
			}
			_, err := m.Lend(t.Context(), wire.LendRequest{WorkspaceID: "ws_1", Path: path})
			code(t, err, wire.CodeOutside)
			_, err = m.Objects(t.Context(), path)
			code(t, err, wire.CodeOutside)
			_, err = m.Copy(t.Context(), path, t.TempDir(), []string{".env"})
			code(t, err, wire.CodeOutside)
			_, err = m.Deliver(t.Context(), folder.Delivery{Path: path, WorkspaceID: "ws_1", Branch: "x"})
			code(t, err, wire.CodeOutside)
			if is, _ := m.Look(t.Context(), path); is {
				t.Error("looked at")
			}
		})
	}
	// Objects that are something else are shown to nobody.
	odd := plant("odd", func(dir string) {
		g := fresh(dir)
		write(t, m.allowed+"/private/notes.txt", "private")
		if err := os.Rename(g+"/objects", g+"/old"); err != nil {
			t.Fatal(err)
		}
		symlink(m.allowed+"/private", g+"/objects")
	})
	_, err := m.Objects(t.Context(), odd)
	code(t, err, "folder_not_a_repository")
	for _, path := range []string{"", "relative", m.repo + "\x00", m.repo + "\n/etc", "/" + strings.Repeat("x/", 4000)} {
		code(t, m.Bundle(t.Context(), wire.BundleAsk{Path: path}, new(bytes.Buffer)), "folder_invalid")
	}
}

// Nothing a repository is configured with is run.
func TestNothingOfARepositoryRuns(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	fired := filepath.Join(t.TempDir(), "fired")
	script := filepath.Join(m.allowed, "evil.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\ntouch "+fired+"\ncat\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"core.fsmonitor": script, "core.alternateRefsCommand": script, "core.pager": script, "core.sshCommand": script, "diff.external": script,
		"filter.evil.clean": script, "filter.evil.smudge": script, "filter.evil.process": script, "merge.evil.driver": script, "gpg.program": script, "core.hooksPath": m.allowed + "/hooks",
		"uploadpack.packObjectsHook": script, "hook.evil.command": script, "hook.evil.event": "reference-transaction"} {
		git(t, m.repo, "config", k, v)
	}
	write(t, m.repo+"/.git/info/attributes", "* filter=evil diff=evil merge=evil\n")
	for _, dir := range []string{m.allowed + "/hooks/", m.repo + "/.git/hooks/"} {
		for _, h := range []string{"reference-transaction", "post-index-change", "pre-auto-gc", "post-checkout", "update"} {
			write(t, dir+h, "#!/bin/sh\ntouch "+fired+"\n")
			if err := os.Chmod(dir+h, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(t, m.repo+"/.gitignore", "*.env\n")
	write(t, m.repo+"/x.env", "x")
	head := git(t, m.repo, "-c", "core.fsmonitor=false", "rev-parse", "HEAD")
	_ = os.Remove(fired)
	if err := m.Bundle(t.Context(), wire.BundleAsk{Path: m.repo}, new(bytes.Buffer)); err != nil {
		t.Error(err)
	}
	if _, err := m.Lend(t.Context(), wire.LendRequest{WorkspaceID: "ws_1", Path: m.repo, Commits: []string{head}}); err != nil {
		t.Error(err)
	}
	if files, err := m.Copy(t.Context(), m.repo, t.TempDir(), []string{"*.env"}); err != nil || len(files) != 1 {
		t.Errorf("%q %v", files, err)
	}
	w := newWorkspace(t, m)
	commit(t, w.dir, "work.txt", "work")
	if _, err := m.Deliver(t.Context(), w.delivery()); err != nil {
		t.Error(err)
	}
	if err := m.Release(t.Context(), m.repo, "ws_1"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(fired); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something ran: %v", err)
	}
}

func TestIgnoredFilesAreCopied(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	write(t, m.repo+"/.gitignore", ".env\n*.local\nbuild/\n")
	write(t, m.repo+"/.env", "SECRET=1")
	write(t, m.repo+"/web/.env", "WEB=1")
	write(t, m.repo+"/build/out", "big")
	if err := os.Symlink("/etc/passwd", m.repo+"/x.local"); err != nil {
		t.Fatal(err)
	}
	tree := t.TempDir()
	files, err := m.Copy(t.Context(), m.repo, tree, []string{".env", "*.local"})
	slices.Sort(files)
	if err != nil || !slices.Equal(files, []string{".env", "web/.env"}) {
		t.Fatalf("%q %v", files, err)
	}
	_, err = m.Copy(t.Context(), m.repo, tree, []string{"../../*"})
	code(t, err, "pattern_invalid")
}

// workspace stands for a sandbox in which an agent works on a copy of the folder's repository.
type workspace struct {
	m   machine
	dir string
}

func newWorkspace(t *testing.T, m machine) workspace {
	t.Helper()
	w := workspace{m, filepath.Join(t.TempDir(), "tree")}
	git(t, filepath.Dir(w.dir), "clone", "-q", m.repo, w.dir)
	git(t, w.dir, "switch", "-q", "-c", "parawork/fix")
	return w
}

func (w workspace) delivery() folder.Delivery {
	return folder.Delivery{Path: w.m.repo, WorkspaceID: "ws_1", Branch: "parawork/fix", Run: w.run}
}

func (w workspace) run(ctx context.Context, c executors.SandboxCommand) (executors.SandboxResult, error) {
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir = w.dir
	cmd.Env = os.Environ()
	for k, v := range c.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	var out, words bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(c.Stdin), &out, &words
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	err := cmd.Run()
	res := executors.SandboxResult{Stdout: out.Bytes(), Stderr: words.Bytes()}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		res.ExitCode, err = exit.ExitCode(), nil
	}
	return res, err
}

func TestABranchIsDelivered(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	w := newWorkspace(t, m)
	status := git(t, m.repo, "status", "--porcelain")
	first := commit(t, w.dir, "work.txt", "work")
	deliver := func(branch, want string) {
		t.Helper()
		got, err := m.Deliver(t.Context(), w.delivery())
		if err != nil || got.Branch != branch || got.Commit != want {
			t.Fatalf("%+v %v, want %s at %s", got, err, branch, want)
		}
		if at := git(t, m.repo, "rev-parse", "refs/heads/"+branch); at != want {
			t.Errorf("%s is at %s, want %s", branch, at, want)
		}
	}
	deliver("parawork/fix", first)
	deliver("parawork/fix", first) // again
	// It goes on, also where the agent rewrote it: nobody else had touched it.
	git(t, w.dir, "commit", "-q", "--amend", "-m", "better")
	second := git(t, w.dir, "rev-parse", "HEAD")
	deliver("parawork/fix", second)
	// The owner works on it: theirs stays, and the work lies beside it.
	git(t, m.repo, "branch", "-f", "parawork/fix", git(t, m.repo, "commit-tree", "-p", second, "-m", "owner's", second+"^{tree}"))
	owners := git(t, m.repo, "rev-parse", "parawork/fix")
	third := commit(t, w.dir, "more.txt", "more")
	deliver("parawork/fix-2", third)
	if at := git(t, m.repo, "rev-parse", "parawork/fix"); at != owners {
		t.Errorf("the owner's work is at %s, was at %s", at, owners)
	}
	// The owner has it checked out: their files stay as they are.
	git(t, m.repo, "switch", "-q", "parawork/fix-2")
	fourth := commit(t, w.dir, "again.txt", "again")
	deliver("parawork/fix-3", fourth)
	if now := git(t, m.repo, "status", "--porcelain"); now != status {
		t.Errorf("the owner's files: %q", now)
	}
	git(t, m.repo, "fsck", "--strict", "--no-dangling")
	if err := m.Release(t.Context(), m.repo, "ws_1"); err != nil {
		t.Fatal(err)
	}
	if at := git(t, m.repo, "rev-parse", "parawork/fix-3"); at != fourth {
		t.Errorf("what was delivered is gone: %s", at)
	}
	// It is still known as the workspace's, whose next sandbox rewrites it; what the owner has taken over is not.
	if marks := git(t, m.repo, "for-each-ref", "--format=%(refname)", "refs/parawork"); marks != "refs/parawork/delivered/ws_1/parawork/fix-2\nrefs/parawork/delivered/ws_1/parawork/fix-3" {
		t.Errorf("marks: %q", marks)
	}
	git(t, m.repo, "switch", "-q", "main")
	git(t, m.repo, "branch", "-q", "-D", "parawork/fix-2")
	git(t, w.dir, "commit", "-q", "--amend", "-m", "rewritten")
	fifth := git(t, w.dir, "rev-parse", "HEAD")
	deliver("parawork/fix-2", fifth) // the first free name
	git(t, m.repo, "branch", "-q", "-D", "parawork/fix-2", "parawork/fix-3", "parawork/fix")
	if err := m.Release(t.Context(), m.repo, "ws_1"); err != nil {
		t.Fatal(err)
	}
	if marks := git(t, m.repo, "for-each-ref", "refs/parawork"); marks != "" {
		t.Errorf("marks: %q", marks)
	}
}

func TestHostileWorkIsNotDelivered(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	w := newWorkspace(t, m)
	before := git(t, m.repo, "for-each-ref")
	// A tree that names .git, as only a program that means harm makes it.
	blob := git(t, w.dir, "hash-object", "-w", "one.txt")
	cmd := exec.CommandContext(t.Context(), "git", "hash-object", "-t", "tree", "--literally", "-w", "--stdin")
	cmd.Dir = w.dir
	raw := make([]byte, 20)
	for i := range raw {
		var b byte
		for _, c := range []byte(blob[2*i : 2*i+2]) {
			b = b<<4 | byte(strings.IndexByte("0123456789abcdef", c))
		}
		raw[i] = b
	}
	cmd.Stdin = strings.NewReader("100644 .git\x00" + string(raw))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v %s", err, out)
	}
	evil := git(t, w.dir, "commit-tree", "-p", "HEAD", "-m", "evil", strings.TrimSpace(string(out)))
	git(t, w.dir, "update-ref", "refs/heads/parawork/fix", evil)
	_, err = m.Deliver(t.Context(), w.delivery())
	code(t, err, "commits_refused")

	// A sandbox that lies.
	for name, lie := range map[string]func(executors.SandboxCommand) (executors.SandboxResult, error){
		"words": func(executors.SandboxCommand) (executors.SandboxResult, error) {
			return executors.SandboxResult{Stdout: []byte("$(touch x)")}, nil
		},
		"a failure": func(executors.SandboxCommand) (executors.SandboxResult, error) {
			return executors.SandboxResult{ExitCode: 128, Stderr: []byte("fatal: no")}, nil
		},
		"a commit that is not there": func(c executors.SandboxCommand) (executors.SandboxResult, error) {
			if slices.Contains(c.Argv, "rev-parse") {
				return executors.SandboxResult{Stdout: []byte(strings.Repeat("b", 40) + "\n")}, nil
			}
			return w.run(t.Context(), c)
		},
		"no pack": func(c executors.SandboxCommand) (executors.SandboxResult, error) {
			if slices.Contains(c.Argv, "rev-parse") {
				return executors.SandboxResult{Stdout: []byte(strings.Repeat("b", 40) + "\n")}, nil
			}
			if c.Stdout != nil {
				_, _ = c.Stdout.Write([]byte("not a pack at all, not even nearly"))
			}
			return executors.SandboxResult{}, nil
		},
	} {
		d := w.delivery()
		d.Run = func(_ context.Context, c executors.SandboxCommand) (executors.SandboxResult, error) { return lie(c) }
		if _, err := m.Deliver(t.Context(), d); err == nil {
			t.Errorf("%s: delivered", name)
		}
	}
	for _, name := range []string{"", "-d", "a..b", "x.lock", "a b", "HEAD\x00", "refs/../../x"} {
		d := w.delivery()
		d.Branch = name
		_, err := m.Deliver(t.Context(), d)
		code(t, err, "branch_invalid")
	}
	if after := git(t, m.repo, "for-each-ref"); after != before {
		t.Errorf("was:\n%s\nis:\n%s", before, after)
	}
	left, _ := filepath.Glob(m.repo + "/.git/objects/tmp_objdir*")
	if len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
