package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// identity measures what signing in costs, and what people who work notice of somebody who guesses at passwords.
func (b *bench) identity() error {
	dir := filepath.Join(b.dir, "identity")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	h, err := b.newHouse(dir, `{"defaultProvider":"local"}`)
	if err != nil {
		return err
	}
	defer h.stop()
	if h.workspace, err = h.newWorkspace(h.project, "identity"); err != nil {
		return err
	}
	if err := b.logins(h); err != nil {
		return err
	}
	return b.guessing(h)
}

// logins measures one sign-in after the other, in processor time of the server and by the clock.
func (b *bench) logins(h *house) error {
	n := b.size(30, 3)
	pids := []int{h.cmd.Process.Pid}
	var took []float64
	cpu := cpuOf(pids)
	for range n {
		t0 := time.Now()
		status, err := h.login(http.DefaultClient, "a long bench password")
		if err != nil || status != http.StatusOK {
			return fmt.Errorf("signing in: %d %w", status, err)
		}
		took = append(took, us(time.Since(t0))/1e3)
	}
	each := float64((cpuOf(pids) - cpu).Milliseconds()) / float64(n)
	b.figure("sign-in, ms of one core", f1(each), "20 to 80", each/80, "20-80 ms", each >= 20 && each <= 80)
	b.figure("sign-in by the clock, ms", f1(median(took)), "-", 1, "none", true)
	return nil
}

// login signs in and returns the answer's status.
func (h *house) login(client *http.Client, password string) (int, error) {
	resp, err := client.Post(h.url+"/api/v1/login", "application/json", bytes.NewBufferString(fmt.Sprintf(`{"email":"bench@example.com","password":%q}`, password)))
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// guessing measures keystrokes of who is signed in while a thousand wrong passwords a second come in.
func (b *bench) guessing(h *house) error {
	n := b.size(1000, 100)
	keys := func() ([]time.Duration, error) {
		s, err := h.newSession(b.self, "child-echo")
		if err != nil {
			return nil, err
		}
		c, err := dialHouse(h, s, "writer")
		if err != nil {
			return nil, err
		}
		defer c.conn.Close()
		return keystrokes(c, n)
	}
	var calm, busy []time.Duration
	var rate float64
	for range b.size(3, 1) {
		took, err := keys()
		if err != nil {
			return err
		}
		calm = append(calm, took...)
		stop := h.guess(1000)
		t0 := time.Now()
		took, err = keys()
		tries := stop()
		if err != nil {
			return err
		}
		rate = float64(tries) / time.Since(t0).Seconds()
		busy = append(busy, took...)
	}
	slices.Sort(calm)
	slices.Sort(busy)
	r := p99(busy).Seconds() / p99(calm).Seconds()
	b.figure(fmt.Sprintf("keystroke p99 beside %.0f wrong logins/s, us", rate), f1(us(p99(busy))), f1(us(p99(calm))), r, "<= 2", r <= 2)
	return nil
}

// from returns a client that comes from the n-th address of this machine: each has attempts of its own.
func from(n int) *http.Client {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 9, byte(n>>8), byte(n))}}
	return &http.Client{Transport: &http.Transport{DialContext: d.DialContext, MaxIdleConnsPerHost: 1}}
}

// guess sends wrong passwords from many addresses, so many a second, until the returned func is called, which says how many were answered.
func (h *house) guess(perSecond int) (stop func() int64) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	var done atomic.Int64
	const senders, addresses = 16, 16
	for i := range senders {
		all.Go(func() {
			var clients []*http.Client
			for j := range addresses {
				clients = append(clients, from(i*addresses+j))
			}
			defer func() {
				for _, c := range clients {
					c.CloseIdleConnections()
				}
			}()
			tick := time.NewTicker(time.Second * senders / time.Duration(perSecond))
			defer tick.Stop()
			for n := 0; ; n++ {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				if _, err := h.login(clients[n%addresses], "a wrong bench password"); err == nil {
					done.Add(1)
				}
			}
		})
	}
	return func() int64 { cancel(); all.Wait(); return done.Load() }
}
