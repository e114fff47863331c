package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/parawork/parawork/executors/runner/tunnel"
	"github.com/parawork/parawork/executors/runner/wire"
)

// onMachines is a server with a local workspace and one on a member's machine, which is this one, behind a way that can be made long and cut.
type onMachines struct {
	*harness
	b         *bench
	dir       string
	way       *way
	program   *exec.Cmd
	here, far string // workspaces
}

// runner compares workspaces on a member's own machine with local ones of the same server, in the same run.
func (b *bench) runner() error {
	if _, err := os.Stat(b.machine); err != nil {
		return fmt.Errorf("the machine's program is missing: %w", err)
	}
	dir := filepath.Join(b.dir, "machines")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	h, err := b.newHarness(dir, `{"defaultProvider":"local"}`)
	if err != nil {
		return err
	}
	m := &onMachines{harness: h, b: b, dir: dir}
	defer m.end()
	if m.way, err = newWay(strings.TrimPrefix(h.url, "http://")); err != nil {
		return err
	}
	if err := m.connect(); err != nil {
		return err
	}
	var failed []error
	for _, one := range []struct {
		name string
		run  func() error
	}{{"at rest", m.rest}, {"workspaces", m.make}, {"commands", m.commands}, {"output", m.output}, {"echo", m.echo}, {"flood", m.flood}, {"catch up", m.catchUp},
		{"a long way", m.longWay}, {"many", m.many}} {
		if err := one.run(); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", one.name, err))
		}
	}
	return errors.Join(failed...)
}

func (m *onMachines) end() {
	for _, ws := range []string{m.here, m.far} {
		if ws != "" {
			_ = m.do("POST", "/workspaces/"+ws+"/destroy-sandbox", nil, nil)
		}
	}
	if m.program != nil {
		stop := exec.Command(m.b.machine, "runner", "stop", "--now")
		stop.Env = m.env()
		_ = stop.Run() // what is still there of its sandboxes ends with it
		_ = m.program.Process.Signal(syscall.SIGTERM)
		_ = m.program.Wait()
	}
	m.stop()
	if m.way != nil {
		m.way.close()
	}
}

func (m *onMachines) env() []string {
	return append(os.Environ(), "HOME="+filepath.Join(m.dir, "home"))
}

// connect starts the machine's program and waits until it is online.
func (m *onMachines) connect() error {
	var made struct{ Token string }
	if err := m.do("POST", "/teams/"+m.team+"/runners", map[string]any{"name": "Bench"}, &made); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(m.dir, "home"), 0o755); err != nil {
		return err
	}
	cmd := exec.Command(m.b.machine, "runner", "--server", "http://"+m.way.address(), "--token", made.Token, "--name", "Bench", "--dangerous")
	cmd.Env = m.env()
	if os.Getenv("BENCH_VERBOSE") != "" {
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	m.program = cmd
	return m.online(1)
}

// machineIDs are those that are online.
func (m *onMachines) machineIDs() ([]string, error) {
	var out []string
	var all struct {
		Items []struct{ ID, State string }
	}
	err := m.do("GET", "/teams/"+m.team+"/runners", nil, &all)
	for _, r := range all.Items {
		if r.State == "online" {
			out = append(out, r.ID)
		}
	}
	return out, err
}

func (m *onMachines) online(n int) error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if ids, err := m.machineIDs(); err != nil || len(ids) == n {
			return err
		}
	}
	return fmt.Errorf("%d machines are not online within a minute", n)
}

// rest is what the machine's program costs while nothing is asked of it.
func (m *onMachines) rest() error {
	pid := m.program.Process.Pid
	time.Sleep(2 * time.Second)
	d := time.Duration(m.b.size(30, 3)) * time.Second
	before := cpu(pid)
	time.Sleep(d)
	used, mem := cpu(pid)-before, rss(pid)
	m.b.figure("machine at rest, memory, MB", f1(float64(mem)/1e6), "-", float64(mem)/25e6, "< 25 MB", mem < 25e6)
	share := used.Seconds() / d.Seconds()
	m.b.figure("machine at rest, share of a core", fmt.Sprintf("%.2f %%", share*100), "-", share/0.002, "< 0.2 %", share < 0.002)
	return nil
}

