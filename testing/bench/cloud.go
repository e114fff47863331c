package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/e2b"
	"github.com/parawork/parawork/executors/e2b/e2btest"
	"github.com/parawork/parawork/testing/bench/envd"
)

// far is a server whose workspaces live at a stand-in for E2B, and that stand-in.
type far struct {
	*harness
	e2b *e2btest.Server
	dir string
}

// cloud compares workspaces in cloud sandboxes with the bare protocol of E2B, spoken to the same stand-in in the same run.
func (b *bench) cloud() error {
	service, err := e2btest.Open(e2btest.Config{Show: []string{b.self}, Plan: e2btest.Plan{Concurrent: 200}})
	if errors.Is(err, e2btest.ErrNoSandboxes) {
		fmt.Printf("  skipped: %v\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer service.Close()
	dir := filepath.Join(b.dir, "far")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	h, err := b.newHarness(dir, fmt.Sprintf(`{"defaultProvider":"e2b","e2b":{"apiKey":%q,"apiUrl":%q,"sandboxUrl":%q}}`, service.Key(), service.APIURL(), service.SandboxURL()))
	if err != nil {
		return err
	}
	// As docs/e2b.md tells operators to: sandboxes of a template that lacks this version's guest start later, since it is uploaded to each.
	if out, err := exec.Command(b.binary, "e2b", "template", "build", "--config", filepath.Join(dir, "config.json")).CombinedOutput(); err != nil {
		return fmt.Errorf("building the template: %w: %s", err, out)
	}
	f := &far{h, service, dir}
	defer f.end()
	var failed []error
	for _, one := range []struct {
		name string
		run  func(*far) error
	}{{"first prompt", b.farPrompt}, {"echo", b.farEcho}, {"changes", b.farChanges}, {"send", b.farSend}, {"quiet", b.farQuiet}, {"pool", b.farPool}, {"many", b.farMany}} {
		if err := one.run(f); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", one.name, err))
		}
	}
	return errors.Join(failed...)
}

func (f *far) end() {
	var all struct{ Items []struct{ ID string } }
	_ = f.do("GET", "/teams/"+f.team+"/workspaces?limit=200", nil, &all)
	for _, ws := range all.Items {
		_ = f.do("POST", "/workspaces/"+ws.ID+"/destroy-sandbox", nil, nil)
	}
	f.stop()
}

// run starts a command in a workspace and attaches to it.
func (f *far) run(workspace string, argv ...string) (*client, string, error) {
	var s struct{ ID string }
	if err := f.do("POST", "/workspaces/"+workspace+"/sessions", map[string]any{"agent": "command", "argv": argv, "cols": 120, "rows": 32}, &s); err != nil {
		return nil, "", err
	}
	c, err := dialHarness(f.harness, s.ID, "writer")
	return c, s.ID, err
}

// done ends a session, so that its sandbox has nothing to do.
func (f *far) done(c *client, session string) {
	_ = c.conn.Close()
	_ = f.do("POST", "/sessions/"+session+"/stop", map[string]any{"grace_ms": 100}, nil)
}

// path is where a workspace's files are on this machine.
func (f *far) path(workspace string) (string, error) {
	var ws struct{ Path string }
	err := f.do("GET", "/workspaces/"+workspace, nil, &ws)
	return ws.Path, err
}

// farPrompt is the time from asking for an agent in a workspace without a sandbox to its first byte, beside the bare calls: create, start.
func (b *bench) farPrompt(f *far) error {
	var ours, bare []time.Duration
	for i := range b.size(9, 2) + 1 {
		began := time.Now()
		box, err := envd.New(f.e2b)
		if err != nil {
			return err
		}
		p, err := box.Start(b.self, "child-echo")
		if err != nil {
			return err
		}
		if err := p.Ready(); err != nil {
			return err
		}
		base := time.Since(began)
		p.Close()
		if err := box.Kill(); err != nil {
			return err
		}
		ws, err := f.newWorkspace(f.project, fmt.Sprintf("prompt %d", i))
		if err != nil {
			return err
		}
		_ = f.do("POST", "/workspaces/"+ws+"/destroy-sandbox", nil, nil) // where making the workspace has made one already
		began = time.Now()
		c, session, err := f.run(ws, b.self, "child-echo")
		if err != nil {
			return err
		}
		if err := c.ready(); err != nil {
			return err
		}
		took := time.Since(began)
		f.done(c, session)
		if err := f.do("POST", "/workspaces/"+ws+"/destroy-sandbox", nil, nil); err != nil {
			return err
		}
		if i > 0 { // the first asks for capabilities and template
			ours, bare = append(ours, took), append(bare, base)
		}
	}
	o, base := middleOf(ours), middleOf(bare)
	b.figure("create to first prompt", o.Round(time.Millisecond).String(), base.Round(time.Millisecond).String(), o.Seconds()/base.Seconds(), "+ 300 ms", o-base <= 300*time.Millisecond)
	return nil
}

// farEcho is what a keystroke takes to the screen and back, beside one over a bare stream of envd.
func (b *bench) farEcho(f *far) error {
	n := b.size(1000, 100)
	box, err := envd.New(f.e2b)
	if err != nil {
		return err
	}
	defer func() { _ = box.Kill() }()
	ws, err := f.newWorkspace(f.project, "echo")
	if err != nil {
		return err
	}
	var op50, bp50 []float64
	for range b.size(5, 1) {
		p, err := box.Start(b.self, "child-echo")
		if err != nil {
			return err
		}
		base, err := p.Keystrokes(n)
		p.Close()
		if err != nil {
			return fmt.Errorf("bare: %w", err)
		}
		c, session, err := f.run(ws, b.self, "child-echo")
		if err != nil {
			return err
		}
		ours, err := keystrokes(c, n)
		f.done(c, session)
		if err != nil {
			return fmt.Errorf("parawork: %w", err)
		}
		op50, bp50 = append(op50, us(ours[n/2])), append(bp50, us(base[n/2]))
	}
	b.figure("keystroke echo p50, us", f1(median(op50)), f1(median(bp50)), median(op50)/median(bp50), "+ 3000 us", median(op50)-median(bp50) < 3000)
	return f.do("POST", "/workspaces/"+ws+"/destroy-sandbox", nil, nil)
}

// writer writes a file after another and names in each when it began to.
const writer = `printf R; read x; i=0; while [ $i -lt %d ]; do date +%%s%%N > pace$i; i=$((i+1)); sleep 0.2; done; read x`

// farChanges is how long a written file takes to be on the server while an agent works.
func (b *bench) farChanges(f *far) error {
	n := b.size(100, 10)
	ws, err := f.newWorkspace(f.project, "changes")
	if err != nil {
		return err
	}
	path, err := f.path(ws)
	if err != nil {
		return err
	}
	box, err := envd.New(f.e2b)
	if err != nil {
		return err
	}
	defer func() { _ = box.Kill() }()
	base, err := box.Changes(n / 5)
	if err != nil {
		return fmt.Errorf("bare: %w", err)
	}
	c, session, err := f.run(ws, "/bin/sh", "-c", "stty -echo; "+fmt.Sprintf(writer, n))
	if err != nil {
		return err
	}
	if err := c.ready(); err != nil {
		return err
	}
	if err := c.write([]byte("g\r")); err != nil {
		return err
	}
	var took []time.Duration
	for i := range n {
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			if b, err := os.ReadFile(filepath.Join(path, fmt.Sprintf("pace%d", i))); err == nil {
				now := time.Now()
				at, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
				if err != nil {
					return err
				}
				took = append(took, now.Sub(time.Unix(0, at)))
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("file %d of %d never came", i, n)
			}
		}
	}
	f.done(c, session)
	slices.Sort(took)
	p95 := took[len(took)*95/100]
	b.figure("change on the server p95", p95.Round(time.Millisecond).String(), base.Round(time.Millisecond).String(), p95.Seconds()/base.Seconds(), "<= 1.5 s", p95 <= 1500*time.Millisecond)
	return f.do("POST", "/workspaces/"+ws+"/destroy-sandbox", nil, nil)
}

