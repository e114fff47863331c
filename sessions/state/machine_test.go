package state

import (
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/signals"
)

// play is a machine with a clock of its own.
type play struct {
	t   *testing.T
	m   Machine
	now time.Time
}

func newPlay(t *testing.T, explicit bool) *play {
	start := time.Unix(1_800_000_000, 0)
	return &play{t: t, m: New(explicit, start, Starting, ""), now: start}
}

// pass lets time go by, asking the machine whenever it wanted to be asked.
func (p *play) pass(d time.Duration) {
	end := p.now.Add(d)
	for {
		_, next := p.m.Evaluate(p.now)
		if next.IsZero() || next.After(end) {
			break
		}
		if !next.After(p.now) {
			p.t.Fatalf("asked again at once in state %s", p.m.State)
		}
		p.now = next
	}
	p.now = end
}

func (p *play) out(n int)         { p.m.Output(p.now, n); p.m.Evaluate(p.now) }
func (p *play) say(m agents.Mood) { p.from(agents.FromReport, m) }
func (p *play) from(src agents.Source, m agents.Mood) {
	p.m.Observe(p.now, agents.Hint{Source: src, Mood: m})
	p.m.Evaluate(p.now)
}
func (p *play) weak(m agents.Mood) {
	p.m.Observe(p.now, agents.Hint{Source: agents.FromTitle, Mood: m, Weak: true})
	p.m.Evaluate(p.now)
}
func (p *play) key() { p.m.Input(p.now); p.m.Evaluate(p.now) }
func (p *play) is(want State, at string) {
	p.t.Helper()
	if p.m.Evaluate(p.now); p.m.State != want {
		p.t.Fatalf("%s: %s (%s), want %s", at, p.m.State, p.m.Reason, want)
	}
}

func TestShellStateFollowsItsBytes(t *testing.T) {
	t.Parallel()
	p := newPlay(t, false)
	p.is(Starting, "nothing printed yet")
	p.pass(time.Second)
	p.out(40)
	p.is(Idle, "a prompt")
	p.key()
	p.out(1)
	p.is(Idle, "the echo of a key")
	for range 40 {
		p.pass(50 * time.Millisecond)
		p.key()
		p.out(12)
	}
	p.is(Idle, "fast typing")
	p.pass(time.Second)
	for range 100 {
		p.out(4096)
		p.pass(100 * time.Millisecond)
		p.is(Working, "a build")
	}
	p.pass(3500 * time.Millisecond)
	p.is(Idle, "after the build")
}

func TestSilentProgramDoesNotStartForEver(t *testing.T) {
	t.Parallel()
	p := newPlay(t, true)
	p.pass(9 * time.Second)
	p.is(Starting, "after nine seconds")
	p.pass(2 * time.Second)
	p.is(Idle, "after eleven")
}

func TestExplicitAgent(t *testing.T) {
	t.Parallel()
	p := newPlay(t, true)
	p.out(5000)
	p.is(Starting, "it draws its screen")
	p.say(agents.Ready)
	p.is(Idle, "it says so")
	p.out(5000)
	p.is(Idle, "a redraw")
	p.say(agents.Busy)
	for range 20 {
		p.pass(10 * time.Second)
		p.out(3)
		p.is(Working, "a spinner that turns slowly")
	}
	p.say(agents.Asking)
	p.is(Waiting, "a question")
	p.out(5000)
	p.weak(agents.Ready)
	p.is(Waiting, "a redraw and a title that is the same as when idle")
	p.pass(time.Hour)
	p.is(Waiting, "nobody answers")
	p.key()
	p.is(Waiting, "the agent has a moment to say what came of it")
	p.pass(2 * time.Second)
	p.is(Idle, "answered")
	p.say(agents.Busy)
	p.is(Working, "it goes on")
	p.say(agents.Asking)
	p.say(agents.Busy)
	p.is(Working, "answered elsewhere")
	p.say(agents.Trouble)
	p.is(Idle, "an error")
}

