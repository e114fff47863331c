package sessions_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/store"
)

func TestShellIsTypedInAndStopped(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: agents.Shell, Cols: 100, Rows: 30})
	if row.State.Ended() || row.AgentName != "Shell" {
		t.Fatalf("got %+v", row)
	}
	sc := s.watch(t, row.ID, sessions.Attach{UserID: h.actor.User.ID, Name: "Ada", Writer: true})
	if err := sc.Input(t.Context(), []byte("stty size; pwd; git config user.name; echo $GIT_AUTHOR_NAME $((6*7))\r")); err != nil {
		t.Fatal(err)
	}
	sc.shows(t, "30 100\r\n")
	sc.shows(t, "Ada 42\r\n")
	sc.shows(t, h.ws.Path)
	if err := s.Input(t.Context(), h.actor, row.ID, "echo from-the-api\r"); err != nil {
		t.Fatal(err)
	}
	sc.shows(t, "from-the-api\r\n")
	got, err := s.Stop(t.Context(), h.actor, row.ID, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if got.State != state.Exited || got.StateReason != "stopped by Ada" || got.EndedAt == 0 || got.Bytes != int64(len(sc.text())) {
		t.Errorf("got %+v", got)
	}
	<-sc.over
	if sc.exit["reason"] != "stopped by Ada" || sc.exit["state"] != "exited" {
		t.Errorf("exit frame %v, %v", sc.exit, sc.err)
	}
	if s.output(t, row.ID) != sc.text() {
		t.Error("the stored output differs from what was seen")
	}
	if err := s.Input(t.Context(), h.actor, row.ID, "x"); fault.CodeOf(err) != "session_not_running" {
		t.Errorf("got %v", err)
	}
	if again, err := s.Stop(t.Context(), h.actor, row.ID, 0); err != nil || again.StateReason != got.StateReason {
		t.Errorf("stopping twice: %v, %v", again.StateReason, err)
	}
	if s.bus.count() == 0 {
		t.Error("nothing was published")
	}
	s.end()
	if got := strings.Join(h.timeline, ", "); got != "session.started started Shell, session.ended Shell: stopped by Ada" {
		t.Errorf("timeline: %s", got)
	}
}

