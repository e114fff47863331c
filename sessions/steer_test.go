package sessions_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/state"
)

// talker is a program that tells its state as Codex does. Each line it is given is work: it is noted in the file "told", and
// takes as many tenths of a second as the line's last word says. "deaf" is not taken up, "drowsy" only at the third Enter; "ask" opens a choice that "y" closes;
// "held" goes on until there is a file "go".
const talker = `#!/bin/bash
stty -echoctl
say() { printf '\033]7501;state=%s:app=codex\033\\' "$1"; }
trap 'say idle; echo interrupted >>told' INT
printf '\033[?2004hready\r\n'; say idle
naps=0
while :; do
  IFS= read -r line || { [ $? -gt 128 ] && continue; exit; }
  line=${line//$'\033[200~'/}; line=${line//$'\033[201~'/}
  case $line in
    *deaf*) continue ;;
    *drowsy*) draft=$line; naps=2; continue ;;
    "") ((naps-- == 1)) || continue; line=$draft ;;
  esac
  say working; echo "$line" >>told
  n=${line##* }
  for ((i = 0; i < n; i++)); do sleep 0.1; done
  case $line in
    *held*) until [ -e go ]; do sleep 0.02; done ;;
    *ask*) printf '\r\n› 1. Yes\r\n  2. No\r\n'; say idle; IFS= read -r answer; printf '\033[2J\033[H› \r\n'; say working; sleep 0.1 ;;
  esac
  say idle
done
`

// summaries makes Codex a talker and returns a running one.
func (h *harness) talker() {
	h.t.Helper()
	path := filepath.Join(h.dir, "talker")
	if err := os.WriteFile(path, []byte(talker), 0o755); err != nil {
		h.t.Fatal(err)
	}
	h.settings[agents.Codex] = agents.Settings{Enabled: true, Command: path}
}

func (h *harness) reported() []string {
	return strings.Fields(strings.ReplaceAll(h.file("told"), " ", "_"))
}

func (s *server) queue(t *testing.T, id, text string) prompt.Prompt {
	t.Helper()
	p, err := s.AddPrompt(t.Context(), s.h.actor, id, prompt.Request{Text: text})
	if err != nil {
		t.Fatalf("queueing %q: %v", text, err)
	}
	return p
}

// sent waits until an agent has taken a prompt up.
func (s *server) sent(t *testing.T, p prompt.Prompt) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		all, err := s.ListPrompts(t.Context(), p.SessionID)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all, func(o prompt.Prompt) bool { return o.ID == p.ID })
		if i >= 0 && all[i].State == prompt.Sent {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%q was not sent", p.Text)
		}
	}
}

func (s *server) prompts(t *testing.T, id string) (out []string) {
	t.Helper()
	all, err := s.ListPrompts(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		out = append(out, p.Text+":"+string(p.State))
	}
	return out
}

// notifies says, should the test fail, what the queue and the program have seen.
func (s *server) logOnFailure(t *testing.T, id string) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		all, err := s.ListPrompts(context.Background(), id)
		for _, p := range all {
			t.Logf("%.40q %s; reason %q held %q waits %q", p.Text, p.State, p.Reason, p.Held, p.Waits)
		}
		t.Logf("told %.200q %v", s.h.reported(), err)
		out, _, _, _ := s.Output(context.Background(), id, 0, 4000)
		t.Logf("%.2000q", out)
	})
}

func (s *server) waitsFor(t *testing.T, id, why string) {
	t.Helper()
	eventually(t, "the queue waits: "+why, func() bool {
		all, err := s.ListPrompts(t.Context(), id)
		return err == nil && slices.ContainsFunc(all, func(p prompt.Prompt) bool { return strings.Contains(p.Waits, why) })
	})
}