func TestWorkingDoesNotLatch(t *testing.T) {
	t.Parallel()
	p := newPlay(t, true)
	p.out(10)
	p.say(agents.Busy)
	p.pass(14 * time.Second)
	p.is(Working, "fourteen silent seconds")
	p.pass(2 * time.Second)
	p.is(Idle, "sixteen")
	p.out(10)
	p.is(Working, "it moves again")
}

func TestQuestionOfAnUnknownAgentEndsWhenItGoesOn(t *testing.T) {
	t.Parallel()
	p := newPlay(t, false)
	p.out(10)
	p.say(agents.Asking)
	p.out(100)
	p.is(Waiting, "the question is being drawn")
	p.pass(5 * time.Second)
	p.out(2000)
	p.is(Working, "it prints again")
}

func TestShortLinesInARowAreWork(t *testing.T) {
	t.Parallel()
	p := newPlay(t, false)
	for range 100 {
		p.out(2)
		p.pass(20 * time.Millisecond)
	}
	p.is(Working, "a short line each 20 ms")
	p.pass(5 * time.Second)
	p.is(Idle, "after it")
}

func TestStateSurvivesARestart(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	m := New(true, start, Waiting, "asks for your approval")
	m.Recall(start, Basis{})
	m.Evaluate(start.Add(time.Hour))
	if m.State != Waiting || m.Reason != "asks for your approval" {
		t.Errorf("got %s, %s", m.State, m.Reason)
	}
}

// restart is what a server that is killed and started again makes of the state: from what it stored, as it was stored.
func (p *play) restart() {
	p.t.Helper()
	text, err := p.m.Basis().Encode()
	if err != nil {
		p.t.Fatal(err)
	}
	b, err := DecodeBasis(text)
	if err != nil {
		p.t.Fatal(err)
	}
	p.now = p.now.Add(5 * time.Second)
	m := New(p.m.explicit, p.m.started, p.m.State, p.m.Reason)
	m.Recall(p.now, b)
	p.m = m
	p.m.Evaluate(p.now)
}

func (p *play) hears(h agents.Hint) {
	p.m.Observe(p.now, h)
	p.m.Evaluate(p.now)
}

// An error that ended a turn is an error until the agent works again or somebody types, whatever the agent says of being ready, and
// also after a restart.
func TestAnErrorSurvivesARestart(t *testing.T) {
	t.Parallel()
	p := newPlay(t, true)
	p.hears(agents.Hint{Source: agents.FromHook, Mood: agents.Busy})
	p.hears(agents.Hint{Source: agents.FromTitle, Mood: agents.Busy})
	p.pass(4 * time.Second)
	p.hears(agents.Hint{Source: agents.FromReport, Mood: agents.Ready}) // it looks finished for a moment
	p.weak(agents.Ready)
	p.pass(20 * time.Millisecond)
	p.hears(agents.Hint{Source: agents.FromHook, Mood: agents.Trouble, Reason: "API Error: 400"})
	failed := func(when string) {
		t.Helper()
		if p.is(Idle, when); !p.m.Trouble || p.m.Reason != "API Error: 400" || !p.m.doneAt.IsZero() {
			t.Errorf("%s: trouble %t (%s), finished at %v; %+v", when, p.m.Trouble, p.m.Reason, p.m.doneAt, p.m.Basis())
		}
	}
	failed("at once")
	p.restart()
	failed("after a restart")
	p.pass(time.Minute)
	p.hears(agents.Hint{Source: agents.FromHook, Mood: agents.Ready, Weak: true}) // "is waiting for your input"
	failed("when it says that it waits")
	p.restart()
	failed("after another restart")
	p.weak(agents.Ready)
	failed("its title again")
	p.key()
	p.hears(agents.Hint{Source: agents.FromHook, Mood: agents.Busy})
	p.is(Working, "a prompt")
	if p.m.Trouble {
		t.Error("the error stays")
	}
}

