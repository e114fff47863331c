package reversedial

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

const token = "0123456789abcdef"

// door opens a door at path, in the place of one that was there.
func door(t *testing.T, path string) *Acceptor {
	t.Helper()
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	d := Open(l, token)
	t.Cleanup(d.Close)
	return d
}

// echo answers each pipe with what it is sent.
func echo(t *testing.T, l *Listener) {
	t.Helper()
	t.Cleanup(func() { _ = l.Close() })
	go func() { // ends with l
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
}

func talk(t *testing.T, d *Acceptor, say string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := d.Dial(ctx)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(say)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(say))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != say {
		t.Fatalf("read %q, %v", got, err)
	}
}

func TestTheGuestCallsAndTheHostTakes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	echo(t, Listen(path, token)) // before there is a host
	d := door(t, path)
	for range 3 * idle {
		talk(t, d, "hello")
	}
	// Many at once: more than are kept ready.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range 3 * idle {
		conn, err := d.Dial(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
}

func TestTheGuestCallsTheNextHost(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	first := door(t, path)
	echo(t, Listen(path, token))
	talk(t, first, "one")
	first.Close()
	if _, err := first.Dial(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Dial at a closed door: %v", err)
	}
	second := door(t, path)
	talk(t, second, "two")

	dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", path) }
	if err := TakeOver(t.Context(), dial, token); err != nil {
		t.Fatalf("TakeOver: %v", err)
	}
	if !second.Closed() {
		t.Error("the door is open although another host took it over")
	}
	talk(t, door(t, path), "three")
	if err := TakeOver(t.Context(), func(context.Context) (net.Conn, error) { return nil, os.ErrNotExist }, token); err != nil {
		t.Errorf("TakeOver where nobody is: %v", err)
	}
}

func TestStrangersAreNotLetIn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	d := door(t, path)
	// A guest that does not know the token.
	stranger := Listen(path, "another")
	defer stranger.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if conn, err := d.Dial(ctx); err == nil {
		conn.Close()
		t.Error("a stranger was taken for the guest")
	}
	// One who would close the door.
	dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", path) }
	if err := TakeOver(t.Context(), dial, "another"); err == nil || d.Closed() {
		t.Errorf("a stranger took the door over: %v", err)
	}
	// Those who say nothing, or nonsense, keep nobody out for good.
	for i := range 2 * mostPending {
		conn, err := dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if i%2 == 0 {
			_, _ = conn.Write(bytes.Repeat([]byte("x"), 100))
			conn.Close()
		}
	}
	echo(t, Listen(path, token))
	talk(t, d, "hello")
}

// A host that does not know the token learns nothing.
func TestTheGuestDoesNotAnswerAStranger(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	l := Listen(path, token)
	defer l.Close()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	first := make([]byte, len(magic)+1+nonceSize)
	if _, err := io.ReadFull(conn, first); err != nil {
		t.Fatal(err)
	}
	host := make([]byte, nonceSize)
	if _, err := conn.Write(append(host, proof("another", "host", asGuest, first[len(magic)+1:], host)...)); err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(conn); len(rest) != 0 {
		t.Errorf("the guest proved itself to a stranger: %x", rest)
	}
}