func TestQueueIsSentInOrder(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.talker()
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: agents.Codex})
	s.logOnFailure(t, row.ID)
	s.queue(t, row.ID, "one held")
	eventually(t, "the first is at work", func() bool { return len(h.reported()) == 1 })
	two, three, four := s.queue(t, row.ID, "two 0"), s.queue(t, row.ID, "three 0"), s.queue(t, row.ID, "four 0")
	s.waitsFor(t, row.ID, "working")
	text, first := "five 0", 0
	if _, err := s.EditPrompt(t.Context(), h.actor, four.ID, prompt.Edit{Text: &text, Position: &first}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CancelPrompt(t.Context(), two.ID); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(s.prompts(t, row.ID), ", "); !strings.HasSuffix(got, "five 0:queued, two 0:cancelled, three 0:queued") {
		t.Errorf("the queue is %s", got)
	}
	h.touch("go")
	eventually(t, "all are sent", func() bool {
		return !slices.ContainsFunc(s.prompts(t, row.ID), func(p string) bool { return strings.HasSuffix(p, "queued") || strings.HasSuffix(p, "sending") })
	})
	if got := strings.Join(h.reported(), " "); got != "one_held five_0 three_0" {
		t.Errorf("told: %s", got)
	}
	if _, err := s.EditPrompt(t.Context(), h.actor, three.ID, prompt.Edit{Text: &text}); fault.CodeOf(err) != "prompt_sent" {
		t.Errorf("editing what was sent: %v", err)
	}
	if _, err := s.CancelPrompt(t.Context(), three.ID); fault.CodeOf(err) != "prompt_sent" {
		t.Errorf("cancelling what was sent: %v", err)
	}
	if _, err := s.EditPrompt(t.Context(), h.actor, two.ID, prompt.Edit{Text: &text}); fault.CodeOf(err) != "prompt_closed" {
		t.Errorf("editing what was cancelled: %v", err)
	}
	for _, bad := range []string{"", " \n", "a\x00b", "\xff", strings.Repeat("x", 1<<20+1)} {
		if _, err := s.AddPrompt(t.Context(), h.actor, row.ID, prompt.Request{Text: bad}); fault.CodeOf(err) != "invalid_prompt" {
			t.Errorf("%.10q: %v", bad, err)
		}
	}
}

func TestQueueWaitsForPeople(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.talker()
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: agents.Codex})
	s.logOnFailure(t, row.ID)
	s.reaches(t, row.ID, state.Idle)
	sc := s.watch(t, row.ID, sessions.Attach{UserID: h.actor.User.ID, Name: "Ada", Writer: true})
	if err := sc.Input(t.Context(), []byte("half a")); err != nil {
		t.Fatal(err)
	}
	s.queue(t, row.ID, "queued 0")
	s.waitsFor(t, row.ID, "unsent text")
	if err := sc.Input(t.Context(), []byte(" line 0\r")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both arrive", func() bool { return len(h.reported()) == 2 })
	if got := strings.Join(h.reported(), " "); got != "half_a_line_0 queued_0" {
		t.Errorf("told: %s", got)
	}
	// A question the agent does not report is read off its screen.
	s.queue(t, row.ID, "ask 0")
	eventually(t, "it asks", func() bool { return strings.Contains(s.output(t, row.ID), "1. Yes") })
	s.queue(t, row.ID, "after 0")
	s.waitsFor(t, row.ID, "question")
	if len(h.reported()) != 3 {
		t.Errorf("told: %v", h.reported())
	}
	if err := s.Input(t.Context(), h.actor, row.ID, "y\r"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it goes on", func() bool { return len(h.reported()) == 4 })
}

func TestPromptThatIsNotTakenUp(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.talker()
	h.tune = func(c *sessions.Config) { c.AcceptWithin = 5 * time.Second }
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: agents.Codex})
	s.logOnFailure(t, row.ID)
	deaf := s.queue(t, row.ID, "deaf 0")
	s.queue(t, row.ID, "next 0")
	eventually(t, "it fails", func() bool {
		p, err := s.Prompt(t.Context(), deaf.ID)
		return err == nil && p.State == prompt.Failed && strings.Contains(p.Reason, "did not start working on it") && p.Text == "deaf 0"
	})
	s.waitsFor(t, row.ID, "the prompt before it failed")
	if got := h.reported(); len(got) != 0 {
		t.Errorf("told: %v", got)
	}
	text := "heard 0"
	if _, err := s.EditPrompt(t.Context(), h.actor, deaf.ID, prompt.Edit{Text: &text, Now: true, Release: true}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both are sent", func() bool { return strings.Join(h.reported(), " ") == "heard_0 next_0" })
}

