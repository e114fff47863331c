package state

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/usagelimit"
)

// The ways in which Claude Code's sources tell, or do not tell, what happened.
func TestSourcesAgainstEachOther(t *testing.T) {
	t.Parallel()
	const hook, title = agents.FromHook, agents.FromTitle
	works := func(t *testing.T) *play {
		p := newPlay(t, true)
		p.out(1000)
		p.weak(agents.Ready)
		p.key()
		p.from(hook, agents.Busy)
		p.from(title, agents.Busy)
		for range 50 {
			p.pass(100 * time.Millisecond)
			p.out(20)
			p.from(title, agents.Busy)
		}
		p.is(Working, "a prompt")
		return p
	}
	asks := func(t *testing.T) *play {
		p := works(t)
		p.from(hook, agents.Asking)
		p.weak(agents.Ready)
		p.pass(6 * time.Second)
		p.from(agents.FromNotice, agents.Asking)
		p.pass(time.Minute)
		p.is(Waiting, "a question")
		return p
	}
	t.Run("the end of a turn", func(t *testing.T) {
		p := works(t)
		p.from(hook, agents.Ready)
		p.from(title, agents.Busy) // a frame that was under way
		p.weak(agents.Ready)
		p.is(Idle, "it says so")
		if p.m.doneAt.IsZero() {
			t.Error("it has not finished")
		}
		p.key()
		if p.m.Evaluate(p.now); !p.m.doneAt.IsZero() {
			t.Error("somebody typed")
		}
	})
	t.Run("a spinner that turned for a moment", func(t *testing.T) {
		codex := mustRead(t, agents.Codex)
		p := newPlay(t, true)
		p.out(1000)
		for _, s := range []agents.Signal{{Kind: agents.Title, Text: "repo"}, {Kind: agents.Report, Text: "state=idle:app=codex"},
			{Kind: agents.Title, Text: "⠋ repo"}, {Kind: agents.Title, Text: "repo"}} {
			p.m.Observe(p.now, codex(s))
			p.pass(20 * time.Millisecond)
		}
		p.is(Idle, "the spinner has gone")
	})
	t.Run("interrupted", func(t *testing.T) {
		p := works(t)
		p.key()
		p.weak(agents.Ready) // no hook tells
		p.is(Idle, "the title does")
		p.from(hook, agents.Busy)
		p.from(title, agents.Busy)
		p.is(Working, "the next prompt")
		if !p.m.doneAt.IsZero() {
			t.Error("it has finished")
		}
	})
	t.Run("answered yes in the terminal", func(t *testing.T) {
		p := asks(t)
		p.key()
		p.pass(100 * time.Millisecond)
		p.from(title, agents.Busy)
		p.is(Working, "it goes on")
		p.weak(agents.Ready)
		p.is(Idle, "the old question does not come back")
	})
	t.Run("answered no in the terminal", func(t *testing.T) {
		p := asks(t)
		p.key() // nothing tells
		p.pass(2 * time.Second)
		p.is(Idle, "the title was idle all along")
	})
	t.Run("a key that answers nothing", func(t *testing.T) {
		p := asks(t)
		p.key()
		p.pass(600 * time.Millisecond)
		p.from(agents.FromScreen, agents.Asking)
		p.pass(time.Minute)
		p.is(Waiting, "the dialog is still there")
		p.m.Observe(p.now, agents.Hint{Source: agents.FromScreen})
		p.is(Idle, "and then it is not")
	})
	t.Run("answered elsewhere", func(t *testing.T) {
		p := asks(t)
		p.from(hook, agents.Busy)
		p.is(Working, "the hook was answered")
	})
	t.Run("a hook that gave up its question", func(t *testing.T) {
		p := asks(t)
		p.from(title, agents.Busy)
		p.m.Observe(p.now, agents.Hint{Source: hook})
		p.is(Working, "it was answered in the terminal")
		p = asks(t)
		p.m.Observe(p.now, agents.Hint{Source: hook})
		p.is(Idle, "it was answered with no")
	})
	t.Run("an agent that spins while its hook asks", func(t *testing.T) {
		p := works(t)
		p.from(hook, agents.Asking)
		for range 100 {
			p.pass(100 * time.Millisecond)
			p.from(title, agents.Busy)
			p.out(20)
		}
		p.is(Waiting, "the title spins on")
		p.key()
		p.pass(1600 * time.Millisecond)
		p.from(title, agents.Busy)
		p.is(Working, "answered, and it still spins")
	})
	t.Run("a stop that was not the end", func(t *testing.T) {
		p := works(t)
		p.from(hook, agents.Ready)
		for range 40 {
			p.pass(100 * time.Millisecond)
			p.from(title, agents.Busy)
		}
		p.is(Working, "it goes on spinning")
	})
	t.Run("an error", func(t *testing.T) {
		p := works(t)
		p.m.Observe(p.now, agents.Hint{Source: hook, Mood: agents.Trouble, Reason: "rate limit"})
		p.weak(agents.Ready)
		p.is(Idle, "an error")
		if !p.m.Trouble || p.m.Reason != "rate limit" {
			t.Errorf("trouble %v, %q", p.m.Trouble, p.m.Reason)
		}
	})
	t.Run("a transcript that lags", func(t *testing.T) {
		p := asks(t)
		p.m.Observe(p.now, agents.Hint{Source: agents.FromTranscript, Mood: agents.Busy, At: p.now.Add(-time.Minute)})
		p.is(Waiting, "it reports a time before the question")
	})
	t.Run("stuck", func(t *testing.T) {
		p := works(t)
		since := p.now
		p.pass(stuckAfter + time.Second)
		if p.is(Idle, "nothing moves"); !p.m.stuckAt.Equal(since) {
			t.Errorf("stuck since %v, want %v", p.m.stuckAt, since)
		}
		p.out(10)
		if p.is(Working, "it moves"); !p.m.stuckAt.IsZero() {
			t.Error("stuck")
		}
	})
	t.Run("a silent build", func(t *testing.T) {
		p := works(t)
		p.m.work.tool, p.m.work.toolAt = "make", p.now
		for range 60 {
			p.pass(10 * time.Second)
			p.m.work.cpuAt, p.m.dirty = p.now, true
			p.is(Working, "it uses CPU")
		}
		p.pass(stuckAfter - time.Second)
		p.is(Working, "a tool that waits for something")
		p.pass(2 * time.Second)
		if p.is(Idle, "for too long"); p.m.stuckAt.IsZero() {
			t.Error("not stuck")
		}
	})
}

