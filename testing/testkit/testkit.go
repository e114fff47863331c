// Package testkit boots the whole instance for tests: the real server binary, built once with the race detector, on an empty
// data folder, with an owner, a team and clients of the API and the terminal socket. It knows the product only from outside.
package testkit

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/testing/testlink"
)

// Deadline bounds every wait of a test. It is generous: a loaded machine is slow, a hang is for ever.
const Deadline = 2 * time.Minute

// Local has the workspaces of an instance live on the server itself, without isolation: for tests of what that means, and for those whose
// agents must reach what listens on this machine.
const Local = `"sandboxing":{"defaultProvider":"local"}`

// PlaceEnv names the place workspaces of instances live in that say nothing of places; without it, local.
const PlaceEnv = "PARAWORK_TEST_PLACE"

// A race ends a server or machine at once, and with a code of its own. The second in which a program built with the detector lingers
// before it ends is for races nobody waited for; here goroutines have owners, and instances end often.
const raceOptions = "GORACE=halt_on_error=1 exitcode=66 atexit_sleep_ms=20"

// Password is the owner's.
const Password = "correct horse battery"

var (
	listening = regexp.MustCompile(`listening on (http://\S+)`)
	setupLink = regexp.MustCompile(`/setup#([A-Za-z0-9_-]+)`)
)

// Instance is a running server.
type Instance struct {
	*Client
	Dir   string // everything of this instance; below it data/
	Setup string // the one-time token of the first start, "" once used

	t      testing.TB
	config string
	env    []string // of the server, beside the test's own
	cmd    *exec.Cmd
	lines  *lineLog
	done   chan struct{}
	link   *testlink.Link // between the server and its machines; nil = they share this machine's network
}

// binaries are built once per test process.
type binaries struct {
	once sync.Once
	dir  string
	err  error
}

var built binaries //nolint:gochecknoglobals // a cache of a build, shared by the tests of one process

func server(t testing.TB) string {
	t.Helper()
	built.once.Do(func() {
		root, err := moduleRoot()
		if err != nil {
			built.err = err
			return
		}
		if built.dir, built.err = os.MkdirTemp("", "parawork-testkit-"); built.err != nil {
			return
		}
		built.err = errors.Join(
			build(root, []string{"CGO_ENABLED=0"}, "-o", filepath.Join(built.dir, "parawork-guest"), "./cmd/parawork-guest"),
			build(root, nil, "-race", "-ldflags=-s -w", "-o", filepath.Join(built.dir, "parawork"), "./cmd/parawork"))
	})
	if built.err != nil {
		t.Fatalf("building the server: %v", built.err)
	}
	return filepath.Join(built.dir, "parawork")
}

// Cleanup removes what was built. Call it from TestMain after m.Run.
func Cleanup() {
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
}