// What an agent printed while no server ran does not take the place of what its hooks said then, although the hooks are heard first.
func TestAnErrorWhileNoServerRan(t *testing.T) {
	t.Parallel()
	p := newPlay(t, true)
	p.hears(agents.Hint{Source: agents.FromHook, Mood: agents.Busy})
	p.hears(agents.Hint{Source: agents.FromTitle, Mood: agents.Busy})
	p.pass(2 * time.Second)
	at := p.now.Add(3 * time.Second)
	p.restart()
	p.hears(agents.Hint{Source: agents.FromHook, Mood: agents.Trouble, Reason: "API Error: 400", At: at})
	for _, mood := range []agents.Mood{agents.Busy, agents.Ready} {
		h := agents.Hint{Source: agents.FromTitle, Mood: mood}
		p.m.Recalled(&h)
		p.hears(h)
	}
	if p.is(Idle, "after the restart"); !p.m.Trouble {
		t.Errorf("%s; %+v", p.m.Reason, p.m.Basis())
	}
}

// The record of an agent notes the end of a turn that failed, too, and later than the agent said so: it has failed all the same, also for
// a server that was killed in between.
func TestARecordEndsNoError(t *testing.T) {
	t.Parallel()
	for _, restarts := range []bool{false, true} {
		p := newPlay(t, true)
		p.hears(agents.Hint{Source: agents.FromHook, Mood: agents.Busy})
		p.pass(5 * time.Second)
		p.hears(agents.Hint{Source: agents.FromHook, Mood: agents.Trouble, Reason: "API Error: 400"})
		p.pass(20 * time.Millisecond)
		at := p.now
		if restarts {
			p.restart()
		}
		p.hears(agents.Hint{Source: agents.FromTranscript, Mood: agents.Ready, At: at})
		if p.is(Idle, "the record ends the turn"); !p.m.Trouble || p.m.Reason != "API Error: 400" {
			t.Errorf("restarted %t: trouble %t (%s); %+v", restarts, p.m.Trouble, p.m.Reason, p.m.Basis())
		}
	}
}

// A question that was named keeps its name while it is open, whoever else says that something is asked.
func TestANamedQuestionKeepsItsName(t *testing.T) {
	t.Parallel()
	named := agents.Hint{Source: agents.FromHook, Mood: agents.Asking, Reason: "Which colour?"}
	for name, vague := range map[string]agents.Hint{
		"a notification": {Source: agents.FromNotice, Mood: agents.Asking, Vague: true, Reason: "Claude needs your permission"},
		"a hook":         {Source: agents.FromHook, Mood: agents.Asking, Vague: true, Reason: "Claude needs your permission"},
		"a report":       {Source: agents.FromReport, Mood: agents.Asking, Vague: true},
	} {
		p := newPlay(t, true)
		p.hears(agents.Hint{Source: agents.FromHook, Mood: agents.Busy})
		p.pass(time.Second)
		p.hears(named)
		p.pass(6 * time.Second)
		p.hears(vague)
		if p.is(Waiting, name); p.m.Reason != "Which colour?" {
			t.Errorf("%s after the question: %q", name, p.m.Reason)
		}
		p.restart()
		if p.is(Waiting, name); p.m.Reason != "Which colour?" {
			t.Errorf("%s after the question, and a restart: %q", name, p.m.Reason)
		}
		p.m.Observe(p.now, agents.Hint{Source: agents.FromHook}) // it is answered
		p.hears(agents.Hint{Source: agents.FromHook, Mood: agents.Busy})
		p.is(Working, "answered")
		p.pass(time.Second)
		p.hears(vague)
		if p.is(Waiting, "the next question"); p.m.Reason == "Which colour?" {
			t.Errorf("%s of another question is shown as the one that was answered", name)
		}
		p.hears(agents.Hint{Source: agents.FromScreen, Mood: agents.Asking, Reason: "Do you want to proceed?"})
		if p.m.Reason != "Do you want to proceed?" {
			t.Errorf("%s before the question is named: %q", name, p.m.Reason)
		}
	}
}