// Whatever was said, silence ends "working" within a bound.
func TestSilenceEndsWork(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := newPlay(t, seed%2 == 0)
		for range 30 {
			switch r.IntN(6) {
			case 0:
				p.out(r.IntN(3000))
			case 1:
				p.key()
			case 2:
				p.m.work = work{cpuAt: p.now, toolAt: p.now, tool: "x"}
			default:
				p.m.Observe(p.now, agents.Hint{Source: agents.Source(r.IntN(agents.Sources + 1)), Mood: agents.Mood(r.IntN(7)), Weak: r.IntN(3) == 0,
					At: p.now.Add(-time.Duration(r.IntN(20)-10) * time.Second)})
			}
			p.m.Evaluate(p.now)
			p.pass(time.Duration(r.IntN(8000)) * time.Millisecond)
		}
		bound := stuckAfter + time.Second
		if p.m.winner() == agents.FromPerson {
			bound = rules[agents.FromPerson][agents.Busy].life + time.Second
		}
		if p.pass(bound); p.m.State == Working || p.m.State == Starting {
			t.Fatalf("seed %d: %s (%s) after %s of silence", seed, p.m.State, p.m.Reason, bound)
		}
	}
}

// A thousand sessions that wait cost nothing: no timer, no look at their processes.
func TestWaitingCostsNothing(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func() *play{
		"an agent at its prompt": func() *play {
			p := newPlay(t, true)
			p.out(1000)
			p.weak(agents.Ready)
			return p
		},
		"a question": func() *play {
			p := newPlay(t, true)
			p.out(1000)
			p.from(agents.FromHook, agents.Asking)
			return p
		},
		"an error": func() *play {
			p := newPlay(t, true)
			p.say(agents.Trouble)
			return p
		},
		"a shell at its prompt": func() *play {
			p := newPlay(t, false)
			p.out(1000)
			return p
		},
		"a command that ended its output": func() *play {
			p := newPlay(t, false)
			for range 100 {
				p.out(1000)
			}
			return p
		},
	} {
		p := begin()
		for range 100 { // looked at whenever it wants to be, and idle each time
			at := p.m.NextLook(p.now)
			if at.IsZero() || at.Sub(p.now) > lookUntil {
				break
			}
			p.pass(max(at.Sub(p.now), 10*time.Millisecond))
			p.m.Worked(p.now, guest.Work{Processes: 1})
		}
		p.pass(lookUntil + time.Second)
		if _, next := p.m.Evaluate(p.now); !next.IsZero() {
			t.Errorf("%s: judged again at %v", name, next.Sub(p.now))
		}
		if at := p.m.NextLook(p.now); !at.IsZero() {
			t.Errorf("%s: looked at again in %v", name, at.Sub(p.now))
		}
	}
}

