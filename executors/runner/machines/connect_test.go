package machines_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/executors/runner/tunnel"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

// reported records what the package reports about machines.
type reported struct {
	mu     sync.Mutex
	states []bool
	events []wire.Event
}

func (h *harness) listen() *reported {
	k := &reported{}
	h.OnChange(func(m machines.Machine) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.states = append(k.states, m.Online)
	})
	h.OnEvent(func(_ machines.Machine, e wire.Event) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.events = append(k.events, e)
	})
	return k
}

func (k *reported) heard(types ...string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	var got []string
	for _, e := range k.events {
		got = append(got, e.Type)
	}
	return slices.Equal(got, types)
}

func TestAMachineComesAndGoes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
		k := h.listen()
		sub := h.bus.Subscribe(h.team.ID, 0)
		defer sub.Close()
		d := connected(h, "Laptop")
		if e := <-sub.C; e.Type != "runner.updated" || e.ID != d.id {
			t.Errorf("%+v", e)
		}
		if m := d.seen(); m.OfflineAt != 0 || m.ConnectedAt == 0 || m.Version != "1.0" {
			t.Errorf("%+v", m)
		}
		if _, ok := h.Link(d.id); !ok {
			t.Error("no link to an online machine")
		}
		d.say(wire.Event{Type: wire.EventLoad, Load: &wire.Load{CPU: 7, MemoryUsedMB: -3, Sandboxes: 2}})
		wait(t, "its load", func() bool { l := d.seen().Hello.Load; return l.CPU == 1 && l.MemoryUsedMB == 0 && l.Sandboxes == 2 })
		changed := hello()
		changed.Load.Sandboxes = 2
		changed.Available, changed.Reason, changed.Share = false, "The engine\x1b[31m was stopped.", machines.ShareTeam
		d.say(wire.Event{Type: wire.EventHello, Hello: &changed})
		wait(t, "what it says anew", func() bool { m := d.seen(); return !m.Hello.Available && m.MayUse("anybody") })
		if r := d.seen().Hello.Reason; strings.Contains(r, "\x1b") {
			t.Errorf("%q", r)
		}
		d.say(wire.Event{Type: wire.EventQuestion, Question: &wire.Question{ID: "q_1", Text: "May it?", AskedAt: 1}})
		wait(t, "its question", func() bool { q := d.seen().Questions; return len(q) == 1 && q[0].Text == "May it?" })
		d.say(wire.Event{Type: wire.EventQuestion, Question: &wire.Question{ID: "q_1", Answer: "yes"}})
		wait(t, "the answer", func() bool { return len(d.seen().Questions) == 0 })
		d.say(wire.Event{Type: "of another day"})
		d.say(wire.Event{Type: wire.EventSandbox, Sandbox: &wire.Sandbox{ID: "../x", State: wire.Gone}})
		d.say(wire.Event{Type: wire.EventSandbox, Sandbox: &wire.Sandbox{ID: "sbx_1", State: wire.Gone}})
		d.say(wire.Event{Type: wire.EventLeaving, Reason: "Ctrl-C on the machine.", Remove: true})
		wait(t, "it says that it leaves", func() bool {
			return d.seen().Leaving && d.seen().Online && k.heard(wire.EventSandbox, wire.EventLeaving)
		})
		d.say(wire.Event{Type: wire.EventLeaving, Reason: "Ctrl-C on the machine."})
		d.online(false)
		if m := d.seen(); m.OfflineAt == 0 || m.OfflineReason != "Ctrl-C on the machine." || m.Leaving {
			t.Errorf("%+v", m)
		}
		if _, ok := h.Link(d.id); ok {
			t.Error("a link to an offline machine")
		}
		wait(t, "its history", func() bool { got := d.history(); return len(got) == 1 && got[0] == "Ctrl-C on the machine." })
		// What it said last is still known after a restart.
		h.stop()
		h.Service = h.open()
		if m := d.seen(); m.Hello.Available || m.OfflineReason != "Ctrl-C on the machine." || m.Hello.Load.Sandboxes != 2 {
			t.Errorf("after a restart: %+v", m)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.states[len(k.states)-1] || !slices.Contains(k.states, true) {
			t.Errorf("%v", k.states)
		}
	})
}

func TestANewerConnectionTakesThePlaceOfTheOlder(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	d := connected(h, "Laptop")
	old, _ := h.Link(d.id)
	again := &device{h: h, key: d.key, id: d.id, server: d.server, raw: make(chan []byte, 10), ended: make(chan error, 1)}
	again.connect()
	if err := d.gone(); fault.CodeOf(err) != wire.CodeReplaced {
		t.Errorf("the older: %v", err)
	}
	<-old.Done()
	wait(t, "the older one's end", func() bool { got := d.history(); return len(got) == 2 && got[1] == tunnel.ReasonReplaced })
	if m := d.seen(); !m.Online || m.OfflineAt != 0 {
		t.Errorf("%+v", m)
	}
	if l, ok := h.Link(d.id); !ok || l == old {
		t.Error("the link is the older's")
	}
	again.say(wire.Event{Type: wire.EventLoad, Load: &wire.Load{Sandboxes: 3}})
	wait(t, "the newer is heard", func() bool { return d.seen().Hello.Load.Sandboxes == 3 })
}

