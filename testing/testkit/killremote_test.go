package testkit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/testing/testdocker"
	"github.com/parawork/parawork/testing/testkit"
)

// voyage is a workspace that moves between this server, a container and a member's machine while what carries it dies.
type voyage struct {
	*travels
	d      *death
	engine string // the address of the Docker engine
	db     *store.DB
	ws     testkit.Workspace
	at     string // where it is
	n      int    // how often it was worked in
	want   string // what it must show
	since  string // where it was worked in last

	remains bool // what a container that was killed leaves is kept for a while, for who looks for the reason
}

const voyageLook = "git log --format=%s -1; cat draft.txt; git diff --cached --name-only"

func sail(t *testing.T, from string) *voyage {
	t.Helper()
	engine, err := testdocker.Start()
	if err != nil {
		testdocker.Skip(t, err)
	}
	t.Cleanup(engine.Stop)
	// An address of its own, so that the next server listens where this one did and the machine finds it.
	listen := fmt.Sprintf("127.%d.%d.%d:7420", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250))
	h := testkit.Start(t, fmt.Sprintf(`"server":{"listen":%q}`, listen), fmt.Sprintf(`"sandboxing":{"defaultProvider":"local","local":{"enabled":true},"docker":{"host":%q,"image":%q}}`, engine.Host, testdocker.Image),
		`"agents":{"talker":{"command":"/bin/sh","defaultArgs":["-c","echo up; exec cat"],"resume":{"args":["-c","echo again; exec cat"]}}}`)
	v := &voyage{travels: &travels{Instance: h, t: t}, d: &death{Instance: h, t: t}, engine: engine.Host, at: from}
	v.machine = h.Connect("Laptop", "--dangerous")
	v.open()
	v.ws = v.in(from, h.Sample(), "Precious")
	v.d.ws = v.ws
	var s testkit.Session
	h.API("POST", "/workspaces/"+v.ws.ID+"/sessions", map[string]any{"agent": "talker"}, &s)
	return v
}

// open opens the server's storage, beside it.
func (v *voyage) open() {
	v.t.Helper()
	var err error
	v.db, err = store.Open(tenant.All(v.t.Context(), "test"), store.Config{URL: "sqlite", DataDir: v.DataDir()})
	must(v.t, err)
	v.t.Cleanup(func() { _ = v.db.Close() })
}

// work leaves a commit, a branch, a stash, something staged and something that is not.
func (v *voyage) work() {
	v.t.Helper()
	v.n++
	v.sh(v.t, v.ws, fmt.Sprintf(`git config user.name A; git config user.email a@example.com; git reset -q; git stash clear
echo %[1]d > one; git add one; git commit -qm "work %[1]d"; git branch -f side HEAD~1; echo s > one; git stash -q; echo "draft %[1]d" > draft.txt; echo %[1]d > staged; git add staged`, v.n))
	v.want, v.since = fmt.Sprintf("work %[1]d\ndraft %[1]d\nstaged\n", v.n), v.at
}

func (v *voyage) kind() string {
	at := executorOf(v.Instance, v.ws.ID)
	if strings.HasPrefix(at, "runner") {
		return "runner"
	}
	return at
}

// whole: it is in that place, alone, with all of its work, its agent runs once, and nothing is left over elsewhere.
func (v *voyage) whole(after, at string) {
	v.t.Helper()
	m := moved(v.t, v.Instance, v.ws.ID)
	if v.kind() != at {
		v.t.Fatalf("after %s it lives in %s, want %s; the move: %+v", after, v.kind(), at, m)
	}
	v.at = at
	if got := v.sh(v.t, v.ws, voyageLook); got != v.want {
		v.t.Fatalf("after %s, in %s, it has\n%s\nand had\n%s\nthe move: %+v", after, at, got, v.want, m)
	}
	if v.since != "local" && at != "local" { // there stashes and other branches are the project's
		if got := v.sh(v.t, v.ws, "git stash list | wc -l; git rev-parse --verify -q side >/dev/null && echo side || true"); got != "1\nside\n" {
			v.t.Errorf("after %s, in %s, stash and other branch: %q", after, at, got)
		}
	}
	v.Wait("its agent runs, once, after "+after, func() bool {
		if len(v.d.sessions()) == 0 { // it has none
			return true
		}
		n := 0
		for _, s := range v.d.sessions() {
			if !slices.Contains([]string{"exited", "failed", "lost"}, s.State) {
				n++
			}
		}
		return n == 1
	})
	v.clean(after)
}

