//go:build linux

package cli_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/hostproc"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/id"
)

func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not said in:\n%s", part, text)
		}
	}
}

func TestConnectLeaveAndComeBack(t *testing.T) {
	t.Parallel()
	one := id.New("sbx")
	s, b := newServer(t), newBox(t)
	line := []string{"--server", s.URL, "--token", s.token(), "--name", "box", "--dangerous"}
	l := b.start(line...)
	s.online()
	l.out.wait(t, "Online")
	has(t, l.out.String(), `as "box"`, "WITHOUT ISOLATION", "access full, for you alone, network host", "runner.json")
	if s.seen[0].Hello.Mode != wire.Direct || s.seen[0].Hello.Network != "host" {
		t.Errorf("enrolled as %+v", s.seen[0].Hello)
	}
	out, code := b.do("status")
	if has(t, out, "online since", "NO ISOLATION", "nothing runs here", "program 1.2.3"); code != 0 {
		t.Errorf("status: %d", code)
	}
	if out, code := b.do(line...); code != 1 || !strings.Contains(out, "already runs (process") {
		t.Errorf("two programs for one machine: %d\n%s", code, out)
	}

	if p := s.make(t.Context(), one); p.Sandbox == nil || p.Sandbox.State != wire.Running {
		t.Fatalf("%+v %+v", p, p.Error)
	}
	guest := guestOf(t, b, one)
	l.signals <- os.Interrupt
	if code := l.end(t); code != 0 {
		t.Errorf("Ctrl-C: %d", code)
	}
	has(t, l.out.String(), "Offline now. 1 sandbox goes on here", "PW-1", "stop --now")
	if !guest.Alive() {
		t.Error("the guest ended with the program")
	}
	select {
	case e := <-s.left:
		if e.Remove || e.Reason != "Its owner ended the program there." {
			t.Errorf("the server got %+v", e)
		}
	case <-time.After(deadline):
		t.Error("the server was not notified")
	}

	for args, want := range map[string]string{
		"--name box":                          "Add --dangerous again",
		"--name other":                        "not connected as",
		"--dangerous --image x":               "Choose one",
		"--token x":                           "needs --server",
		"--network \"a b\" --x":               "flag provided but not defined",
		"--quiet 22 --dangerous":              "22:00-07:00",
		"--access all":                        "full, ask or read_only",
		"--capabilities NET_RAW":              "need docker.root",
		"--root --capabilities cap_sys_admin": "lead out of the container",
		"--packages -x":                       "no name of a package",
	} {
		if out, code := b.do(strings.Fields(args)...); code == 0 || !strings.Contains(out, want) {
			t.Errorf("%s: %d\n%s", args, code, out)
		}
	}

	again := b.start(line...) // the same line: the token is spent, the key is there
	s.online()
	again.out.wait(t, "Online")
	out, _ = b.do("status")
	has(t, out, "PW-1")
	if len(s.seen) != 1 {
		t.Errorf("enrolled %d times", len(s.seen))
	}
	if out, code := b.do("stop"); code != 0 || !strings.Contains(out, "Offline now") {
		t.Errorf("stop: %d\n%s", code, out)
	}
	if code := again.end(t); code != 0 {
		t.Errorf("stopped: %d", code)
	}
	if out, code := b.do("stop", "--now"); code != 0 || !strings.Contains(out, "1 sandbox ended") {
		t.Errorf("the kill switch, without the program: %d\n%s", code, out)
	}
	if guest.Alive() {
		t.Error("the guest outlived the kill switch")
	}
}

// guestOf is the process of a sandbox's guest.
func guestOf(t *testing.T, b *box, sandbox string) hostproc.Identity {
	t.Helper()
	var who hostproc.Identity
	if err := hostproc.ReadRecord(filepath.Join(b.dir(), "sandboxes", sandbox), &who); err != nil {
		t.Fatal(err)
	}
	if !who.Alive() {
		t.Fatal("there is no guest")
	}
	return who
}

