package testkit_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

func bash(command string) map[string]any {
	return tool("Bash", map[string]any{"command": command, "description": "Make a file"})
}

// Claude Code asks for permission; the answers from outside reach it, each in its own meaning.
func TestClaudeAsksForPermission(t *testing.T) {
	t.Parallel()
	h := agentInstance(t, "claude-code")
	w := ask(t, h, "claude-code", bash("touch one.txt"), bash("touch two.txt"), tool("Write", map[string]any{"file_path": "notes/three.txt", "content": "a\nb\n"}),
		bash("touch four.txt"), bash("touch five.txt"), bash("curl -s http://127.0.0.1:1/"))
	q := w.asked("touch one.txt")
	if q.Kind != "permission" || q.Source != "hook" || len(q.Options) != 3 || !strings.Contains(q.Detail, "Make a file") || !q.FreeText {
		t.Errorf("question %+v", q)
	}
	w.waits("the dialog is open in the terminal too", func() bool { return strings.Contains(w.screen(), "Do you want to proceed?") })
	var box struct {
		Count int
		Items []struct {
			Kind     string
			Question *question
		}
	}
	h.API("GET", "/teams/"+h.Team+"/inbox", nil, &box)
	if box.Count != 1 || box.Items[0].Kind != "question" || box.Items[0].Question == nil || box.Items[0].Question.ID != q.ID {
		t.Errorf("inbox %+v", box)
	}
	if got := w.reply(q, map[string]any{"option_id": "allow", "via": "inbox"}); got.State != "answered" || got.Answer != "Allow" || got.AnsweredBy != "Mika" || got.Via != "inbox" {
		t.Errorf("answered %+v", got)
	}
	q = w.asked("touch two.txt")
	if !w.made("one.txt") {
		t.Error("the first file was not made")
	}
	w.reply(q, map[string]any{"option_id": "deny", "text": "Use another name"})
	w.waits("the agent gets the reason", func() bool { return strings.Contains(w.screen(), "Use another name") })
	q = w.asked("Write notes/three.txt?")
	if w.made("two.txt") || !strings.Contains(q.Detail, "+a\n+b") {
		t.Errorf("what was denied was done, or question %+v", q)
	}
	w.reply(q, map[string]any{"option_id": "deny"})
	q = w.asked("touch four.txt")
	w.reply(q, map[string]any{"option_id": "allow_session"})
	q = w.asked("curl")
	if !w.made("four.txt") || !w.made("five.txt") || w.made("notes/three.txt") {
		t.Error("for this session was not for this session")
	}
	w.reply(q, map[string]any{"option_id": "deny"})
	w.reaches("idle")
	if p := h.Refused(409, "already_answered", "POST", "/sessions/"+w.id+"/answer", map[string]any{"question_id": q.ID, "option_id": "allow"}); !strings.Contains(p.Message, "Mika") {
		t.Errorf("refused with %q", p.Message)
	}
}

// Whoever sits at the terminal may answer too.
func TestClaudeIsAnsweredInTheTerminal(t *testing.T) {
	t.Parallel()
	h := agentInstance(t, "claude-code")
	w := ask(t, h, "claude-code", bash("touch one.txt; sleep 600"))
	q := w.asked("touch one.txt")
	w.waits("the dialog is open", func() bool { return strings.Contains(w.screen(), "1. Yes") })
	h.API("POST", "/sessions/"+w.id+"/input", map[string]string{"text": "1"}, nil)
	// The tool runs on: only the screen and the title tell that somebody answered.
	w.waits("it is known to be answered", func() bool { return w.stored(q.ID).State == "answered" })
	if got := w.stored(q.ID); got.Via != "terminal" || got.AnsweredBy != "" {
		t.Errorf("stored %+v", got)
	}
	h.Refused(409, "already_answered", "POST", "/sessions/"+w.id+"/answer", map[string]any{"question_id": q.ID, "option_id": "deny"})

	// No, and the end of the agent, withdraw what it asked.
	w = ask(t, h, "claude-code", bash("touch one.txt"))
	q = w.asked("touch one.txt")
	w.waits("the dialog is open", func() bool { return strings.Contains(w.screen(), "3. No") })
	h.API("POST", "/sessions/"+w.id+"/input", map[string]string{"text": "3"}, nil)
	w.waits("it is withdrawn", func() bool { return w.stored(q.ID).State == "withdrawn" })
	w.reaches("idle")
	h.Refused(409, "question_gone", "POST", "/sessions/"+w.id+"/answer", map[string]any{"question_id": q.ID, "option_id": "allow"})

	w = ask(t, h, "claude-code", bash("touch one.txt"))
	q = w.asked("touch one.txt")
	h.API("POST", "/sessions/"+w.id+"/interrupt", map[string]any{}, nil)
	w.waits("it is withdrawn", func() bool { return w.stored(q.ID).State == "withdrawn" })

	w = ask(t, h, "claude-code", bash("touch one.txt"))
	q = w.asked("touch one.txt")
	h.API("POST", "/sessions/"+w.id+"/stop", map[string]any{"grace_ms": 100}, nil)
	if got := w.stored(q.ID); got.State != "withdrawn" {
		t.Errorf("after the end: %+v", got)
	}
}