// farSend is the rate at which a repository is sent into its first sandbox, beside the bare stream into a process.
func (b *bench) farSend(f *far) error {
	repo := filepath.Join(f.dir, "many")
	files := b.size(10_000, 500)
	if err := manyFiles(repo, files); err != nil {
		return err
	}
	var project struct{ ID, State string }
	if err := f.do("POST", "/teams/"+f.team+"/projects", map[string]any{"source": map[string]any{"kind": "path", "path": repo}}, &project); err != nil {
		return err
	}
	for deadline := time.Now().Add(2 * time.Minute); project.State != "ready"; time.Sleep(10 * time.Millisecond) {
		if err := f.do("GET", "/projects/"+project.ID, nil, &project); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return errors.New("the project is never ready")
		}
	}
	box, err := envd.New(f.e2b)
	if err != nil {
		return err
	}
	defer func() { _ = box.Kill() }()
	var ours, bare []float64
	var size int64
	for i := range b.size(5, 1) {
		ws, err := f.newWorkspace(project.ID, fmt.Sprintf("send %d", i))
		if err != nil {
			return err
		}
		if err := f.do("POST", "/workspaces/"+ws+"/wake", nil, nil); err != nil {
			return err
		}
		bytes, took, err := f.sent(ws)
		if err != nil {
			return err
		}
		size = bytes
		ours = append(ours, float64(bytes)/1e6/took.Seconds())
		rate, err := box.Push(bytes)
		if err != nil {
			return fmt.Errorf("bare: %w", err)
		}
		bare = append(bare, rate/1e6)
		if err := f.do("POST", "/workspaces/"+ws+"/destroy-sandbox", nil, nil); err != nil {
			return err
		}
	}
	r := median(ours) / median(bare)
	b.figure(fmt.Sprintf("first send of %d files, %.1f MB, MB/s", files, float64(size)/1e6), f1(median(ours)), f1(median(bare)), r, ">= 0.8", r >= 0.8)
	return nil
}

