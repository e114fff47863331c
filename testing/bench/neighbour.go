package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/bubblewrap"
	"github.com/parawork/parawork/guest"
	guestclient "github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/cgroup"
	"github.com/parawork/parawork/internal/id"
)

// bomb forks, burns and fills memory without end, within what its sandbox may use.
const bomb = `burn() { while :; do :; done; }; i=0; while [ $i -lt 40 ]; do burn & i=$((i+1)); done; while :; do head -c 200m /dev/zero | tail -c 200m >/dev/null; (sleep 1 & sleep 1 & sleep 1 &) ; done`

// neighbour measures a keystroke's echo in one process sandbox while another one runs a bomb, beside the same while it is idle.
func (b *bench) neighbour() error {
	tree, err := cgroup.Open("parawork-bench/" + id.New("t"))
	if err != nil {
		return err
	}
	defer tree.Clear()
	if s := tree.Support(); !s.All() {
		return fmt.Errorf("limits cannot be kept here: %s. %s", s.Reason, s.Cure)
	}
	dir := filepath.Join(b.dir, "neighbour")
	boxed, err := bubblewrap.New(bubblewrap.Config{Enabled: true, Dir: filepath.Join(dir, "boxed"), GuestPath: filepath.Join(filepath.Dir(b.binary), "parawork-guest"), Groups: tree})
	if err != nil {
		return err
	}
	root, err := b.boxRoot(dir)
	if err != nil {
		return err
	}
	ctx := context.Background()
	quiet, err := b.neighbourBox(ctx, boxed, root, executors.Limits{})
	if err != nil {
		return err
	}
	defer quiet.end(ctx)
	n := b.size(1000, 100)
	base, err := quiet.echoes(ctx, n)
	if err != nil {
		return err
	}
	loud, err := b.neighbourBox(ctx, boxed, root, executors.Limits{CPUs: 1, MemoryMB: 128, Processes: 100})
	if err != nil {
		return err
	}
	defer loud.end(ctx)
	if _, err := loud.c.Start(ctx, guest.ProcessSpec{ID: id.New("p"), Argv: []string{"/bin/sh", "-c", bomb}}); err != nil {
		return err
	}
	time.Sleep(2 * time.Second) // the bomb needs a moment to reach its limits
	beside, err := quiet.echoes(ctx, n)
	if err != nil {
		return err
	}
	for _, q := range []struct {
		name string
		at   int
	}{{"p50", n / 2}, {"p99", n * 99 / 100}} {
		ratio := float64(beside[q.at]) / float64(base[q.at])
		b.figure("keystroke beside a bomb, "+q.name, beside[q.at].Round(time.Microsecond).String(), base[q.at].Round(time.Microsecond).String(), ratio, "<= 2", ratio <= 2)
	}
	return nil
}

// neighbourBox is a sandbox somebody works in.
type neighbourBox struct {
	sb executors.Sandbox
	c  *guestclient.Client
}

func (b *bench) neighbourBox(ctx context.Context, e executors.Executor, root string, l executors.Limits) (*neighbourBox, error) {
	spec := boxSpec(root)
	spec.Limits = l
	sb, err := e.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &neighbourBox{sb, guestclient.New(guestclient.Config{Dial: sb.Dial, Token: sb.Token(), SandboxID: sb.Handle().ID, Now: time.Now})}, nil
}

func (n *neighbourBox) end(ctx context.Context) {
	n.c.Close()
	_ = n.sb.Destroy(ctx) // the bench's folder goes in any case
}

// echoes types n keys one after the other into a program that gives each back, and returns how long each took, sorted.
func (n *neighbourBox) echoes(ctx context.Context, keys int) ([]time.Duration, error) {
	pid := id.New("p")
	if _, err := n.c.Start(ctx, guest.ProcessSpec{ID: pid, Argv: []string{"/bin/sh", "-c", "stty raw -echo; printf R; exec cat"}, Tty: true, Size: guest.Size{Cols: 80, Rows: 24}}); err != nil {
		return nil, err
	}
	out, err := n.c.Output(ctx, pid, guest.Terminal, 0)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	in, err := n.c.Input(ctx, pid)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var one [1]byte
	if _, err := io.ReadFull(out, one[:]); err != nil || one[0] != 'R' {
		return nil, errors.Join(err, fmt.Errorf("the program began with %q", one[0]))
	}
	took := make([]time.Duration, 0, keys)
	for i := range keys {
		key := byte('a' + i%26)
		began := time.Now()
		if err := in.Write(uint64(i+1), []byte{key}); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(out, one[:]); err != nil || one[0] != key {
			return nil, errors.Join(err, fmt.Errorf("typed %q, got %q", key, one[0]))
		}
		took = append(took, time.Since(began))
		time.Sleep(2 * time.Millisecond) // a person's keys come one by one
	}
	slices.Sort(took)
	return took, nil
}
