package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/gate"
	"github.com/parawork/parawork/guest/relay"
	"github.com/parawork/parawork/internal/egress"
)

// gate measures the only way out of a sandbox, whole: program, relay, socket, gate, host; beside a connection that goes straight to
// the host. The host is on this machine, so that nothing but the way is measured.
func (b *bench) gate() error {
	far, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var work sync.WaitGroup
	defer work.Wait()
	defer far.Close()
	work.Go(func() { answer(far) })
	loopback := egress.Exception{Prefix: netip.MustParsePrefix("127.0.0.1/32")}
	g, err := gate.New(gate.Config{Dir: filepath.Join(b.dir, "gates"), Allow: []egress.Exception{loopback}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	work.Go(func() { _ = g.Run(ctx) })
	dir, err := g.Open(ctx, executors.Ticket{SandboxID: "sbx_bench", WorkspaceID: "ws_bench", Network: executors.Network{Mode: executors.NetworkOpen}})
	if err != nil {
		return err
	}
	r, err := relay.Open(relay.Config{Socket: filepath.Join(dir, "egress"), Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	work.Go(func() { _ = r.Run(ctx) })
	at := r.URL()[len("http://"):]
	straight := func() (net.Conn, error) { return net.Dial("tcp", far.Addr().String()) }
	through := func() (net.Conn, error) {
		c, err := net.Dial("tcp", at)
		if err != nil {
			return nil, err
		}
		if _, err := relay.Ask(c, far.Addr().String()); err != nil {
			_ = c.Close()
			return nil, err
		}
		return c, nil
	}
	if err := b.gateConnections(through, straight); err != nil {
		return err
	}
	return b.gateBytes(through, straight)
}

// answer gives each caller its first byte back, and then as much as it wants.
func answer(l net.Listener) {
	var callers sync.WaitGroup
	defer callers.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		callers.Go(func() {
			defer c.Close()
			first := make([]byte, 1)
			if _, err := io.ReadFull(c, first); err != nil {
				return
			}
			if _, err := c.Write(first); err != nil || first[0] != 'm' {
				return
			}
			for much := make([]byte, 256<<10); ; {
				if _, err := c.Write(much); err != nil {
					return
				}
			}
		})
	}
}

// gateConnections measures a connection from the dialing to the first byte of the host's, the median of many.
func (b *bench) gateConnections(through, straight func() (net.Conn, error)) error {
	median := func(dial func() (net.Conn, error)) (time.Duration, error) {
		var all []time.Duration
		for range b.size(1000, 50) {
			began := time.Now()
			c, err := dial()
			if err != nil {
				return 0, err
			}
			_, err = c.Write([]byte("1"))
			if err == nil {
				_, err = io.ReadFull(c, make([]byte, 1))
			}
			all = append(all, time.Since(began))
			_ = c.Close()
			if err != nil {
				return 0, err
			}
		}
		slices.Sort(all)
		return all[len(all)/2], nil
	}
	ours, err := median(through)
	if err != nil {
		return err
	}
	base, err := median(straight)
	if err != nil {
		return err
	}
	added := ours - base
	b.figure("connection, to the first byte (+ <1 ms)", fmt.Sprintf("+%.2f ms", added.Seconds()*1000), fmt.Sprintf("%.2f ms", base.Seconds()*1000),
		float64(ours)/float64(base), "+ <1 ms", added < time.Millisecond)
	return nil
}

// gateBytes measures one stream.
func (b *bench) gateBytes(through, straight func() (net.Conn, error)) error {
	rate := func(dial func() (net.Conn, error)) (float64, error) {
		c, err := dial()
		if err != nil {
			return 0, err
		}
		defer c.Close()
		if _, err := c.Write([]byte("m")); err != nil {
			return 0, err
		}
		n := int64(b.size(2<<30, 128<<20))
		began := time.Now()
		if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{io.LimitReader(c, n)}, make([]byte, 256<<10)); err != nil {
			return 0, err
		}
		return float64(n) / time.Since(began).Seconds() / 1e6, nil
	}
	ours, err := rate(through)
	if err != nil {
		return err
	}
	base, err := rate(straight)
	if err != nil {
		return err
	}
	b.figure("one stream", fmt.Sprintf("%.0f MB/s", ours), fmt.Sprintf("%.0f MB/s", base), ours/base, ">=500 MB/s", ours >= 500)
	return nil
}
