// Package places measures each place beside its own bare operations, in turns in one run: from asking for a sandbox until a program in it says its
// first byte, a keystroke's way there and back, and a changed file until its text is here. The bare operations are the service's, engine's or
// tool's own, spoken to the same stand-in or engine: make a machine, start a program in it, read a file with a program.
package places

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/id"
)

// Config of a run.
type Config struct {
	Dir    string // an empty folder
	Guest  string // the guest's program
	Only   string // one place; "" = all
	Quick  bool
	Figure func(name, ours, base string, ratio float64, target string, ok bool)
}

// place is one place, with its bare operations.
type place struct {
	ex     executors.Executor
	root   string // what sandboxes show, or are made for
	remote bool   // sandboxes have a disk of their own
	bare   bare
}

// bare makes machines by a place's own means.
type bare interface {
	// make makes a machine in which programs can be started.
	make(ctx context.Context) (machine, error)
}

type machine interface {
	// open starts a program whose input and output are the pipe.
	open(ctx context.Context, argv ...string) (io.ReadWriteCloser, error)
	remove(ctx context.Context) error
}

// echo says R and then whatever is written to it. It has no terminal: most services give programs none.
var echo = []string{"/bin/sh", "-c", "printf R; exec cat"}

// Run measures every place that can be had here.
func Run(cfg Config) error {
	var failed []error
	for _, p := range []struct {
		name string
		open func(*rig) (place, error)
	}{{"local", local}, {"bubblewrap", boxed}, {"docker", container}, {"dockerhosts", dockerHost}, {"e2b", e2bPlace}, {"kubernetes", pods}, {"boxlite", boxliteBoxes}, {"vercel", vercelBoxes}, {"cloudflare", cloudflareBoxes}} {
		if cfg.Only != "" && cfg.Only != p.name {
			continue
		}
		if err := one(cfg, p.name, p.open); err != nil {
			fmt.Printf("  %-12s FAILED: %v\n", p.name, err)
			failed = append(failed, fmt.Errorf("%s: %w", p.name, err))
		}
	}
	return errors.Join(failed...)
}

// rig stands for the test that stand-ins are made for.
type rig struct {
	testing.TB
	cfg  Config
	dir  string
	ends []func()
}

// skipped is why a place cannot be had here.
type skipped string

// Helper does nothing.
func (*rig) Helper() {}

// Cleanup calls f when the place has been measured.
func (r *rig) Cleanup(f func()) { r.ends = append(r.ends, f) }

// TempDir makes a folder.
func (r *rig) TempDir() string {
	dir, err := os.MkdirTemp(r.dir, "")
	if err == nil {
		err = os.Chmod(dir, 0o755) // others run what is in it
	}
	if err != nil {
		panic(err)
	}
	return dir
}

// Skip says why a place cannot be had.
func (*rig) Skip(args ...any) { panic(skipped(fmt.Sprint(args...))) }

// Skipf is Skip.
func (r *rig) Skipf(format string, args ...any) { r.Skip(fmt.Sprintf(format, args...)) }

// Fatal says what failed.
func (*rig) Fatal(args ...any) { panic(errors.New(fmt.Sprint(args...))) }

// Fatalf is Fatal.
func (r *rig) Fatalf(format string, args ...any) { r.Fatal(fmt.Sprintf(format, args...)) }

