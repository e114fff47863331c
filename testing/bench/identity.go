package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// identity measures what signing in costs, and what people who work notice of somebody who guesses at passwords.
func (b *bench) identity() error {
	h, err := b.ownHarness("identity")
	if err != nil {
		return err
	}
	defer h.stop()
	if err := b.logins(h); err != nil {
		return err
	}
	return b.guessing(h)
}

// logins measures one sign-in after the other, in processor time of the server and by the clock.
func (b *bench) logins(h *harness) error {
	n := b.size(30, 3)
	pids := []int{h.cmd.Process.Pid}
	var took []float64
	cpu := cpuOf(pids)
	for range n {
		t0 := time.Now()
		status, err := login(http.DefaultClient, h.url, "a long bench password")
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

// login signs in at a server and returns the answer's status.
func login(client *http.Client, url, password string) (int, error) {
	resp, err := client.Post(url+"/api/v1/login", "application/json", bytes.NewBufferString(fmt.Sprintf(`{"email":"bench@example.com","password":%q}`, password)))
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// guessing measures keystrokes of who is signed in while a thousand wrong passwords a second come in.
func (b *bench) guessing(h *harness) error {
	n := b.size(1000, 100)
	keys := func() ([]time.Duration, error) {
		s, err := h.newSession(b.self, "child-echo")
		if err != nil {
			return nil, err
		}
		c, err := dialHarness(h, s, "writer")
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
		stop, err := h.guess(b.self, 1000)
		if err != nil {
			return err
		}
		t0 := time.Now()
		took, err = keys()
		tries, gerr := stop()
		if err := errors.Join(err, gerr); err != nil {
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

// guess sends wrong passwords, so many a second, until the returned func is called, which says how many were answered. Guessers are a
// process of their own and give way to everything else: their machines are not the server's.
func (h *harness) guess(self string, perSecond int) (stop func() (int64, error), err error) {
	cmd := exec.Command(self, "child-guess", h.url, strconv.Itoa(perSecond))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() (int64, error) {
		in.Close()
		if err := cmd.Wait(); err != nil {
			return 0, fmt.Errorf("guessing: %w", err)
		}
		return strconv.ParseInt(strings.TrimSpace(out.String()), 10, 64)
	}, nil
}

// childGuess sends wrong passwords to the server at args[0] from many addresses, args[1] a second, until standard input ends, and
// prints how many were answered.
func childGuess(args []string) error {
	perSecond, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, 10); err != nil {
		return err
	}
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
			tick := time.NewTicker(time.Second * senders / time.Duration(perSecond))
			defer tick.Stop()
			for n := 0; ; n++ {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				if _, err := login(clients[n%addresses], args[0], "a wrong bench password"); err == nil {
					done.Add(1)
				}
			}
		})
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	cancel()
	all.Wait()
	fmt.Println(done.Load())
	return err
}
