package egressbridge_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/guest/egressbridge"
)

// harness is a sandbox's socket, carried to a gate.
func harness(t *testing.T, gate func(net.Conn)) (socket string, cut func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "egress-bridge")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "gate"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() { // ends with l
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go gate(c) // ends with its connection
		}
	}()
	socket = filepath.Join(dir, "egress")
	inside, host := net.Pipe()
	var work sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	work.Go(func() {
		if err := egressbridge.Run(context.Background(), []string{socket}, inside, inside); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Run: %v", err)
		}
	})
	work.Go(func() {
		egressbridge.Serve(ctx, host, func(ctx context.Context) (egressbridge.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "gate"))
			if err != nil {
				return nil, err
			}
			return c.(*net.UnixConn), nil
		}, slog.New(slog.DiscardHandler))
	})
	t.Cleanup(func() {
		cancel()
		work.Wait()
	})
	for limit := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if c, err := net.Dial("unix", socket); err == nil {
			_ = c.Close()
			return socket, cancel
		}
		if time.Now().After(limit) {
			t.Fatal("nothing listens")
		}
	}
}

func dial(t *testing.T, socket string) *net.UnixConn {
	t.Helper()
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.UnixConn)
}

// Each direction ends by itself, and no byte is lost.
func TestBytesAndEnds(t *testing.T) {
	t.Parallel()
	socket, _ := harness(t, func(c net.Conn) {
		defer c.Close()
		b, err := io.ReadAll(c) // up to the end of what is sent
		if err == nil {
			_, _ = c.Write(b)
		}
	})
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			want := make([]byte, 256<<10)
			_, _ = rand.Read(want)
			c := dial(t, socket)
			if _, err := c.Write(want); err != nil {
				t.Error(err)
			}
			_ = c.CloseWrite()
			if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d of %d bytes, %v", len(got), len(want), err)
			}
		})
	}
	work.Wait()
}

// The gate's end of a connection is the program's, although the program has more to say.
func TestGateEnds(t *testing.T) {
	t.Parallel()
	socket, _ := harness(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "refused")
		_ = c.Close()
	})
	c := dial(t, socket)
	if b, err := io.ReadAll(c); err != nil || string(b) != "refused" {
		t.Errorf("%q, %v", b, err)
	}
}

// A program that reads nothing holds up no other.
func TestAFullConnectionHoldsUpNobody(t *testing.T) {
	t.Parallel()
	socket, _ := harness(t, func(c net.Conn) {
		defer c.Close()
		head := make([]byte, 4)
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		if string(head) == "ping" {
			_, _ = io.WriteString(c, "pong")
			return
		}
		b := make([]byte, 64<<10)
		for {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	})
	flood := dial(t, socket)
	if _, err := io.WriteString(flood, "more"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(flood, make([]byte, 1<<20)); err != nil { // it flows, and then is read no more
		t.Fatal(err)
	}
	for range 20 {
		c := dial(t, socket)
		if _, err := io.WriteString(c, "ping"); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(c); err != nil || string(b) != "pong" {
			t.Fatalf("%q, %v", b, err)
		}
	}
}

// When the host goes, so do the connections.
func TestHostGoes(t *testing.T) {
	t.Parallel()
	socket, cut := harness(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c); _ = c.Close() })
	c := dial(t, socket)
	if _, err := io.WriteString(c, "x"); err != nil {
		t.Fatal(err)
	}
	cut()
	if b, err := io.ReadAll(c); len(b) > 0 {
		t.Errorf("%q, %v", b, err)
	}
}