func TestTheKillSwitchStaysPulled(t *testing.T) {
	t.Parallel()
	one, two := id.New("sbx"), id.New("sbx")
	s, b := newServer(t), newBox(t)
	l := b.start("--server", s.URL, "--token", s.token(), "--name", "box", "--dangerous")
	if p := s.make(t.Context(), one); p.Sandbox == nil {
		t.Fatalf("%+v %+v", p, p.Error)
	}
	guest := guestOf(t, b, one)
	if out, code := b.do("stop", "--now"); code != 0 || !strings.Contains(out, "1 sandbox ended") {
		t.Errorf("%d\n%s", code, out)
	}
	if code := l.end(t); code != 0 {
		t.Errorf("the program ended with %d: a service would start it again", code)
	}
	if guest.Alive() {
		t.Error("the guest lives")
	}
	out, _ := b.do("status")
	has(t, out, "STOPPED by the kill switch")
	if out, code := b.do("--service", "--dangerous"); code != 0 || !strings.Contains(out, "when you start it by hand") {
		t.Errorf("the system started it again: %d\n%s", code, out)
	}
	again := b.start("--dangerous")
	again.out.wait(t, "started again")
	if p := s.make(t.Context(), two); p.Sandbox == nil {
		t.Errorf("started by hand: %+v", p)
	}
}

func TestTheKillSwitchEndsAProgramThatHangs(t *testing.T) {
	t.Parallel()
	one := id.New("sbx")
	s, b := newServer(t), newBox(t)
	l := b.start("--server", s.URL, "--token", s.token(), "--name", "box", "--dangerous")
	if p := s.make(t.Context(), one); p.Sandbox == nil {
		t.Fatalf("%+v %+v", p, p.Error)
	}
	guest := guestOf(t, b, one)
	l.signals <- os.Interrupt
	l.end(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	hung := exec.Command(self)
	hung.Env = append(os.Environ(), "PARAWORK_TEST_HANG="+b.dir())
	pipe, err := hung.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := hung.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	if line, err := bufio.NewReader(pipe).ReadString('\n'); err != nil || line != "held\n" {
		t.Errorf("%q, %v", line, err)
	}
	go func() { ended <- hung.Wait() }()
	if out, code := b.do("stop", "--now"); code != 0 || !strings.Contains(out, "1 sandbox ended") {
		t.Errorf("%d\n%s", code, out)
		_ = hung.Process.Kill()
	}
	<-ended
	if guest.Alive() {
		t.Error("the guest lives")
	}
}

func TestTheOwnerAnswersAtTheTerminalAndFromAnother(t *testing.T) {
	t.Parallel()
	one, two := id.New("sbx"), id.New("sbx")
	s, b := newServer(t), newBox(t)
	l := b.start("--server", s.URL, "--token", s.token(), "--name", "box", "--dangerous", "--access", "ask")
	s.online()
	question := regexp.MustCompile(`QUESTION (\S+)`)
	answered := make(chan wire.Progress, 1)
	go func() { answered <- s.make(t.Context(), one) }()
	l.out.wait(t, "QUESTION")
	out, _ := b.do("status")
	found := question.FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("no question waits:\n%s", out)
	}
	if out, code := b.do("deny", "none"); code == 0 || !strings.Contains(out, "no open question") {
		t.Errorf("%d\n%s", code, out)
	}
	if out, code := b.do("deny", found[1]); code != 0 {
		t.Errorf("%d\n%s", code, out)
	}
	if p := <-answered; p.Error == nil || p.Error.Code != wire.CodeRefused {
		t.Errorf("denied: %+v", p)
	}
	l.out.wait(t, "Denied")
	go func() { answered <- s.make(t.Context(), two) }()
	l.out.times(t, "QUESTION", 2)
	if _, err := l.typing.Write([]byte("what\ny\n")); err != nil {
		t.Fatal(err)
	}
	if p := <-answered; p.Sandbox == nil {
		t.Errorf("allowed: %+v", p)
	}
	has(t, l.out.String(), "Ann wants to: make a sandbox for PW-1", "Type y, n or a", "Allowed")
	out, code := b.do("log")
	if has(t, out, "REFUSED", "(you: no)", "ALLOWED", "(you: yes)", "for Ann"); code != 0 {
		t.Errorf("%d", code)
	}
	if out, _ := b.do("log", "--refused"); strings.Contains(out, "ALLOWED") || !strings.Contains(out, "(you: no)") {
		t.Errorf("%s", out)
	}
	if _, code := b.do("stop", "--now"); code != 0 {
		t.Error("the kill switch")
	}
}