// sent tells how many bytes the step "send" of a workspace's sandbox carried, and how long it took.
func (f *far) sent(ws string) (int64, time.Duration, error) {
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		var sb struct {
			State string
			Steps []struct {
				Name      string
				Done, All int64
				StartedAt int64 `json:"started_at"`
				EndedAt   int64 `json:"ended_at"`
			}
		}
		if err := f.do("GET", "/workspaces/"+ws+"/sandbox", nil, &sb); err != nil {
			return 0, 0, err
		}
		for _, st := range sb.Steps {
			if st.Name == executors.StepSend && st.EndedAt > 0 {
				return max(st.Done, st.All), time.Duration(max(1, st.EndedAt-st.StartedAt)) * time.Millisecond, nil
			}
		}
		if time.Now().After(deadline) {
			return 0, 0, fmt.Errorf("the repository was never sent: %+v", sb)
		}
	}
}

// manyFiles makes a repository whose files do not pack to nothing.
func manyFiles(dir string, n int) error {
	for i := range n {
		file := filepath.Join(dir, fmt.Sprintf("d%d/f%d.txt", i%100, i))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		buf := make([]byte, 4096)
		pattern(buf, int64(i)*4096)
		if err := os.WriteFile(file, buf, 0o644); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-q", "-m", "first"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %v: %w: %s", args, err, out)
		}
	}
	return nil
}

