package e2btest_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/e2b/e2btest"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	r := newRig(t, e2btest.Config{})
	in := m{"templateID": "base", "timeout": 60}
	r.Fail(e2btest.Fault{Match: "POST /v2/sandboxes", Status: 429, RetryAfter: 2})
	if a, _ := r.try("POST", "/v2/sandboxes", in); a.status != 429 || a.header.Get("Retry-After") != "2" || a.header.Get("RateLimit-Reset") != "2" {
		t.Errorf("%d %v", a.status, a.header)
	}
	r.Fail(e2btest.Fault{Match: "POST /v2/sandboxes", Status: 429})
	if a, _ := r.try("POST", "/v2/sandboxes", in); a.status != 429 || a.header.Get("Retry-After") != "" {
		t.Errorf("%d %v", a.status, a.header)
	}
	r.Fail(e2btest.Fault{Status: 503, Times: -1, Skip: 1})
	r.call(http.StatusOK, "GET", "/v2/sandboxes", nil)
	for range 2 {
		if a, _ := r.try("GET", "/v2/sandboxes", nil); a.status != 503 || !strings.Contains(string(a.body), "sandbox_capacity_unavailable") {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	r.Heal()
	r.LoseCreateAnswers(1)
	if a, err := r.try("POST", "/v2/sandboxes", in); err == nil {
		t.Errorf("answered: %d", a.status)
	}
	if len(r.Alive()) != 1 {
		t.Errorf("what was made without an answer: %+v", r.Alive())
	}
	r.Heal()
	b := r.create(nil)
	r.Fail(e2btest.Fault{Sandboxes: true, Match: "/health", Status: 503})
	b.send(503, b.request("GET", "/health", nil))
	b.send(204, b.request("GET", "/health", nil))
	r.Outage()
	b.send(503, b.request("GET", "/health", nil))
	r.call(503, "GET", "/v2/sandboxes", nil)
	r.Heal()
	before := r.Key()
	r.SetKey("e2b_0123456789012345678901234567890123456789")
	req, err := http.NewRequestWithContext(t.Context(), "GET", r.APIURL()+"/v2/sandboxes", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", before)
	if a, err := do(req); err != nil || a.status != 401 {
		t.Errorf("a revoked key: %d, %v", a.status, err)
	}
	seen := 0
	for _, one := range r.Requests() {
		if one.Plane == "api" && one.Method == "POST" && one.Path == "/v2/sandboxes" {
			seen++
		}
	}
	if seen != 4 {
		t.Errorf("%d creations were asked for", seen)
	}
}

func TestCuts(t *testing.T) {
	t.Parallel()
	r := newRig(t, e2btest.Config{})
	b := r.create(nil)
	s, pid := b.start(m{"process": m{"cmd": "/bin/sh", "args": []string{"-c", "echo up; cat"}}})
	s.until("up")
	r.CutStreams(b.SandboxID)
	if _, _, err := s.rest(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a cut stream ends with %v", err)
	}
	again := b.open("process.Process/Connect", m{"process": m{"pid": pid}}, nil)
	again.begun()
	b.rpc(200, "process.Process/SendInput", m{"process": m{"pid": pid}, "input": m{"stdin": b64("still here\n")}})
	again.until("still here\n")

	r.CutAtRandom(e2btest.Cuts{From: 1000, To: 2000, Times: 1, Seed: 1})
	flood := b.open("process.Process/Start", m{"process": m{"cmd": "/bin/sh", "args": []string{"-c", "head -c 100000 /dev/zero"}}}, nil)
	if n, err := io.Copy(io.Discard, flood.body); err == nil || n > 2000 {
		t.Errorf("%d bytes, %v", n, err)
	}
	if out, _ := b.sh("echo whole"); out != "whole\n" {
		t.Errorf("%q", out)
	}

	r.Stall(b.SandboxID, true)
	moved := make(chan struct{})
	go func() {
		defer close(moved)
		req := b.request("GET", "/metrics", nil)
		if res, err := http.DefaultClient.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	}()
	select {
	case <-moved:
		t.Error("bytes move")
	case <-time.After(200 * time.Millisecond): // nothing can be waited for: it is nothing that happens
	}
	r.Stall(b.SandboxID, false)
	<-moved
}

func TestCrashAndExpiry(t *testing.T) {
	t.Parallel()
	r := newRig(t, e2btest.Config{})
	b := r.create(nil)
	s, _ := b.start(nil)
	r.Crash(b.SandboxID)
	if _, _, err := s.rest(); err == nil {
		t.Error("a stream of a crashed sandbox ends well")
	}
	r.call(http.StatusNotFound, "GET", "/sandboxes/"+b.SandboxID, nil)
	b.send(http.StatusBadGateway, b.request("GET", "/health", nil))
	gone, kept := r.create(nil), r.create(m{"autoPause": true})
	r.Expire(gone.SandboxID)
	r.Expire(kept.SandboxID)
	if gone.state() != "gone" || kept.state() != "paused" {
		t.Errorf("%s, %s", gone.state(), kept.state())
	}
}

func TestTheServicesClockMayDiffer(t *testing.T) {
	t.Parallel()
	r := newRig(t, e2btest.Config{Skew: -3 * time.Hour})
	b := r.create(m{"timeout": 60})
	if one := r.All()[0]; time.Until(one.EndAt) > -2*time.Hour || b.state() != "running" {
		t.Errorf("%+v", one)
	}
}