func TestHowSessionsEnd(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	for _, c := range []struct {
		name   string
		argv   []string
		state  state.State
		reason string
		output string
	}{
		{"at once, with an error", []string{"sh", "-c", "echo no licence >&2; exit 3"}, state.Exited, "exited with code 3", "no licence"},
		{"well", []string{"true"}, state.Exited, "exited with code 0", ""},
		{"by a signal", []string{"sh", "-c", "echo going; kill -KILL $$"}, state.Exited, "killed by SIGKILL", "going"},
		{"never begun", []string{"/does/not/exist"}, state.Failed, "could not start", ""},
		{"never begun, by name", []string{"no-such-program-here"}, state.Failed, "could not start", ""},
		{"a folder", []string{"/"}, state.Failed, "could not start", ""},
	} {
		row := s.run(t, c.argv...)
		row = s.ended(t, row.ID)
		if row.State != c.state || !strings.HasPrefix(row.StateReason, c.reason) || row.EndedAt < row.StartedAt {
			t.Errorf("%s: %s, %q", c.name, row.State, row.StateReason)
		}
		if got := s.output(t, row.ID); !strings.Contains(got, c.output) {
			t.Errorf("%s: output %q", c.name, got)
		}
		sc := s.watch(t, row.ID, sessions.Attach{})
		<-sc.over
		if sc.exit == nil || !strings.Contains(sc.text(), c.output) {
			t.Errorf("%s: looked at later: %v, %q", c.name, sc.err, sc.text())
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.settings["codex"] = agents.Settings{Enabled: true, Command: "/nowhere/codex"}
	h.settings["claude-code"] = agents.Settings{Enabled: true, Command: "/bin/echo"}
	h.accounts["claude-code"] = accounts.AgentAccount{Agent: "claude-code", Kind: accounts.ExistingLogin}
	s := h.start()
	for code, req := range map[string]sessions.StartRequest{
		"agent_not_installed":      {Agent: "codex"},
		"agent_unknown":            {Agent: "nobody"},
		"invalid_command":          {Agent: agents.Command},
		"existing_login_forbidden": {Agent: "claude-code"},
	} {
		if _, err := s.Start(t.Context(), h.actor, h.ws.ID, req); fault.CodeOf(err) != code {
			t.Errorf("%s: got %v", code, err)
		}
	}
	for _, req := range []sessions.StartRequest{{}, {Agent: agents.Shell, Env: map[string]string{"A=B": "x"}}, {Agent: agents.Shell, Cols: 5000},
		{Agent: agents.Shell, Prompt: "a\x00b"}, {Agent: agents.Shell, Prompt: "a\xff"}, {Agent: agents.Command, Argv: []string{"a\x00"}}} {
		if _, err := s.Start(t.Context(), h.actor, h.ws.ID, req); fault.CodeOf(err) != "invalid_session" {
			t.Errorf("%+v: got %v", req, err)
		}
	}
	if rows, err := s.List(t.Context(), h.ws.ID); err != nil || len(rows) != 0 {
		t.Errorf("refused sessions left rows: %v, %v", rows, err)
	}
	if _, err := s.Get(t.Context(), "ses_nobody"); !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Attach(t.Context(), "ses_nobody", sessions.Attach{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v", err)
	}
}

func TestSetupScript(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	for script, want := range map[string]struct {
		code   int
		output string
	}{
		"echo one\nfalse\necho two\n":                  {1, "one\r\n"},
		"echo $NPM_TOKEN$PLAIN":                        {0, "*********value\r\n"},
		"#!/usr/bin/env bash\na=(x y)\necho ${a[1]}$0": {0, "y"},
		"#!/bin/sh\nexit 7\n":                          {7, ""},
	} {
		id, err := s.StartSetup(t.Context(), h.ws, script, map[string]string{"NPM_TOKEN": "123456789", "PLAIN": "value"})
		if err != nil {
			t.Fatal(err)
		}
		code, reason, err := s.WaitEnd(t.Context(), id)
		if err != nil || code != want.code || !strings.HasPrefix(s.output(t, id), want.output) {
			t.Errorf("%q: %d, %s, %v, %q", script, code, reason, err, s.output(t, id))
		}
		if _, err := s.Resume(t.Context(), h.actor, id); fault.CodeOf(err) != "session_not_resumable" {
			t.Errorf("got %v", err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(h.dir, "homes", "*", "tmp", "tmp.*")); len(left) != 0 {
		t.Errorf("scripts were left behind: %v", left)
	}
}

func TestStopAllAndRunning(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	for range 3 {
		s.run(t, "sh", "-c", "trap '' HUP; sleep 1000 & wait")
	}
	if n, err := s.Running(t.Context(), h.ws.ID); err != nil || n != 3 {
		t.Fatalf("%d running, %v", n, err)
	}
	if err := s.StopAll(t.Context(), h.ws.ID); err != nil {
		t.Fatal(err)
	}
	rows, err := s.List(t.Context(), h.ws.ID)
	if err != nil || len(rows) != 3 {
		t.Fatal(rows, err)
	}
	for _, r := range rows {
		if r.State != state.Exited || r.StateReason != "stopped with its workspace" {
			t.Errorf("%s, %s", r.State, r.StateReason)
		}
	}
}

func TestVanishedSandboxIsALostSession(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", "echo here; sleep 1000")
	sc := s.watch(t, row.ID, sessions.Attach{})
	sc.shows(t, "here")
	h.world.Vanish(row.SandboxID)
	if err := s.manager.Destroy(t.Context(), h.ws.ID); err != nil {
		t.Fatal(err)
	}
	got := s.ended(t, row.ID)
	if got.State != state.Lost || !strings.Contains(s.output(t, row.ID), "here") {
		t.Errorf("%s, %s", got.State, got.StateReason)
	}
	<-sc.over
	if sc.exit["state"] != "lost" {
		t.Errorf("exit frame %v", sc.exit)
	}
}

func TestSecretsAreMasked(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	secret := "s3cr3t-0123456789"
	row := s.begin(t, sessions.StartRequest{Agent: agents.Command, Env: map[string]string{"MY_TOKEN": secret, "NAME": "harmless"},
		Argv: []string{"sh", "-c", `printf 's3cr3t-'; sleep 0.3; printf '0123456789 and %s %s\n' "$MY_TOKEN" "$NAME"; read x; echo $MY_TOKEN; sleep 1000`}})
	sc := s.watch(t, row.ID, sessions.Attach{Writer: true})
	sc.shows(t, "harmless\r\n")
	if got := sc.text(); !strings.HasSuffix(got, "********** and ***************** harmless\r\n") {
		t.Errorf("got %q", got)
	}
	// The server that comes next knows the secret too, although nothing in the database does.
	s.end()
	s = h.start()
	sc = s.watch(t, row.ID, sessions.Attach{Writer: true})
	if err := sc.Input(t.Context(), []byte("\r")); err != nil {
		t.Fatal(err)
	}
	sc.shows(t, "\r\n\r\n*****************\r\n")
	if strings.Contains(sc.text(), secret) {
		t.Errorf("got %q", sc.text())
	}
	if got := s.get(t, row.ID); strings.Contains(strings.Join(got.Argv, " "), secret) {
		t.Error("the secret is in argv")
	}
	kept := func(when string) {
		t.Helper()
		looked := false
		err := filepath.WalkDir(filepath.Join(h.dir, "sessions"), func(path string, d os.DirEntry, err error) error {
			if errors.Is(err, os.ErrNotExist) || err == nil && d.IsDir() {
				return nil // while the server runs, files take each other's place
			} else if err != nil {
				return err
			}
			raw, err := os.ReadFile(path)
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			looked = looked || strings.Contains(string(raw), "harmless")
			if strings.Contains(string(raw), secret) {
				t.Errorf("%s: the secret is in %s", when, path)
			}
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if when == "while it lives" && !looked {
			t.Error("no file has the output: nothing was proved")
		}
	}
	kept("while it lives")
	if _, err := s.Stop(t.Context(), h.actor, row.ID, 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	// By now the output may be packed, where no search of the files would find it.
	if got := s.output(t, row.ID); strings.Contains(got, secret) || !strings.Contains(got, "harmless") {
		t.Errorf("kept output %q", got)
	}
	s.end()
	kept("after the end")
}

func TestPromptIsTyped(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.settings["mine"] = agents.Settings{Enabled: true, Command: "sh", DefaultArgs: []string{"-c",
		`printf '\033[?2004hready> '; stty raw -echo; head -c 31 | cat -v; echo; echo over; sleep 1000`}}
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: "mine", Prompt: "fix the bug\nplease"})
	sc := s.watch(t, row.ID, sessions.Attach{})
	sc.shows(t, "over")
	if got := sc.text(); !strings.Contains(got, "^[[200~fix the bug^Mplease^[[201~^M") {
		t.Errorf("got %q", got)
	}
	eventually(t, "the time of delivery is stored", func() bool { return s.get(t, row.ID).PromptSentAt != 0 })
	typed := s.begin(t, sessions.StartRequest{Agent: agents.Shell, Prompt: "echo typed-$((1+1))"})
	s.watch(t, typed.ID, sessions.Attach{}).shows(t, "typed-2\r\n")
}

func TestResumeGoesOnWithTheConversation(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	script := filepath.Join(h.dir, "claude")
	// Something that keeps a transcript as Claude Code does.
	if err := os.WriteFile(script, []byte(`#!/bin/sh
echo "args: $*"; echo "model: $EXTRA"
mkdir -p "$CLAUDE_CONFIG_DIR/projects/x"
while [ $# -gt 0 ]; do [ "$1" = --session-id ] && echo '{}' >"$CLAUDE_CONFIG_DIR/projects/x/$2.jsonl"; shift; done
`), 0o755); err != nil {
		t.Fatal(err)
	}
	h.settings["claude-code"] = agents.Settings{Enabled: true, Command: script}
	s := h.start()
	first := s.begin(t, sessions.StartRequest{Agent: "claude-code", Prompt: "hello", Argv: []string{"--model", "small"}, Env: map[string]string{"EXTRA": "e"}})
	first = s.ended(t, first.ID)
	if first.Conversation == "" || !first.CanResume || first.PromptSentAt == 0 {
		t.Fatalf("got %+v", first)
	}
	next, err := s.Resume(t.Context(), h.actor, first.ID)
	if err != nil {
		t.Fatal(err)
	}
	next = s.ended(t, next.ID)
	out := s.output(t, next.ID)
	if next.ID == first.ID || next.Conversation != first.Conversation || !strings.Contains(out, "--resume "+first.Conversation) ||
		!strings.Contains(out, "--model small") || !strings.Contains(out, "model: e") || strings.Contains(out, "hello") {
		t.Errorf("%+v\n%s", next, out)
	}
	// Its transcript is gone: the agent starts again.
	if err := os.RemoveAll(filepath.Join(h.dir, "homes", h.actor.User.ID, ".claude", "projects")); err != nil {
		t.Fatal(err)
	}
	again, err := s.Resume(t.Context(), h.actor, first.ID)
	if err != nil {
		t.Fatal(err)
	}
	s.ended(t, again.ID)
	if out := s.output(t, again.ID); !strings.Contains(out, "--session-id") || strings.Contains(out, "--resume") {
		t.Errorf("got %s", out)
	}
	if running := s.run(t, "sleep", "1000"); true {
		if _, err := s.Resume(t.Context(), h.actor, running.ID); fault.CodeOf(err) != "session_running" {
			t.Errorf("got %v", err)
		}
	}
}

func TestSummaries(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	team := h.ws.TeamID
	line := func() sessions.Summary {
		t.Helper()
		all, err := s.Summaries(t.Context(), team)
		if err != nil {
			t.Fatal(err)
		}
		return all[h.ws.ID]
	}
	if got := line(); !reflect.DeepEqual(got, sessions.Summary{}) {
		t.Errorf("nothing yet: %+v", got)
	}
	failed := s.ended(t, s.run(t, "false").ID)
	if got := line(); got.State != state.Exited || got.Attention != "failed" || got.SessionID != failed.ID || got.Running != 0 || got.Sessions != 1 {
		t.Errorf("failed: %+v", got)
	}
	asks := s.run(t, "sh", "-c", `printf '\033]9;Shall I?\007'; read x; echo yes; sleep 1000`)
	eventually(t, "it waits", func() bool { return line().State == state.Waiting })
	if got := line(); got.Attention != "waiting" || got.Reason != "Shall I?" || got.SessionID != asks.ID || got.Running != 1 || got.Sessions != 2 {
		t.Errorf("waiting: %+v", got)
	}
	if err := s.Input(t.Context(), h.actor, asks.ID, "\r"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is answered", func() bool { return line().Attention == "" })
	eventually(t, "the state is stored", func() bool {
		rows, err := h.db.Query(t.Context(), `SELECT id FROM sessions WHERE id = ? AND state = 'idle'`, asks.ID)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		return rows.Next()
	})
	if _, err := s.Stop(t.Context(), h.actor, asks.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	if got := line(); got.Attention != "" || got.State != state.Exited {
		t.Errorf("who stopped it knows: %+v", got)
	}
}

// Somebody who sees that the state is wrong corrects it; what the program does next counts again, also after a restart.
func TestCorrectedByHand(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", `printf '\033]9;Shall I?\007'; read x; printf '\033]9;And now?\007'; read x`)
	s.reaches(t, row.ID, state.Waiting)
	got, err := s.Correct(t.Context(), h.actor, row.ID, "working")
	if err != nil || got.State != state.Working || got.Basis.Source != "person" || got.StateReason != h.actor.User.Name+" says so" {
		t.Fatalf("corrected: %s (%s) by %q, %v", got.State, got.StateReason, got.Basis.Source, err)
	}
	if got, err = s.Correct(t.Context(), h.actor, row.ID, "auto"); err != nil || got.State != state.Waiting || got.StateReason != "Shall I?" {
		t.Fatalf("taken back: %s (%s), %v", got.State, got.StateReason, err)
	}
	if _, err = s.Correct(t.Context(), h.actor, row.ID, "failed"); fault.CodeOf(err) != "invalid_state" {
		t.Errorf("failed by hand: %v", err)
	}
	if _, err = s.Correct(t.Context(), h.actor, row.ID, "idle"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the correction is stored", func() bool {
		stored, err := store.NewSessions(h.db).Session(t.Context(), row.ID)
		return err == nil && stored.State == state.Idle && stored.Basis.Source == "person"
	})
	s.end()
	s = h.start()
	eventually(t, "it is taken up", func() bool { return s.Input(t.Context(), h.actor, row.ID, "\r") == nil })
	s.reaches(t, row.ID, state.Waiting)
	if got = s.get(t, row.ID); got.StateReason != "And now?" || got.Basis.Source != "notification" {
		t.Errorf("after the restart: %s by %q", got.StateReason, got.Basis.Source)
	}
	var person *state.Evidence
	for i, e := range got.Basis.Evidence {
		if e.Source == "person" {
			person = &got.Basis.Evidence[i]
		}
	}
	if person == nil || person.Counts || person.Says != "idle" {
		t.Errorf("the correction is %+v", person)
	}
	if err := s.Input(t.Context(), h.actor, row.ID, "\r"); err != nil {
		t.Fatal(err)
	}
	s.ended(t, row.ID)
	if _, err = s.Correct(t.Context(), h.actor, row.ID, "idle"); fault.CodeOf(err) != "session_not_running" {
		t.Errorf("of an ended session: %v", err)
	}
}
