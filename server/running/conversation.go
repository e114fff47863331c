package running

import (
	"context"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/transcript"
)

// maxWords bounds the words somebody looks for, in bytes.
const maxWords = 800

// GetConversation answers with what a session's agent did.
func (h Conversations) GetConversation(ctx context.Context, req api.GetConversationRequestObject) (api.GetConversationResponseObject, error) {
	p := rest.PageOf(req.Params.Limit, req.Params.Cursor)
	q := conversation.Query{Limit: p.Size(), Since: rest.Val(req.Params.Since), Search: rest.Val(req.Params.Q)}
	if q.Since < 0 || req.Params.Since != nil && p.Cursor != "" {
		return nil, fault.New(fault.Invalid, "invalid_parameter", "since must be the version of an earlier answer, without a cursor.").With("field", "since")
	}
	if err := checkWords(q.Search); err != nil {
		return nil, err
	}
	if key, ok, err := p.Key(); err != nil {
		return nil, err
	} else if ok {
		q.Before = max(key.At, 1)
	}
	if req.Params.Kinds != nil {
		for name := range strings.SplitSeq(*req.Params.Kinds, ",") {
			k := conversation.Kind(strings.TrimSpace(name))
			if !slices.Contains(conversation.Kinds, k) {
				return nil, fault.New(fault.Invalid, "invalid_parameter",
					"kinds is a list with commas of prompt, text, thinking, tool, edit, question, answer, error, usage, note.").With("field", "kinds")
			}
			q.Kinds = append(q.Kinds, k)
		}
	}
	c, err := h.cfg.Sessions.Conversation(ctx, req.Id, q)
	if err != nil {
		return nil, err
	}
	out := api.GetConversation200JSONResponse{Items: rest.List(c.Items, conversationItemOf), More: c.More, Version: c.Version, Total: c.Total,
		Usage: tokensOf(c.Spent), Record: api.ConversationRecord(c.Record), EarlierSessionId: rest.Text(c.Earlier), LaterSessionId: rest.Text(c.Later)}
	if c.Before != 0 {
		out.NextCursor = rest.Text(page.Encode(page.Key{At: c.Before}))
	}
	return out, nil
}

func checkWords(q string) error {
	if len(q) > maxWords {
		return fault.New(fault.Invalid, "invalid_parameter", "q can have at most 200 characters.").With("field", "q")
	}
	return nil
}

func conversationItemOf(it conversation.Placed) api.ConversationItem {
	out := api.ConversationItem{Id: it.ID, Place: it.Place, Version: it.Version, At: it.At, Kind: api.ConversationKind(it.Kind), Parent: it.Parent,
		Text: it.Text, Tool: it.Tool, Title: it.Title, Input: it.Input, Output: it.Output, Path: it.Path, Diff: it.Diff, Added: it.Added,
		Removed: it.Removed, Status: api.ConversationItemStatus(it.Status), Topic: api.ConversationItemTopic(it.Topic), DurationMs: it.Duration, Truncated: it.Cut, Undone: it.Undone}
	if len(it.Media) > 0 {
		list := rest.List(it.Media, func(m conversation.Media) api.ConversationMedia {
			return api.ConversationMedia{Id: m.ID, ThreadId: m.Thread, Name: m.Name, Mime: m.MIME, Size: int64(m.Size), Width: rest.NonZero(m.Width), Height: rest.NonZero(m.Height)}
		})
		out.Media = &list
	}
	if it.Usage != nil {
		u := tokensOf(*it.Usage)
		out.Usage = &u
	}
	if it.Offset >= 0 {
		out.Offset = &it.Offset
	}
	return out
}

func tokensOf(u conversation.Usage) api.TokenUsage {
	return api.TokenUsage{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Reasoning: u.Reasoning, Model: u.Model, CostNanoUsd: u.CostNano, Estimated: rest.NonZero(u.Estimated)}
}

// ListConversations answers with the conversations of a workspace's sessions, or those that hold some words.
func (h Conversations) ListConversations(ctx context.Context, req api.ListConversationsRequestObject) (api.ListConversationsResponseObject, error) {
	p := rest.PageOf(req.Params.Limit, req.Params.Cursor)
	words := rest.Val(req.Params.Q)
	if err := checkWords(words); err != nil {
		return nil, err
	}
	key, _, err := p.Key()
	if err != nil {
		return nil, err
	}
	summaries, next, err := h.cfg.Sessions.Conversations(ctx, req.Id, strings.TrimSpace(words), key.ID, p.Size())
	if err != nil {
		return nil, err
	}
	out := api.ListConversations200JSONResponse{Items: rest.List(summaries, conversationOf)}
	if next != "" {
		out.NextCursor = rest.Text(page.Encode(page.Key{ID: next}))
	}
	return out, nil
}

func conversationOf(t sessions.ConversationSummary) api.ConversationSummary {
	return api.ConversationSummary{SessionId: t.Session.ID, Agent: t.Session.Agent, AgentName: t.Session.AgentName, State: api.SessionState(t.Session.State),
		StartedAt: t.Session.StartedAt, EndedAt: rest.Ptr(t.Session.EndedAt), Prompt: t.Prompt, Items: t.Items, Usage: tokensOf(t.Spent), MoreMatches: t.More,
		Matches: rest.List(t.Matches, func(m transcript.Match) api.ConversationMatch {
			return api.ConversationMatch{Id: m.ID, Place: m.Place, At: m.At, Kind: api.ConversationKind(m.Kind), Snippet: m.Snippet}
		})}
}