func TestNothingIsConnectedWhereNothingCanRun(t *testing.T) {
	t.Parallel()
	s, b := newServer(t), newBox(t)
	file := filepath.Join(b.home, "mine.json")
	if err := os.WriteFile(file, []byte(`{"modes": ["docker"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code := b.do("--server", s.URL, "--token", s.token(), "--policy", file)
	if has(t, out, "no way to isolate agents in a sandbox", "Docker: ", "--dangerous", "Nothing was connected"); code != 1 || len(s.seen) != 0 {
		t.Errorf("%d, enrolled %d times", code, len(s.seen))
	}
	if out, code := b.do("--server", s.URL, "--token", s.token(), "--policy", file, "--dangerous"); code == 0 || !strings.Contains(out, "does not list direct") {
		t.Errorf("the owner's file was not asked: %d\n%s", code, out)
	}
	if out, code := b.do("--server", s.URL, "--token", s.token(), "--policy", file, "--mode", "bubblewrap"); code == 0 || !strings.Contains(out, "does not list it") {
		t.Errorf("%d\n%s", code, out)
	}
	if out, code := b.do("--server", s.URL, "--token", s.token(), "--dangerous", "--network", "none"); code == 0 || !strings.Contains(out, "cannot be limited") {
		t.Errorf("a network that cannot be kept: %d\n%s", code, out)
	}
	if len(s.seen) != 0 {
		t.Error("a token was spent")
	}
}

func TestFlagsAreWrittenDownAndTheFileDecidesLater(t *testing.T) {
	t.Parallel()
	one := id.New("sbx")
	s, b := newServer(t), newBox(t)
	code := filepath.Join(b.home, "code")
	if err := os.Mkdir(code, 0o755); err != nil {
		t.Fatal(err)
	}
	l := b.start("--server", s.URL, "--token", s.token(), "--name", "box", "--dangerous", "--folder", code, "--share", "team", "--quiet", "03:00-03:01")
	s.online()
	text, err := os.ReadFile(filepath.Join(b.dir(), "runner.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Share   string
		Folders []struct{ Path string }
	}
	if err := json.Unmarshal(text, &file); err != nil || file.Share != "team" || len(file.Folders) != 1 || file.Folders[0].Path != code {
		t.Errorf("%s, %v", text, err)
	}
	l.signals <- os.Interrupt
	l.end(t)
	if err := os.WriteFile(filepath.Join(b.dir(), "runner.json"), []byte(`{"access": "read_only"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	l = b.start("--dangerous")
	l.out.wait(t, "access read_only, for you alone")
	if p := s.make(t.Context(), one); p.Error == nil || p.Error.Code != wire.CodeReadOnly {
		t.Errorf("%+v %+v", p, p.Error)
	}
}

func TestAMachineThatWasRevokedEnds(t *testing.T) {
	t.Parallel()
	s, b := newServer(t), newBox(t)
	l := b.start("--server", s.URL, "--token", s.token(), "--name", "box", "--dangerous")
	s.online()
	l.signals <- os.Interrupt
	l.end(t)
	s.mu.Lock()
	delete(s.keys, "rnr_1")
	s.mu.Unlock()
	out, code := b.do("--dangerous")
	if has(t, out, "disconnected this machine", "parawork runner remove"); code != 1 {
		t.Errorf("%d", code)
	}
	if out, code := b.do("--service", "--dangerous"); code != 0 {
		t.Errorf("a service would be started again and again: %d\n%s", code, out)
	}
	if out, code := b.do("remove", "--yes"); code != 0 || !strings.Contains(out, "Forgotten") {
		t.Errorf("%d\n%s", code, out)
	}
	if left, err := filepath.Glob(filepath.Join(b.home, ".parawork/runner/*/*")); err != nil || len(left) != 0 {
		t.Errorf("%q, %v", left, err)
	}
	if out, code := b.do("status"); code == 0 || !strings.Contains(out, "not connected") {
		t.Errorf("%d\n%s", code, out)
	}
}

func TestRemoveKeepsUnsyncedWork(t *testing.T) {
	t.Parallel()
	one := id.New("sbx")
	s, b := newServer(t), newBox(t)
	l := b.start("--server", s.URL, "--token", s.token(), "--name", "box", "--dangerous")
	if p := s.make(t.Context(), one); p.Sandbox == nil {
		t.Fatalf("%+v %+v", p, p.Error)
	}
	l.signals <- os.Interrupt
	l.end(t)
	if out, code := b.do("remove", "--yes"); code == 0 || !strings.Contains(out, "--lose-work") {
		t.Errorf("%d\n%s", code, out)
	}
	dir := b.dir()
	if out, code := b.do("remove"); code == 0 || !strings.Contains(out, "--yes") {
		t.Errorf("nobody was asked: %d\n%s", code, out)
	}
	if out, code := b.do("remove", "--yes", "--lose-work"); code != 0 {
		t.Errorf("%d\n%s", code, out)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("its folder is there")
	}
}
