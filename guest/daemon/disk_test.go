//go:build linux

package daemon_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

// A disk that is full takes nothing from a program: its output stays in memory, the guest says so, and files that do not fit are
// refused without a trace.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=3m"); err != nil {
		t.Skipf("a small disk cannot be made here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	p := newPlace(t, disk)
	ctx := within(t)
	if _, err := p.write("kept", []byte("old"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.write("kept", bytes.Repeat([]byte("x"), 4<<20), client.WriteOptions{}); !fault.Is(err, fault.DiskFull) {
		t.Fatalf("a file that does not fit: %v", err)
	}
	eventually(t, "the old file stands alone", func() bool {
		b, _, err := p.read("kept")
		entries, _ := os.ReadDir(p.root)
		return err == nil && string(b) == "old" && len(entries) == 1
	})
	const n = 8 << 20
	spec := program("a", "spew", strconv.Itoa(n))
	spec.Stdin = true
	p.start(spec)
	if err := os.WriteFile(filepath.Join(disk, "filler"), bytes.Repeat([]byte("x"), 4<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	o, err := p.Output(ctx, "a", guest.Stdout, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	until(t, io.LimitReader(o, 1), "R")
	in, err := p.Input(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := in.Write(1, []byte("g")); err != nil {
		t.Fatal(err)
	}
	// The program writes more than the disk and memory take: it waits for its reader, who gets every byte.
	end := p.readWhole("a", o)
	if end != n+1 {
		t.Fatalf("the output ended at %d", end)
	}
	if h, err := p.Hello(ctx); err != nil || !strings.Contains(h.Degraded, "no space left") {
		t.Fatalf("hello %+v, %v", h, err)
	}
	if got := p.wait("a"); got.ExitCode == nil || *got.ExitCode != 0 {
		t.Fatalf("process %+v", got)
	}
	if rec, err := guest.ReadProcessRecord(p.dir, "a"); err != nil || rec.State != guest.Exited || rec.ExitCode == nil {
		t.Fatalf("its record is %+v, %v", rec, err)
	}
	p.start(shell("b", "echo still works"))
	if got := p.all("b", guest.Stdout); got != "still works\n" {
		t.Fatalf("another process: %q", got)
	}
}

// readWhole reads an output, of which one byte was read, to its end, checks every byte, and returns where it ended.
func (p *place) readWhole(id string, o *client.Output) int64 {
	p.t.Helper()
	b, err := io.ReadAll(o)
	if err != nil {
		p.t.Fatalf("the output was cut after %d bytes: %v", len(b), err)
	}
	want := make([]byte, len(b))
	patternAt(want, o.From)
	if !bytes.Equal(b, want) {
		p.t.Fatal("other bytes")
	}
	return o.From + 1 + int64(len(b))
}

// Nobody reads what a program writes on a full disk: it waits instead of losing a byte, and goes on once there is room.
func TestFullDiskMakesProgramsWait(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=12m"); err != nil {
		t.Skipf("a small disk cannot be made here: what a program's output does on a full one is NOT TESTED (%v)", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	p := newPlace(t, disk)
	ctx := within(t)
	const n = 6 << 20
	spec := program("a", "spew", strconv.Itoa(n))
	spec.Stdin = true
	p.start(spec)
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, bytes.Repeat([]byte("x"), 12<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	in, err := p.Input(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := in.Write(1, []byte("g")); err != nil {
		t.Fatal(err)
	}
	ends := func() int64 {
		info, err := p.Process(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		return info.Ends[guest.Stdout]
	}
	eventually(t, "memory holds what it may", func() bool { return ends() >= 2<<20 })
	if end := ends(); end > 3<<20 {
		t.Fatalf("the program wrote %d bytes to nobody and no disk", end)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	p.wait("a")
	o, err := p.Output(ctx, "a", guest.Stdout, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	until(t, io.LimitReader(o, 1), "R")
	if end := p.readWhole("a", o); o.From != 0 || end != n+1 {
		t.Fatalf("the output is from %d to %d", o.From, end)
	}
	if h, err := p.Hello(ctx); err != nil || h.Degraded != "" {
		t.Fatalf("hello %+v, %v", h, err)
	}
}

// A host whose disk is full has read what it could not store: the guest drops nothing of it, and the program waits once as much is
// kept as may be. With room it goes on, and all is there.
func TestAFullDiskOfTheHostDropsNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ctx := within(t)
	const n = 12 << 20
	spec := program("a", "spew", strconv.Itoa(n))
	spec.Stdin, spec.MaxLog = true, 4<<20
	p.start(spec)
	o, err := p.Output(ctx, "a", guest.Stdout, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	until(t, io.LimitReader(o, 1), "R")
	if err := p.AckFull(ctx, "a", guest.Stdout, 0); err != nil {
		t.Fatal(err)
	}
	in, err := p.Input(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := in.Write(1, []byte("g")); err != nil {
		t.Fatal(err)
	}
	read := make(chan int64, 1)
	go func() {
		got, _ := io.Copy(io.Discard, o)
		read <- got
	}()
	end := func() int64 {
		t.Helper()
		if err := p.AckFull(ctx, "a", guest.Stdout, 0); err != nil {
			t.Fatal(err)
		}
		info, err := p.Process(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		return info.Ends[guest.Stdout]
	}
	eventually(t, "the guest keeps what it may", func() bool { return end() >= 2<<20 })
	for range 200 {
		if at := end(); at > 3<<20 {
			t.Fatalf("the program wrote %d bytes that the guest cannot keep", at)
		}
	}
	again, err := p.Output(ctx, "a", guest.Stdout, 1)
	if err != nil || again.From != 1 {
		t.Fatalf("what was read is not kept: from %d, %v", again.From, err)
	}
	_ = again.Close()
	if err := p.Ack(ctx, "a", guest.Stdout, 1<<20); err != nil { // there is room
		t.Fatal(err)
	}
	if got := p.wait("a"); got.Ends[guest.Stdout] != n+1 {
		t.Fatalf("process %+v", got)
	}
	if got := <-read; got != n {
		t.Fatalf("its reader has %d bytes", got)
	}
}
