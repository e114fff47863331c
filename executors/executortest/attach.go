package executortest

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
)

func testAttach(t *testing.T, cfg Config) {
	t.Run("again by offset after the pipe was cut", func(t *testing.T) {
		b := newBox(t, cfg)
		const lines = 60000
		p := b.sh("i=0; while [ $i -lt " + strconv.Itoa(lines) + " ]; do echo line $i; i=$((i+1)); done")
		var want bytes.Buffer
		for i := range lines {
			want.WriteString("line " + strconv.Itoa(i) + "\n")
		}
		var got bytes.Buffer
		for cuts := 0; ; cuts++ {
			out, err := b.c.Output(b.ctx, p.ID, guest.Stdout, int64(got.Len()))
			if err != nil {
				t.Fatalf("Output after %d cuts: %v", cuts, err)
			}
			if out.From != int64(got.Len()) {
				t.Fatalf("Output begins at %d, asked for %d", out.From, got.Len())
			}
			n, err := io.CopyN(&got, out, 97_003)
			if err == nil && cuts < 5 {
				b.wire.cut()
				out.Close()
				continue
			}
			if err == nil {
				_, err = io.Copy(&got, out)
			}
			out.Close()
			if err != nil && !errors.Is(err, io.EOF) {
				t.Fatalf("reading after %d cuts and %d bytes: %v", cuts, n, err)
			}
			break
		}
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("got %d bytes, want %d, or other ones", got.Len(), want.Len())
		}
	})
	t.Run("many readers, each from its own offset", func(t *testing.T) {
		b := newBox(t, cfg)
		p := b.sh("printf 0123456789; sleep 0.2; printf abcdef")
		for _, from := range []int64{0, 3, 10, 15, 16} {
			if got, want := string(b.all(p.ID, guest.Stdout, from)), "0123456789abcdef"[from:]; got != want {
				t.Errorf("from %d: %q, want %q", from, got, want)
			}
		}
	})
	t.Run("an acknowledged byte may be forgotten, and the reader gets the gap", func(t *testing.T) {
		b := newBox(t, cfg)
		p := b.sh("printf 0123456789")
		b.wait(p.ID)
		if err := b.c.Ack(b.ctx, p.ID, guest.Stdout, 4); err != nil {
			t.Fatalf("Ack: %v", err)
		}
		out, err := b.c.Output(b.ctx, p.ID, guest.Stdout, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		got, err := io.ReadAll(out)
		if err != nil || out.From > 4 || string(got) != "0123456789"[out.From:] {
			t.Errorf("from %d: %q, %v", out.From, got, err)
		}
	})
	t.Run("repeated input is typed once", func(t *testing.T) {
		b := newBox(t, cfg)
		p := b.start(guest.ProcessSpec{Argv: []string{"cat"}, Stdin: true})
		sc := b.watch(p.ID, guest.Stdout, 0)
		in := b.input(p.ID)
		b.typeIn(in, 1, "a\n")
		b.typeIn(in, 2, "b\n")
		sc.expectText("b\n")
		b.typeIn(in, 2, "b\n")
		b.wire.cut()
		eventually(t, "input is taken after a cut", func() bool { // the first try may be the one that notices the cut
			again, err := b.c.Input(b.ctx, p.ID)
			if err != nil {
				return false
			}
			t.Cleanup(func() { again.Close() })
			if again.Last != 2 {
				t.Errorf("the guest has taken frame %d, not 2", again.Last)
			}
			return again.Write(1, []byte("a\n")) == nil && again.Write(2, []byte("b\n")) == nil && again.Write(3, []byte("c\n")) == nil
		})
		eventually(t, "the third frame arrived", func() bool {
			now, err := b.c.Process(b.ctx, p.ID)
			return err == nil && now.Ends[guest.Stdout] >= 6
		})
		if err := b.c.CloseStdin(b.ctx, p.ID); err != nil {
			t.Fatal(err)
		}
		text := string(b.all(p.ID, guest.Stdout, 0))
		if text != "a\nb\nc\n" {
			t.Errorf("typed %q", text)
		}
	})
	t.Run("a process goes on without a reader", func(t *testing.T) {
		b := newBox(t, cfg)
		p := b.tty("echo ready; read -r x; i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; echo all done")
		sc := b.watch(p.ID, guest.Terminal, 0)
		sc.expectText("ready")
		b.typeIn(b.input(p.ID), 1, "go\r")
		sc.expectText("line 0")
		sc.stop()
		b.wire.cut()
		if end := b.wait(p.ID); end.ExitCode == nil || *end.ExitCode != 0 {
			t.Errorf("ended as %+v", end)
		}
		if text := string(b.all(p.ID, guest.Terminal, 0)); !strings.Contains(text, "line 19999\r\nall done\r\n") {
			t.Errorf("read %q", last(text, 200))
		}
	})
	t.Run("a restarted server finds everything again", func(t *testing.T) {
		b := newBox(t, cfg)
		p := b.tty("i=0; while [ $i -lt 30000 ]; do echo line $i; i=$((i+1)); done; read -r x; echo got $x")
		head := b.watch(p.ID, guest.Terminal, 0)
		head.expect("the beginning", func(s string) bool { return len(s) > 10_000 })
		before, _ := head.text()
		head.stop()
		b.wire.cut() // the server dies: its pipes are cut without a goodbye

		b.ex = cfg.New(t, b.dir)
		handles, err := b.ex.List(b.ctx)
		if err != nil || len(handles) != 1 || handles[0].ID != b.spec.ID {
			t.Fatalf("List: %+v, %v", handles, err)
		}
		sb, err := b.ex.Recover(b.ctx, b.sb.Handle())
		if err != nil {
			t.Fatalf("Recover: %v", err)
		}
		b.c.Close()
		b.sb = sb
		b.c, b.wire = newClient(sb)
		rest := b.watch(p.ID, guest.Terminal, int64(len(before)))
		// How much of it came before the cut is unknown: it may have been all.
		rest.expect("last line", func(s string) bool { return strings.Contains(before+s, "line 29999\r\n") })
		b.typeIn(b.input(p.ID), 1, "again\r")
		tail := rest.expectEnd()
		var want strings.Builder
		for i := range 30000 {
			want.WriteString("line " + strconv.Itoa(i) + "\r\n")
		}
		if got := before + tail; !strings.HasPrefix(got, want.String()) || !strings.HasSuffix(got, "got again\r\n") {
			t.Errorf("bytes are missing or changed: %d of them, end %q", len(got), last(got, 100))
		}
		if end := b.wait(p.ID); end.ExitCode == nil || *end.ExitCode != 0 {
			t.Errorf("ended as %+v", end)
		}
	})
	t.Run("the exit is reported after a restart", func(t *testing.T) {
		b := newBox(t, cfg)
		p := b.sh("echo bye; exit 43")
		b.wire.cut()
		ex := cfg.New(t, b.dir)
		sb, err := ex.Recover(b.ctx, executors.Handle{Kind: b.sb.Handle().Kind, ID: b.spec.ID})
		if err != nil {
			t.Fatalf("Recover by the id alone: %v", err)
		}
		c, _ := newClient(sb)
		defer c.Close()
		end, err := c.Wait(b.ctx, p.ID)
		if err != nil || end.ExitCode == nil || *end.ExitCode != 43 {
			t.Errorf("ended as %+v, %v", end, err)
		}
	})
}