// one measures one place.
func one(cfg Config, name string, open func(*rig) (place, error)) (err error) {
	r := &rig{cfg: cfg, dir: filepath.Join(cfg.Dir, name)}
	defer func() {
		for _, end := range slices.Backward(r.ends) {
			end()
		}
	}()
	defer func() {
		switch why := recover().(type) {
		case nil:
		case skipped:
			fmt.Printf("  %-12s skipped: %s\n", name, string(why))
		case error:
			err = why
		default:
			panic(why)
		}
	}()
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	p, err := open(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	return errors.Join(ready(ctx, cfg, name, p), steady(ctx, cfg, name, p))
}

func (c Config) size(full, quick int) int {
	if c.Quick {
		return quick
	}
	return full
}

func (p place) spec() executors.Spec {
	return executors.Spec{ID: id.New("sbx"), TeamID: "team_bench", WorkspaceID: id.New("ws"), Root: p.root}
}

func (p place) client(sb executors.Sandbox) *client.Client {
	return client.New(client.Config{Dial: sb.Dial, Token: sb.Token(), SandboxID: sb.Handle().ID, Now: time.Now, OnePipe: p.remote})
}

// ready is from asking for a sandbox until a program in it has said something, beside the same by the place's own means.
func ready(ctx context.Context, cfg Config, name string, p place) error {
	var ours, base []time.Duration
	for i := range cfg.size(9, 2) + 1 {
		began := time.Now()
		m, err := p.bare.make(ctx)
		if err != nil {
			return fmt.Errorf("bare: %w", err)
		}
		pipe, err := m.open(ctx, echo...)
		if err == nil {
			err = says(pipe, 'R')
		}
		took := time.Since(began)
		if pipe != nil {
			_ = pipe.Close()
		}
		if err := errors.Join(err, m.remove(ctx)); err != nil {
			return fmt.Errorf("bare: %w", err)
		}
		began = time.Now()
		sb, err := p.ex.Create(ctx, p.spec())
		if err != nil {
			return err
		}
		c := p.client(sb)
		_, out, err := program(ctx, c)
		if err == nil {
			err = says(out, 'R')
			_ = out.Close()
		}
		if i > 0 { // the first one learns what the place has
			ours, base = append(ours, time.Since(began)), append(base, took)
		}
		c.Close()
		if err := errors.Join(err, sb.Destroy(ctx)); err != nil {
			return err
		}
	}
	o, b := at(ours, 50), at(base, 50)
	cfg.figure(name+": create to ready", o, b, "+ 1 s", o-b < time.Second)
	return nil
}

// steady measures in one sandbox and one bare machine.
func steady(ctx context.Context, cfg Config, name string, p place) (err error) {
	m, err := p.bare.make(ctx)
	if err != nil {
		return fmt.Errorf("bare: %w", err)
	}
	defer func() { err = errors.Join(err, m.remove(ctx)) }()
	sb, err := p.ex.Create(ctx, p.spec())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sb.Destroy(ctx)) }()
	c := p.client(sb)
	defer c.Close()
	if err := keystrokes(ctx, cfg, name, m, c); err != nil {
		return err
	}
	return changes(ctx, cfg, name, m, c)
}

func keystrokes(ctx context.Context, cfg Config, name string, m machine, c *client.Client) error {
	pipe, err := m.open(ctx, echo...)
	if err != nil {
		return fmt.Errorf("bare: %w", err)
	}
	defer pipe.Close()
	pid, out, err := program(ctx, c)
	if err != nil {
		return err
	}
	defer out.Close()
	in, err := c.Input(ctx, pid)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := errors.Join(says(pipe, 'R'), says(out, 'R')); err != nil {
		return err
	}
	var ours, base []time.Duration
	for i := range cfg.size(500, 50) {
		key := byte('a' + i%26)
		for _, way := range []struct {
			write func() error
			from  io.Reader
			took  *[]time.Duration
		}{{func() error { _, err := pipe.Write([]byte{key}); return err }, pipe, &base}, {func() error { return in.Write(uint64(i+1), []byte{key}) }, out, &ours}} {
			began := time.Now()
			if err := way.write(); err != nil {
				return err
			}
			if err := says(way.from, key); err != nil {
				return err
			}
			*way.took = append(*way.took, time.Since(began))
			time.Sleep(time.Millisecond) // a person's keys come one by one
		}
	}
	o, b := at(ours, 50), at(base, 50)
	cfg.figure(name+": keystroke echo, median", o, b, "+ 3 ms", o-b < 3*time.Millisecond)
	return nil
}

// writes has a program write a file after another; in each is when it was written.
const writes = `i=0; while [ $i -lt %d ]; do date +%%s%%N >part; mv part change$i; i=$((i+1)); sleep 0.3; done`

