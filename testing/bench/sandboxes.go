package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/bubblewrap"
	"github.com/parawork/parawork/executors/local"
	"github.com/parawork/parawork/guest"
	guestclient "github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/id"
)

// boxUID is whom the bench's boxes belong to where it runs as root.
const boxUID = 600_800_000

// boxes measures process sandboxes: how soon one is ready beside the bare tool and a bare guest, how fast a terminal inside prints
// beside one without a box, and what a hundred idle ones cost.
func (b *bench) boxes() error {
	guestPath := filepath.Join(filepath.Dir(b.binary), "parawork-guest")
	dir := filepath.Join(b.dir, "boxes")
	boxed, err := bubblewrap.New(bubblewrap.Config{Enabled: true, Dir: filepath.Join(dir, "boxed"), GuestPath: guestPath})
	if err != nil {
		return err
	}
	ctx := context.Background()
	if c, err := boxed.Capabilities(ctx); err != nil || !c.Available {
		return errors.Join(err, fmt.Errorf("%s. %s", c.Reason, c.Cure))
	}
	bare, err := local.New(local.Config{Enabled: true, Dir: filepath.Join(dir, "bare"), GuestPath: guestPath})
	if err != nil {
		return err
	}
	root, err := b.boxRoot(dir)
	if err != nil {
		return err
	}
	if err := b.boxStart(ctx, boxed, bare, root); err != nil {
		return err
	}
	if err := b.boxOutput(ctx, boxed, bare, root); err != nil {
		return err
	}
	return b.boxIdle(ctx, boxed, root)
}

// boxRoot makes a worktree that a box can be given.
func (b *bench) boxRoot(dir string) (string, error) {
	root := filepath.Join(dir, "worktree")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	if _, err := git(root, "init", "-q", "-b", "main"); err != nil {
		return "", err
	}
	if _, err := git(root, "commit", "-q", "--allow-empty", "-m", "start"); err != nil {
		return "", err
	}
	if os.Geteuid() != 0 {
		return root, nil
	}
	return root, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, boxUID, boxUID))
	})
}

func boxSpec(root string) executors.Spec {
	return executors.Spec{ID: id.New("sbx"), TeamID: "team_bench", WorkspaceID: id.New("ws"), Root: root}
}

// boxStart compares the time until a box answers with that of `bwrap true` and a guest without a box together.
func (b *bench) boxStart(ctx context.Context, boxed, bare executors.Executor, root string) error {
	runs := b.size(20, 3)
	var tool, guests, ours []time.Duration
	for range runs { // in turns, so that what else the machine does meets all alike
		began := time.Now()
		if out, err := exec.Command("bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
			"--proc", "/proc", "--dev", "/dev", "true").CombinedOutput(); err != nil {
			return fmt.Errorf("bwrap true: %w: %s", err, out)
		}
		tool = append(tool, time.Since(began))
		for _, e := range []struct {
			ex  executors.Executor
			all *[]time.Duration
		}{{bare, &guests}, {boxed, &ours}} {
			began = time.Now()
			sb, err := e.ex.Create(ctx, boxSpec(root))
			if err != nil {
				return err
			}
			*e.all = append(*e.all, time.Since(began))
			if err := sb.Destroy(ctx); err != nil {
				return err
			}
		}
	}
	base, got := middle(tool)+middle(guests), middle(ours)
	over := got - base
	b.figure("box ready, beside bwrap true and a guest", got.Round(time.Millisecond).String(), base.Round(time.Millisecond).String(), float64(got)/float64(base), "+60 ms", over <= 60*time.Millisecond)
	return nil
}

