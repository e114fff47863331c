package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/executors/local"
	"github.com/parawork/parawork/guest"
	guestclient "github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/testing/testdocker"
)

// docker compares making a sandbox in a container with bare `docker run` of the same image, and what a terminal in it carries with
// one in the place without isolation.
func (b *bench) docker() error {
	d, err := testdocker.Start()
	if err != nil {
		fmt.Printf("  skipped: %v\n", err)
		return nil
	}
	defer d.Stop()
	guestPath := filepath.Join(filepath.Dir(b.binary), "parawork-guest")
	dir, err := os.MkdirTemp(b.dir, "docker")
	if err != nil {
		return err
	}
	boxes, err := docker.New(docker.Config{Dir: filepath.Join(dir, "containers"), GuestPath: guestPath, Host: d.Host, Image: testdocker.Image})
	if err != nil {
		return err
	}
	defer boxes.Close()
	here, err := local.New(local.Config{Enabled: true, Dir: filepath.Join(dir, "local"), GuestPath: guestPath})
	if err != nil {
		return err
	}
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	if _, err := git(root, "init", "-q"); err != nil {
		return err
	}
	if err := b.dockerStart(d.Host, boxes, root); err != nil {
		return err
	}
	return b.dockerOutput(boxes, here, root)
}

// dockerStart takes turns with the baseline: the machine is the same for both.
func (b *bench) dockerStart(host string, boxes executors.Executor, root string) error {
	var ours, bare []time.Duration
	for i := range b.size(15, 3) + 1 {
		began := time.Now()
		cmd := exec.Command("docker", "-H", host, "run", "--rm", "--network", "none", testdocker.Image, "true")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("docker run: %w: %s", err, out)
		}
		took := time.Since(began)
		began = time.Now()
		sb, err := boxes.Create(context.Background(), executors.Spec{ID: fmt.Sprintf("sbx_bench%d", i), TeamID: "t", WorkspaceID: "w", Root: root})
		if err != nil {
			return err
		}
		if i > 0 { // the first looks into the image
			ours, bare = append(ours, time.Since(began)), append(bare, took)
		}
		if err := sb.Destroy(context.Background()); err != nil {
			return err
		}
	}
	o, base := middleOf(ours), middleOf(bare)
	ratio := o.Seconds() / base.Seconds()
	b.figure("container ready", o.Round(time.Millisecond).String(), base.Round(time.Millisecond).String(), ratio, "<= 1.3", ratio <= 1.3)
	return nil
}

func middleOf(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func (b *bench) dockerOutput(boxes, here executors.Executor, root string) error {
	lines := b.size(3_000_000, 200_000)
	var best [2]float64 // bytes a second
	for round := range b.size(5, 1) {
		for i, e := range []executors.Executor{here, boxes} {
			rate, err := terminalRate(e, fmt.Sprintf("sbx_rate%d", round), root, lines)
			if err != nil {
				return err
			}
			best[i] = max(best[i], rate)
		}
	}
	ratio := best[1] / best[0]
	b.figure("terminal in a container", fmt.Sprintf("%.0f MB/s", best[1]/1e6), fmt.Sprintf("%.0f MB/s", best[0]/1e6), ratio, ">= 0.9", ratio >= 0.9)
	return nil
}

// terminalRate is how many bytes a second a terminal's output arrives with.
func terminalRate(e executors.Executor, id, root string, lines int) (float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	sb, err := e.Create(ctx, executors.Spec{ID: id, TeamID: "t", WorkspaceID: "w", Root: root})
	if err != nil {
		return 0, err
	}
	defer func() { _ = sb.Destroy(context.Background()) }()
	c := guestclient.New(guestclient.Config{Dial: sb.Dial, Token: sb.Token(), SandboxID: id, Now: time.Now})
	defer c.Close()
	began := time.Now()
	p, err := c.Start(ctx, guest.ProcessSpec{ID: "p", Argv: []string{"/bin/sh", "-c", fmt.Sprintf("seq 1000000 %d", 1000000+lines)}, Tty: true, Size: guest.Size{Cols: 120, Rows: 32}})
	if err != nil {
		return 0, err
	}
	out, err := c.Output(ctx, p.ID, guest.Terminal, 0)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	var n int64
	for buf := make([]byte, 256<<10); ; {
		m, err := out.Read(buf)
		n += int64(m)
		if m > 0 && n%(1<<20) < int64(m) {
			if err := c.Ack(ctx, p.ID, guest.Terminal, n); err != nil {
				return 0, err
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(began).Seconds(), nil
}
