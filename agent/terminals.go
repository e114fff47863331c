package agent

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/parawork/parawork/internal/fault"
)

// Bounds of the terminals of a session, which programs of the sandbox can flood.
const (
	mostTerminals = 4
	inputsEvery   = time.Second // once the first ones were used up
	firstInputs   = 30
	forgetAfter   = time.Duration(firstInputs) * inputsEvery // all first inputs are there again
)

// terminals counts what the terminals of sessions do.
type terminals struct {
	mu        sync.Mutex
	bySession map[string]*terminalUse
}

// terminalUse is that of one session, all connections together.
type terminalUse struct {
	inputs *rate.Limiter
	open   int       // connections; guarded by terminals.mu
	last   time.Time // when one was opened or closed; guarded by terminals.mu
}

// open counts a connection. Errors: agent_terminals.
func (t *terminals) open(sessionID string, now time.Time) (*terminalUse, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, u := range t.bySession {
		if u.open == 0 && now.Sub(u.last) > forgetAfter {
			delete(t.bySession, id)
		}
	}
	u := t.bySession[sessionID]
	if u == nil {
		if t.bySession == nil {
			t.bySession = map[string]*terminalUse{}
		}
		u = &terminalUse{inputs: rate.NewLimiter(rate.Every(inputsEvery), firstInputs)}
		t.bySession[sessionID] = u
	}
	if u.open >= mostTerminals {
		return nil, fault.New(fault.RateLimited, "agent_terminals", "The session has %d terminals open already.", mostTerminals)
	}
	u.open++
	u.last = now
	return u, nil
}

func (t *terminals) close(u *terminalUse) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u.open--
}
