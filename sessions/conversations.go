package sessions

import (
	"context"
	"path/filepath"
	"slices"
	"sync"

	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions/conversation"
)

// States of a conversation's record.
const (
	RecordKept    = "kept"    // there are items
	RecordWaiting = "waiting" // items come with the first prompt
	RecordNone    = "none"    // the agent keeps no record that can be read
)

// Conversation is a piece of what an agent did, from its own record.
type Conversation struct {
	conversation.Page
	Record  string
	Earlier string // session this one went on from, "" when it began anew
	Later   string // session that went on from this one
}

// Conversation returns a page of what the session's agent did, also long after it ended. Errors: not_found.
func (s *Service) Conversation(ctx context.Context, id string, q conversation.Query) (Conversation, error) {
	row, err := s.cfg.Store.Session(ctx, id)
	if err != nil {
		return Conversation{}, err
	}
	row = s.fresh(row)
	page, err := s.views.of(id, s.timelinePath(id)).Page(q)
	if err != nil {
		return Conversation{}, err
	}
	out := Conversation{Page: page, Record: RecordKept}
	if page.Total == 0 {
		out.Record = RecordNone
		if s.cfg.Agents.Records(row.Agent) && !row.State.Ended() {
			out.Record = RecordWaiting
		}
	}
	if row.Conversation == "" {
		return out, nil
	}
	all, err := s.cfg.Store.Sessions(ctx, row.WorkspaceID) // newest first
	if err != nil {
		return Conversation{}, err
	}
	for _, other := range all {
		switch {
		case other.ID == row.ID || other.Conversation != row.Conversation || other.Agent != row.Agent:
		case other.StartedAt >= row.StartedAt:
			out.Later = other.ID // the one next to it wins
		case out.Earlier == "":
			out.Earlier = other.ID
		}
	}
	return out, nil
}

// Talk is what is kept of one session's conversation, in short.
type Talk struct {
	Session Session
	Items   int
	Spent   conversation.Usage
	Prompt  string // the first
	Matches []Match
	More    bool // there are more matches than these
}

// Match is an item that holds the words somebody looked for.
type Match struct {
	conversation.Placed
	Snippet string
}

const maxMatches = 20 // of one session

// Conversations returns what is kept of the conversations of a workspace's sessions, newest session first; with words, only of
// those that hold them. It answers at most limit of them, those after the session named after, and the id to go on after.
func (s *Service) Conversations(ctx context.Context, workspaceID, words, after string, limit int) (talks []Talk, next string, err error) {
	rows, err := s.cfg.Store.Sessions(ctx, workspaceID)
	if err != nil {
		return nil, "", err
	}
	if after != "" {
		i := slices.IndexFunc(rows, func(r Session) bool { return r.ID == after })
		if i < 0 {
			return nil, "", nil
		}
		rows = rows[i+1:]
	}
	for _, row := range rows {
		if err := ctx.Err(); err != nil {
			return nil, "", err
		}
		if len(talks) == limit {
			return talks, talks[limit-1].Session.ID, nil
		}
		view := s.views.of(row.ID, s.timelinePath(row.ID))
		t := Talk{Session: s.fresh(row)}
		opening, err := view.Page(conversation.Query{Limit: 1, Kinds: []conversation.Kind{conversation.Prompt}, Oldest: true})
		if err != nil {
			s.cfg.Log.Warn("a kept conversation was not read", "session_id", row.ID, "error", err)
			continue
		}
		if opening.Total == 0 {
			continue
		}
		t.Items, t.Spent = opening.Total, opening.Spent
		if len(opening.Items) > 0 {
			t.Prompt = safetext.Cut(opening.Items[0].Text, 500)
		}
		if words != "" {
			found, err := view.Page(conversation.Query{Limit: maxMatches, Search: words})
			if err != nil || len(found.Items) == 0 {
				continue
			}
			t.More = found.Before != 0
			slices.Reverse(found.Items)
			for _, it := range found.Items {
				t.Matches = append(t.Matches, Match{it, conversation.Snippet(&it.Item, words)})
			}
		}
		talks = append(talks, t)
	}
	return talks, "", nil
}

func (s *Service) timelinePath(id string) string {
	return filepath.Join(s.dir(id), conversation.FileName)
}

// viewCache remembers where the items of the timelines lie that were read last.
type viewCache struct {
	mu    sync.Mutex
	views map[string]*conversation.View
	order []string // the one used last at the end
}

const viewsKept = 32

func (c *viewCache) of(id, path string) *conversation.View {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.order, id); i >= 0 {
		c.order = append(slices.Delete(c.order, i, i+1), id)
		return c.views[id]
	}
	if c.views == nil {
		c.views = map[string]*conversation.View{}
	}
	if len(c.order) == viewsKept {
		delete(c.views, c.order[0])
		c.order = slices.Delete(c.order, 0, 1)
	}
	v := conversation.NewView(path)
	c.views[id], c.order = v, append(c.order, id)
	return v
}