// clean waits until there is nothing of the workspace beside its one place.
func (v *voyage) clean(after string) {
	v.t.Helper()
	left := ""
	defer func() {
		if left != "" {
			v.t.Logf("left over after %s: %s", after, left)
		}
	}()
	v.Wait("nothing is left over after "+after, func() bool { left = v.leftovers(); return left == "" })
}

// leftovers says what there is of the workspace beside its one place.
func (v *voyage) leftovers() string {
	var out []string
	want := func(what string, got, want int) {
		if got != want {
			out = append(out, fmt.Sprintf("%d %s instead of %d", got, what, want))
		}
	}
	one := func(kind string) int {
		if v.at == kind {
			return 1
		}
		return 0
	}
	want("containers", len(v.containers(!v.remains)), one("docker"))
	for _, what := range []string{"journal", "workspaces", "sandboxes"} {
		found, _ := filepath.Glob(filepath.Join(v.machine.Home, ".parawork", "runner", "*", "*", what, "*"))
		want("in the machine's "+what, len(found), one("runner"))
	}
	for _, pattern := range []string{"boxes/*/new-home-try-*", "bundles/*"} {
		found, _ := filepath.Glob(filepath.Join(v.DataDir(), pattern))
		want(pattern, len(found), 0)
	}
	ctx := tenant.All(v.t.Context(), "test")
	var live, open int
	must(v.t, v.db.QueryRow(ctx, `SELECT COUNT(*) FROM sandboxes WHERE ended_at = 0`).Scan(&live))
	want("sandboxes that have not ended", live, 1)
	must(v.t, v.db.QueryRow(ctx, `SELECT COUNT(*) FROM moves WHERE ended_at = 0`).Scan(&open))
	want("moves under way", open, 0)
	if _, err := os.Stat(filepath.Join(v.DataDir(), "boxes", v.ws.ID, "far")); (err == nil) != (v.at == "runner") {
		out = append(out, fmt.Sprintf("the mark of a far workspace: %v", err))
	}
	return strings.Join(out, ", ")
}

type container struct{ ID string }

func (v *voyage) dockerDo(method, path string, into any) {
	v.t.Helper()
	u, err := url.Parse(v.engine)
	must(v.t, err)
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", u.Path)
	}}}
	r, err := http.NewRequestWithContext(v.t.Context(), method, "http://docker"+path, nil)
	must(v.t, err)
	resp, err := c.Do(r)
	must(v.t, err)
	defer resp.Body.Close()
	if into != nil {
		must(v.t, json.NewDecoder(resp.Body).Decode(into))
	}
}

func (v *voyage) containers(dead bool) (all []container) {
	v.t.Helper()
	if v.engine == "" {
		return nil
	}
	v.dockerDo("GET", fmt.Sprintf("/containers/json?all=%t&filters=", dead)+url.QueryEscape(`{"label":["parawork.workspace=`+v.ws.ID+`"]}`), &all)
	return all
}

