package agent

import (
	"context"
	"math"
	"slices"

	"github.com/parawork/parawork/agent/media"
	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/conversation"
)

// resend replaces a prompt: what came after it is no longer sent to the model, and a turn begins with the new one. All of it is one change.
// Errors: turn_running, message_not_found, message_undone, message_not_prompt.
func (s *Service) resend(ctx context.Context, t Thread, host Host, m *Message, kept []media.Content, p Prompt) (Message, error) {
	v, err := s.cfg.Store.View(ctx, t.ID, Window{})
	if err != nil {
		return Message{}, err
	}
	at := slices.IndexFunc(v.Messages, func(o Message) bool { return o.ID == p.Replaces })
	if at < 0 {
		return Message{}, fault.New(fault.NotFound, "message_not_found", "The conversation has no such message.")
	}
	if v.Messages[at].Role != User {
		return Message{}, fault.New(fault.Conflict, "message_not_prompt", "Only a prompt can be replaced, and this is none.")
	}
	if len(p.Attachments) == 0 { // what was attached goes on with the new words
		m.Parts = append(m.Parts, slices.DeleteFunc(slices.Clone(v.Messages[at].Parts), func(p providers.Part) bool { return p.Ref == "" })...)
	}
	turn := s.newTurn(t)
	m.TurnID, m.CreatedAt, m.DoneAt = turn.ID, turn.StartedAt, turn.StartedAt
	_, err = s.cfg.Store.Apply(ctx, t.ID, Change{At: turn.StartedAt, Thread: &ThreadChange{State: Working}, Messages: []*Message{m}, Media: kept, Turn: turn, NoTurn: true, Undo: p.Replaces})
	if err != nil {
		return Message{}, err
	}
	s.recordUndone(ctx, v, at)
	s.prompted(ctx, t, host, m, p)
	s.begin(t, *turn, host)
	return *m, nil
}

// recordUndone marks the items of the messages from one on as undone, each in the conversation of the session in which it was said.
func (s *Service) recordUndone(ctx context.Context, v View, from int) {
	all, err := s.cfg.Sessions.Continuing(ctx, v.Thread.WorkspaceID, v.Thread.Conversation)
	if err != nil {
		s.cfg.Log.Warn("what was undone could not be marked in the conversations of sessions", "thread_id", v.Thread.ID, "error", err)
	}
	for i, row := range all {
		since, until := row.StartedAt, int64(math.MaxInt64)
		if i == 0 {
			since = 0 // a fork begins with what was said before it
		}
		if i+1 < len(all) {
			until = all[i+1].StartedAt
		}
		items := v.undone(from, since, until)
		if len(items) == 0 {
			continue
		}
		if host, ok := s.cfg.Sessions.Hosted(row.ID); ok {
			host.Record(items)
		} else {
			s.cfg.Sessions.Amend(ctx, row, items)
		}
	}
}

// undone are the items of the messages from one on that were said in a time, as undone. What they cost stays spent.
func (v View) undone(from int, since, until int64) []item {
	v.Messages = slices.DeleteFunc(slices.Clone(v.Messages[from:]), func(m Message) bool { return m.State != Complete || m.CreatedAt < since || m.CreatedAt >= until })
	for i := range v.Messages {
		v.Messages[i].State = Undone
	}
	return slices.DeleteFunc(v.items(), func(it item) bool { return it.Kind == conversation.Spent })
}
