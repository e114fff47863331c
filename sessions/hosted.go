package sessions

import (
	"context"

	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/question"
)

// Hosted is a running session whose agent works in the server: what other agents report by hooks and in records, it reports here. Safe
// for concurrent use.
type Hosted struct{ l *live }

// Hosted returns a running session; false when it is not in memory, or has ended.
func (s *Service) Hosted(id string) (Hosted, bool) {
	l := s.running(id)
	if l == nil || l.snapshot().State.Ended() {
		return Hosted{}, false
	}
	return Hosted{l}, true
}

// Row returns the session as it is now.
func (h Hosted) Row() Session { return h.l.snapshot() }

// Done is closed when the session has ended and its end is stored.
func (h Hosted) Done() <-chan struct{} { return h.l.done }

// Observe takes the agent's report of its state.
func (h Hosted) Observe(hint agents.Hint) { h.l.evidence(hint) }

// Ask asks people a question and waits for the answer until ctx ends, which withdraws it unless the cause is question.ErrStays. A question
// with this key that an earlier server asked is taken over, also with the answer that it was given. accept can refuse an answer.
func (h Hosted) Ask(ctx context.Context, key string, a agents.Ask, accept question.Accept) (agents.Answer, error) {
	return h.l.questions.AskAndWait(ctx, key, a, accept)
}

// Prompted notes a prompt.
func (h Hosted) Prompted(text string) {
	h.l.mu.Lock()
	h.l.prompt = text
	h.l.mu.Unlock()
	h.l.markPrompt(text)
}

// Record adds items to the session's conversation.
func (h Hosted) Record(items []conversation.Item) { h.l.transcript.Add(h.l.svc.hard, items) }

// Amend stores items that the conversation of a session that has ended has already, in another state.
func (s *Service) Amend(ctx context.Context, row Session, items []conversation.Item) {
	s.transcripts.Amend(ctx, transcriptRow(row), items)
}

// Mask hides the secrets of the session in a text, without changing its length.
func (h Hosted) Mask(text string) string { return h.l.masks.Text(text) }

// Stream hides them in a text that comes in pieces.
func (h Hosted) Stream() *redact.Masker { return h.l.masks.Stream() }
