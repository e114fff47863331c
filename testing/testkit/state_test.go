package testkit_test

import (
	"testing"
	"time"

	"github.com/parawork/parawork/testing/testkit"
)

type known struct {
	State       string `json:"state"`
	StateReason string `json:"state_reason"`
	StateSource string `json:"state_source"`
	Attention   *struct{ Reason string }
}

// What a session does is known again at once after the server was killed, in each state, and what changed meanwhile is seen.
func TestStatesSurviveAKill(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	ws := h.Workspace(h.Sample(), "States")
	asks := h.Run(ws.ID, "sh", "-c", `printf '\033]9;Shall I?\007'; read x; echo yes; sleep 1000`)
	secret := h.Run(ws.ID, "sh", "-c", `printf 'Password: '; read x; echo in; sleep 1000`)
	builds := h.Run(ws.ID, "sh", "-c", `echo silent; while :; do :; done`)
	prints := h.Run(ws.ID, "sh", "-c", `while :; do echo a line; sleep 0.02; done`)
	rests := h.Run(ws.ID, "sh", "-c", `echo here; sleep 1000`)
	breaks := h.Run(ws.ID, "sh", "-c", `echo alive; sleep 1000`)
	get := func(id string) (k known) {
		h.API("GET", "/sessions/"+id, nil, &k)
		return k
	}
	all := func(when string) {
		t.Helper()
		began := time.Now()
		for id, want := range map[string][2]string{asks.ID: {"waiting", "notification"}, secret.ID: {"waiting", "screen"}, builds.ID: {"working", "process"},
			prints.ID: {"working", "bytes"}, rests.ID: {"idle", ""}} {
			h.Wait(when+" it is "+want[0], func() bool {
				k := get(id)
				return k.State == want[0] && (want[1] == "" || k.StateSource == want[1])
			})
		}
		t.Logf("%s: known after %v", when, time.Since(began).Round(100*time.Millisecond))
	}
	all("before")
	h.Kill()
	h.Boot()
	all("after a kill")
	for _, s := range []testkit.Session{asks, secret} {
		h.API("POST", "/sessions/"+s.ID+"/input", map[string]string{"text": "y\r"}, nil)
		h.Wait("the answer is seen", func() bool { return get(s.ID).State == "idle" })
	}
	h.API("POST", "/sessions/"+breaks.ID+"/stop", map[string]int{"grace_ms": 0}, nil)
	if k := get(breaks.ID); k.State != "exited" || k.Attention != nil {
		t.Errorf("stopped: %+v", k)
	}
}
