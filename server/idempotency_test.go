package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/running"
)

// keyed sends one call with a key through the guard of an operation to a handler of the test's own.
func (h *harness) keyed(t *testing.T, token, key, body string, handle echo.HandlerFunc) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/api/v1/teams/harbour/projects", strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Idempotency-Key", key)
	rec := httptest.NewRecorder()
	c := h.server.echo.NewContext(req, rec)
	c.SetParamNames("team")
	c.SetParamValues("harbour")
	if err := h.server.begin(h.server.guard("createProject")(handle))(c); err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestARepeatedCallHappensOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.server.Open()
	p := h.people(t)
	owner, admin := p.tokens["owner"], p.tokens["admin"]
	var times atomic.Int32
	create := func(c echo.Context) error {
		return c.JSON(http.StatusCreated, map[string]int32{"id": times.Add(1)})
	}
	first := h.keyed(t, owner, "k1", `{"a":1}`, create)
	again := h.keyed(t, owner, "k1", `{"a":1}`, create)
	if first.Code != 201 || again.Code != 201 || first.Body.String() != again.Body.String() || times.Load() != 1 {
		t.Errorf("first %d %s, again %d %s, done %d times", first.Code, first.Body, again.Code, again.Body, times.Load())
	}
	if again.Header().Get("Content-Type") != "application/json" || again.Header().Get("Idempotent-Replayed") != "true" {
		t.Errorf("again: %v", again.Header())
	}
	if r := h.keyed(t, owner, "k1", `{"a":2}`, create); r.Code != 409 || !strings.Contains(r.Body.String(), "idempotency_key_reused") {
		t.Errorf("another body: %d %s", r.Code, r.Body)
	}
	if r := h.keyed(t, admin, "k1", `{"a":1}`, create); r.Code != 201 || times.Load() != 2 {
		t.Errorf("somebody else's key: %d %s", r.Code, r.Body)
	}
	for _, key := range []string{strings.Repeat("k", 201), "a b", "ä", "a\tb"} {
		if r := h.keyed(t, owner, key, `{}`, create); r.Code != 400 {
			t.Errorf("key %q: %d", key, r.Code)
		}
	}
}

func TestWhatHappensToTheKeyOfACallThatFails(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.server.Open()
	owner := h.people(t).tokens["owner"]
	done := func(c echo.Context) error { return c.JSON(http.StatusCreated, "done") }
	for i, tc := range []struct {
		err  error
		free bool
	}{
		{fault.New(fault.Invalid, "bad", "x"), true},
		{fault.New(fault.Conflict, "busy", "x"), true},
		{fault.New(fault.Unavailable, "away", "x"), true},
		{fault.New(fault.Timeout, "timeout", "x"), false}, // it may have been done
		{errors.New("broken"), false},
	} {
		key := fmt.Sprintf("k%d", i)
		if r := h.keyed(t, owner, key, `{}`, func(echo.Context) error { return tc.err }); r.Code < 400 {
			t.Fatalf("%v: %d", tc.err, r.Code)
		}
		r := h.keyed(t, owner, key, `{}`, done)
		if free := r.Code == 201; free != tc.free {
			t.Errorf("after %v: %d %s, want the key free: %v", tc.err, r.Code, r.Body, tc.free)
		}
	}
}

func TestACallUnderWayIsNotRepeated(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.server.Open()
	owner := h.people(t).tokens["owner"]
	inside, leave := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		h.keyed(t, owner, "k", `{}`, func(c echo.Context) error {
			close(inside)
			<-leave
			return c.JSON(http.StatusCreated, "first")
		})
	})
	<-inside
	if r := h.keyed(t, owner, "k", `{}`, func(echo.Context) error { t.Error("done twice"); return nil }); r.Code != 409 || !strings.Contains(r.Body.String(), "request_in_progress") {
		t.Errorf("while it is under way: %d %s", r.Code, r.Body)
	}
	close(leave)
	all.Wait()
	if r := h.keyed(t, owner, "k", `{}`, func(echo.Context) error { t.Error("done twice"); return nil }); r.Code != 201 || strings.TrimSpace(r.Body.String()) != `"first"` {
		t.Errorf("afterwards: %d %s", r.Code, r.Body)
	}
}

// Who asks for a stream asks for something that cannot be kept.
func TestStreamsTakeNoKey(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	r := h.do("POST", "/api/v1/workspaces/"+p.ids["workspace"]+"/exec", `{"command":"true"}`,
		append(bearer(p.tokens["owner"]), "Idempotency-Key", "k", "Accept", "text/event-stream")...)
	if r.StatusCode != 400 || r.code() != "idempotency_not_streamed" {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	for accept, want := range map[string]bool{"text/event-stream": true, "application/json, text/event-stream;q=0.5": true, "text/event-stream;q=0": false,
		"application/json": false, "*/*": false, "": false, "TEXT/Event-Stream": true} {
		req := httptest.NewRequest("POST", "/", nil)
		req.Header.Set("Accept", accept)
		if got := running.WantsStream(req); got != want {
			t.Errorf("Accept %q: %v", accept, got)
		}
	}
}
