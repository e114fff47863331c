//go:build linux

package daemon_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
)

const benchBytes = 100 << 20

// cpuOf is the CPU time a process has used.
func cpuOf(tb testing.TB, pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		tb.Skip("no /proc")
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	u, _ := strconv.Atoi(f[11])
	s, _ := strconv.Atoi(f[12])
	return time.Duration(u+s) * 10 * time.Millisecond
}

func wantHash() [32]byte {
	all := make([]byte, benchBytes)
	patternAt(all, 0)
	return sha256.Sum256(all)
}

// bare starts a program at a PTY of our own: what everything else is compared with.
func bare(tb testing.TB, role string, args ...string) *os.File {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "GUEST_TEST_ROLE="+role)
	f, err := pty.Start(cmd)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = f.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return f
}

func flow(b *testing.B, want [32]byte, r io.Reader, start func(), pids ...int) {
	until(b, io.LimitReader(r, 1), "R")
	cpu := func() (sum time.Duration) {
		for _, pid := range pids {
			sum += cpuOf(b, pid)
		}
		return sum
	}
	before, t0 := cpu(), time.Now()
	start()
	buf, h := make([]byte, 64<<10), sha256.New()
	for got := 0; got < benchBytes; {
		n, err := r.Read(buf)
		h.Write(buf[:n])
		if got += n; err != nil && got < benchBytes {
			b.Fatalf("after %d bytes: %v", got, err)
		}
	}
	took, used := time.Since(t0), cpu()-before
	if [32]byte(h.Sum(nil)) != want {
		b.Fatal("wrong bytes")
	}
	b.ReportMetric(benchBytes/1e6/took.Seconds(), "MB/s")
	b.ReportMetric(used.Seconds()/(benchBytes/1e9), "cpu_s/GB")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkOutput moves 100 MiB from a program at a PTY: read directly, and through a guest in a process of its own. The CPU
// seconds are this process's and the guest's together, the hash included.
func BenchmarkOutput(b *testing.B) {
	want := wantHash()
	b.Run("bare", func(b *testing.B) {
		for range b.N {
			f := bare(b, "spew", strconv.Itoa(benchBytes))
			flow(b, want, f, func() { _, _ = f.Write([]byte("g")) }, os.Getpid())
		}
	})
	b.Run("guest", func(b *testing.B) {
		for i := range b.N {
			p := newPlace(b)
			id := fmt.Sprint("p", i)
			p.start(tty(program(id, "spew", strconv.Itoa(benchBytes))))
			o, err := p.Output(within(b), id, guest.Terminal, 0)
			if err != nil {
				b.Fatal(err)
			}
			in, err := p.Input(within(b), id)
			if err != nil {
				b.Fatal(err)
			}
			flow(b, want, o, func() { _ = in.Write(1, []byte("g")) }, os.Getpid(), p.cmd.Process.Pid)
			_ = o.Close()
		}
	})
}

func keystrokes(b *testing.B, r io.Reader, write func(i int, p []byte)) {
	until(b, r, "R")
	var all []time.Duration
	buf := make([]byte, 16)
	for i := range max(b.N, 500) {
		t0 := time.Now()
		write(i, []byte{'x'})
		if _, err := io.ReadFull(r, buf[:1]); err != nil {
			b.Fatal(err)
		}
		all = append(all, time.Since(t0))
		time.Sleep(time.Millisecond)
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Nanoseconds())/1e3, "p50_us")
	b.ReportMetric(float64(all[len(all)*99/100].Nanoseconds())/1e3, "p99_us")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkKeystroke is the time from a byte typed to its echo, a millisecond between two.
func BenchmarkKeystroke(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		f := bare(b, "echo")
		keystrokes(b, f, func(_ int, p []byte) { _, _ = f.Write(p) })
	})
	for _, one := range []bool{false, true} {
		name := "guest"
		if one {
			name = "guest_one_pipe"
		}
		b.Run(name, func(b *testing.B) {
			p := newPlace(b)
			c := client.New(client.Config{Dial: p.dial, Token: testToken, OnePipe: one})
			defer c.Close()
			p.start(tty(program("k", "echo")))
			o, err := c.Output(b.Context(), "k", guest.Terminal, 0)
			if err != nil {
				b.Fatal(err)
			}
			defer o.Close()
			in, err := c.Input(b.Context(), "k")
			if err != nil {
				b.Fatal(err)
			}
			defer in.Close()
			keystrokes(b, o, func(i int, p []byte) { _ = in.Write(uint64(i+1), p) })
		})
	}
}

// BenchmarkRest reports the guest's own memory with nothing to do, and with ten quiet terminals.
func BenchmarkRest(b *testing.B) {
	p := newPlace(b)
	if _, err := p.Hello(within(b)); err != nil {
		b.Fatal(err)
	}
	rss := func() float64 {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
		if err != nil {
			b.Skip("no /proc")
		}
		pages, _ := strconv.Atoi(strings.Fields(string(raw))[1])
		return float64(pages*syscall.Getpagesize()) / 1e6
	}
	b.ReportMetric(rss(), "MB_idle")
	for i := range 10 {
		p.start(tty(program(fmt.Sprint("s", i), "echo")))
	}
	b.ReportMetric(rss(), "MB_10_terminals")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkBundle sends a bundle to a guest and compares that with bare bytes over a socket like the pipe's: bundle_vs_raw is the
// ratio of the throughputs. The guest writes what it gets to its disk.
func BenchmarkBundle(b *testing.B) {
	p := newPlace(b)
	const size = 64 << 20
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i * i >> 7)
	}
	l, err := net.Listen("unix", filepath.Join(filepath.Dir(p.sock), "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	var ours, raw time.Duration
	n := 0
	for b.Loop() {
		n++
		at := time.Now()
		if err := p.SendBundle(within(b), fmt.Sprintf("prc_%d", n), bytes.NewReader(data), size, nil); err != nil {
			b.Fatal(err)
		}
		ours += time.Since(at)
		at = time.Now()
		done := make(chan error, 1)
		go func() {
			conn, err := l.Accept()
			if err == nil {
				var f *os.File
				if f, err = os.Create(filepath.Join(p.dir, "raw")); err == nil {
					_, err = io.Copy(f, struct{ io.Reader }{conn})
					_ = f.Close()
				}
			}
			done <- err
		}()
		conn, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		if _, err := conn.Write(data); err != nil {
			b.Fatal(err)
		}
		_ = conn.Close()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		raw += time.Since(at)
	}
	b.ReportMetric(raw.Seconds()/ours.Seconds(), "bundle_vs_raw")
	b.ReportMetric(float64(n)*size/(1<<20)/ours.Seconds(), "MB/s")
}