// make makes the two workspaces.
func (m *onMachines) make() (err error) {
	if m.here, err = m.newWorkspace(m.project, "here"); err != nil {
		return err
	}
	ids, err := m.machineIDs()
	if err != nil {
		return err
	}
	var ws struct {
		ID, State   string
		StateReason string `json:"state_reason"`
	}
	if err := m.do("POST", "/teams/"+m.team+"/workspaces", map[string]any{"project_id": m.project, "name": "far", "executor": "runner", "runner_id": ids[0]}, &ws); err != nil {
		return err
	}
	m.far = ws.ID
	for deadline := time.Now().Add(2 * time.Minute); ws.State != "ready"; time.Sleep(5 * time.Millisecond) {
		if err := m.do("GET", "/workspaces/"+ws.ID, nil, &ws); err != nil {
			return err
		}
		if ws.State == "failed" || time.Now().After(deadline) {
			return fmt.Errorf("the workspace on the machine is %s: %s", ws.State, ws.StateReason)
		}
	}
	for _, ws := range []string{m.here, m.far} { // both sandboxes are there before anything is measured
		if _, _, err := m.command(ws, 0); err != nil {
			return err
		}
	}
	return nil
}

// childStamp tells when it began and when it ends, and lives for so many milliseconds between.
func childStamp(args []string) error {
	began := time.Now()
	ms, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	time.Sleep(time.Duration(ms) * time.Millisecond)
	_, err = fmt.Printf("%d %d", began.UnixNano(), time.Now().UnixNano())
	return err
}

// command runs one: how long until it began, and from its end until the answer was here.
func (m *onMachines) command(ws string, life int) (delivery, result time.Duration, err error) {
	var got struct {
		State, Stdout, Reason string
	}
	t0 := time.Now()
	if err := m.do("POST", "/workspaces/"+ws+"/exec", map[string]any{"argv": []string{m.b.self, "child-stamp", strconv.Itoa(life)}}, &got); err != nil {
		return 0, 0, err
	}
	t3 := time.Now()
	first, second, ok := strings.Cut(got.Stdout, " ")
	began, err1 := strconv.ParseInt(first, 10, 64)
	ended, err2 := strconv.ParseInt(second, 10, 64)
	if got.State != "completed" || !ok || err1 != nil || err2 != nil {
		return 0, 0, fmt.Errorf("the command is %s and says %q (%s)", got.State, got.Stdout, got.Reason)
	}
	return time.Unix(0, began).Sub(t0), t3.Sub(time.Unix(0, ended)), nil
}

// commandsOf runs n commands in a workspace.
func (m *onMachines) commandsOf(ws string, n, life int) (deliveries, results []time.Duration, err error) {
	for range n {
		d, r, err := m.command(ws, life)
		if err != nil {
			return nil, nil, err
		}
		deliveries, results = append(deliveries, d), append(results, r)
	}
	slices.Sort(deliveries)
	slices.Sort(results)
	return deliveries, results, nil
}

func p99(d []time.Duration) time.Duration { return d[len(d)*99/100] }

func (m *onMachines) commands() error {
	var here, far, hereBack, farBack []time.Duration
	for range m.b.size(10, 1) { // in turns, so that what else this machine does falls on both alike
		d, r, err := m.commandsOf(m.here, 40, 10)
		if err != nil {
			return err
		}
		here, hereBack = append(here, d...), append(hereBack, r...)
		if d, r, err = m.commandsOf(m.far, 40, 10); err != nil {
			return err
		}
		far, farBack = append(far, d...), append(farBack, r...)
	}
	for _, one := range []struct {
		name      string
		far, here []time.Duration
	}{{"command delivery", far, here}, {"result return", farBack, hereBack}} {
		slices.Sort(one.far)
		slices.Sort(one.here)
		o, l := p99(one.far), p99(one.here)
		m.b.figure(one.name+" p99, ms", f1(ms(o)), f1(ms(l)), o.Seconds()/l.Seconds(), "+ 10 ms", o-l < 10*time.Millisecond)
	}
	return nil
}

// session starts a program in a workspace and attaches to it.
func (m *onMachines) session(ws string, argv ...string) (*client, string, error) {
	var s struct{ ID string }
	if err := m.do("POST", "/workspaces/"+ws+"/sessions", map[string]any{"agent": "command", "argv": argv, "cols": 120, "rows": 32}, &s); err != nil {
		return nil, "", err
	}
	c, err := dialHarness(m.harness, s.ID, "writer")
	return c, s.ID, err
}

func (m *onMachines) over(c *client, session string) {
	_ = c.conn.Close()
	_ = m.do("POST", "/sessions/"+session+"/stop", map[string]any{"grace_ms": 100}, nil)
}

func (m *onMachines) output() error {
	n := int64(m.b.size(100<<20, 8<<20))
	want := patternHash(n)
	rates := map[string][]float64{}
	for range m.b.size(5, 1) {
		for _, ws := range []string{m.here, m.far} {
			c, s, err := m.session(ws, m.b.self, "child-spew", fmt.Sprint(n))
			if err != nil {
				return err
			}
			rate, _, err := flow(c, n, want)
			m.over(c, s)
			if err != nil {
				return err
			}
			rates[ws] = append(rates[ws], rate)
		}
	}
	far, here := median(rates[m.far]), median(rates[m.here])
	m.b.figure("output, one client, MB/s", f1(far), f1(here), far/here, ">= 0.5", far/here >= 0.5)
	return nil
}