// An agent that is slow to read may take more than one Enter for a part of what was pasted.
func TestEnterIsPressedUntilThePromptIsTaken(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.talker()
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: agents.Codex})
	s.logOnFailure(t, row.ID)
	p := s.queue(t, row.ID, "drowsy 0")
	eventually(t, "it is sent", func() bool {
		got, err := s.Prompt(t.Context(), p.ID)
		return err == nil && got.State == prompt.Sent
	})
	if got := strings.Join(h.reported(), " "); got != "drowsy_0" {
		t.Errorf("told: %s", got)
	}
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", `trap 'echo caught-$((40+2))' INT; echo begun; while :; do sleep 0.05; done`)
	s.logOnFailure(t, row.ID)
	sc := s.watch(t, row.ID, sessions.Attach{Writer: true})
	sc.shows(t, "begun")
	got, err := s.Interrupt(t.Context(), h.actor, row.ID, false)
	if err != nil || got.Keys != "Ctrl+C" || got.Outcome != sessions.KeysPressed && got.Outcome != sessions.Interrupted {
		t.Fatalf("got %+v, %v", got, err)
	}
	sc.shows(t, "caught-42")
	if _, err := s.Stop(t.Context(), h.actor, row.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Interrupt(t.Context(), h.actor, row.ID, false); fault.CodeOf(err) != "session_not_running" {
		t.Errorf("got %v", err)
	}
}

func TestInterruptHoldsTheQueue(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.talker()
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: agents.Codex})
	s.logOnFailure(t, row.ID)
	s.reaches(t, row.ID, state.Idle)
	if got, err := s.Interrupt(t.Context(), h.actor, row.ID, false); err != nil || got.Outcome != sessions.NotWorking {
		t.Fatalf("got %+v, %v", got, err)
	}
	s.sent(t, s.queue(t, row.ID, "long held"))
	s.reaches(t, row.ID, state.Working)
	next := s.queue(t, row.ID, "next 0")
	var got sessions.Interruption
	var err error
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		got, err = s.Interrupt(t.Context(), h.actor, row.ID, false)
	}()
	s.waitsFor(t, row.ID, "Ada interrupted the agent")
	h.touch("go") // keys alone do not end its work
	if <-returned; err != nil || got.Held != 1 || got.Keys != "Esc" {
		t.Fatalf("got %+v, %v", got, err)
	}
	s.reaches(t, row.ID, state.Idle)
	if _, err := s.EditPrompt(t.Context(), h.actor, next.ID, prompt.Edit{Release: true}); err != nil {
		t.Fatal(err)
	}
	// The Esc itself is text to this program.
	eventually(t, "the queue goes on", func() bool { return strings.Contains(strings.Join(h.reported(), " "), "next_0") })
}

