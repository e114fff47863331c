package server

import (
	"testing"
	"time"
)

func TestStateTellsItsEvidenceAndIsCorrected(t *testing.T) {
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	id := h.session(t, p, "sh", "-c", `printf '\033]9;Shall I?\007'; read x`)
	type session struct {
		State       string `json:"state"`
		StateReason string `json:"state_reason"`
		StateSource string `json:"state_source"`
		Attention   *struct{ Reason, Text string }
		Evidence    []struct {
			Source, Says, Text string
			At                 int64
			Counts             bool
		}
	}
	var s session
	for deadline := time.Now().Add(time.Minute); s.State != "waiting"; time.Sleep(20 * time.Millisecond) {
		s = session{}
		h.do("GET", "/api/v1/sessions/"+id, "", bearer(p.tokens["viewer"])...).into(t, &s)
		if time.Now().After(deadline) {
			t.Fatalf("it does not wait: %+v", s)
		}
	}
	if s.StateSource != "notification" || s.Attention == nil || s.Attention.Reason != "waiting" || s.Attention.Text != "Shall I?" {
		t.Errorf("%+v", s)
	}
	if e := s.Evidence[0]; e.Source != "notification" || e.Says != "waiting" || e.Text != "Shall I?" || e.At == 0 || !e.Counts {
		t.Errorf("evidence %+v", s.Evidence)
	}
	correct := func(token, state string) reply {
		return h.do("POST", "/api/v1/sessions/"+id+"/state", body(t, map[string]any{"state": state}), bearer(p.tokens[token])...)
	}
	if r := correct("viewer", "idle"); r.StatusCode != 403 {
		t.Errorf("a viewer: %d %s", r.StatusCode, r.body)
	}
	if r := correct("owner", "lost"); r.StatusCode != 400 {
		t.Errorf("a state nobody may set: %d %s", r.StatusCode, r.body)
	}
	r := correct("owner", "idle")
	s = session{}
	if r.into(t, &s); s.State != "idle" || s.StateSource != "person" || s.Attention != nil {
		t.Errorf("%d %+v", r.StatusCode, s)
	}
}
