package agent

import (
	"context"
	"slices"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/conversation"
)

// ForkRequest says where a thread is forked.
type ForkRequest struct {
	MessageID string // the fork's last message; "" = the newest that is complete
	Prompt    string // what the fork begins with, in place of the message if that is a prompt; "" = it waits for one
	Workspace bool   // into a new workspace, with the files as they were at the message
	Name      string // of the new workspace; "" = one made of the other's
}

// Fork copies a thread up to a message and starts a session with the copy. While a turn runs, it takes what is complete: messages, and
// calls with their results. Errors: message_not_found, message_undone, message_not_complete, and those of starting a session; into a new
// workspace also files_unknown, and those of making a workspace.
func (s *Service) Fork(ctx context.Context, actor accounts.Actor, threadID string, f ForkRequest) (_ Thread, _ sessions.Session, err error) {
	v, err := s.cfg.Store.View(ctx, threadID, Window{})
	if err != nil {
		return Thread{}, sessions.Session{}, err
	}
	now := s.now()
	t := v.Thread
	t.ID, t.ParentID, t.SessionID, t.Conversation, t.CreatedBy = id.New("thr"), threadID, id.New("ses"), id.UUID(), actor.User.ID
	t.State, t.Reason, t.Code, t.Version, t.CreatedAt, t.UpdatedAt = Idle, "", "", 1, now, now
	c, end, err := v.copied(t.ID, f)
	if err != nil {
		return Thread{}, sessions.Session{}, err
	}
	if f.Workspace {
		if t.WorkspaceID, err = s.sibling(ctx, actor, v, end, f.Name); err != nil {
			return Thread{}, sessions.Session{}, err
		}
		defer func() {
			if err != nil {
				s.cfg.Siblings.Remove(context.WithoutCancel(ctx), actor, t.WorkspaceID)
			}
		}()
	}
	if err := s.cfg.Store.CreateThread(ctx, t); err != nil {
		return Thread{}, sessions.Session{}, err
	}
	c.At = now
	if t.Version, err = s.cfg.Store.Apply(ctx, t.ID, c); err != nil {
		return Thread{}, sessions.Session{}, s.dropped(ctx, t, err)
	}
	row, err := s.cfg.Fork(ctx, actor, t.WorkspaceID, sessions.StartRequest{ID: t.SessionID, Prompt: f.Prompt}, sessions.From{ID: v.Thread.SessionID, Copy: t.Conversation})
	if err != nil {
		return Thread{}, sessions.Session{}, s.dropped(ctx, t, err)
	}
	s.changed(ctx, t)
	return t, row, nil
}

// dropped removes a fork that could not be started. What a server leaves that is killed before, Recover removes.
func (s *Service) dropped(ctx context.Context, t Thread, why error) error {
	if err := s.cfg.Store.DropFork(context.WithoutCancel(ctx), t.ID, 0); err != nil {
		s.cfg.Log.Warn("a fork that did not start could not be removed", "thread_id", t.ID, "error", err)
	}
	return why
}

// startsIn is how long a fork may take to be started.
const startsIn = 10 * time.Minute

// sibling makes the workspace of a fork that has the messages before end.
func (s *Service) sibling(ctx context.Context, actor accounts.Actor, v View, end int, name string) (workspaceID string, err error) {
	if s.cfg.Siblings == nil {
		return "", fault.New(fault.Conflict, "files_unknown", "This server keeps no snapshots of files. Fork the conversation in the same workspace.")
	}
	var at FilesAt
	if end < len(v.Messages) {
		turns, err := s.cfg.Store.TurnsFrom(ctx, v.Thread.ID, v.Messages[end].Seq)
		if err != nil {
			return "", err
		}
		writes := map[string]bool{}
		for _, spec := range s.cfg.Tools.Specs() {
			writes[spec.Name] = spec.Needs.Writes
		}
		at = v.filesAt(end, turns, writes)
	}
	return s.cfg.Siblings.Make(ctx, actor, v.Thread.WorkspaceID, at, name)
}