func build(root string, env []string, args ...string) error {
	cmd := exec.Command("go", append([]string{"build"}, args...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// Start boots an instance with an owner signed in by token. extra holds further top-level members of config.json as JSON text,
// such as `"database":{"url":"..."}`.
func Start(t testing.TB, extra ...string) *Instance {
	t.Helper()
	h := Bare(t, extra...)
	h.SetUp()
	return h
}

// StartBehind is Start with a server that machines reach through link alone.
func StartBehind(t testing.TB, link *testlink.Link, extra ...string) *Instance {
	t.Helper()
	h := bare(t, link, append(extra, fmt.Sprintf(`"server":{"listen":%q,"allowInsecureHttp":true}`, link.Listen))...)
	h.SetUp()
	return h
}

// With is what an instance has that others have not.
type With struct {
	Env  []string         // of the server, beside the test's own
	Disk func(dir string) // mounts a disk for the data folder
}

// StartWith is Start with what an instance has that others have not.
func StartWith(t testing.TB, w With, extra ...string) *Instance {
	t.Helper()
	h := newInstance(t, nil)
	h.env = w.Env
	if w.Disk != nil {
		if err := os.Mkdir(h.DataDir(), 0o700); err != nil {
			t.Fatal(err)
		}
		w.Disk(h.DataDir())
	}
	h.open(extra)
	h.SetUp()
	return h
}

// Bare boots an instance without a user.
func Bare(t testing.TB, extra ...string) *Instance {
	t.Helper()
	return bare(t, nil, extra...)
}

func bare(t testing.TB, link *testlink.Link, extra ...string) *Instance {
	t.Helper()
	h := newInstance(t, link)
	h.open(extra)
	return h
}

func newInstance(t testing.TB, link *testlink.Link) *Instance {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &Instance{t: t, Dir: dir, Client: &Client{t: t}, link: link}
}

// open writes the instance's config and boots it.
func (h *Instance) open(extra []string) {
	t, dir := h.t, h.Dir
	t.Helper()
	members := append([]string{fmt.Sprintf(`"dataDir":%q`, filepath.Join(dir, "data"))}, extra...)
	all := strings.Join(members, ",")
	if !strings.Contains(all, `"server"`) {
		members = append(members, `"server":{"listen":"127.0.0.1:0"}`)
	}
	if !strings.Contains(all, `"projects"`) {
		members = append(members, fmt.Sprintf(`"projects":{"allowedRoots":[%q],"allowFileUrls":true}`, dir))
	}
	if !strings.Contains(all, `"rateLimits"`) { // a test asks for more in a minute than people do
		members = append(members, `"rateLimits":{"enabled":false}`)
	}
	if !strings.Contains(all, `"sandboxing"`) { // what needs a place that isolates says so
		members = append(members, fmt.Sprintf(`"sandboxing":{"defaultProvider":%q}`, cmp.Or(os.Getenv(PlaceEnv), "local")))
	}
	h.config = filepath.Join(dir, "config.json")
	if err := os.WriteFile(h.config, []byte("{"+strings.Join(members, ",")+"}"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.Boot()
	t.Cleanup(h.close)
}

// Boot starts the server on the instance's data, the first time or after Kill, and waits until it serves.
func (h *Instance) Boot() {
	h.t.Helper()
	h.boot()
}

// DieAt runs do with a server that kills itself, as kill -9 does, at a point do leads it to; then a server without the point
// takes over. What do asked for may fail in any way.
func (h *Instance) DieAt(at failpoint.Point, do func()) {
	h.t.Helper()
	h.DieInTurn([]failpoint.Point{at}, func(failpoint.Point) { do() })
}

// DieInTurn is DieAt at one point after the other: the server that takes over at one is the one that dies at the next. do finds what the death
// before left, and leads to the next one.
func (h *Instance) DieInTurn(points []failpoint.Point, do func(next failpoint.Point)) {
	h.t.Helper()
	h.Terminate()
	for _, at := range points {
		h.boot("PARAWORK_KILL_AT=" + string(at))
		do(at)
		select {
		case <-h.done:
		case <-time.After(Deadline):
			h.t.Fatalf("the server never came to %s:\n%s", at, h.lines)
		}
		if ws, ok := h.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
			h.t.Fatalf("the server ended with %v instead of dying at %s:\n%s", h.cmd.ProcessState, at, h.lines)
		}
	}
	h.boot()
}

func (h *Instance) boot(env ...string) {
	h.t.Helper()
	if !h.launch(env...) {
		return // it came to its point before it listened
	}
	h.Wait("the server serves", func() bool {
		select {
		case <-h.done:
			if len(env) > 0 { // it came to its point at once
				return true
			}
		default:
		}
		return h.Try("GET", "/health", nil, nil) == nil
	})
}

// BootLooking starts the server on data it must not be sure of, so that operators alone may look, and returns why.
func (h *Instance) BootLooking() (why string) {
	h.t.Helper()
	h.launch()
	h.Wait("the server lets operators look", func() bool {
		res, err := http.Get(h.URL + "/api/v1/health")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		var health struct{ Status, Reason string }
		if err := json.NewDecoder(res.Body).Decode(&health); err != nil {
			return false
		}
		why = health.Reason
		return health.Status == "degraded"
	})
	return why
}

// launch starts the server and waits until it listens; false when one that was to die at a point died before.
func (h *Instance) launch(env ...string) bool {
	h.t.Helper()
	bin := server(h.t)
	cmd := exec.Command(bin, "serve", "--config", h.config)
	cmd.Env = append(os.Environ(), "PARAWORK_GUEST="+filepath.Join(built.dir, "parawork-guest"), "HOME="+h.Dir, raceOptions, Ping)
	cmd.Env = append(append(cmd.Env, h.env...), env...)
	r, w, err := os.Pipe()
	if err != nil {
		h.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := h.begin(testlink.Server, cmd); err != nil {
		h.t.Fatal(err)
	}
	_ = w.Close()
	h.cmd, h.lines, h.done = cmd, newLineLog(), make(chan struct{})
	go h.lines.follow(r)
	go func(done chan struct{}) { _ = cmd.Wait(); close(done) }(h.done)
	url, ok := h.lines.find(listening, h.done)
	if !ok && len(env) > 0 {
		return false
	}
	if !ok {
		h.t.Fatalf("the server did not start:\n%s", h.lines)
	}
	h.URL = url
	if h.link != nil {
		h.URL = h.link.Local
	}
	return true
}

// Refuses runs the server on the instance's data, which must not come to serve, and returns what it printed.
func (h *Instance) Refuses() string {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), Deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, server(h.t), "serve", "--config", h.config)
	cmd.Env = append(append(os.Environ(), "PARAWORK_GUEST="+filepath.Join(built.dir, "parawork-guest"), "HOME="+h.Dir, raceOptions), h.env...)
	out, err := cmd.CombinedOutput()
	if err == nil || ctx.Err() != nil {
		h.t.Fatalf("the server did not refuse to start: %v\n%s", err, out)
	}
	return string(out)
}

// begin starts a program at one end of the instance's network.
func (h *Instance) begin(side testlink.Side, cmd *exec.Cmd) error {
	if h.link != nil {
		return h.link.Start(side, cmd)
	}
	return cmd.Start()
}

// SetupToken waits for the one-time token of the first start.
func (h *Instance) SetupToken() string {
	h.t.Helper()
	token, ok := h.lines.find(setupLink, h.done)
	if !ok {
		h.t.Fatalf("no setup link was printed:\n%s", h.lines)
	}
	return token
}

// SetUp makes the owner and the team through the API and keeps a token.
func (h *Instance) SetUp() {
	h.t.Helper()
	h.MakeOwner(h.SetupToken())
}

// NewUser makes a user with the command line, as an operator does, and returns an API token of theirs.
func (h *Instance) NewUser(email, name string, flags ...string) (token string) {
	h.t.Helper()
	args := append([]string{"admin", "create-user", "--config", h.config, "--email", email, "--name", name, "--password-stdin"}, flags...)
	cmd := exec.Command(server(h.t), args...)
	cmd.Env = append(os.Environ(), "HOME="+h.Dir)
	cmd.Stdin = strings.NewReader(Password + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("create-user: %v\n%s", err, out)
	}
	return h.NewToken(email, Password)
}

// Admin runs a command of parawork admin, beside the server, and returns what it printed.
func (h *Instance) Admin(name string, args ...string) string {
	h.t.Helper()
	cmd := exec.Command(server(h.t), append([]string{"admin", name, "--config", h.config}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+h.Dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("admin %s: %v\n%s", name, err, out)
	}
	return string(out)
}

// Kill ends the server at once, as kill -9 does. Guests go on.
func (h *Instance) Kill() {
	h.t.Helper()
	if err := h.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		h.t.Fatal(err)
	}
	<-h.done
}

// Dies waits until the server has ended: for what is done before the next one starts, see DieInTurn.
func (h *Instance) Dies() {
	h.t.Helper()
	select {
	case <-h.done:
	case <-time.After(Deadline):
		h.t.Fatalf("the server does not die:\n%s", h.lines)
	}
}

// Terminate asks the server to stop and waits for it.
func (h *Instance) Terminate() {
	h.t.Helper()
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		h.t.Fatal(err)
	}
	select {
	case <-h.done:
	case <-time.After(Deadline):
		h.t.Fatalf("the server did not stop:\n%s", h.lines)
	}
}

// Pid is the server's process.
func (h *Instance) Pid() int { return h.cmd.Process.Pid }

// Log is what the server printed so far.
func (h *Instance) Log() string { return h.lines.String() }

// DataDir is the server's data folder.
func (h *Instance) DataDir() string { return filepath.Join(h.Dir, "data") }

func (h *Instance) close() {
	select {
	case <-h.done:
	default:
		// Guests outlive their server: every sandbox is taken down, whoever made it.
		var all struct{ Items []struct{ ID string } }
		_ = h.Try("GET", "/teams/"+h.Team+"/workspaces?limit=200", nil, &all)
		for _, ws := range all.Items {
			h.workspaces = append(h.workspaces, ws.ID)
		}
		for _, ws := range h.workspaces {
			_ = h.Try("POST", "/workspaces/"+ws+"/destroy-sandbox", nil, nil)
		}
		_ = h.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-h.done:
		case <-time.After(Deadline):
			_ = h.cmd.Process.Kill()
			<-h.done
			h.t.Errorf("the server had to be killed:\n%s", h.lines)
		}
	}
	if code := h.cmd.ProcessState.ExitCode(); code == 66 || strings.Contains(h.lines.String(), "WARNING: DATA RACE") {
		h.t.Errorf("the race detector found a race in the server:\n%s", h.lines)
	}
	if strings.Contains(h.lines.String(), "does not say whose rows it is about") {
		h.t.Errorf("some work of the server's has no scope of teams (internal/tenant):\n%s", h.lines)
	}
	if h.t.Failed() {
		h.t.Logf("server:\n%s", h.lines)
	}
}

// Wait polls cond until it holds or the deadline has passed: ever more rarely, for each look is work of the server that others wait for.
func (h *Instance) Wait(what string, cond func() bool) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Deadline)
	defer cancel()
	for began := time.Now(); !cond(); {
		select {
		case <-ctx.Done():
			h.t.Fatalf("waited %s for: %s\n%s", Deadline, what, h.lines)
		case <-time.After(min(10*time.Millisecond+time.Since(began)/10, 200*time.Millisecond)):
		}
	}
}

