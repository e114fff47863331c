package tools

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/parawork/parawork/internal/fault"
)

// Bounds of one caller: a session's agent, or a person in a workspace.
const (
	callsPerSecond = 20
	callBurst      = 200
	callsAtOnce    = 16
	maxCallers     = 10_000 // remembered; those that could call at full rate again are forgotten first
)

// admission bounds how many calls each caller makes in a time and at once.
type admission struct {
	mu      sync.Mutex
	callers map[string]*callerState
}

type callerState struct {
	rate    *rate.Limiter
	running int
}

// enter admits a call; the caller of enter calls leave when it has ended.
func (a *admission) enter(c Caller, tool string, now time.Time) (leave func(), err error) {
	key := c.SessionID
	if key == "" {
		key = c.UserID + " " + c.WorkspaceID
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.callers == nil {
		a.callers = map[string]*callerState{}
	}
	s := a.callers[key]
	if s == nil {
		if len(a.callers) >= maxCallers {
			a.forget(now)
		}
		s = &callerState{rate: rate.NewLimiter(callsPerSecond, callBurst)}
		a.callers[key] = s
	}
	if s.running >= callsAtOnce {
		return nil, fault.New(fault.RateLimited, "tool_calls_at_once", "%d calls of this caller are running already. Wait until one has ended.", callsAtOnce).With("retry_after_ms", int64(1000))
	}
	if !s.rate.AllowN(now, 1) {
		return nil, fault.New(fault.RateLimited, "tool_rate_limited", "%s was not called: this caller makes more than %d calls a second. Wait a moment, then call again.", tool, callsPerSecond).
			With("retry_after_ms", int64(1000))
	}
	s.running++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		s.running--
	}, nil
}

// forget drops callers that have nothing running and whose rate has recovered.
func (a *admission) forget(now time.Time) {
	for key, s := range a.callers {
		if s.running == 0 && s.rate.TokensAt(now) >= callBurst {
			delete(a.callers, key)
		}
	}
}