// echoes measures keystrokes in a workspace.
func (m *onMachines) echoes(ws string, n int) ([]time.Duration, error) {
	c, s, err := m.session(ws, m.b.self, "child-echo")
	if err != nil {
		return nil, err
	}
	defer m.over(c, s)
	return keystrokes(c, n)
}

func (m *onMachines) echo() error { return m.echoBeside("keystroke echo") }

func (m *onMachines) echoBeside(name string) error {
	n := m.b.size(1000, 100)
	p50, p99s := map[string][]float64{}, map[string][]float64{}
	for range m.b.size(5, 1) {
		for _, ws := range []string{m.here, m.far} {
			took, err := m.echoes(ws, n)
			if err != nil {
				return err
			}
			p50[ws], p99s[ws] = append(p50[ws], us(took[n/2])), append(p99s[ws], us(took[n*99/100]))
		}
	}
	far, here := median(p50[m.far]), median(p50[m.here])
	m.b.figure(name+" p50, us", f1(far), f1(here), far/here, "+ 1000 us", far-here < 1000)
	far, here = median(p99s[m.far]), median(p99s[m.here])
	m.b.figure(name+" p99, us", f1(far), f1(here), far/here, "none", true)
	return nil
}

// flood measures keystrokes while another terminal of the same place pours without end.
func (m *onMachines) flood() error {
	p50 := map[string]float64{}
	n := m.b.size(500, 50)
	for _, ws := range []string{m.here, m.far} {
		c, s, err := m.session(ws, "sh", "-c", "yes pouring without an end, line after line")
		if err != nil {
			return err
		}
		poured := make(chan struct{})
		go func() { // ends with the connection
			defer close(poured)
			for {
				if _, err := c.read(); err != nil {
					return
				}
			}
		}()
		took, err := m.echoes(ws, n)
		m.over(c, s)
		<-poured
		if err != nil {
			return err
		}
		p50[ws] = us(took[n/2])
	}
	m.b.figure("keystroke beside a flood p50, us", f1(p50[m.far]), f1(p50[m.here]), p50[m.far]/p50[m.here], "+ 1000 us", p50[m.far]-p50[m.here] < 1000)
	return nil
}

// childLate waits for a file, writes N bytes, and makes another beside it.
func childLate(args []string) error {
	n, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return err
	}
	if _, err := term.MakeRaw(0); err != nil {
		return err
	}
	fmt.Print("R")
	for {
		if _, err := os.Stat(args[1]); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	buf := make([]byte, 64<<10)
	for off := int64(0); off < n; off += int64(len(buf)) {
		p := buf[:min(int64(len(buf)), n-off)]
		pattern(p, off)
		if _, err := os.Stdout.Write(p); err != nil {
			return err
		}
	}
	if err := os.WriteFile(args[1]+".done", nil, 0o600); err != nil {
		return err
	}
	_, err = io.ReadFull(os.Stdin, make([]byte, 1))
	return err
}

// catchUp is how long after the network is back everything is on the screen that was written meanwhile, beside reading as much of a local
// session.
func (m *onMachines) catchUp() error {
	n := int64(m.b.size(20<<20, 2<<20))
	want := patternHash(n)
	var back, local []float64
	for i := range m.b.size(5, 1) {
		c, s, err := m.session(m.here, m.b.self, "child-spew", fmt.Sprint(n))
		if err != nil {
			return err
		}
		rate, _, err := flow(c, n, want)
		m.over(c, s)
		if err != nil {
			return err
		}
		local = append(local, float64(n)/1e6/rate)

		gate := filepath.Join(m.dir, fmt.Sprintf("gate%d", i))
		if c, s, err = m.session(m.far, m.b.self, "child-late", fmt.Sprint(n), gate); err != nil {
			return err
		}
		if err := c.ready(); err != nil {
			return err
		}
		m.way.set(0, true)
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			return err
		}
		for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			if _, err := os.Stat(gate + ".done"); err == nil {
				break // else it waits for a reader, and goes on when there is one
			}
		}
		t0 := time.Now()
		m.way.set(0, false)
		h := sha256.New()
		if err := c.drain(n, h); err != nil {
			return err
		}
		back = append(back, time.Since(t0).Seconds())
		m.over(c, s)
		if [32]byte(h.Sum(nil)) != want {
			return errors.New("the bytes that arrived are not the bytes that were written")
		}
	}
	m.b.figure(fmt.Sprintf("reconnect and catch up with %d MB, s", n>>20), fmt.Sprintf("%.2f", median(back)), fmt.Sprintf("%.2f", median(local)), median(back)/median(local), "<= 2 s", median(back) <= 2)
	return nil
}

