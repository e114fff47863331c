//go:build linux

package daemon_test

import (
	"bytes"
	"context"
	"crypto/sha256"
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
	// A reader that keeps up would miss nothing; one that does not is told of the gap and goes on behind it.
	end := p.readToEnd(ctx, "a", o)
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

// readToEnd follows a stream over gaps, checking every byte, and returns where it ended.
func (p *place) readToEnd(ctx context.Context, id string, o *client.Output) int64 {
	p.t.Helper()
	off := o.From + 1
	for {
		h, want := sha256.New(), sha256.New()
		n, err := io.Copy(h, o)
		b := make([]byte, n)
		patternAt(b, off-1)
		want.Write(b)
		if !bytes.Equal(h.Sum(nil), want.Sum(nil)) {
			p.t.Fatalf("other bytes in [%d, %d)", off, off+n)
		}
		off += n
		if err == nil {
			return off
		}
		if o, err = p.Output(ctx, id, guest.Stdout, off); err != nil {
			p.t.Fatal(err)
		}
		defer o.Close()
		off = o.From
	}
}
