package sessions

import (
	"testing"
	"time"

	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/sessions/usagelimit"
)

func TestAttention(t *testing.T) {
	t.Parallel()
	zero, one := 0, 1
	for name, c := range map[string]struct {
		row  Session
		want string
		at   int64
	}{
		"a question":            {Session{State: state.Waiting, StateAt: 5, Basis: state.Basis{Failed: true}}, "waiting", 5},
		"a question in words":   {Session{State: state.Waiting, StateAt: 5, StateReason: "needs your permission", Question: &question.Question{Ask: agents.Ask{Title: "Which colour?"}}}, "waiting", 5},
		"a shell's password":    {Session{Agent: agents.Shell, State: state.Waiting, StateAt: 5}, "waiting", 5},
		"an error":              {Session{State: state.Idle, StateAt: 5, Basis: state.Basis{Failed: true, StuckAt: 3}}, "failed", 5},
		"nothing moves":         {Session{State: state.Idle, StateAt: 5, Basis: state.Basis{StuckAt: 3}}, "stuck", 3},
		"a tool does nothing":   {Session{State: state.Working, StateAt: 5, Basis: state.Basis{StuckAt: 3}}, "stuck", 3},
		"a limit":               {Session{State: state.Idle, StateAt: 5, Basis: state.Basis{Failed: true, Limit: &usagelimit.Limit{At: 4}}}, "limited", 4},
		"a finished turn":       {Session{State: state.Idle, StateAt: 5, Basis: state.Basis{DoneAt: 4}}, "finished", 4},
		"the next turn":         {Session{State: state.Working, StateAt: 5, Basis: state.Basis{DoneAt: 4}}, "", 0},
		"idle":                  {Session{State: state.Idle, StateAt: 5}, "", 0},
		"a shell that is stuck": {Session{Agent: agents.Shell, State: state.Idle, Basis: state.Basis{StuckAt: 3}}, "", 0},
		"done":                  {Session{State: state.Exited, ExitCode: &zero, EndedAt: 6}, "finished", 6},
		"ended with an error":   {Session{State: state.Exited, ExitCode: &one, EndedAt: 6}, "failed", 6},
		"killed":                {Session{State: state.Exited, ExitSignal: "SIGKILL", EndedAt: 6}, "failed", 6},
		"stopped":               {Session{State: state.Exited, StateReason: "stopped by Ana", EndedAt: 6}, "", 0},
		"lost":                  {Session{State: state.Lost, EndedAt: 6, Basis: state.Basis{DoneAt: 4}}, "failed", 6},
	} {
		why, reason, at := Attention(c.row)
		if why != c.want || at != c.at {
			t.Errorf("%s: %q at %d, want %q at %d", name, why, at, c.want, c.at)
		}
		if q := c.row.Question; q != nil && reason != q.Title {
			t.Errorf("%s: %q, want its own words %q", name, reason, q.Title)
		}
	}
}

// What a piece of output costs the state of an agent at work.
func BenchmarkMachine(b *testing.B) {
	now := time.Unix(1_800_000_000, 0)
	m := state.New(true, now, state.Starting, "")
	m.Observe(now, agents.Hint{Source: agents.FromTitle, Mood: agents.Busy})
	m.Evaluate(now)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Millisecond)
		m.Output(now, 100)
		m.Evaluate(now)
		m.NextLook(now)
	}
}