func TestResumeAndSend(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.talker()
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: agents.Codex})
	s.logOnFailure(t, row.ID)
	s.sent(t, s.queue(t, row.ID, "long 6000"))
	s.queue(t, row.ID, "left 0")
	if _, err := s.Stop(t.Context(), h.actor, row.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	s.waitsFor(t, row.ID, "resume")
	if _, err := s.AddPrompt(t.Context(), h.actor, row.ID, prompt.Request{Text: "more 0"}); fault.CodeOf(err) != "session_not_running" {
		t.Errorf("got %v", err)
	}
	p, err := s.AddPrompt(t.Context(), h.actor, row.ID, prompt.Request{Text: "more 0", Resume: true})
	s.logOnFailure(t, p.SessionID)
	if err != nil || p.SessionID == row.ID {
		t.Fatalf("got %+v, %v", p, err)
	}
	eventually(t, "both arrive", func() bool { return strings.Join(h.reported(), " ") == "long_6000 left_0 more_0" })
	if got := strings.Join(s.prompts(t, row.ID), ", "); got != "long 6000:sent" {
		t.Errorf("the old session has %s", got)
	}
}

// Whenever the server dies, each prompt is typed exactly once, in order.
func TestQueueOverRestarts(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.talker()
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: agents.Codex})
	s.logOnFailure(t, row.ID)
	s.reaches(t, row.ID, state.Idle)
	var want []string
	big := strings.Repeat("x", 3000)
	for i := range 8 {
		text := fmt.Sprintf("%d%s 1", i, big)
		s.queue(t, row.ID, text)
		want = append(want, strings.ReplaceAll(text, " ", "_"))
	}
	sending := func() bool {
		return slices.ContainsFunc(s.prompts(t, row.ID), func(p string) bool { return strings.HasSuffix(p, ":sending") })
	}
	for range len(want) {
		eventually(t, "a prompt is being sent", func() bool { return sending() || len(h.reported()) == len(want) })
		time.Sleep(rand.N(250 * time.Millisecond)) // anywhere between the first frame and the agent at work
		s.end()
		s = h.start()
	}
	eventually(t, "none is open", func() bool {
		return !slices.ContainsFunc(s.prompts(t, row.ID), func(p string) bool { return !strings.HasSuffix(p, ":sent") })
	})
	// That the program knows brackets was said in an earlier life.
	if n := strings.Count(s.output(t, row.ID), "\x1b[200~"); n != len(want) {
		t.Errorf("%d of %d pastes were bracketed", n, len(want))
	}
	if got := h.reported(); !slices.Equal(got, want) {
		for i := range got {
			got[i] = got[i][:1]
		}
		t.Errorf("told %v", got)
	}
}

func TestAnotherAgentInItsPlace(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.talker()
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: agents.Codex})
	s.queue(t, row.ID, "first 0")
	eventually(t, "it is sent", func() bool { return len(h.reported()) == 1 })
	s.sent(t, s.queue(t, row.ID, "second 6000"))
	s.queue(t, row.ID, "third 0")
	other := h.addWorkspace("other")
	req := sessions.StartRequest{Agent: agents.Command, Argv: []string{"sh", "-c", "echo ready; exec cat"}}
	if _, err := s.StartAfter(t.Context(), h.actor, other.ID, req, sessions.From{ID: row.ID}); !fault.Is(err, fault.NotFound) {
		t.Errorf("from another workspace: %v", err)
	}
	bad := sessions.StartRequest{Agent: "nobody"}
	if _, err := s.StartAfter(t.Context(), h.actor, h.ws.ID, bad, sessions.From{ID: row.ID, Stop: true}); fault.CodeOf(err) != "agent_unknown" || s.get(t, row.ID).State.Ended() {
		t.Errorf("an agent that cannot be started: %v, the first is %s", err, s.get(t, row.ID).State)
	}
	next, err := s.StartAfter(t.Context(), h.actor, h.ws.ID, req, sessions.From{ID: row.ID, Notify: true, Stop: true})
	if err != nil || !s.get(t, row.ID).State.Ended() || next.Prompt != "first 0\n\nsecond 6000" {
		t.Fatalf("got %q, %v", next.Prompt, err)
	}
	s.logOnFailure(t, next.ID)
	eventually(t, "the queue went over", func() bool { return strings.Contains(s.output(t, next.ID), "third 0") })
}