// filesAt says what the files were when the messages before end were all. turns are those of the messages from end on, oldest first, and
// writes says which tools may change files.
func (v View) filesAt(end int, turns []Turn, writes map[string]bool) FilesAt {
	begins := end == 0 || v.Messages[end].TurnID != v.Messages[end-1].TurnID
	for _, m := range v.Messages[end:] {
		if begins = begins || m.TurnID != v.Messages[end].TurnID; begins { // until then, what people changed counts, too
			i := slices.IndexFunc(turns, func(t Turn) bool { return t.ID == m.TurnID })
			if i >= 0 && turns[i].FilesBefore != "" && turns[i].FilesBefore != NoSnapshot {
				return FilesAt{Snapshot: turns[i].FilesBefore}
			}
			return FilesAt{Before: m.CreatedAt + 1}
		}
		for _, c := range v.Calls {
			if c.MessageID == m.ID && writes[c.Tool] && c.StartedAt > 0 {
				return FilesAt{Before: c.StartedAt + 1} // the next thing that the agent changed
			}
		}
	}
	return FilesAt{}
}

// copied makes the rows of a fork, which has the messages before end.
func (v View) copied(threadID string, f ForkRequest) (c Change, end int, err error) {
	end = len(v.Messages)
	if f.MessageID != "" {
		at := slices.IndexFunc(v.Messages, func(m Message) bool { return m.ID == f.MessageID })
		if at < 0 {
			return c, 0, fault.New(fault.NotFound, "message_not_found", "The conversation has no such message.")
		}
		switch m := v.Messages[at]; {
		case m.State == Undone:
			return c, 0, fault.New(fault.Conflict, "message_undone", "The message is no longer part of the conversation.")
		case !v.whole(m):
			return c, 0, fault.New(fault.Conflict, "message_not_complete", "The message is not complete: the agent is working on it, or its answer was cut. Fork at another message.")
		case m.Role == User && f.Prompt != "":
			end = at
		default:
			end = at + 1
		}
	}
	turns := map[string]string{"": ""}
	for _, m := range v.Messages[:end] {
		if !v.whole(m) {
			continue
		}
		one := m
		if turns[m.TurnID] == "" && m.TurnID != "" {
			turns[m.TurnID] = id.New("trn")
		}
		one.ID, one.ThreadID, one.TurnID, one.Seq = id.New("msg"), threadID, turns[m.TurnID], int64(len(c.Messages)+1)
		c.Messages = append(c.Messages, &one)
		for _, call := range v.Calls {
			if call.MessageID == m.ID {
				call.ID, call.ThreadID, call.TurnID, call.MessageID = id.New("cll"), threadID, one.TurnID, one.ID
				c.Calls = append(c.Calls, &call)
			}
		}
	}
	return c, end, nil
}

// whole reports whether a message is complete and all its calls have their results.
func (v View) whole(m Message) bool {
	return m.State == Complete && !slices.ContainsFunc(v.Calls, func(c Call) bool { return c.MessageID == m.ID && !c.State.Ended() })
}

// showCopied adds what a fork has of its origin to its session's conversation, until the fork has messages of its own.
func (s *Service) showCopied(ctx context.Context, t Thread) error {
	host, ok := s.cfg.Sessions.Hosted(t.SessionID)
	if t.ParentID == "" || !ok {
		return nil
	}
	v, err := s.cfg.Store.View(tenant.In(ctx, t.TeamID), t.ID, Window{})
	if err != nil || slices.ContainsFunc(v.Messages, func(m Message) bool { return m.CreatedAt >= t.CreatedAt }) {
		return err
	}
	items := slices.DeleteFunc(v.items(), func(it item) bool { return it.Kind == conversation.Spent }) // it was spent elsewhere
	host.Record(append(items, item{ID: t.ID + "/fork", At: t.CreatedAt, Kind: conversation.Note, Text: "Forked from another conversation: what is above was said there."}))
	return nil
}

// items are those of all messages of a view that count or did.
func (v View) items() (out []item) {
	calls := map[string][]*Call{}
	for i := range v.Calls {
		c := &v.Calls[i]
		calls[c.MessageID] = append(calls[c.MessageID], c)
	}
	for i := range v.Messages {
		out = append(out, messageItems(&v.Messages[i], calls[v.Messages[i].ID])...)
	}
	return out
}