func TestARevokedMachineIsLetGoForGood(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
		d := connected(h, "Laptop")
		if err := h.Revoke(t.Context(), d.id); err != nil {
			t.Fatal(err)
		}
		if err := d.gone(); fault.CodeOf(err) != wire.CodeRevoked {
			t.Errorf("it hears %v", err)
		}
		d.online(false)
		if _, ok := h.Machine(t.Context(), d.id); ok || len(h.Machines(t.Context(), h.team.ID)) != 0 || d.seen().MayUse(h.user.ID) {
			t.Error("it is still there")
		}
		if err := d.dial(t.Context()); err == nil || !strings.Contains(err.Error(), "revoked") {
			t.Errorf("it comes back: %v", err)
		}
		// Its name is free again.
		if again := connected(h, "Laptop"); again.said.Name != "Laptop" || again.id == d.id {
			t.Errorf("%+v", again.said)
		}
	})
}

func TestANewKeyTakesThePlaceOfTheOld(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
		d := connected(h, "Laptop")
		_, before, err := h.Regenerate(t.Context(), d.id)
		if err != nil {
			t.Fatal(err)
		}
		d.gone()
		d.online(false)
		if err := d.dial(t.Context()); err == nil {
			t.Error("the old key is still believed")
		}
		_, token, err := h.Regenerate(t.Context(), d.id)
		if err != nil {
			t.Fatal(err)
		}
		if err := newDevice(h).enrol(before, ""); fault.CodeOf(err) != "runner_token_ended" {
			t.Errorf("the token before: %v", err)
		}
		anew := newDevice(h)
		if err := anew.enrol(token, "Other"); err != nil || anew.id != d.id || anew.said.Name != "Laptop" {
			t.Fatalf("%+v %v", anew.said, err)
		}
		anew.connect()
		anew.online(true)
		if err := newDevice(h).enrol(token, ""); fault.CodeOf(err) != "runner_token_ended" {
			t.Errorf("a second time: %v", err)
		}
		// After a restart the new key still counts, and the old does not.
		h.stop()
		h.Service = h.open()
		if err := d.dial(t.Context()); err == nil {
			t.Error("the old key is believed after a restart")
		}
		back := &device{h: h, key: anew.key, id: anew.id, server: anew.server, raw: make(chan []byte, 1), ended: make(chan error, 1)}
		back.connect()
		back.online(true)
	})
}

func TestAMachineGoesWithItsOwner(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	bob := h.member(accounts.Member)
	_, token, err := h.NewToken(t.Context(), h.team.ID, bob.ID, "Bob's", false)
	if err != nil {
		t.Fatal(err)
	}
	d := newDevice(h)
	if err := d.enrol(token, ""); err != nil {
		t.Fatal(err)
	}
	d.connect()
	d.online(true)
	ada, err := h.people.Actor(t.Context(), h.user.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.people.RemoveMember(t.Context(), ada, h.team.ID, bob.ID); err != nil {
		t.Fatal(err)
	}
	d.online(false)
	if err := d.dial(t.Context()); err == nil || !strings.Contains(err.Error(), "may no longer work in the team") {
		t.Errorf("it comes back: %v", err)
	}
	wait(t, "its history", func() bool { return strings.Contains(strings.Join(d.history(), ""), "owner") })
}

// A server that stops lets machines go at once, and they come back to the next. One that was killed has left them open.
func TestServersComeAndGo(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
		d := connected(h, "Laptop")
		h.stop()
		if err := d.gone(); fault.CodeOf(err) != "" || !strings.Contains(err.Error(), "restarting") {
			t.Errorf("it hears %v", err)
		}
		h.Service = h.open()
		if m := d.seen(); m.Online || m.OfflineAt == 0 || m.OfflineReason != "The server is restarting." {
			t.Errorf("%+v", m)
		}
		back := &device{h: h, key: d.key, id: d.id, server: d.server, raw: make(chan []byte, 1), ended: make(chan error, 1)}
		back.connect()
		back.online(true)
		// As after kill -9: another server finds the connection open.
		h.clock.move(time.Hour)
		dead := h.stop
		killed := machines.New(machines.Config{Store: store.NewMachines(db), Accounts: h.people, Sealer: h.people, Events: h.bus, Now: h.clock.Now})
		if err := killed.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		m, err := killed.Known(t.Context(), d.id)
		if err != nil || m.Online || m.OfflineAt == 0 || m.OfflineAt > h.clock.Now().Add(-time.Minute).UnixMilli() || !strings.Contains(m.OfflineReason, "stopped unexpectedly") {
			t.Errorf("%+v %v", m, err)
		}
		got, _, err := killed.History(t.Context(), d.id, machines.Page{})
		if err != nil || got[0].EndedAt == 0 || got[0].EndedAt < got[0].BeganAt || !strings.Contains(got[0].Reason, "stopped unexpectedly") {
			t.Errorf("%+v %v", got, err)
		}
		dead()
	})
}