func middle(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// boxOutput compares how fast a terminal prints in a box and without one.
func (b *bench) boxOutput(ctx context.Context, boxed, bare executors.Executor, root string) error {
	size := int64(b.size(64<<20, 4<<20))
	rate := func(e executors.Executor) (float64, error) {
		sb, err := e.Create(ctx, boxSpec(root))
		if err != nil {
			return 0, err
		}
		defer func() { _ = sb.Destroy(ctx) }()
		c := guestclient.New(guestclient.Config{Dial: sb.Dial, Token: sb.Token(), SandboxID: sb.Handle().ID, Now: time.Now})
		defer c.Close()
		began := time.Now()
		p, err := c.Start(ctx, guest.ProcessSpec{ID: id.New("p"), Argv: []string{"/bin/sh", "-c", fmt.Sprintf("yes 'a line as programs print them, neither short nor long' | head -c %d", size)},
			Tty: true, Size: guest.Size{Cols: 80, Rows: 24}})
		if err != nil {
			return 0, err
		}
		out, err := c.Output(ctx, p.ID, guest.Terminal, 0)
		if err != nil {
			return 0, err
		}
		defer out.Close()
		n, err := io.Copy(io.Discard, out)
		if err == nil && n < size {
			err = fmt.Errorf("%d of %d bytes came", n, size)
		}
		return float64(n) / time.Since(began).Seconds() / (1 << 20), err
	}
	var ours, base float64
	for range b.size(5, 1) {
		r, err := rate(bare)
		if err != nil {
			return err
		}
		base = max(base, r)
		if r, err = rate(boxed); err != nil {
			return err
		}
		ours = max(ours, r)
	}
	b.figure("a terminal's output in a box", fmt.Sprintf("%.0f MB/s", ours), fmt.Sprintf("%.0f MB/s", base), ours/base, ">= 0.90", ours >= 0.9*base)
	return nil
}

// boxIdle counts what a hundred boxes cost in which nothing happens.
func (b *bench) boxIdle(ctx context.Context, boxed executors.Executor, root string) error {
	n := b.size(100, 5)
	var all []executors.Sandbox
	defer func() {
		for _, sb := range all {
			_ = sb.Destroy(ctx)
		}
	}()
	for range n {
		sb, err := boxed.Create(ctx, boxSpec(root))
		if err != nil {
			return err
		}
		all = append(all, sb)
	}
	watch := time.Duration(b.size(20, 2)) * time.Second
	time.Sleep(watch / 4) // what comes with the start has come to rest
	mem, before := boxCost(all)
	time.Sleep(watch)
	_, after := boxCost(all)
	share := float64(after-before) / 100 / watch.Seconds() // clock ticks are hundredths of a second
	scale := 100 / float64(n)
	gb := float64(mem) * scale / (1 << 30)
	b.figure("memory of 100 idle boxes", fmt.Sprintf("%.2f GB", gb), "2.00 GB", gb/2, "<= 1", gb <= 2)
	b.figure("one core's share of 100 idle boxes", fmt.Sprintf("%.2f %%", share*scale*100), "2.00 %", share*scale/0.02, "<= 1", share*scale <= 0.02)
	return nil
}

// boxCost adds up the memory (shared pages by their share) and the CPU time of the processes of boxes: the guests, and bubblewrap
// beside them.
func boxCost(all []executors.Sandbox) (bytes, ticks int64) {
	marks := make(map[string]bool)
	for _, sb := range all {
		marks[sb.Handle().ID] = true
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		args, err := os.ReadFile(filepath.Join(d, "cmdline"))
		if err != nil || !slices.ContainsFunc(strings.Split(string(args), "\x00"), func(a string) bool { return marks[a] }) {
			continue
		}
		if roll, err := os.ReadFile(filepath.Join(d, "smaps_rollup")); err == nil {
			for line := range strings.Lines(string(roll)) {
				if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
					kb, _ := strconv.ParseInt(f[1], 10, 64)
					bytes += kb << 10
				}
			}
		}
		if stat, err := os.ReadFile(filepath.Join(d, "stat")); err == nil {
			f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
			if len(f) > 12 {
				user, _ := strconv.ParseInt(f[11], 10, 64)
				system, _ := strconv.ParseInt(f[12], 10, 64)
				ticks += user + system
			}
		}
	}
	return bytes, ticks
}