// lineLog keeps a process's output and finds lines in it as they come.
type lineLog struct {
	mu    sync.Mutex
	text  strings.Builder
	grown chan struct{}
}

func newLineLog() *lineLog { return &lineLog{grown: make(chan struct{})} }

func (l *lineLog) follow(r io.ReadCloser) {
	defer r.Close()
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		l.mu.Lock()
		l.text.WriteString(s.Text() + "\n")
		close(l.grown)
		l.grown = make(chan struct{})
		l.mu.Unlock()
	}
}

func (l *lineLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// find waits for a line that matches and returns its first group. false when the process ends or the deadline passes first.
func (l *lineLog) find(re *regexp.Regexp, done <-chan struct{}) (string, bool) {
	deadline := time.After(Deadline)
	for {
		l.mu.Lock()
		m, grown := re.FindStringSubmatch(l.text.String()), l.grown
		l.mu.Unlock()
		if m != nil {
			return m[1], true
		}
		select {
		case <-grown:
		case <-done:
			return "", false
		case <-deadline:
			return "", false
		}
	}
}

// Doctor runs `parawork doctor` over the instance's data and returns what it printed.
func (h *Instance) Doctor(flags ...string) string {
	h.t.Helper()
	cmd := exec.Command(server(h.t), append([]string{"doctor", "--config", h.config}, flags...)...)
	cmd.Env = append(os.Environ(), "HOME="+h.Dir, "PARAWORK_GUEST="+filepath.Join(built.dir, "parawork-guest"))
	out, _ := cmd.CombinedOutput() // it fails over whatever this machine lacks
	return string(out)
}

// AdminWith runs a command of an administrator over the instance's data, with an environment beside its own, and returns what it printed and
// how it ended.
func (h *Instance) AdminWith(env []string, args ...string) (string, error) {
	h.t.Helper()
	cmd := exec.Command(server(h.t), append(append([]string{"admin"}, args...), "--config", h.config)...)
	cmd.Env = append(append(os.Environ(), "HOME="+h.Dir), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