// killGuest kills the program beside the agent, wherever the workspace is.
func (v *voyage) killGuest() {
	v.t.Helper()
	if v.at == "docker" {
		for _, c := range v.containers(false) {
			v.dockerDo("POST", "/containers/"+c.ID+"/kill", nil)
		}
		return
	}
	entries, err := os.ReadDir("/proc")
	must(v.t, err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		args := strings.Split(string(line), "\x00")
		if strings.Contains(args[0], "guest") && strings.Contains(string(line), v.machine.Home) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// leg is one move on which the server dies, and the machine's program with it where both is said.
type leg struct {
	at   failpoint.Point
	to   string
	both bool
}

// sailThrough makes the legs. What the next server finds under way may go on or back: a machine is there a moment after it.
func (v *voyage) sailThrough(legs []leg) {
	v.t.Helper()
	for _, l := range legs {
		from := v.at
		v.DieAt(l.at, func() {
			v.machine.Online()
			v.work()
			var refused *testkit.Problem // it may die before it has answered; what it answers is no refusal
			if err := v.Try("POST", "/workspaces/"+v.ws.ID+"/move", v.to(l.to), nil); errors.As(err, &refused) {
				v.t.Fatalf("moving it from %s to %s, to die at %s: %v", from, l.to, l.at, refused)
			}
			v.Dies()
			if l.both {
				v.machine.Kill()
				v.machine.Boot()
			}
		})
		v.machine.Online()
		moved(v.t, v.Instance, v.ws.ID)
		at := v.kind()
		if switched := l.at == failpoint.MoveSwitched || l.at == failpoint.MoveStarted; at != from && (at != l.to || !switched) || switched && at != l.to && l.to != "runner" {
			v.t.Fatalf("after %s from %s to %s it is in %s", l.at, from, l.to, at)
		}
		v.whole(fmt.Sprintf("%s from %s to %s", l.at, from, l.to), at)
		if at != l.to && (l.at == failpoint.MoveSwitched || l.at == failpoint.MoveStarted) { // for the legs that follow
			v.API("POST", "/workspaces/"+v.ws.ID+"/move", v.to(l.to), nil)
			v.whole("moving on to "+l.to, l.to)
		}
	}
	back := "docker"
	if v.at == back {
		back = "local"
	}
	v.API("POST", "/workspaces/"+v.ws.ID+"/move", v.to(back), nil)
	if m := moved(v.t, v.Instance, v.ws.ID); m.State != "done" {
		v.t.Errorf("moving it again: %+v", m)
	}
	v.whole("another move", back)
}

// The server dies in the middle of moves between itself, a container and a member's machine, sometimes with the machine's program: the workspace
// is where it was or where it went, whole, and nothing is left over. With -everyplace at every step of every way, and with guests that die.
func TestKilledOnTheWay(t *testing.T) {
	t.Parallel()
	if !*everyplace {
		v := sail(t, "local") // an engine of its own takes longer than both legs
		v.sailThrough([]leg{{failpoint.MoveSwitched, "runner", true}, {failpoint.MoveEnded, "local", false}})
		return
	}
	var stay []failpoint.Point
	for _, p := range failpoint.OfMoves {
		if p != failpoint.MoveSwitched && p != failpoint.MoveStarted {
			stay = append(stay, p)
		}
	}
	for _, way := range [][2]string{{"docker", "runner"}, {"local", "runner"}, {"local", "docker"}} {
		for _, both := range []bool{false, true} {
			if both && way[1] != "runner" {
				continue
			}
			t.Run(fmt.Sprintf("%s and %s, both %v", way[0], way[1], both), func(t *testing.T) {
				t.Parallel()
				var legs []leg
				for _, to := range []string{way[1], way[0]} {
					for _, p := range stay {
						legs = append(legs, leg{p, to, both})
					}
					legs = append(legs, leg{failpoint.MoveSwitched, to, both})
				}
				legs = append(legs, leg{failpoint.MoveStored, way[1], both}, leg{failpoint.MoveStarted, way[1], both}, leg{failpoint.MoveStored, way[0], both}, leg{failpoint.MoveStarted, way[0], both})
				sail(t, way[0]).sailThrough(legs)
			})
		}
	}
	t.Run("guests", func(t *testing.T) { t.Parallel(); guestsDie(t) })
}

// guestsDie kills the guest, and then the machine's program, in the middle of moves and of a restore.
func guestsDie(t *testing.T) {
	v := sail(t, "docker")
	v.remains = true
	v.work()
	other := map[string]string{"docker": "runner", "runner": "docker"}
	for _, who := range []string{"guest", "machine"} {
		for _, step := range []string{"keep", "try", "stop", "home", "switch", "start", "keep", "try", "stop", "home", "switch", "start"} {
			to := other[v.at]
			v.API("POST", "/workspaces/"+v.ws.ID+"/move", v.to(to), nil)
			v.Wait("the move comes to "+step, func() bool {
				m, _ := lastMove(v.Instance, v.ws.ID)
				return m.State != "running" || slices.ContainsFunc(m.Steps, func(s struct{ Name, State, Detail string }) bool { return s.Name == step && s.State != "pending" })
			})
			if who == "guest" {
				v.killGuest()
			} else {
				v.machine.Kill()
				v.machine.Boot()
			}
			v.machine.Online()
			m := moved(t, v.Instance, v.ws.ID)
			t.Logf("%s killed at %s on the way from %s to %s: %s %s", who, step, v.at, to, m.State, m.Reason)
			if v.Try("POST", "/workspaces/"+v.ws.ID+"/exec", map[string]any{"command": "true"}, nil) != nil {
				v.Wait("it can be worked in", func() bool {
					return v.Try("POST", "/workspaces/"+v.ws.ID+"/exec", map[string]any{"command": "true", "timeout_ms": 10000}, nil) == nil
				})
			}
			v.at = v.kind()
			if (m.State == "done") != (v.at == to) {
				t.Fatalf("it is in %s, the move says %+v", v.at, m)
			}
			if got := v.sh(t, v.ws, voyageLook); got != v.want {
				t.Fatalf("%s killed at %s: in %s it has\n%s\nand had\n%s", who, step, v.at, got, v.want)
			}
			v.clean(fmt.Sprintf("%s was killed at %s", who, step))
			v.work()
		}
		v.restore(who)
	}
}

// restore kills somebody in the middle of a restore, which then can be done again.
func (v *voyage) restore(who string) {
	v.t.Helper()
	if v.at != "runner" {
		v.API("POST", "/workspaces/"+v.ws.ID+"/move", v.to("runner"), nil)
		if m := moved(v.t, v.Instance, v.ws.ID); m.State != "done" {
			v.t.Fatalf("to the machine: %+v", m)
		}
		v.at = "runner"
	}
	v.sh(v.t, v.ws, "mkdir -p many; for i in $(seq 300); do echo $i > many/$i; done")
	var s struct{ ID string }
	v.API("POST", "/workspaces/"+v.ws.ID+"/snapshots", map[string]any{"title": "good"}, &s)
	v.sh(v.t, v.ws, "rm -r many; mkdir many; for i in $(seq 300); do echo bad > many/$i; done")
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = v.Try("POST", "/snapshots/"+s.ID+"/restore", map[string]any{"into": "same"}, nil)
	}()
	v.Wait("some files are restored", func() bool {
		found, _ := filepath.Glob(filepath.Join(v.machine.Home, ".parawork", "runner", "*", "*", "workspaces", "*", "many", "1*"))
		for _, f := range found {
			if b, _ := os.ReadFile(f); string(b) != "bad\n" {
				return true
			}
		}
		select {
		case <-over:
			return true
		default:
			return false
		}
	})
	if who == "guest" {
		v.killGuest()
	} else {
		v.machine.Kill()
		v.machine.Boot()
	}
	<-over
	v.machine.Online()
	v.Wait("it can be restored again", func() bool {
		return v.Try("POST", "/snapshots/"+s.ID+"/restore", map[string]any{"into": "same"}, nil) == nil
	})
	if got := v.sh(v.t, v.ws, "cat $(seq -f many/%g 300) | tr '\\n' ' '; ls many | wc -l"); !strings.HasPrefix(got, "1 2 3 ") || !strings.HasSuffix(got, "300 300\n") {
		v.t.Errorf("restored after %s was killed: %q", who, got)
	}
	v.sh(v.t, v.ws, "rm -r many")
}

// A machine that goes in the middle of a move away from it: the workspace stays there, with what was done last, and can be moved once the machine
// is back.
func TestAMachineGoesInTheMiddleOfAMove(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t, bothPlaces)
	v := &voyage{travels: &travels{Instance: h, t: t}, d: &death{Instance: h, t: t}, at: "runner"}
	v.machine = h.Connect("Laptop", "--dangerous")
	v.open()
	v.ws = h.WorkspaceOn(v.machine, h.Sample(), "Precious")
	v.d.ws = v.ws
	v.work()
	h.API("POST", "/workspaces/"+v.ws.ID+"/move", v.to("local"), nil)
	h.Wait("the new place is tried", func() bool {
		m, _ := lastMove(h, v.ws.ID)
		return m.State != "running" || slices.ContainsFunc(m.Steps, func(s struct{ Name, State, Detail string }) bool { return s.Name == "try" && s.State != "pending" })
	})
	v.machine.Kill()
	if m := moved(t, h, v.ws.ID); m.State != "failed" || v.kind() != "runner" {
		t.Errorf("it lives in %s after %+v", v.kind(), m)
	}
	v.machine.Boot()
	v.machine.Online()
	v.whole("its machine went", "runner")
	h.API("POST", "/workspaces/"+v.ws.ID+"/move", v.to("local"), nil)
	v.whole("its machine is back", "local")
}
