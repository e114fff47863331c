package executortest

import (
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
)

func testTerminal(t *testing.T, cfg Config) {
	t.Run("size and resize", func(t *testing.T) {
		b := newBox(t, cfg)
		p := b.start(guest.ProcessSpec{Tty: true, Size: guest.Size{Cols: 101, Rows: 37},
			Argv: []string{"/bin/sh", "-c", `trap 'stty size' WINCH; stty size; while :; do sleep 0.05; done`}})
		sc := b.watch(p.ID, guest.Terminal, 0)
		sc.expectText("37 101")
		if err := b.c.Resize(b.ctx, p.ID, guest.Size{Cols: 55, Rows: 22}); err != nil {
			t.Fatalf("Resize: %v", err)
		}
		sc.expectText("22 55")
		got, err := b.c.Process(b.ctx, p.ID)
		if err != nil || got.Size != (guest.Size{Cols: 55, Rows: 22}) {
			t.Errorf("Process tells size %+v, %v", got.Size, err)
		}
	})
	t.Run("it is the controlling terminal", func(t *testing.T) {
		b := newBox(t, cfg)
		// A shell interrupted between two programs takes the signal for theirs and goes on: a trap always fires.
		p := b.tty("trap 'exit 130' INT; echo ready; while :; do sleep 0.05; done; echo not reached")
		sc := b.watch(p.ID, guest.Terminal, 0)
		sc.expectText("ready")
		b.typeIn(b.input(p.ID), 1, "\x03") // Ctrl-C: the terminal itself sends the signal
		end := b.wait(p.ID)
		if end.Signal != "SIGINT" && (end.ExitCode == nil || *end.ExitCode != 130) {
			t.Errorf("ended as %+v", end)
		}
		if text := sc.expectEnd(); strings.Contains(text, "not reached") {
			t.Errorf("it went on: %q", text)
		}
	})
	t.Run("echo and line", func(t *testing.T) {
		b := newBox(t, cfg)
		p := b.tty("read -r line; echo got:$line")
		sc := b.watch(p.ID, guest.Terminal, 0)
		in := b.input(p.ID)
		b.typeIn(in, 1, "héllo\r")
		sc.expectText("got:héllo")
		sc.expectEnd()
	})
	t.Run("a background grandchild holds the terminal", func(t *testing.T) {
		b := newBox(t, cfg)
		p := b.tty("(trap '' HUP; exec sleep 1000) & echo lead ends")
		sc := b.watch(p.ID, guest.Terminal, 0)
		sc.expectText("lead ends")
		before := time.Now()
		end := b.wait(p.ID)
		if end.ExitCode == nil || *end.ExitCode != 0 {
			t.Errorf("ended as %+v", end)
		}
		sc.expectEnd()
		if d := time.Since(before); d > patience/2 {
			t.Errorf("the end took %s", d)
		}
	})
	t.Run("a child outlives its lead", func(t *testing.T) {
		b := newBox(t, cfg)
		p := b.tty("setsid sh -c 'sleep 0.3; echo late > late.txt' </dev/null >/dev/null 2>&1 & echo lead ends; sleep 0.1")
		if end := b.wait(p.ID); end.ExitCode == nil || *end.ExitCode != 0 {
			t.Fatalf("ended as %+v", end)
		}
		if got := string(b.all(p.ID, guest.Terminal, 0)); !strings.Contains(got, "lead ends") {
			t.Errorf("read %q", got)
		}
	})
}
