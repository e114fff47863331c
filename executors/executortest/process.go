package executortest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/id"
)

func testProcesses(t *testing.T, cfg Config) {
	t.Run("output is exact to the byte", func(t *testing.T) {
		b := newBox(t, cfg)
		// Every byte value in octal, many times, and on both streams.
		var script strings.Builder
		script.WriteString("i=0; while [ $i -lt 200 ]; do printf '")
		want := make([]byte, 0, 256*200)
		for v := range 256 {
			fmt.Fprintf(&script, "\\%03o", v)
		}
		script.WriteString("'; i=$((i+1)); done; printf err >&2")
		for range 200 {
			for v := range 256 {
				want = append(want, byte(v))
			}
		}
		p := b.sh(script.String())
		if got := b.all(p.ID, guest.Stdout, 0); !bytes.Equal(got, want) {
			t.Errorf("stdout has %d bytes, want %d, or other ones", len(got), len(want))
		}
		if got := b.all(p.ID, guest.Stderr, 0); string(got) != "err" {
			t.Errorf("stderr %q", got)
		}
		end := b.wait(p.ID)
		if end.Ends[guest.Stdout] != int64(len(want)) || end.Ends[guest.Stderr] != 3 {
			t.Errorf("ends %v", end.Ends)
		}
	})
	t.Run("exit code", func(t *testing.T) {
		b := newBox(t, cfg)
		end := b.wait(b.sh("exit 43").ID)
		if end.ExitCode == nil || *end.ExitCode != 43 || end.Signal != "" || end.Reason != "exit" {
			t.Errorf("ended as %+v", end)
		}
		if end.EndedAt < end.StartedAt || end.StartedAt == 0 {
			t.Errorf("times %d to %d", end.StartedAt, end.EndedAt)
		}
	})
	t.Run("exit by signal", func(t *testing.T) {
		b := newBox(t, cfg)
		end := b.wait(b.sh("kill -KILL $$").ID)
		if end.ExitCode != nil || end.Signal != "SIGKILL" || end.Reason != "signal" {
			t.Errorf("ended as %+v", end)
		}
	})
	t.Run("a program that is not there", func(t *testing.T) {
		b := newBox(t, cfg)
		p, err := b.c.Start(b.ctx, guest.ProcessSpec{ID: id.New("p"), Argv: []string{"/no/such/program"}})
		if err == nil && (p.State != guest.Exited || !strings.HasPrefix(p.Reason, "start_failed")) {
			t.Errorf("Start answered %+v", p)
		}
	})
	t.Run("start is idempotent on the id", func(t *testing.T) {
		b := newBox(t, cfg)
		spec := guest.ProcessSpec{ID: id.New("p"), Argv: []string{"/bin/sh", "-c", "echo $$; sleep 1000"}}
		first, second := b.start(spec), b.start(spec)
		if first.Pid != second.Pid {
			t.Errorf("two processes: %d and %d", first.Pid, second.Pid)
		}
	})
	t.Run("environment and working folder", func(t *testing.T) {
		b := newBox(t, cfg)
		p := b.start(guest.ProcessSpec{Argv: []string{"/bin/sh", "-c", `printf '%s|%s' "$PW_TEST" "$(pwd)"`},
			Env: map[string]string{"PW_TEST": "a b\n'\"$"}, Cwd: "dir"})
		hello, err := b.c.Hello(b.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(b.all(p.ID, guest.Stdout, 0)), "a b\n'\"$|"+hello.Root+"/dir"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("stdin is answered twice and closed", func(t *testing.T) {
		b := newBox(t, cfg)
		p := b.start(guest.ProcessSpec{Argv: []string{"cat"}, Stdin: true})
		sc := b.watch(p.ID, guest.Stdout, 0)
		in := b.input(p.ID)
		b.typeIn(in, 1, "first\n")
		sc.expectText("first\n")
		b.typeIn(in, 2, "second\n")
		sc.expectText("second\n")
		if err := b.c.CloseStdin(b.ctx, p.ID); err != nil {
			t.Fatalf("CloseStdin: %v", err)
		}
		if got := sc.expectEnd(); got != "first\nsecond\n" {
			t.Errorf("read %q", got)
		}
		if end := b.wait(p.ID); end.ExitCode == nil || *end.ExitCode != 0 {
			t.Errorf("ended as %+v", end)
		}
	})
	t.Run("a megabyte of input arrives whole", func(t *testing.T) {
		b := newBox(t, cfg)
		p := b.start(guest.ProcessSpec{Argv: []string{"sha256sum"}, Stdin: true})
		in := b.input(p.ID)
		data := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16)
		for i := 0; i < 16; i++ {
			b.typeIn(in, uint64(i+1), string(data[i<<16:(i+1)<<16]))
		}
		if err := b.c.CloseStdin(b.ctx, p.ID); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		if got := string(b.all(p.ID, guest.Stdout, 0)); !strings.HasPrefix(got, hex.EncodeToString(sum[:])) {
			t.Errorf("hash %q", got)
		}
	})
	t.Run("time limit", func(t *testing.T) {
		b := newBox(t, cfg)
		p := b.start(guest.ProcessSpec{Argv: []string{"sleep", "1000"}, TimeoutMs: 200})
		if end := b.wait(p.ID); end.Reason != "timeout" {
			t.Errorf("ended as %+v", end)
		}
	})
	t.Run("a firehose does not block another process's echo", func(t *testing.T) {
		b := newBox(t, cfg)
		hose := b.tty("yes xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")
		// A reader that never reads: its stream's window fills, which must not affect others.
		stuck, err := b.c.Output(b.ctx, hose.ID, guest.Terminal, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer stuck.Close()
		fast := b.watch(hose.ID, guest.Terminal, 0)
		fast.expect("a megabyte", func(s string) bool { return len(s) > 1<<20 })
		p := b.tty("stty -echo; echo ready; cat")
		sc := b.watch(p.ID, guest.Terminal, 0)
		sc.expectText("ready")
		in := b.input(p.ID)
		for i := 1; i <= 10; i++ {
			b.typeIn(in, uint64(i), fmt.Sprintf("key%d\n", i))
			sc.expectText(fmt.Sprintf("key%d\r\n", i))
		}
		if _, err := b.c.Stop(b.ctx, hose.ID, 0); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("list and forget", func(t *testing.T) {
		b := newBox(t, cfg)
		p := b.sh("true")
		b.wait(p.ID)
		all, err := b.c.Processes(b.ctx)
		if err != nil || len(all) != 1 || all[0].ID != p.ID {
			t.Fatalf("Processes: %+v, %v", all, err)
		}
		if err := b.c.Remove(b.ctx, p.ID); err != nil {
			t.Fatalf("Remove: %v", err)
		}
		if _, err := b.c.Process(b.ctx, p.ID); err == nil {
			t.Error("a removed process is still known")
		}
	})
}
