package sessions_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/sessions/state"
)

// puppet is a Claude Code that shows and says what the test has it show and say, so that its words come in any order.
type puppet struct {
	t   *testing.T
	s   *server
	id  string
	q   string // the question it has asked
	out *os.File
}

// puppets makes Claude Code a puppet.
func (h *harness) puppets() {
	h.t.Helper()
	path := filepath.Join(h.dir, "puppet")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nstty raw -echo\nexec cat <wire\n"), 0o755); err != nil {
		h.t.Fatal(err)
	}
	h.settings[agents.ClaudeCode] = agents.Settings{Enabled: true, Command: path}
	h.accounts[agents.ClaudeCode] = accounts.AgentAccount{Agent: agents.ClaudeCode, Kind: accounts.APIKey}
	h.secrets[agents.ClaudeCode] = "sk-ant-api03-" + strings.Repeat("abcdefghij", 5)
}

// puppet starts one that works on a prompt.
func (s *server) puppet(t *testing.T) *puppet {
	t.Helper()
	ws := s.h.addWorkspace("repo")
	wire := filepath.Join(ws.Path, "wire")
	if err := syscall.Mkfifo(wire, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(wire, os.O_RDWR, 0) // both ends: it neither waits for the agent nor ends it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	row, err := s.Start(t.Context(), s.h.actor, ws.ID, sessions.StartRequest{Agent: agents.ClaudeCode})
	if err != nil {
		t.Fatal(err)
	}
	p := &puppet{t: t, s: s, id: row.ID, out: out}
	p.title("✳")
	p.hook("", `"hook_event_name":"UserPromptSubmit","prompt_id":"p1"`)
	p.title("⠂")
	return p
}

// shows prints something and waits until it was heard.
func (p *puppet) shows(text string) {
	p.t.Helper()
	before := p.s.get(p.t, p.id).Bytes
	if _, err := p.out.WriteString(text); err != nil {
		p.t.Fatal(err)
	}
	eventually(p.t, "the output is read", func() bool { return p.s.get(p.t, p.id).Bytes >= before+int64(len(text)) })
}

func (p *puppet) title(mark string) {
	p.t.Helper()
	p.shows("\x1b]0;" + mark + " Claude Code\x07")
}

// later does something while the test goes on, unless that ends first.
func (p *puppet) later(after time.Duration, do func()) {
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-time.After(after):
			do()
		case <-p.t.Context().Done():
		}
	})
	p.t.Cleanup(wg.Wait)
}

// spins is title for later.
func (p *puppet) spins(mark string) func() {
	return func() { _, _ = p.out.WriteString("\x1b]0;" + mark + " Claude Code\x07") }
}

func (p *puppet) hook(id, fields string) { p.s.Hook(p.t.Context(), p.id, id, "{"+fields+"}") }

const touches = `"prompt_id":"p1","tool_name":"Bash","tool_input":{"command":"touch one.txt"}`

// asks lets its hook ask for permission; its dialog comes later.
func (p *puppet) asks() {
	p.t.Helper()
	p.hook("ask", `"hook_event_name":"PermissionRequest",`+touches)
	q := p.s.get(p.t, p.id).Question
	if q == nil {
		p.t.Fatal("it asks nothing")
	}
	p.q = q.ID
}

const dialog = "\x1b[2J\x1b[H────────\r\n Bash command\r\n   touch one.txt\r\n Do you want to proceed?\r\n ❯ 1. Yes\r\n" +
	"   2. Yes, and don't ask again\r\n   3. No\r\n\r\n Esc to cancel · Tab to amend\r\n"

// opens shows the dialog and waits until it was looked at.
func (p *puppet) opens() {
	p.t.Helper()
	p.shows(dialog)
	eventually(p.t, "its dialog is seen", func() bool { return p.s.DialogSeen(p.id, p.q) })
}

func (p *puppet) closes() { p.shows("\x1b[2J\x1b[H● Bash(touch one.txt)\r\n") }

func (p *puppet) types(keys string) {
	p.t.Helper()
	if err := p.s.Input(p.t.Context(), p.s.h.actor, p.id, keys); err != nil {
		p.t.Fatal(err)
	}
}

// ended lets the agent end its hook, as Claude does when a turn is interrupted and never else.
func (p *puppet) ended() { p.s.HookEnded(context.Background(), p.id, "ask") }

// settles waits for the end of the question and checks it, and the state the session comes to.
func (p *puppet) settles(how question.State, answer string, state state.State) {
	p.t.Helper()
	eventually(p.t, "the question has ended", func() bool { return p.s.question(p.t, p.id, p.q).State != question.Open })
	if q := p.s.question(p.t, p.id, p.q); q.State != how || q.Answer != answer {
		p.t.Errorf("it is %s %q, want %s %q", q.State, q.Answer, how, answer)
	}
	for deadline := time.Now().Add(sooner); p.s.get(p.t, p.id).State != state; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("the session is %s, want %s", p.s.get(p.t, p.id).State, state)
		}
	}
}