// Several questions at once, with one and with several choices and with words of one's own.
func TestClaudeAsksQuestions(t *testing.T) {
	t.Parallel()
	h := agentInstance(t, "claude-code")
	option := func(label string) map[string]string {
		return map[string]string{"label": label, "description": "About " + label}
	}
	input := map[string]any{"questions": []any{
		map[string]any{"question": "Which colour?", "header": "Colour", "options": []any{option("Red"), option("Blue")}, "multiSelect": false},
		map[string]any{"question": "Which sizes?", "header": "Sizes", "options": []any{option("S"), option("L")}, "multiSelect": true},
		map[string]any{"question": "Which name?", "header": "Name", "options": []any{option("Ada"), option("Bob")}, "multiSelect": false},
	}}
	w := ask(t, h, "claude-code", tool("AskUserQuestion", input))
	q := w.asked("Which colour?")
	if q.Kind != "choice" || q.Multi || len(q.Options) != 2 || q.Options[1].Label != "Blue" || q.Options[1].Description != "About Blue" {
		t.Errorf("question %+v", q)
	}
	first := w.reply(q, map[string]any{"option_id": "2"})
	if first.State != "answered" || w.stored(q.ID).State != "answered" {
		t.Errorf("answered %+v", first)
	}
	h.Refused(409, "already_answered", "POST", "/sessions/"+w.id+"/answer", map[string]any{"question_id": q.ID, "option_id": "1"})
	q = w.asked("Which sizes?")
	if !q.Multi {
		t.Errorf("question %+v", q)
	}
	w.reply(q, map[string]any{"option_ids": []string{"1", "2"}})
	q = w.asked("Which name?")
	w.reply(q, map[string]any{"text": "Cleo"})
	for _, want := range []string{"Which colour? → Blue", "Which sizes? → S, L", "Which name? → Cleo"} {
		w.waits(want, func() bool { return strings.Contains(w.screen(), want) })
	}
	// Answered in the terminal: the answer is known.
	w = ask(t, h, "claude-code", tool("AskUserQuestion", map[string]any{"questions": input["questions"].([]any)[:1]}))
	q = w.asked("Which colour?")
	w.waits("the dialog is open", func() bool { return strings.Contains(w.screen(), "2. Blue") })
	h.API("POST", "/sessions/"+w.id+"/input", map[string]string{"text": "2"}, nil)
	w.waits("it is known", func() bool { got := w.stored(q.ID); return got.State == "answered" && got.Via == "terminal" })
}

// Two at once; the server dies with a question open; the guest dies.
func TestClaudeQuestionsSurvive(t *testing.T) {
	t.Parallel()
	h := agentInstance(t, "claude-code")
	w := ask(t, h, "claude-code", bash("touch one.txt"), bash("touch two.txt"), bash("touch three.txt"))
	q := w.asked("touch one.txt")
	var wg sync.WaitGroup
	errs := make(chan error, 6)
	for i := range 6 {
		wg.Go(func() {
			errs <- h.Try("POST", "/sessions/"+w.id+"/answer", map[string]any{"question_id": q.ID, "option_id": "allow", "via": []string{"inbox", "phone"}[i%2]}, nil)
		})
	}
	wg.Wait()
	close(errs)
	won := 0
	for err := range errs {
		if err == nil {
			won++
		} else if p, ok := err.(*testkit.Problem); !ok || p.Code != "already_answered" {
			t.Errorf("lost with %v", err)
		}
	}
	if won != 1 {
		t.Errorf("%d of 6 won", won)
	}
	q = w.asked("touch two.txt")
	h.Kill()
	h.Boot()
	if again := w.asked("touch two.txt"); again.ID != q.ID {
		t.Errorf("after the restart it is another question: %s, was %s", again.ID, q.ID)
	}
	w.waits("it can be answered", func() bool {
		return h.Try("POST", "/sessions/"+w.id+"/answer", map[string]any{"question_id": q.ID, "option_id": "allow"}, nil) == nil
	})
	q = w.asked("touch three.txt")
	if !w.made("two.txt") {
		t.Error("what was allowed was not done")
	}
	killGuests(t, h)
	w.waits("the question ends with the guest", func() bool { return w.stored(q.ID).State == "withdrawn" })
	h.Refused(409, "question_gone", "POST", "/sessions/"+w.id+"/answer", map[string]any{"question_id": q.ID, "option_id": "allow"})
}

// Codex keeps its dialog in the terminal; answers from outside press its keys.
func TestCodexAsksForPermission(t *testing.T) {
	t.Parallel()
	h := agentInstance(t, "codex")
	run := func(name string) map[string]any {
		return tool("exec_command", map[string]any{"cmd": "touch " + name, "sandbox_permissions": "require_escalated", "justification": "Because of " + name})
	}
	w := ask(t, h, "codex", run("one.txt"), run("two.txt"), run("three.txt"))
	q := w.asked("touch one.txt")
	if q.Kind != "permission" || q.Source != "hook" || !strings.Contains(q.Detail, "Because of one.txt") || len(q.Options) != 3 || q.Options[0].Role != "allow" || q.Options[2].Role != "deny" {
		t.Errorf("question %+v", q)
	}
	if got := w.reply(q, map[string]any{"option_id": q.Options[0].ID}); got.State != "answered" {
		t.Errorf("answered %+v", got)
	}
	q = w.asked("touch two.txt")
	w.waits("the first file is made", func() bool { return w.made("one.txt") })
	h.Kill()
	h.Boot()
	if again := w.asked("touch two.txt"); again.ID != q.ID {
		t.Errorf("after the restart it is another question: %s, was %s", again.ID, q.ID)
	}
	h.API("POST", "/sessions/"+w.id+"/input", map[string]string{"text": "y"}, nil)
	w.waits("it is known to be answered", func() bool { return w.stored(q.ID).State != "open" })
	q = w.asked("touch three.txt")
	w.reply(q, map[string]any{"option_id": q.Options[2].ID, "text": "Call it something else"})
	w.waits("the reason is its next prompt", func() bool { return strings.Contains(w.screen(), "Call it something else") })
	w.reaches("idle")
	if w.made("three.txt") {
		t.Error("what was denied was done")
	}
}