// A hostile machine is let go, whatever it says, and nothing of it is believed.
func TestAHostileMachineIsLetGo(t *testing.T) {
	t.Parallel()
	line := func(e wire.Event) []byte {
		b, _ := json.Marshal(e)
		return append(b, '\n')
	}
	odd := hello()
	odd.Folders = []wire.Folder{{Path: "relative", Access: wire.Full}}
	many := hello()
	for i := range 201 {
		many.Folders = append(many.Folders, wire.Folder{Path: fmt.Sprintf("/f%d", i), Access: wire.Full})
	}
	for name, c := range map[string]struct {
		first, then []byte
		times       int
		why         string
	}{
		"no hello":           {first: line(wire.Event{Type: wire.EventLoad, Load: &wire.Load{}}), why: "does not begin"},
		"nonsense first":     {first: []byte("{]\n"), why: "not an event"},
		"a folder that lies": {first: line(wire.Event{Type: wire.EventHello, Hello: &odd}), why: "no folder"},
		"too many folders":   {first: line(wire.Event{Type: wire.EventHello, Hello: &many}), why: "202 folders"},
		"an endless line":    {then: bytes.Repeat([]byte("x"), 32<<10), times: 20, why: "a line of more than"},
		"a flood":            {then: line(wire.Event{Type: wire.EventLoad, Load: &wire.Load{}}), times: 400, why: "more than the server accepts"},
		"nonsense later":     {then: []byte("[]\n"), times: 1, why: "not an event"},
		"a lie later":        {then: line(wire.Event{Type: wire.EventHello, Hello: &odd}), times: 1, why: "no folder"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, storetest.SQLite(t))
			_, token := h.token("m", false)
			d := newDevice(h)
			d.first = c.first
			if err := d.enrol(token, ""); err != nil {
				t.Fatal(err)
			}
			d.connect()
			if c.first == nil {
				d.online(true)
			}
			for range c.times {
				d.raw <- c.then
			}
			if err := d.gone(); err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("it hears %v, want %q", err, c.why)
			}
			d.online(false)
			if got := d.history(); c.first != nil && len(got) != 0 {
				t.Errorf("it was taken: %q", got)
			}
			if m := d.seen(); m.Hello.Folders[0].Path != "/home/ada/work" {
				t.Errorf("believed: %+v", m.Hello)
			}
		})
	}
}

func TestASilentMachineIsOffline(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t), func(c *machines.Config) { c.Silence = 300 * time.Millisecond })
	d := connected(h, "Laptop")
	d.online(false)
	wait(t, "its history", func() bool { return strings.Contains(strings.Join(d.history(), ""), "No sign of life") })
}

func TestAMachineThatConnectsAgainAndAgainWaits(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	d := connected(h, "Laptop")
	call := func() error {
		r := httptest.NewRequest(http.MethodGet, wire.ConnectPath, nil)
		r.Header.Set("Authorization", wire.CallHeader(d.id, d.key, h.clock.Now()))
		return h.Connect(httptest.NewRecorder(), r, "192.0.2.7")
	}
	var err error
	for range 200 {
		if err = call(); fault.Is(err, fault.RateLimited) {
			break
		}
	}
	if !fault.Is(err, fault.RateLimited) || !d.seen().Online {
		t.Errorf("%v", err)
	}
	h.clock.move(time.Minute)
	if err := call(); fault.CodeOf(err) != "runner_protocol" { // let in, and no WebSocket
		t.Errorf("a minute later: %v", err)
	}
}

func TestStrangersAreNotLetIn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	d := connected(h, "Laptop")
	thief := newDevice(h)
	thief.id, thief.server = d.id, d.server
	if err := thief.dial(t.Context()); err == nil {
		t.Error("another key was let in")
	}
	unknown := newDevice(h)
	unknown.id, unknown.server = "rnr_00000000000000000000000000", d.server
	if err := unknown.dial(t.Context()); err == nil || !strings.Contains(err.Error(), "no longer connected to the team") {
		t.Errorf("an unknown machine: %v", err)
	}
	if !d.seen().Online {
		t.Error("a stranger cut the machine off")
	}
	resp, err := http.Get(h.url + wire.ConnectPath)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if !strings.Contains(string(body), "runner_unknown") {
		t.Errorf("%s", body)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestCommandsAreSignedForOneMachine(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	key, err := h.ServerKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx := wire.WithOrder(t.Context(), wire.Order{UserID: h.user.ID, User: "Ada", Purpose: "a session"})
	req := (&http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/v1/sandboxes"}, Header: http.Header{}}).WithContext(ctx)
	if err := h.Sign(ctx, "rnr_1", req, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	c, err := wire.Open(req.Header.Get(wire.CommandHeader), key.Public().(ed25519.PublicKey))
	if err != nil || c.Runner != "rnr_1" || c.User != "Ada" || c.Body != wire.BodyHash([]byte("{}")) {
		t.Errorf("%+v %v", c, err)
	}
}