// changes is from the writing of a file until its text is here, beside what it takes to read a file with a program of its own, once somebody knows
// of it: places tell nobody what changes in them.
func changes(ctx context.Context, cfg Config, name string, m machine, c *client.Client) error {
	n := cfg.size(40, 5)
	h, err := c.Hello(ctx)
	if err != nil {
		return err
	}
	head, err := output(ctx, c, "cd "+h.Root+" && git init -q -b main 2>/dev/null; git -c user.name=b -c user.email=b@example.invalid commit -q --allow-empty -m start && git rev-parse HEAD")
	if err != nil {
		return err
	}
	var base []time.Duration
	for range n {
		began := time.Now()
		pipe, err := m.open(ctx, "/bin/cat", "/proc/version")
		if err != nil {
			return fmt.Errorf("bare: %w", err)
		}
		line, err := bufio.NewReader(pipe).ReadString('\n')
		_ = pipe.Close()
		if line == "" {
			return fmt.Errorf("bare: reading a file: %w", err)
		}
		base = append(base, time.Since(began))
	}
	w, err := c.Watch(ctx, strings.TrimSpace(head), 0)
	if err != nil {
		return err
	}
	defer w.Close()
	p, err := c.Start(ctx, guest.ProcessSpec{ID: id.New("p"), Argv: []string{"/bin/sh", "-c", fmt.Sprintf(writes, n)}})
	if err != nil {
		return err
	}
	defer func() { _, _ = c.Stop(ctx, p.ID, 0) }()
	var ours []time.Duration
	for len(ours) < n {
		set, err := w.Next()
		if err != nil {
			return err
		}
		for _, u := range set.Upserts {
			if !strings.HasPrefix(u.Path, "change") {
				continue
			}
			r, _, err := c.ReadFile(ctx, u.Path)
			if err != nil {
				return err
			}
			text, err := io.ReadAll(r)
			_ = r.Close()
			if err != nil {
				return err
			}
			ns, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
			if err != nil {
				return err
			}
			ours = append(ours, time.Since(time.Unix(0, ns)))
		}
	}
	o, b := at(ours, 95), at(base, 95)
	cfg.figure(name+": change on the host, p95", o, b, "<= 1.5 s", o <= 1500*time.Millisecond)
	return nil
}

// program starts echo in a sandbox.
func program(ctx context.Context, c *client.Client) (pid string, out io.ReadCloser, err error) {
	p, err := c.Start(ctx, guest.ProcessSpec{ID: id.New("p"), Argv: echo, Stdin: true})
	if err != nil {
		return "", nil, err
	}
	o, err := c.Output(ctx, p.ID, guest.Stdout, 0)
	return p.ID, o, err
}

// output is what a shell line in a sandbox writes.
func output(ctx context.Context, c *client.Client, line string) (string, error) {
	p, err := c.Start(ctx, guest.ProcessSpec{ID: id.New("p"), Argv: []string{"/bin/sh", "-c", line}})
	if err != nil {
		return "", err
	}
	out, err := c.Output(ctx, p.ID, guest.Stdout, 0)
	if err != nil {
		return "", err
	}
	defer out.Close()
	text, err := io.ReadAll(out)
	return string(text), err
}

// says reads one byte, which is want.
func says(r io.Reader, want byte) error {
	var got [1]byte
	if _, err := io.ReadFull(r, got[:]); err != nil {
		return err
	}
	if got[0] != want {
		return fmt.Errorf("read %q, not %q", got[0], want)
	}
	return nil
}

// at is a percentile.
func at(d []time.Duration, percent int) time.Duration {
	slices.Sort(d)
	return d[min(len(d)-1, len(d)*percent/100)]
}

// figure prints one ratio.
func (c Config) figure(name string, ours, base time.Duration, target string, ok bool) {
	short := func(d time.Duration) string {
		if d < 100*time.Millisecond {
			return d.Round(10 * time.Microsecond).String()
		}
		return d.Round(time.Millisecond).String()
	}
	c.Figure(name, short(ours), short(base), float64(ours)/float64(base), target, ok)
}
