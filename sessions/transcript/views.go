package transcript

import (
	"path/filepath"
	"slices"
	"sync"

	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions/conversation"
)

// States of a conversation's record.
const (
	Kept    = "kept"    // there are items
	Waiting = "waiting" // items come with the first prompt
	None    = "none"    // the agent writes no readable record
)

// Summary sums up the stored conversation of one session.
type Summary struct {
	Items   int
	Spent   conversation.Usage
	Prompt  string // the first
	Matches []Match
	More    bool // there are more matches than these
}

// Match is an item that contains the searched words.
type Match struct {
	conversation.Placed
	Snippet string
}

const maxMatches = 20 // of one session

// Page returns a page of a session's stored conversation.
func (t *Transcripts) Page(sessionID string, q conversation.Query) (conversation.Page, error) {
	return t.views.of(sessionID, t.path(sessionID)).Page(q)
}

// Summary sums up a session's stored conversation; with words, it includes the items that contain them.
func (t *Transcripts) Summary(sessionID, words string) (out Summary, err error) {
	view := t.views.of(sessionID, t.path(sessionID))
	opening, err := view.Page(conversation.Query{Limit: 1, Kinds: []conversation.Kind{conversation.Prompt}, Oldest: true})
	if err != nil {
		return Summary{}, err
	}
	out.Items, out.Spent = opening.Total, opening.Spent
	if len(opening.Items) > 0 {
		out.Prompt = safetext.Cut(opening.Items[0].Text, 500)
	}
	if words == "" || out.Items == 0 {
		return out, nil
	}
	found, err := view.Page(conversation.Query{Limit: maxMatches, Search: words})
	if err != nil {
		return out, nil // it has none that can be shown
	}
	out.More = found.Before != 0
	slices.Reverse(found.Items)
	for _, it := range found.Items {
		out.Matches = append(out.Matches, Match{it, conversation.Snippet(&it.Item, words)})
	}
	return out, nil
}

// path is the file that stores a session's conversation.
func (t *Transcripts) path(sessionID string) string {
	return filepath.Join(t.cfg.DataDir, "sessions", sessionID, conversation.FileName)
}

// viewCache holds the views of the timelines that were read last.
type viewCache struct {
	mu    sync.Mutex
	views map[string]*conversation.View
	order []string // the most recently used one last
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
