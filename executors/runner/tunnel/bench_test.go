package tunnel_test

import (
	"context"
	"io"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/parawork/parawork/executors/runner/tunnel"
)

func benchPair(b *testing.B) *tunnel.Link {
	b.Helper()
	d := newDoor(newKeys(b))
	srv := httptest.NewServer(d)
	b.Cleanup(srv.Close)
	c, err := tunnel.Dial(b.Context(), d.dial(srv.URL))
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = tunnel.Serve(ctx, c, machine()) })
	b.Cleanup(func() { cancel(); work.Wait() })
	return <-d.links
}

func BenchmarkDown(b *testing.B) {
	c, err := benchPair(b).Stream(b.Context(), "/v1/flood", nil)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.SetBytes(1 << 20)
	for b.Loop() {
		if _, err := io.CopyN(io.Discard, c, 1<<20); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEcho(b *testing.B) {
	c, err := benchPair(b).Stream(b.Context(), "/v1/echo", nil)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	p := make([]byte, 1)
	for b.Loop() {
		if _, err := c.Write(p); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, p); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEchoBesideAFlood is a keystroke while another stream pours.
func BenchmarkEchoBesideAFlood(b *testing.B) {
	l := benchPair(b)
	f, err := l.Stream(b.Context(), "/v1/flood", nil)
	if err != nil {
		b.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() { _, _ = io.Copy(io.Discard, f) })
	defer work.Wait()
	defer f.Close()
	c, err := l.Stream(b.Context(), "/v1/echo", nil)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	p := make([]byte, 1)
	for b.Loop() {
		if _, err := c.Write(p); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, p); err != nil {
			b.Fatal(err)
		}
	}
}