// What the processes do, told by the looks at them.
func TestToolsOfATurn(t *testing.T) {
	t.Parallel()
	p := newPlay(t, true)
	p.out(1000)
	p.weak(agents.Ready)
	begun := p.now
	mcp := guest.Program{Pid: 7, Name: "mcp"} // begun long before the turn
	p.pass(time.Minute)
	p.from(agents.FromTitle, agents.Busy)
	p.is(Working, "a prompt")
	turn := p.now
	look := func(cpu, tool int64) {
		mcp.AgeMs = p.now.Sub(begun).Milliseconds()
		w := guest.Work{CPUMs: cpu, Processes: 3, Programs: []guest.Program{{Pid: 9, Name: "npm", AgeMs: p.now.Sub(turn).Milliseconds(), CPUMs: tool}, mcp}}
		p.m.Worked(p.now, w)
		p.m.Evaluate(p.now)
	}
	spin := func(d time.Duration, each func(at time.Duration)) {
		for at := time.Duration(0); at < d; at += time.Second {
			p.pass(time.Second)
			p.out(20)
			p.from(agents.FromTitle, agents.Busy)
			if at%lookSlow == 0 {
				each(at)
			}
		}
	}
	cpu := int64(1000)
	spin(20*time.Minute, func(time.Duration) { cpu += 10_000; look(cpu, cpu) })
	if p.is(Working, "a long build"); !p.m.stuckAt.IsZero() {
		t.Errorf("stuck: %s", p.m.Reason)
	}
	spin(hungAfter+2*time.Minute, func(time.Duration) { look(cpu, cpu) })
	if p.is(Working, "a tool that does nothing"); p.m.stuckAt.IsZero() || !strings.Contains(p.m.Reason, "npm") {
		t.Errorf("not stuck: %s; %+v, turn %v, now %v", p.m.Reason, p.m.work, p.m.turn, p.now)
	}
	spin(time.Minute, func(time.Duration) { cpu += 5000; look(cpu, cpu) })
	if !p.m.stuckAt.IsZero() {
		t.Errorf("still stuck: %s", p.m.Reason)
	}
	spin(hungAfter+2*time.Minute, func(time.Duration) {
		mcp.AgeMs = p.now.Sub(begun).Milliseconds()
		p.m.Worked(p.now, guest.Work{CPUMs: cpu, Processes: 2, Programs: []guest.Program{mcp}})
	})
	if !p.m.stuckAt.IsZero() {
		t.Error("a server the agent keeps beside it is no tool of the turn")
	}
}

