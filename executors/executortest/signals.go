package executortest

import (
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
)

// heartbeat is a shell line whose process, in a session of its own, appends to a file as long as it lives.
const heartbeat = `setsid sh -c 'trap "" HUP; while :; do echo x >> beat; sleep 0.05; done' </dev/null >/dev/null 2>&1 &`

// beats reports whether the heartbeat still goes on.
func (b *box) beats() bool {
	size := func() string { return strings.TrimSpace(b.run("wc -c < beat 2>/dev/null || echo 0")) }
	before := size()
	time.Sleep(300 * time.Millisecond) // six heartbeats in this time, or none
	return size() != before
}

func testSignals(t *testing.T, cfg Config) {
	t.Run("a signal reaches every descendant", func(t *testing.T) {
		b := newBox(t, cfg)
		p := b.tty(`setsid sh -c 'trap "echo got > usr1; exit" USR1; while :; do sleep 0.05; done' </dev/null >/dev/null 2>&1 &
			trap 'exit 9' USR1; sleep 0.3; echo ready; while :; do sleep 0.05; done`)
		b.watch(p.ID, guest.Terminal, 0).expectText("ready")
		if err := b.c.Signal(b.ctx, p.ID, "SIGUSR1"); err != nil {
			t.Fatalf("Signal: %v", err)
		}
		if end := b.wait(p.ID); end.ExitCode == nil || *end.ExitCode != 9 {
			t.Errorf("the lead ended as %+v", end)
		}
		eventually(t, "the setsid'd child got the signal", func() bool {
			return strings.TrimSpace(b.run("cat usr1 2>/dev/null || true")) == "got"
		})
	})
	t.Run("stop gives a grace", func(t *testing.T) {
		b := newBox(t, cfg)
		p := b.tty(`trap 'echo cleaning up; exit 7' TERM; echo ready; while :; do sleep 0.05; done`)
		sc := b.watch(p.ID, guest.Terminal, 0)
		sc.expectText("ready")
		end, err := b.c.Stop(b.ctx, p.ID, 10*time.Second)
		if err != nil {
			t.Fatalf("Stop: %v", err)
		}
		if end.State != guest.Exited || end.ExitCode == nil || *end.ExitCode != 7 || end.Reason != "stopped" {
			t.Errorf("ended as %+v", end)
		}
		if text := sc.expectEnd(); !strings.Contains(text, "cleaning up") {
			t.Errorf("read %q", text)
		}
	})
	t.Run("stop kills processes that ignore SIGTERM, in every session", func(t *testing.T) {
		b := newBox(t, cfg)
		p := b.tty(`trap '' TERM HUP; ` + heartbeat + ` echo ready; while :; do sleep 0.05; done`)
		b.watch(p.ID, guest.Terminal, 0).expectText("ready")
		eventually(t, "the heart beats", b.beats)
		end, err := b.c.Stop(b.ctx, p.ID, 200*time.Millisecond)
		if err != nil {
			t.Fatalf("Stop: %v", err)
		}
		if end.State != guest.Exited || end.Signal != "SIGKILL" {
			t.Errorf("ended as %+v", end)
		}
		if b.beats() {
			t.Error("a setsid'd child that ignores TERM lives on")
		}
	})
	t.Run("stop also ends a tree whose lead has gone", func(t *testing.T) {
		b := newBox(t, cfg)
		p := b.tty(heartbeat + ` sleep 0.2`)
		b.wait(p.ID)
		if !b.beats() {
			t.Skip("this executor ends the tree with its lead")
		}
		if _, err := b.c.Stop(b.ctx, p.ID, 0); err != nil {
			t.Fatalf("Stop: %v", err)
		}
		if b.beats() {
			t.Error("the orphan lives on")
		}
	})
	t.Run("destroy ends everything", func(t *testing.T) {
		b := newBox(t, cfg)
		p := b.tty(`trap '' TERM HUP; ` + heartbeat + ` echo ready; while :; do sleep 0.05; done`)
		b.watch(p.ID, guest.Terminal, 0).expectText("ready")
		eventually(t, "the heart beats", b.beats)
		if err := b.sb.Destroy(b.ctx); err != nil {
			t.Fatalf("Destroy: %v", err)
		}
		// The worktree survives its sandbox: a second sandbox looks at it.
		b2 := *b
		b2.spec.ID += "b"
		sb, err := b.ex.Create(b.ctx, b2.spec)
		if err != nil {
			t.Fatalf("Create: %v", err)
		}
		b2.sb = sb
		b2.c, b2.wire = newClient(sb)
		defer func() {
			b2.c.Close()
			if err := sb.Destroy(b2.ctx); err != nil {
				t.Errorf("Destroy: %v", err)
			}
		}()
		if b2.beats() {
			t.Error("a setsid'd child outlives its sandbox")
		}
	})
}
