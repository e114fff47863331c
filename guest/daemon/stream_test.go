//go:build linux

package daemon_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

// hosts are a client with pipes of their own for streams, and one without.
func (p *place) hosts() map[string]*client.Client {
	one := client.New(client.Config{Dial: p.dial, Token: testToken, SandboxID: p.id, OnePipe: true})
	p.t.Cleanup(one.Close)
	return map[string]*client.Client{"many_pipes": p.Client, "one_pipe": one}
}

func TestEveryByteArrives(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const n = 20 << 20
	want := make([]byte, n)
	patternAt(want, 0)
	for name, c := range p.hosts() {
		for _, term := range []bool{true, false} {
			id := fmt.Sprint(name, term)
			spec := program(id, "spew", strconv.Itoa(n))
			spec.Stdin = true
			stream := guest.Stdout
			if term {
				spec, stream = tty(spec), guest.Terminal
			}
			p.start(spec)
			o, err := c.Output(within(t), id, stream, 0)
			if err != nil {
				t.Fatal(err)
			}
			until(t, io.LimitReader(o, 1), "R")
			in, err := c.Input(within(t), id)
			if err != nil {
				t.Fatal(err)
			}
			if err := in.Write(1, []byte("g")); err != nil {
				t.Fatal(err)
			}
			h := sha256.New()
			if got, err := io.Copy(h, o); err != nil || got != n {
				t.Fatalf("%s: %d bytes, %v", id, got, err)
			}
			if [32]byte(h.Sum(nil)) != sha256.Sum256(want) {
				t.Fatalf("%s: other bytes", id)
			}
			again, err := c.Output(within(t), id, stream, n-5)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(again); err != nil || again.From != n-5 || string(b) != string(want[n-6:]) {
				t.Fatalf("%s: again from %d: %q, %v", id, again.From, b, err)
			}
			if _, err := c.Output(within(t), id, stream, n+2); fault.CodeOf(err) != "offset_beyond_end" {
				t.Fatalf("%s: beyond the end: %v", id, err)
			}
			_, _, _ = o.Close(), again.Close(), in.Close()
		}
	}
}

// A host that reads more slowly than a program writes gets every byte: the program waits, as at any terminal.
func TestSlowHostGetsEveryByte(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const n = 12 << 20
	for name, c := range p.hosts() {
		spec := program(name, "spew", strconv.Itoa(n))
		spec.Stdin, spec.MaxLog = true, 2<<20
		p.start(tty(spec))
		o, err := c.Output(within(t), name, guest.Terminal, 0)
		if err != nil {
			t.Fatal(err)
		}
		until(t, io.LimitReader(o, 1), "R")
		in, err := c.Input(within(t), name)
		if err != nil {
			t.Fatal(err)
		}
		if err := in.Write(1, []byte("g")); err != nil {
			t.Fatal(err)
		}
		want := make([]byte, n)
		patternAt(want, 0)
		buf := make([]byte, 64<<10)
		for got := 0; got < n; {
			k, err := o.Read(buf)
			if err != nil {
				t.Fatalf("%s: after %d bytes: %v", name, got, err)
			}
			if !bytes.Equal(buf[:k], want[got:got+k]) {
				t.Fatalf("%s: other bytes at %d", name, got)
			}
			got += k
			time.Sleep(time.Millisecond) // slower than any program
		}
		_, _ = o.Close(), in.Close()
	}
}