func TestScanner(t *testing.T) {
	t.Parallel()
	const long = 70_000
	stream := "plain \x1b[31mred\x1b[0m" +
		"\x1b]0;one\x07" + "\x1b]2;two\x1b\\" + "\x1b]0;a;b\x07" +
		"\x1b]9;come here\x07" + "\x1b]9;4;3;0\x07" + "\x1b]9;9;/home\x07" + "\x1b]9;12;x\x07" +
		"\x1b]777;notify;Title;Body\x07" + "\x1b]777;other;x\x07" +
		"\x1b]7501;state=idle:app=codex\x1b\\" +
		"\x1b]0;" + strings.Repeat("x", long) + "\x07" + // too long
		"\x1b]0;broken\x18off\x07" + "\x1b]0;cut\x1b[?2004h" +
		"\x1bP\x1b]0;inside a string is broken off by ESC, and so seen\x07" +
		"\x1b]0;evil\u202e\u2028 \x01title\xff\x07" +
		"\x1b]8;;http://x\x07link\x1b]8;;\x07" + "\x1b[?1;2004;25l" + "\x1b[?2004h" + "\x1b[2004l" + "end"
	want := []string{"0 one", "0 two", "0 a;b", "1 come here", "2 3;0", "1 Body", "3 state=idle:app=codex",
		"0 inside a string is broken off by ESC, and so seen", "0 evil title\ufffd"}
	for _, size := range []int{1, 2, 3, 7, 4096, 1 << 20} {
		var got []string
		s := signals.Scanner{Clean: safetext.Line, Signal: func(sig agents.Signal) { got = append(got, string(rune('0'+sig.Kind))+" "+sig.Text) }}
		for rest := []byte(stream); len(rest) > 0; rest = rest[min(size, len(rest)):] {
			s.Scan(rest[:min(size, len(rest))])
		}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("in pieces of %d: got %q, want %q", size, got, want)
		}
		if !s.Paste() {
			t.Errorf("in pieces of %d: bracketed paste is not seen", size)
		}
	}
	if got := safetext.Line(strings.Repeat("é", 300)); len([]rune(got)) != safetext.MaxLine {
		t.Errorf("a title of %d characters", len([]rune(got)))
	}
}

func FuzzScanner(f *testing.F) {
	f.Add([]byte("\x1b]0;x\x07\x1b[?2004h"), 3)
	f.Add([]byte("\x1b[31mred\x1b[?2004h\x1b[1;2\x1b]0;x\x07\x1b[0m\x1b["), 2)
	f.Fuzz(func(t *testing.T, p []byte, size int) {
		size = min(max(size, 1), 64)
		var whole, pieces []string
		a := signals.Scanner{Clean: safetext.Line, Signal: func(s agents.Signal) { whole = append(whole, s.Text) }}
		b := signals.Scanner{Clean: safetext.Line, Signal: func(s agents.Signal) { pieces = append(pieces, s.Text) }}
		a.Scan(p)
		for rest := p; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			b.Scan(rest[:min(size, len(rest))])
		}
		if strings.Join(whole, "|") != strings.Join(pieces, "|") || a.Paste() != b.Paste() {
			t.Fatalf("whole %q, in pieces of %d %q", whole, size, pieces)
		}
	})
}

func BenchmarkScanner(b *testing.B) {
	s := signals.Scanner{Clean: safetext.Line, Signal: func(agents.Signal) {}}
	p := []byte(strings.Repeat("the quick brown fox \x1b[31mjumps\x1b[0m over the lazy dog\r\n", 1000))
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		s.Scan(p)
	}
}