// mustRead reads signals as an agent's adapter does.
func mustRead(t *testing.T, agent string) func(agents.Signal) agents.Hint {
	t.Helper()
	r, err := agents.New(agents.Config{HomesDir: t.TempDir(), WorktreesDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return func(s agents.Signal) agents.Hint { return r.Read(agent, s) }
}

// A limit of the provider outlasts the keys of a menu and a restart, and ends with the next turn.
func TestALimitLastsUntilTheNextTurn(t *testing.T) {
	t.Parallel()
	p := newPlay(t, true)
	p.out(1000)
	p.from(agents.FromHook, agents.Busy)
	p.is(Working, "a prompt")
	p.pass(10 * time.Second)
	l := usagelimit.Of(usagelimit.Session, p.now, p.now.Add(3*time.Hour))
	unknown := *l
	unknown.Until = 0
	p.m.Observe(p.now, agents.Hint{Source: agents.FromHook, Mood: agents.Trouble, Limit: &unknown})
	p.is(Idle, "a limit")
	p.m.Observe(p.now, agents.Hint{Source: agents.FromTranscript, Mood: agents.Trouble, Limit: l}) // it knows more
	p.from(agents.FromTitle, agents.Busy)                                                          // the agent's own menu
	p.pass(time.Minute)
	p.from(agents.FromScreen, agents.Asking)
	p.is(Waiting, "its menu")
	p.key()
	p.pass(time.Minute)
	if p.is(Idle, "the menu was answered"); p.m.Basis().LimitEnd() != l.Until {
		t.Fatalf("limit %+v", p.m.Basis().Limit)
	}
	raw, err := p.m.Basis().Encode()
	if err != nil {
		t.Fatal(err)
	}
	b, err := DecodeBasis(raw)
	if err != nil {
		t.Fatal(err)
	}
	q := newPlay(t, true)
	q.now = p.now
	q.m = New(true, p.now, Idle, "")
	q.m.Recall(q.now, b)
	if q.m.Basis().LimitEnd() != l.Until {
		t.Fatal("a restart forgot the limit")
	}
	q.pass(time.Second)
	q.m.Observe(q.now, agents.Hint{Source: agents.FromHook, Mood: agents.Busy, At: q.now})
	q.m.Evaluate(q.now)
	if q.is(Working, "the next prompt"); q.m.Basis().Limit != nil {
		t.Error("the limit outlasts the next turn")
	}
	q.pass(time.Minute)
	q.m.Observe(q.now, agents.Hint{Source: agents.FromTranscript, Mood: agents.Trouble, Limit: l, At: time.UnixMilli(l.At)}) // read again
	if q.m.Basis().Limit != nil {
		t.Error("an old record brought the limit back")
	}
	// A turn that is refused at once may be over before the server knows that it began.
	q.from(agents.FromHook, agents.Ready)
	again := usagelimit.Of(usagelimit.Session, q.now, q.now.Add(time.Hour))
	begun, refused := agents.Hint{Source: agents.FromHook, Mood: agents.Busy, At: q.now}, agents.Hint{Source: agents.FromTranscript, Mood: agents.Trouble, At: q.now, Limit: again}
	q.now = q.now.Add(time.Second)
	for _, h := range []agents.Hint{begun, refused} {
		q.m.Observe(q.now, h)
		q.m.Evaluate(q.now)
	}
	if q.m.Basis().LimitEnd() != again.Until {
		t.Errorf("a turn that was refused at once: %+v", q.m.Basis().Limit)
	}
}

// A sandbox whose clock is ahead delays neither the end of a limit nor the next turn.
func TestALimitIsNotOfTheFuture(t *testing.T) {
	t.Parallel()
	p := newPlay(t, true)
	p.from(agents.FromHook, agents.Busy)
	p.pass(time.Minute)
	ahead := p.now.AddDate(1, 0, 0)
	p.m.Observe(p.now, agents.Hint{Source: agents.FromTranscript, Mood: agents.Trouble, At: ahead, Limit: usagelimit.Of(usagelimit.Weekly, ahead, ahead.Add(time.Hour))})
	if l := p.m.Basis().Limit; l == nil || l.At != p.now.UnixMilli() || l.Until != 0 {
		t.Fatalf("limit %+v at %d", l, p.now.UnixMilli())
	}
	p.pass(time.Minute)
	if p.from(agents.FromHook, agents.Busy); p.m.Basis().Limit != nil {
		t.Error("the next turn does not end it")
	}
}
