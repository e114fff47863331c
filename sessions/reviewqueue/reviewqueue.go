// Package reviewqueue sends reviews of changes to agents. Package reviews is below sessions and has its own types for what it
// sends.
package reviewqueue

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/workspaces/reviews"
)

// Queue passes reviews to agents as prompts of their sessions.
type Queue struct{ sessions *sessions.Service }

// New returns the queue of the sessions.
func New(s *sessions.Service) Queue { return Queue{s} }

var _ reviews.Sessions = Queue{}

// Recipient returns the session a review may be sent to.
func (q Queue) Recipient(ctx context.Context, sessionID string) (reviews.Recipient, error) {
	row, err := q.sessions.Get(ctx, sessionID)
	return reviews.Recipient{WorkspaceID: row.WorkspaceID, Agent: row.Agent}, err
}

// Queue adds a prompt; an ended session is resumed.
func (q Queue) Queue(ctx context.Context, actor accounts.Actor, sessionID, promptID, text string) (reviews.Prompt, error) {
	p, err := q.sessions.Queue.AddPrompt(ctx, actor, sessionID, prompt.Request{ID: promptID, Text: text, Resume: true})
	return promptOf(p), err
}

// Prompt returns the state of a prompt.
func (q Queue) Prompt(ctx context.Context, promptID string) (reviews.Prompt, error) {
	p, err := q.sessions.Queue.Prompt(ctx, promptID)
	return promptOf(p), err
}

// Prompts returns the prompts of a session in the order of its queue.
func (q Queue) Prompts(ctx context.Context, sessionID string) ([]reviews.Prompt, error) {
	queue, err := q.sessions.Queue.ListPrompts(ctx, sessionID)
	out := make([]reviews.Prompt, len(queue))
	for i, p := range queue {
		out[i] = promptOf(p)
	}
	return out, err
}

// Cancel cancels a prompt that was not sent.
func (q Queue) Cancel(ctx context.Context, promptID string) error {
	_, err := q.sessions.Queue.CancelPrompt(ctx, promptID)
	return err
}

func promptOf(p prompt.Prompt) reviews.Prompt {
	return reviews.Prompt{ID: p.ID, SessionID: p.SessionID, State: reviews.PromptState(p.State), Waits: p.Waits, Reason: p.Reason, SentAt: p.SentAt}
}
