package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/tasks"
)

// hub sends events to every server connection. It never waits for a slow connection: for each subject it stores only the newest event.
type hub struct {
	mu   sync.Mutex
	subs map[*subscriber]bool
	over bool
}

// subscriber is the event queue of one connection.
type subscriber struct {
	wake      chan struct{}
	hello     bool
	load      *wire.Load
	boxes     map[string]wire.Sandbox
	questions map[string]wire.Question
	leaving   *wire.Event
	left      chan struct{} // closed when the server was notified that the machine leaves
	over      bool
}

func (h *hub) subscribe() *subscriber {
	s := &subscriber{wake: make(chan struct{}, 1), hello: true, boxes: map[string]wire.Sandbox{}, questions: map[string]wire.Question{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subs[s], s.over = true, h.over
	s.nudge()
	return s
}

func (h *hub) unsubscribe(s *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subs, s)
}

func (s *subscriber) nudge() {
	tasks.Wake(s.wake)
}

// each changes the queue of every connection.
func (h *hub) each(fn func(*subscriber)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		fn(s)
		s.nudge()
	}
}

func (h *hub) helloChanged()          { h.each(func(s *subscriber) { s.hello = true }) }
func (h *hub) sandbox(b wire.Sandbox) { h.each(func(s *subscriber) { s.boxes[b.ID] = b }) }
func (h *hub) beat(l wire.Load)       { h.each(func(s *subscriber) { s.load = &l }) }

func (h *hub) question(q wire.Question) {
	h.each(func(s *subscriber) {
		if old, ok := s.questions[q.ID]; ok && old.Answer == "" && q.Answer != "" || len(s.questions) < maxWaiting {
			s.questions[q.ID] = q
		}
	})
}

// maxWaiting limits the questions stored for a connection that does not read.
const maxWaiting = 256

// close ends every connection's events.
func (h *hub) close() {
	h.mu.Lock()
	h.over = true
	h.mu.Unlock()
	h.each(func(s *subscriber) { s.over = true })
}

// take returns the queued events of a connection, in a sensible order, and whether no more will come.
func (h *hub) take(s *subscriber) (hello bool, events []wire.Event, left chan struct{}, over bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	hello, s.hello = s.hello, false
	for _, id := range slices.Sorted(maps.Keys(s.questions)) {
		q := s.questions[id]
		events = append(events, wire.Event{Type: wire.EventQuestion, Question: &q})
	}
	for _, id := range slices.Sorted(maps.Keys(s.boxes)) {
		b := s.boxes[id]
		b.Token = "" // the receiver asks for the sandbox
		events = append(events, wire.Event{Type: wire.EventSandbox, Sandbox: &b})
	}
	if s.load != nil {
		events = append(events, wire.Event{Type: wire.EventLoad, Load: s.load})
	}
	clear(s.questions)
	clear(s.boxes)
	s.load = nil
	if s.leaving != nil {
		events = append(events, *s.leaving)
		left, s.leaving, s.left = s.left, nil, nil
	}
	return hello, events, left, s.over
}

// serveEvents sends a line for each event, until the connection ends.
func (m *Machine) serveEvents(w http.ResponseWriter, r *http.Request) error {
	s := m.hub.subscribe()
	defer m.hub.unsubscribe(s)
	for _, q := range m.cfg.Keeper.Questions() { // asked before it was connected
		m.hub.question(q.Question)
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	rc := http.NewResponseController(w)
	send := func(e wire.Event) error {
		b, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("sending an event: %w", err)
		}
		if _, err = w.Write(append(b, '\n')); err == nil {
			err = rc.Flush()
		}
		return err
	}
	for {
		select {
		case <-s.wake:
		case <-r.Context().Done():
			return errHungUp
		}
		hello, events, left, over := m.hub.take(s)
		if hello {
			h := m.hello(r.Context())
			events = slices.Insert(events, 0, wire.Event{Type: wire.EventHello, Hello: &h})
		}
		for _, e := range events {
			if send(e) != nil {
				return errHungUp
			}
		}
		if left != nil {
			close(left)
		}
		if over {
			return nil
		}
	}
}

// leaveWithin bounds the wait for a server to receive the notice that the machine leaves.
const leaveWithin = 3 * time.Second

// Leave notifies the server that the machine leaves on purpose, and why. With remove it asks the server to sync and end every sandbox first,
// and waits for that until ctx ends. It returns the sandboxes that stay: they go on, and are found again at the next start. False means that
// no server was notified.
func (m *Machine) Leave(ctx context.Context, reason string, remove bool) (stay []Standing, reported bool) {
	var all []chan struct{}
	m.hub.each(func(s *subscriber) {
		if s.left == nil { // otherwise this replaces an earlier notice that was not sent yet
			s.left = make(chan struct{})
		}
		s.leaving = &wire.Event{Type: wire.EventLeaving, Reason: reason, Remove: remove}
		all = append(all, s.left)
	})
	bound, cancel := context.WithTimeout(ctx, leaveWithin)
	defer cancel()
	for _, left := range all {
		select {
		case <-left:
			reported = true
		case <-bound.Done():
		}
	}
	if remove && reported {
		m.emptied(ctx)
	}
	return m.Standings(), reported
}

// emptied waits until no sandbox is left.
func (m *Machine) emptied(ctx context.Context) {
	t := time.NewTicker(200 * time.Millisecond)
	defer t.Stop()
	for len(m.all()) > 0 {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}