// farQuiet is what a workspace costs on the wire in which nothing happens, beside a bare stream that is held open.
func (b *bench) farQuiet(f *far) error {
	ws, err := f.newWorkspace(f.project, "quiet")
	if err != nil {
		return err
	}
	if err := f.do("POST", "/workspaces/"+ws+"/wake", nil, nil); err != nil {
		return err
	}
	time.Sleep(time.Duration(b.size(10, 3)) * time.Second) // it comes to rest
	over := time.Duration(b.size(60, 5)) * time.Second
	before := f.e2b.Traffic()
	time.Sleep(over)
	rate := float64(f.e2b.Traffic()-before) / over.Seconds()
	b.figure("a quiet workspace, bytes/s", f1(rate), "1000.0", rate/1000, "< 1 KB/s", rate < 1000)
	return f.do("POST", "/workspaces/"+ws+"/destroy-sandbox", nil, nil)
}

// farPool is how long a workspace waits for a sandbox that was made ahead of time, beside making one.
func (b *bench) farPool(f *far) error {
	set := e2b.Settings{APIKey: f.e2b.Key(), APIURL: f.e2b.APIURL(), SandboxURL: f.e2b.SandboxURL()}
	ex, err := e2b.New(e2b.Config{Dir: filepath.Join(f.dir, "pool"), GuestPath: filepath.Join(filepath.Dir(b.binary), "parawork-guest"),
		Settings: func(context.Context) (e2b.Settings, error) { return set, nil }})
	if err != nil {
		return err
	}
	defer ex.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	caps, err := ex.Capabilities(ctx)
	if err != nil {
		return err
	}
	spec := executors.Spec{TeamID: "t", WorkspaceID: "w", Root: f.dir, Inside: "/work/bench"}
	for _, s := range caps.Sizes {
		if s.Default {
			spec.Size = s
		}
	}
	var warm, cold []time.Duration
	for i := range b.size(15, 3) {
		spec.ID, spec.Warm = fmt.Sprintf("sbx_cold%d", i), nil
		began := time.Now()
		sb, err := ex.Create(ctx, spec)
		if err != nil {
			return err
		}
		cold = append(cold, time.Since(began))
		if err := sb.Destroy(ctx); err != nil {
			return err
		}
		h, err := ex.Warm(ctx, fmt.Sprintf("sbx_pool%d", i), ex.Class(spec))
		if err != nil {
			return err
		}
		spec.ID, spec.Warm = fmt.Sprintf("sbx_warm%d", i), &h
		began = time.Now()
		if sb, err = ex.Create(ctx, spec); err != nil {
			return err
		}
		warm = append(warm, time.Since(began))
		if err := sb.Destroy(ctx); err != nil {
			return err
		}
	}
	w, c := middleOf(warm), middleOf(cold)
	b.figure("a sandbox from the pool", w.Round(time.Millisecond).String(), c.Round(time.Millisecond).String(), w.Seconds()/c.Seconds(), "< 100 ms", w < 100*time.Millisecond)
	return nil
}

// farMany is what the server's processor does for many sandboxes in which files change each second.
func (b *bench) farMany(f *far) error {
	n := b.size(50, 4)
	var boxes []string
	for i := range n {
		ws, err := f.newWorkspace(f.project, fmt.Sprintf("many %d", i))
		if err != nil {
			return err
		}
		c, _, err := f.run(ws, "/bin/sh", "-c", "printf R; while :; do date > pace; sleep 1; done")
		if err != nil {
			return err
		}
		if err := c.ready(); err != nil {
			return err
		}
		_ = c.conn.Close()
		boxes = append(boxes, ws)
	}
	time.Sleep(3 * time.Second) // making them is over
	over := time.Duration(b.size(30, 5)) * time.Second
	before := cpu(f.cmd.Process.Pid)
	time.Sleep(over)
	cores := (cpu(f.cmd.Process.Pid) - before).Seconds() / over.Seconds()
	b.figure(fmt.Sprintf("%d sandboxes at work, cores", n), fmt.Sprintf("%.2f", cores), "1.00", cores, "< 1", cores < 1)
	for _, ws := range boxes {
		if err := f.do("POST", "/workspaces/"+ws+"/destroy-sandbox", nil, nil); err != nil {
			return err
		}
	}
	if left := f.e2b.Alive(); len(left) > 0 {
		return fmt.Errorf("%d sandboxes are left", len(left))
	}
	return nil
}
