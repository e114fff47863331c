package sessions

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/sessions/state"
)

// questionedSessions adapts the sessions in memory for package question.
type questionedSessions struct{ s *Service }

// Hold returns a session's questions and keeps the session in memory.
func (a questionedSessions) Hold(id string) (*question.Questions, func()) {
	l := a.s.ref(id)
	if l == nil {
		return nil, func() {}
	}
	return l.questions, func() { a.s.release(l) }
}

// InMemory returns a session's questions.
func (a questionedSessions) InMemory(id string) *question.Questions {
	if l := a.s.running(id); l != nil {
		return l.questions
	}
	return nil
}

// All returns the questions of all sessions in memory.
func (a questionedSessions) All() []*question.Questions {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	var out []*question.Questions
	for _, l := range a.s.lives {
		out = append(out, l.questions)
	}
	return out
}

// questioned adapts a session for package question.
type questioned struct{ l *live }

// State is called under mu.
func (a questioned) State() state.State { return a.l.row.State }

// Judge is called under mu.
func (a questioned) Judge() { a.l.judge() }

// Changed is called under mu.
func (a questioned) Changed() {
	a.l.bump()
	a.l.svc.touch(a.l)
}

// Observe takes a hook's report of the session's state.
func (a questioned) Observe(h agents.Hint) { a.l.evidence(h) }

// Noticed takes what else a hook reports.
func (a questioned) Noticed(h agents.HookReport) {
	if h.Prompt != "" {
		a.l.markPrompt(h.Prompt)
	}
	if c := a.l.svc.cfg.Checkpoints; c != nil && h.Compacting {
		c.Compacting(a.l.snapshot())
	}
}

// Claim assigns a conversation to the session.
func (a questioned) Claim(ctx context.Context, conversation string) error {
	return a.l.claimConversation(ctx, conversation, true)
}

// Press types keys.
func (a questioned) Press(ctx context.Context, keys []byte) error { return a.l.prompts.Send(ctx, keys) }

// Prompt queues a text for the agent.
func (a questioned) Prompt(ctx context.Context, who accounts.Actor, text string) error {
	_, err := a.l.svc.Queue.AddPrompt(ctx, who, a.l.id, prompt.Request{Text: text, Now: true})
	return err
}

// Wake wakes the session's workspace when it sleeps.
func (a questioned) Wake(ctx context.Context) error {
	if !a.l.asleep() {
		return nil
	}
	return a.l.svc.cfg.Places.Wake(ctx, a.l.workspaceID)
}

// printed is how many bytes the session has printed.
func (l *live) printed() int64 {
	_, end := l.log.Bounds()
	return end
}