// A hook that reports after its dialog was read off the screen asks the same question: nobody is asked twice.
func TestHookTakesThePlaceOfItsDialog(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.puppets()
	p := h.start().puppet(t)
	p.shows(dialog)
	p.title("✳")
	p.shows("\x1b]9;Claude needs your permission to use Bash\x07")
	var first *question.Question
	eventually(t, "the dialog is read", func() bool { first = p.s.get(t, p.id).Question; return first != nil })
	if first.Source != question.AskedOnScreen {
		t.Fatalf("asked by %s", first.Source)
	}
	p.hook("ask", `"hook_event_name":"PermissionRequest",`+touches)
	if q := p.s.get(t, p.id).Question; q == nil || q.Source != question.AskedByHook || p.s.get(t, p.id).State != state.Waiting {
		t.Errorf("it asks %+v", q)
	}
	if q := p.s.question(t, p.id, first.ID); q.State != question.Withdrawn {
		t.Errorf("the first is %s", q.State)
	}
	eventually(t, "it is seen", func() bool { return p.s.DialogSeen(p.id, p.s.get(t, p.id).Question.ID) })
	if all, _, err := p.s.Questions(t.Context(), p.id, page.Page{}); err != nil || len(all) != 2 {
		t.Errorf("%d questions, %v", len(all), err)
	}
}

// In whatever order hook, screen, title, record and keys are heard: a question that was answered in the terminal is answered, one
// that was refused or interrupted there is withdrawn, and none stays open.
func TestQuestionsOfTheTerminalEnd(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.puppets()
	s := h.start()
	lagging := func(p *puppet) { // the record of what was before the question comes late
		p.s.Says(p.id, agents.Hint{Source: agents.FromTranscript, Mood: agents.Busy, At: time.Now().Add(-time.Second)})
	}
	for name, play := range map[string]func(p *puppet){
		"refused, and the record lags": func(p *puppet) {
			p.asks()
			p.title("✳")
			p.opens()
			lagging(p)
			p.types("\x1b")
			p.closes()
			p.ended()
			p.settles(question.Withdrawn, "", state.Idle)
		},
		"refused, the record lags and the end of the hook too": func(p *puppet) {
			p.asks()
			p.title("✳")
			p.opens()
			lagging(p)
			p.types("3")
			p.closes()
			p.later(1500*time.Millisecond, p.ended)
			p.settles(question.Withdrawn, "", state.Idle)
		},
		"refused, the record lags and the end of the hook is never heard": func(p *puppet) {
			p.asks()
			p.title("✳")
			p.opens()
			lagging(p)
			p.types("3")
			p.closes()
			p.settles(question.Withdrawn, "", state.Idle)
		},
		"interrupted before the dialog opens": func(p *puppet) {
			p.asks()
			p.types("\x1b")
			p.ended()
			p.title("✳")
			p.settles(question.Withdrawn, "", state.Idle)
		},
		"interrupted before the dialog opens, and the title lags": func(p *puppet) {
			p.asks()
			p.title("⠐") // under way when it asked
			p.types("\x1b")
			p.later(2*time.Second, p.ended)
			p.later(3500*time.Millisecond, p.spins("✳"))
			p.settles(question.Withdrawn, "", state.Idle)
		},
		"interrupted while the dialog opens": func(p *puppet) {
			p.asks()
			p.types("\x1b")
			p.opens()
			p.title("⠐")
			p.title("✳")
			p.closes()
			lagging(p)
			p.ended()
			p.settles(question.Withdrawn, "", state.Idle)
		},
		"allowed": func(p *puppet) {
			p.asks()
			p.title("✳")
			p.opens()
			p.types("1")
			p.closes()
			p.title("⠂")
			p.settles(question.Answered, "in the terminal", state.Working)
		},
		"allowed before anybody saw the dialog": func(p *puppet) {
			p.asks()
			p.title("✳")
			p.types("1")
			p.title("⠂")
			p.settles(question.Answered, "in the terminal", state.Working)
		},
		"allowed before the dialog could open": func(p *puppet) {
			p.asks()
			p.types("1")
			for _, after := range []time.Duration{600, 1600} { // its title turns on
				p.later(after*time.Millisecond, p.spins("⠐"))
			}
			p.settles(question.Answered, "in the terminal", state.Working)
		},
		"allowed, and over at once": func(p *puppet) {
			p.asks()
			p.title("✳")
			p.opens()
			p.types("1")
			p.closes()
			p.title("⠂")
			p.title("✳")
			p.settles(question.Answered, "in the terminal", state.Idle)
		},
		"allowed, and the tool is done": func(p *puppet) {
			p.asks()
			p.title("✳")
			p.opens()
			p.types("1")
			p.hook("", `"hook_event_name":"PostToolUse",`+touches)
			p.closes() // after its hook, which runs beside the screen; a dialog that stays open is asked again
			p.settles(question.Answered, "Allowed", state.Working)
		},
		"allowed and interrupted": func(p *puppet) {
			p.asks()
			p.title("✳")
			p.opens()
			p.types("1")
			p.closes()
			p.title("⠂")
			p.types("\x1b")
			p.title("✳")
			p.ended()
			p.settles(question.Answered, "in the terminal", state.Idle)
		},
		"open, and nobody does anything": func(p *puppet) {
			p.asks()
			p.title("✳")
			p.opens()
			lagging(p)
			p.types("\x1b[A")
			time.Sleep(3 * time.Second) // nothing is to happen
			if q := p.s.question(p.t, p.id, p.q); q.State != question.Open || p.s.get(p.t, p.id).State != state.Waiting {
				p.t.Errorf("it is %s, the session %s", q.State, p.s.get(p.t, p.id).State)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(s.puppet(t))
		})
	}
}
