package policy_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
)

// keeper makes one of a file's text.
func keeper(t *testing.T, text string) (*policy.Keeper, string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "runner.json")
	write(t, file, text)
	k, err := policy.New(policy.Config{File: file, Home: dir, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return k, dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	tmp := path + ".new"
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, path); err != nil {
		t.Fatal(err)
	}
}

func entries(t *testing.T, dir string) []policy.Entry {
	t.Helper()
	var out []policy.Entry
	if _, err := policy.Follow(filepath.Join(dir, policy.LogName), policy.Mark{}, func(e policy.Entry) { out = append(out, e) }); err != nil {
		t.Fatal(err)
	}
	return out
}

func process(workspace string, argv ...string) policy.Ask {
	return policy.Ask{Kind: policy.KindProcess, WorkspaceID: workspace, SandboxID: "sb_1", Argv: argv, Command: wire.Command{ID: "c1", User: "Ann", UserID: "usr_1"}}
}

func TestReadOnlyStartsAndWritesNothing(t *testing.T) {
	t.Parallel()
	k, dir := keeper(t, `{"access": "read_only", "folders": [{"path": "~/code"}]}`)
	if err := os.Mkdir(filepath.Join(dir, "code"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{policy.KindSandbox, policy.KindProcess, policy.KindWrite, policy.KindDeliver} {
		if err := k.Check(t.Context(), policy.Ask{Kind: kind, Path: filepath.Join(dir, "code")}); fault.CodeOf(err) != wire.CodeReadOnly {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if err := k.Check(t.Context(), policy.Ask{Kind: policy.KindBundle, Path: filepath.Join(dir, "code")}); err != nil {
		t.Errorf("looking: %v", err)
	}
	if err := k.Check(t.Context(), policy.Ask{Kind: "format_disk"}); fault.CodeOf(err) != wire.CodeRefused {
		t.Errorf("what it does not know: %v", err)
	}
	if all := entries(t, dir); len(all) != 6 || all[0].Decision != "refused" || all[0].Code != wire.CodeReadOnly || all[4].Decision != "allowed" {
		t.Errorf("log: %+v", all)
	}
}

func TestTheFileHoldsAsSoonAsItIsChanged(t *testing.T) {
	t.Parallel()
	k, dir := keeper(t, `{}`)
	changed := 0
	k.OnChange(func() { changed++ })
	if err := k.Check(t.Context(), process("ws_1", "ls")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "runner.json"), `{"access": "read_only"}`)
	if err := k.Check(t.Context(), process("ws_1", "ls")); fault.CodeOf(err) != wire.CodeReadOnly {
		t.Errorf("narrowed: %v", err)
	}
	write(t, filepath.Join(dir, "runner.json"), `{"acess": "full"}`)
	if err := k.Check(t.Context(), process("ws_1", "ls")); fault.CodeOf(err) != wire.CodeRefused {
		t.Errorf("a slip of the pen opened it: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "runner.json")); err != nil {
		t.Fatal(err)
	}
	if err := k.Ready(); fault.CodeOf(err) != wire.CodeRefused {
		t.Errorf("not ready: %v", err)
	}
	if err := k.Check(t.Context(), process("ws_1", "ls")); fault.CodeOf(err) != wire.CodeRefused {
		t.Errorf("removed: %v", err)
	}
	write(t, filepath.Join(dir, "runner.json"), `{}`)
	if err := k.Check(t.Context(), process("ws_1", "ls")); err != nil {
		t.Errorf("fixed: %v", err)
	}
	if changed != 4 {
		t.Errorf("told %d times of 4 changes", changed)
	}
}

func TestTheKillSwitchHoldsOverRestarts(t *testing.T) {
	t.Parallel()
	k, dir := keeper(t, `{}`)
	if err := k.Stop(); err != nil {
		t.Fatal(err)
	}
	again, err := policy.New(policy.Config{Policy: policy.Default(), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []*policy.Keeper{k, again} {
		if err := k.Check(t.Context(), policy.Ask{Kind: policy.KindWrite, Path: "x"}); fault.CodeOf(err) != wire.CodeStopped || !k.Stopped() {
			t.Errorf("stopped, but: %v", err)
		}
	}
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	if err := again.Check(t.Context(), process("ws_1", "ls")); err != nil {
		t.Error(err)
	}
}

func TestQuietHoursBeginNothingNew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Date(2026, 11, 23, 21, 59, 0, 0, time.UTC)
	p := policy.Default()
	p.QuietHours = []policy.Quiet{{From: "22:00", To: "07:00"}}
	k, err := policy.New(policy.Config{Policy: p, Dir: dir, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Check(t.Context(), process("ws_1", "ls")); err != nil {
		t.Error(err)
	}
	now = now.Add(time.Minute)
	if err := k.Check(t.Context(), process("ws_1", "ls")); fault.CodeOf(err) != wire.CodeQuiet || !strings.Contains(err.Error(), "Tue 07:00") {
		t.Errorf("%v", err)
	}
	if err := k.Check(t.Context(), policy.Ask{Kind: policy.KindWrite, Path: "x"}); err != nil {
		t.Errorf("what runs goes on: %v", err)
	}
	now = now.Add(9 * time.Hour)
	if err := k.Check(t.Context(), process("ws_1", "ls")); err != nil {
		t.Error(err)
	}
}

// asked starts a check and returns its question and its end.
func asked(t *testing.T, k *policy.Keeper, a policy.Ask) (policy.Question, <-chan error) {
	t.Helper()
	had := make(chan policy.Question, 1)
	var before = len(k.Questions())
	end := make(chan error, 1)
	go func() { end <- k.Check(t.Context(), a) }()
	synctest.Wait()
	qs := k.Questions()
	if len(qs) != before+1 {
		t.Fatalf("%d questions wait", len(qs))
	}
	had <- qs[len(qs)-1]
	return <-had, end
}

func TestTheOwnerIsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, dir := keeper(t, `{"access": "ask"}`)
		var reported []policy.Question
		k.OnQuestion(func(q policy.Question) { reported = append(reported, q) })

		q, end := asked(t, k, process("ws_1", "rm", "-rf", "x\x1b[2J"))
		if q.User != "Ann" || strings.ContainsRune(q.Text, 0x1b) || !strings.Contains(q.Text, "rm -rf x[2J") || q.WorkspaceID != "ws_1" {
			t.Errorf("%+v", q)
		}
		if err := k.Answer(q.ID, policy.No); err != nil {
			t.Fatal(err)
		}
		if err := <-end; fault.CodeOf(err) != wire.CodeRefused {
			t.Errorf("no: %v", err)
		}
		if err := k.Answer(q.ID, policy.Yes); fault.KindOf(err) != fault.NotFound {
			t.Errorf("answered twice: %v", err)
		}

		q, end = asked(t, k, process("ws_1", "make"))
		if err := k.Answer(q.ID, policy.Yes); err != nil {
			t.Fatal(err)
		}
		if err := <-end; err != nil {
			t.Errorf("yes: %v", err)
		}

		q, end = asked(t, k, process("ws_1", "make")) // a yes is for once
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if err := <-end; fault.CodeOf(err) != wire.CodeRefused || !strings.Contains(err.Error(), "10 minutes") {
			t.Errorf("late: %v", err)
		}

		q, end = asked(t, k, process("ws_1", "make"))
		_, other := asked(t, k, process("ws_1", "make", "test"))
		_, third := asked(t, k, process("ws_2", "make"))
		if err := k.Answer(q.ID, policy.Always); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(<-end, <-other, k.Check(t.Context(), process("ws_1", "make", "install"))); err != nil {
			t.Errorf("always: %v", err)
		}
		if qs := k.Questions(); len(qs) != 1 || qs[0].WorkspaceID != "ws_2" {
			t.Errorf("another workspace's: %+v", qs)
		}
		if err := k.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := <-third; err == nil {
			t.Error("the kill switch left a question to a yes")
		}
		var answers []string
		for _, q := range reported {
			if q.Answer != "" {
				answers = append(answers, q.Answer)
			}
		}
		if got := strings.Join(answers, " "); got != "no yes late yes yes late" {
			t.Errorf("told %q", got)
		}
		var logged []string
		for _, e := range entries(t, dir) {
			logged = append(logged, e.Decision+":"+e.Answer)
		}
		if len(logged) != 7 || logged[0] != "refused:no" || logged[1] != "allowed:yes" || logged[2] != "refused:late" {
			t.Errorf("log %q", logged)
		}
	})
}

func TestAnAnswerCountsForWhoComesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, _ := keeper(t, `{"access": "ask"}`)
		run, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- k.Run(run) }()

		ctx, cut := context.WithCancel(t.Context())
		end := make(chan error, 1)
		a := policy.Ask{Kind: policy.KindSandbox, SandboxID: "sb_1", WorkspaceID: "ws_1"}
		go func() { end <- k.Check(ctx, a) }()
		synctest.Wait()
		cut()
		if err := <-end; fault.CodeOf(err) != wire.CodeRefused {
			t.Errorf("%v", err)
		}
		qs := k.Questions()
		if len(qs) != 1 {
			t.Fatalf("the question is gone with the connection: %+v", qs)
		}
		again := make(chan error, 1)
		go func() { again <- k.Check(t.Context(), a) }()
		synctest.Wait()
		if len(k.Questions()) != 1 {
			t.Error("the owner is asked twice for one sandbox")
		}
		if err := k.Answer(qs[0].ID, policy.Yes); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(<-again, k.Check(t.Context(), a)); err != nil {
			t.Error(err)
		}

		// One nobody waits for ends by itself.
		ctx, cut = context.WithCancel(t.Context())
		go func() { end <- k.Check(ctx, process("ws_1", "ls")) }()
		synctest.Wait()
		cut()
		<-end
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if qs := k.Questions(); len(qs) != 0 {
			t.Errorf("%+v", qs)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestAServerCannotBuryItsOwnerInQuestions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, _ := keeper(t, `{"access": "ask"}`)
		ctx, cancel := context.WithCancel(t.Context())
		ends := make(chan error, 200)
		for range 200 {
			go func() { ends <- k.Check(ctx, process("ws_1", "true")) }()
		}
		synctest.Wait()
		if n := len(k.Questions()); n != 64 {
			t.Errorf("%d questions wait", n)
		}
		for range 200 - 64 {
			if err := <-ends; fault.KindOf(err) != fault.RateLimited {
				t.Errorf("%v", err)
			}
		}
		cancel()
		for range 64 {
			<-ends
		}
	})
}

func TestFoldersOutsideAreRefused(t *testing.T) {
	t.Parallel()
	k, dir := keeper(t, `{"folders": [{"path": "~/code"}, {"path": "~/code/secret", "access": "read_only", "name": "Secret"}, {"path": "~/gone"}]}`)
	for _, d := range []string{"code/app/.git", "code/app/sub", "code/.hidden", "code/secret", "code-other", "private/.git"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "code/app/.git/HEAD"), "ref: refs/heads/fix/it\n")
	write(t, filepath.Join(dir, "private/.git/HEAD"), "ref: refs/heads/main\n")
	write(t, filepath.Join(dir, "code/file"), "")
	for link, to := range map[string]string{"code/out": "../private", "code/in": "app", "code/abs": filepath.Join(dir, "private"), "code/loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"private", "code-other", "code/out", "code/abs", "code/loop", "code/../private", "code/.hidden", "code/app/.git", "code/file", "code/none", "gone", "."} {
		if f, err := k.Folder(dir + "/" + path); fault.CodeOf(err) != wire.CodeOutside {
			t.Errorf("%s: %+v, %v", path, f, err)
		}
		if r, _, err := k.OpenFolder(dir + "/" + path); err == nil {
			r.Close()
			t.Errorf("%s was opened", path)
		}
		if err := k.Check(t.Context(), policy.Ask{Kind: policy.KindBundle, Path: dir + "/" + path}); fault.CodeOf(err) != wire.CodeOutside {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{"", "code", "x\x00y"} {
		if _, err := k.Folder(path); fault.CodeOf(err) != wire.CodeOutside {
			t.Errorf("%q: %v", path, err)
		}
	}
	f, err := k.Folder(dir + "/code/in")
	if err != nil || f != (wire.Folder{Path: dir + "/code/app", Name: "app", Access: wire.Full, Git: true, Branch: "fix/it"}) {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err := k.Folder(dir + "/code/secret"); err != nil || f.Access != wire.ReadOnly || f.Name != "Secret" {
		t.Errorf("the innermost folder counts: %+v, %v", f, err)
	}
	if err := k.Check(t.Context(), policy.Ask{Kind: policy.KindDeliver, Path: dir + "/code/secret"}); fault.CodeOf(err) != wire.CodeReadOnly {
		t.Errorf("%v", err)
	}
	root, _, err := k.OpenFolder(dir + "/code/app/sub")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := root.Stat("../../../private"); err == nil {
		t.Error("a root leads out of its folder")
	}
	var names []string
	for _, f := range k.Folders() {
		names = append(names, f.Name)
	}
	if got := strings.Join(names, " "); got != "code app Secret" {
		t.Errorf("folders: %s", got)
	}
}

func TestTheLogTurnsAndKeepsToItsSize(t *testing.T) {
	t.Parallel()
	k, dir := keeper(t, `{"log": {"keepMb": 1}}`)
	long := strings.Repeat("x", 1900)
	for range 1000 { // almost 2 MB
		if err := k.Check(t.Context(), process("ws_1", long)); err != nil {
			t.Fatal(err)
		}
	}
	var size int64
	files, err := filepath.Glob(filepath.Join(dir, policy.LogName+"*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		size += st.Size()
		if st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v", f, st.Mode())
		}
	}
	if len(files) != 5 || size > 1<<20 || size < 1<<19 {
		t.Errorf("%d files with %d bytes", len(files), size)
	}
	if all := entries(t, dir); len(all) < 200 || all[len(all)-1].Argv[0] != long {
		t.Errorf("%d entries", len(all))
	}
}

// A page opens many connections to a port at once: the owner answers once for the sandbox's port, and again after an hour.
func TestAPortIsAskedForOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, dir := keeper(t, `{"access": "ask"}`)
		port := func(sandbox string, n int) policy.Ask {
			return policy.Ask{Kind: policy.KindPort, WorkspaceID: "ws_1", SandboxID: sandbox, Port: n, Command: wire.Command{User: "Ann"}}
		}
		q, end := asked(t, k, port("sb_1", 5173))
		if q.Port != 5173 || !strings.Contains(q.Text, "port 5173") || q.User != "Ann" {
			t.Errorf("the question: %+v", q)
		}
		more := make(chan error, 1)
		go func() { more <- k.Check(t.Context(), port("sb_1", 5173)) }()
		synctest.Wait()
		if len(k.Questions()) != 1 {
			t.Errorf("the owner is asked for each connection: %+v", k.Questions())
		}
		if err := k.Answer(q.ID, policy.Yes); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(<-end, <-more, k.Check(t.Context(), port("sb_1", 5173))); err != nil {
			t.Error(err)
		}
		for what, a := range map[string]policy.Ask{"another port": port("sb_1", 5432), "another sandbox": port("sb_2", 5173)} {
			q, end := asked(t, k, a)
			if err := k.Answer(q.ID, policy.No); err != nil {
				t.Fatal(err)
			}
			if err := <-end; fault.CodeOf(err) != wire.CodeRefused {
				t.Errorf("%s: %v", what, err)
			}
		}
		time.Sleep(61 * time.Minute)
		q, end = asked(t, k, port("sb_1", 5173))
		if err := k.Answer(q.ID, policy.No); err != nil {
			t.Fatal(err)
		}
		if err := <-end; fault.CodeOf(err) != wire.CodeRefused {
			t.Errorf("an hour later: %v", err)
		}
		var logged int
		for _, e := range entries(t, dir) {
			if e.Kind != policy.KindPort || e.Port == 0 {
				t.Errorf("the log: %+v", e)
			}
			logged++
		}
		if logged < 4 {
			t.Errorf("the log has %d lines of five answers", logged)
		}
	})
}

// What was allowed without a question counts no more once the owner wants to be asked.
func TestAPortIsAskedForOnceTheOwnerWantsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, dir := keeper(t, `{"access": "full"}`)
		a := policy.Ask{Kind: policy.KindPort, WorkspaceID: "ws_1", SandboxID: "sb_1", Port: 5173}
		for range 3 {
			if err := k.Check(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
		if log := entries(t, dir); len(log) != 1 || log[0].Port != 5173 || log[0].Decision != "allowed" {
			t.Errorf("the log of three connections: %+v", log)
		}
		write(t, filepath.Join(dir, "runner.json"), `{"access": "ask"}`)
		q, end := asked(t, k, a)
		if err := k.Answer(q.ID, policy.No); err != nil {
			t.Fatal(err)
		}
		if err := <-end; fault.CodeOf(err) != wire.CodeRefused {
			t.Error(err)
		}
	})
}
