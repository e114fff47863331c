package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/parawork/parawork/internal/events"
)

func readEvent(t *testing.T, conn *websocket.Conn) wireEvent {
	t.Helper()
	_, raw, err := conn.ReadMessage()
	if err != nil {
		t.Fatalf("reading an event: %v", err)
	}
	var e wireEvent
	if err := json.Unmarshal(raw, &e); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return e
}

func TestEventsAreFollowedAndResumed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	say := func(n int) {
		h.bus.Publish(t.Context(), events.Event{Type: "changes.updated", ID: fmt.Sprint("ws_", n), WorkspaceID: fmt.Sprint("ws_", n), Version: int64(n), TeamID: p.team.ID})
		h.bus.Publish(t.Context(), events.Event{Type: "changes.updated", ID: "ws_foreign", TeamID: "team_other"})
	}
	dial := func(query string) *websocket.Conn {
		t.Helper()
		conn, resp, err := h.dial(t, "/teams/harbour/events"+query, withToken(p.tokens["viewer"]))
		if err != nil {
			t.Fatalf("%v %v", err, resp)
		}
		return conn
	}
	conn := dial("")
	say(1)
	first := readEvent(t, conn)
	if first.ID != "ws_1" || first.Version != 1 || first.Seq == 0 || first.Type != "changes.updated" || first.WorkspaceID != "ws_1" {
		t.Errorf("first: %+v", first)
	}
	conn.Close()
	say(2)
	say(3)
	conn = dial("?since=" + strconv.FormatInt(first.Seq, 10))
	for want := 2; want <= 3; want++ {
		if e := readEvent(t, conn); e.Version != int64(want) {
			t.Errorf("resumed: %+v, want %d", e, want)
		}
	}
	for _, since := range []string{"1", strconv.FormatInt(first.Seq+1<<40, 10)} {
		if e := readEvent(t, dial("?since="+since)); e.Type != missed {
			t.Errorf("since %s: %+v, want missed", since, e)
		}
	}
	if _, resp, err := h.dial(t, "/teams/harbour/events?since=x", withToken(p.tokens["viewer"])); err == nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("since=x: %v", err)
	}
	h.bus.Lost()
	if e := readEvent(t, conn); e.Type != missed {
		t.Errorf("after a loss: %+v", e)
	}
}

// A client that does not read receives a missed event and blocks nobody else.
func TestSlowFollowerLearnsThatItMissed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	slow, _, err := h.dial(t, "/teams/harbour/events", withToken(p.tokens["viewer"]))
	if err != nil {
		t.Fatal(err)
	}
	quick, _, err := h.dial(t, "/teams/harbour/events", withToken(p.tokens["owner"]))
	if err != nil {
		t.Fatal(err)
	}
	const rounds, each = 300, 100
	var last int64
	for round := range rounds {
		for i := range each {
			h.bus.Publish(t.Context(), events.Event{Type: "changes.updated", ID: "ws_with_a_rather_long_name_" + strconv.Itoa(i), TeamID: p.team.ID, Version: int64(round*each + i + 1)})
		}
		for last < int64((round+1)*each) { // the quick one keeps up, whatever the slow one does
			e := readEvent(t, quick)
			if e.Type == missed {
				t.Fatal("the quick client missed something")
			}
			last = e.Version
		}
	}
	saw, reported := 0, false
	h.bus.Publish(t.Context(), events.Event{Type: "team.updated", ID: "end", TeamID: p.team.ID})
	for {
		e := readEvent(t, slow)
		if e.Type == missed {
			reported = true
		}
		if e.Type == "changes.updated" {
			saw++
		}
		if e.ID == "end" || reported && e.Type == missed && saw > 0 {
			break
		}
	}
	if saw != rounds*each && !reported {
		t.Errorf("the slow client saw %d of %d and received no missed event", saw, rounds*each)
	}
}