// A host that is there but takes nothing holds up nobody for long.
func TestHostThatTakesNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	spec := program("a", "spew", strconv.Itoa(12<<20))
	spec.Stdin, spec.MaxLog = true, 2<<20
	p.start(tty(spec))
	o, err := p.Output(within(t), "a", guest.Terminal, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	in, err := p.Input(within(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := in.Write(1, []byte("g")); err != nil {
		t.Fatal(err)
	}
	// One byte more when the key was typed, and echoed, before the program made its terminal raw.
	if got := p.wait("a"); got.Ends[guest.Terminal] < 12<<20+1 || *got.ExitCode != 0 {
		t.Fatalf("process %+v", got)
	}
}

// Nobody reads: the program goes on, and what is beyond the cap is dropped from the front.
func TestNobodyAtTheOtherEnd(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const n = 12 << 20
	spec := program("a", "spew", strconv.Itoa(n))
	spec.Stdin, spec.MaxLog = true, 4<<20
	p.start(spec)
	in, err := p.Input(within(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := in.Write(1, []byte("g")); err != nil {
		t.Fatal(err)
	}
	if got := p.wait("a"); got.Ends[guest.Stdout] != n+1 || *got.ExitCode != 0 {
		t.Fatalf("process %+v", got)
	}
	o, err := p.Output(within(t), "a", guest.Stdout, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if o.From < n-(4<<20) || o.From > n-(2<<20) {
		t.Fatalf("begins at %d", o.From)
	}
	want := make([]byte, n+1-o.From)
	patternAt(want, o.From-1)
	if b, err := io.ReadAll(o); err != nil || string(b) != string(want) {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if err := p.Ack(within(t), "a", guest.Stdout, n+1); err != nil {
		t.Fatal(err)
	}
	again, err := p.Output(within(t), "a", guest.Stdout, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.From <= o.From {
		t.Fatalf("still begins at %d after everything was acknowledged", again.From)
	}
	if err := p.Ack(within(t), "a", guest.Stdout, n+2); !fault.Is(err, fault.Invalid) {
		t.Fatalf("acknowledging what never was: %v", err)
	}
}

// cutter passes pipes through and can cut them all.
type cutter struct {
	p     *place
	mu    sync.Mutex
	conns []net.Conn
}

func (c *cutter) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	rwc, err := c.p.dial(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, rwc.(net.Conn))
	return rwc, nil
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// A host whose pipe is cut again and again misses no byte, and nothing it sends twice is typed twice.
func TestCutsLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	for _, one := range []bool{false, true} {
		p := newPlace(t)
		w := &cutter{p: p}
		c := client.New(client.Config{Dial: w.dial, Token: testToken, SandboxID: p.id, OnePipe: one})
		defer c.Close()
		ctx := within(t)
		spec := guest.ProcessSpec{ID: "a", Argv: []string{"cat"}, Stdin: true}
		if _, err := c.Start(ctx, spec); err != nil {
			t.Fatal(err)
		}
		const frames = 300
		var want strings.Builder
		for i := range frames {
			fmt.Fprintf(&want, "line %d\n", i+1)
		}
		go func() { // ends with ctx, or when all frames are taken
			var next uint64 = 1
			for next <= frames && ctx.Err() == nil {
				in, err := c.Input(ctx, "a")
				if err != nil {
					continue
				}
				for seq := in.Last + 1; seq <= frames; seq++ {
					if in.Write(seq, fmt.Appendf(nil, "line %d\n", seq)) != nil {
						break
					}
					if seq%7 == 0 { // again, as somebody does who does not know whether it arrived
						if in.Write(seq, fmt.Appendf(nil, "line %d\n", seq)) != nil {
							break
						}
					}
					time.Sleep(time.Millisecond)
				}
				_ = in.Close()
				if now, err := c.Input(ctx, "a"); err == nil {
					next = now.Last + 1
					_ = now.Close()
				}
			}
		}()
		go func() { // ends with the test
			for range 20 {
				select {
				case <-time.After(20 * time.Millisecond):
					w.cut()
				case <-ctx.Done():
				}
			}
		}()
		var got []byte
		buf := make([]byte, 100)
		for len(got) < want.Len() && ctx.Err() == nil {
			o, err := c.Output(ctx, "a", guest.Stdout, int64(len(got)))
			if err != nil {
				continue
			}
			if o.From != int64(len(got)) {
				t.Fatalf("a gap: %d to %d", len(got), o.From)
			}
			for err == nil && len(got) < want.Len() {
				var n int
				n, err = o.Read(buf)
				got = append(got, buf[:n]...)
			}
			_ = o.Close()
		}
		if string(got) != want.String() {
			t.Fatalf("one pipe %v: got %d bytes, want %d", one, len(got), want.Len())
		}
	}
}

// A program that takes no input holds up its own input only.
func TestDeafProgram(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for name, c := range p.hosts() {
		ctx := within(t)
		for _, term := range []bool{false, true} {
			id := fmt.Sprint("deaf_", name, term)
			spec := program(id, "deaf")
			spec.Stdin = true
			if term {
				spec = tty(spec)
			}
			p.start(spec)
			in, err := c.Input(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			if err := in.Write(1, make([]byte, guest.MaxInput)); err != nil { // is taken as a whole
				t.Fatal(err)
			}
			stuck := make(chan error, 1)
			go func() {
				for seq := uint64(2); ; seq++ {
					if err := in.Write(seq, make([]byte, guest.MaxInput)); err != nil {
						stuck <- err
						return
					}
				}
			}()
			echo := fmt.Sprint("echo_", name, term)
			p.start(tty(program(echo, "echo")))
			o, err := c.Output(ctx, echo, guest.Terminal, 0)
			if err != nil {
				t.Fatal(err)
			}
			until(t, o, "R")
			keys, err := c.Input(ctx, echo)
			if err != nil {
				t.Fatal(err)
			}
			if err := keys.Write(1, []byte("k")); err != nil {
				t.Fatal(err)
			}
			until(t, o, "k")
			if _, err := c.Stop(ctx, id, 0); err != nil {
				t.Fatal(err)
			}
			<-stuck
			_, _, _ = o.Close(), keys.Close(), in.Close()
		}
	}
}

// 1 MiB pasted into a program that reads arrives whole.
func TestLargeInput(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start(guest.ProcessSpec{ID: "a", Argv: []string{"sha256sum"}, Stdin: true})
	in, err := p.Input(within(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	buf := make([]byte, guest.MaxInput)
	for seq := range uint64(4) {
		patternAt(buf, int64(seq)<<20)
		h.Write(buf)
		if err := in.Write(seq+1, buf); err != nil {
			t.Fatal(err)
		}
	}
	if err := in.Write(5, make([]byte, guest.MaxInput+1)); !fault.Is(err, fault.TooLarge) {
		t.Fatalf("a frame that is too large: %v", err)
	}
	if err := p.CloseStdin(within(t), "a"); err != nil {
		t.Fatal(err)
	}
	p.wait("a")
	if got := p.all("a", guest.Stdout); got != fmt.Sprintf("%x  -\n", h.Sum(nil)) {
		t.Fatalf("got %q", got)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
}

// A firehose that nobody reads does not hold up another stream of the same pipe.
func TestStreamsDoNotHoldUpEachOther(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for name, c := range p.hosts() {
		ctx := within(t)
		p.start(shell("yes_"+name, `exec yes`))
		hose, err := c.Output(ctx, "yes_"+name, guest.Stdout, 0)
		if err != nil {
			t.Fatal(err)
		}
		until(t, hose, "y\n")
		for i := range 5 {
			id := fmt.Sprint("e_", name, i)
			p.start(shell(id, `echo here`))
			o, err := c.Output(ctx, id, guest.Stdout, 0)
			if err != nil {
				t.Fatal(err)
			}
			until(t, o, "here\n")
			_ = o.Close()
		}
		_ = hose.Close()
		if _, err := c.Stop(ctx, "yes_"+name, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// A new input stream takes over from one that is still in the middle of a frame the program does not take: what the old one
// was about to type never comes between what the new one types.
func TestNewInputTakesOver(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for name, c := range p.hosts() {
		ctx := within(t)
		spec := shell("a_"+name, `while ! [ -e go_`+name+` ]; do sleep 0.01; done; exec sha256sum`)
		spec.Stdin = true
		p.start(spec)
		old, err := c.Input(ctx, spec.ID)
		if err != nil {
			t.Fatal(err)
		}
		stuck, sent := make(chan error, 1), make(chan bool)
		go func() {
			for seq := uint64(1); ; seq++ {
				if err := old.Write(seq, bytes.Repeat([]byte("o"), guest.MaxInput)); err != nil {
					stuck <- err
					return
				}
				if seq == 2 { // the next one is more than the guest holds
					close(sent)
				}
			}
		}()
		<-sent
		in, err := c.Input(ctx, spec.ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-stuck; err == nil {
			t.Error("the old stream goes on")
		}
		if err := os.WriteFile(filepath.Join(p.root, "go_"+name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		h := sha256.New()
		for range in.Last {
			h.Write(bytes.Repeat([]byte("o"), guest.MaxInput))
		}
		h.Write([]byte("new"))
		if err := in.Write(in.Last+1, []byte("new")); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseStdin(ctx, spec.ID); err != nil {
			t.Fatal(err)
		}
		if got := p.all(spec.ID, guest.Stdout); got != fmt.Sprintf("%x  -\n", h.Sum(nil)) {
			t.Errorf("%s: after %d old frames: %q", name, in.Last, got)
		}
		_, _ = old.Close(), in.Close()
	}
}
