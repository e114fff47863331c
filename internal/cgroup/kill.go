package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"syscall"
	"time"
)

// Freeze freezes every process of the group until Unfreeze.
func (g *Group) Freeze(ctx context.Context) error { return g.freeze(ctx, true) }

// Unfreeze lets a frozen group go on.
func (g *Group) Unfreeze(ctx context.Context) error { return g.freeze(ctx, false) }

func (g *Group) freeze(ctx context.Context, frozen bool) error {
	file, want, unfrozen := g.freezeFile()
	if file == "" {
		return fmt.Errorf("processes cannot be frozen here: %s", g.t.support.Reason)
	}
	if !frozen {
		want = unfrozen
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		if err := g.t.fs.Write(file, want); err != nil {
			return fmt.Errorf("freezing the control group %s: %w", g.name, gone(err))
		}
		if g.Frozen() == frozen {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("freezing the control group %s: %w", g.name, context.Cause(ctx))
		}
		g.t.fs.Sleep(wait)
	}
}

// freezeFile returns the file that freezes, and the kernel's words for frozen and thawed.
func (g *Group) freezeFile() (file, frozen, unfrozen string) {
	if h, ok := g.t.unified(); ok {
		return path.Join(g.dir(h), "cgroup.freeze"), "1", "0"
	}
	if h, ok := g.t.with(freezer); ok {
		return path.Join(g.dir(h), "freezer.state"), "FROZEN", "THAWED"
	}
	return "", "", ""
}

// Frozen reports whether the whole group is frozen.
func (g *Group) Frozen() bool {
	if h, ok := g.t.unified(); ok {
		return field(read(g.t.fs, path.Join(g.dir(h), "cgroup.events")), "frozen") == 1
	}
	if h, ok := g.t.with(freezer); ok {
		return read(g.t.fs, path.Join(g.dir(h), "freezer.state")) == "FROZEN"
	}
	return false
}

// Kill kills every process of the group, also those that keep forking, and returns when none is left. Idempotent.
func (g *Group) Kill(ctx context.Context) error {
	round := 0
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		left := g.Processes()
		if len(left) == 0 {
			return g.unfreezeEmpty(ctx)
		}
		if err := g.killOnce(ctx, left, round >= wholeRounds); err != nil {
			return err
		}
		round++
		if ctx.Err() != nil {
			return fmt.Errorf("%d processes of the control group %s do not end: %w", len(left), g.name, context.Cause(ctx))
		}
		g.t.fs.Sleep(wait)
	}
}

// unfreezeEmpty leaves no frozen group behind for later processes.
func (g *Group) unfreezeEmpty(ctx context.Context) error {
	if !g.Frozen() {
		return nil
	}
	if err := g.Unfreeze(ctx); err != nil && !errors.Is(err, ErrNone) {
		return err
	}
	return nil
}

// wholeRounds is how often the group is killed as a whole before its processes are killed one by one.
const wholeRounds = 4

func (g *Group) killOnce(ctx context.Context, left []int, singly bool) error {
	if h, ok := g.t.unified(); ok {
		err := g.t.fs.Write(path.Join(g.dir(h), "cgroup.kill"), "1")
		if err == nil {
			if singly { // they were moved out of this hierarchy, but are still in another
				for _, pid := range left {
					_ = g.t.fs.Kill(pid) // it may have ended by now
				}
			}
			return nil
		}
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.EOPNOTSUPP) {
			return fmt.Errorf("ending the control group %s: %w", g.name, err)
		}
	}
	// An older kernel: nothing forks while frozen, so all processes get the signal, and die when the group is thawed.
	fctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	_ = g.freeze(fctx, true) // without freezing it takes more rounds
	cancel()
	for _, pid := range g.Processes() {
		_ = g.t.fs.Kill(pid)
	}
	file, _, unfrozen := g.freezeFile()
	if file != "" {
		if err := g.t.fs.Write(file, unfrozen); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("unfreezing the control group %s: %w", g.name, err)
		}
	}
	return nil
}

// Remove removes the group, which must be empty; it waits while the kernel still releases it. Idempotent.
func (g *Group) Remove(ctx context.Context) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err := g.clear()
		if err == nil {
			return nil
		}
		if !isBusy(err) || ctx.Err() != nil {
			return err
		}
		g.t.fs.Sleep(wait)
	}
}

// Destroy is Kill and Remove.
func (g *Group) Destroy(ctx context.Context) error {
	if err := g.Kill(ctx); err != nil {
		return err
	}
	return g.Remove(ctx)
}

func gone(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return ErrNone
	}
	return err
}

// Clear removes the tree's own folders where no group is left in them. A later Make makes them again.
func (t *Tree) Clear() {
	for _, h := range t.in {
		for name := t.name; name != "."; name = path.Dir(name) {
			if t.fs.Rmdir(path.Join(h.base, name)) != nil {
				break // it is not empty
			}
		}
	}
}