// longWay adds 40 ms each way: what people are promised.
func (m *onMachines) longWay() error {
	m.way.set(40*time.Millisecond, false)
	defer m.way.set(0, false)
	n := m.b.size(100, 10)
	for _, one := range []struct {
		name string
		life int
	}{{"", 200}, {", at once", 0}} {
		d, r, err := m.commandsOf(m.far, n, one.life)
		if err != nil {
			return err
		}
		here, hereBack, err := m.commandsOf(m.here, n, one.life)
		if err != nil {
			return err
		}
		m.b.figure("40 ms each way: delivery"+one.name+" p99, ms", f1(ms(p99(d))), f1(ms(p99(here))), p99(d).Seconds()/p99(here).Seconds(), "< 100 ms", p99(d) < 100*time.Millisecond)
		m.b.figure("40 ms each way: result"+one.name+" p99, ms", f1(ms(p99(r))), f1(ms(p99(hereBack))), p99(r).Seconds()/p99(hereBack).Seconds(), "< 100 ms", p99(r) < 100*time.Millisecond)
	}
	return nil
}

// many is what machines cost the server that are there and do nothing.
func (m *onMachines) many() error {
	n := m.b.size(199, 19) // with the one that works here as many as a member may have
	pid := m.cmd.Process.Pid
	quiet := time.Duration(m.b.size(30, 3)) * time.Second
	memory, before := rss(pid), cpu(pid)
	time.Sleep(quiet)
	alone := cpu(pid) - before
	var made struct{ Token string }
	if err := m.do("POST", "/teams/"+m.team+"/runners", map[string]any{"name": "Idle", "reusable": true}, &made); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	for i := range n {
		if err := m.idle(ctx, &work, made.Token, i); err != nil {
			return fmt.Errorf("machine %d: %w", i, err)
		}
	}
	if err := m.online(n + 1); err != nil {
		return err
	}
	time.Sleep(quiet / 3)
	before = cpu(pid)
	time.Sleep(quiet)
	used := cpu(pid) - before - alone
	grown := rss(pid) - memory
	m.b.figure(fmt.Sprintf("%d idle machines, memory, MB", n), f1(float64(grown)/1e6), "-", float64(grown)/100e6, "< 100 MB", grown < 100e6)
	share := used.Seconds() / quiet.Seconds()
	m.b.figure(fmt.Sprintf("%d idle machines, share of a core", n), fmt.Sprintf("%.2f %%", share*100), fmt.Sprintf("%.2f %%", alone.Seconds()/quiet.Seconds()*100), share/0.03, "< 3 %", share < 0.03)
	return nil
}

// idle enrols a machine that says what it is, tells its load as any does, and has nothing.
func (m *onMachines) idle(ctx context.Context, work *sync.WaitGroup, token string, i int) error {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	hello := wire.Hello{Version: wire.Version, Build: "bench", OS: "linux", Arch: "amd64", Hostname: "idle", Name: fmt.Sprintf("Idle %d", i), Mode: wire.Direct, Available: true, Isolation: "none", Boundary: "none",
		Network: "host", Access: wire.Full, Share: "owner", CPUs: 2, MemoryMB: 4096}
	b, err := json.Marshal(wire.Enrol{Token: token, Name: hello.Name, PublicKey: public, Hello: hello})
	if err != nil {
		return err
	}
	resp, err := http.Post(m.url+wire.EnrolPath, "application/json", bytes.NewReader(b))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var own wire.Enrolled
	if resp.StatusCode >= 300 || json.Unmarshal(text, &own) != nil {
		return fmt.Errorf("enrolling: %s: %s", resp.Status, text)
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		switch r.URL.Path {
		case "/v1/hello":
			_ = json.NewEncoder(w).Encode(hello)
		case "/v1/sandboxes":
			_, _ = io.WriteString(w, `{"items":[]}`)
		case "/v1/events":
			out := json.NewEncoder(w)
			err := out.Encode(wire.Event{Type: wire.EventHello, Hello: &hello})
			tick := time.NewTicker(10 * time.Second)
			defer tick.Stop()
			for err == nil {
				if err = rc.Flush(); err != nil {
					return
				}
				select {
				case <-tick.C:
					err = out.Encode(wire.Event{Type: wire.EventLoad, Load: &wire.Load{CPU: 0.1, MemoryUsedMB: 1000, DiskFreeMB: 10000}})
				case <-r.Context().Done():
					return
				}
			}
		default:
			http.NotFound(w, r)
		}
	})
	work.Go(func() {
		_ = tunnel.Keep(ctx, tunnel.KeepConfig{Handler: h, Dial: tunnel.DialConfig{URL: m.url, RunnerID: own.RunnerID, Key: key, ServerKey: own.ServerKey}})
	})
	return nil
}
