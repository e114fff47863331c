package sessions

import (
	"context"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/state"
)

// Claim says that a conversation is a session's. A home has one holder of each conversation of an agent.
type Claim struct {
	SessionID, TeamID   string
	Agent, Conversation string
	Home                string // where the agent keeps its records, as claimHome names it
	At                  int64  // ms UTC
	// Until lets the claim pass from a session that had ended by then (ms UTC). One that still runs keeps it.
	Until int64
}

// search is the search for the conversation of a session's agent. Guarded by the session's mu, but claiming.
type search struct {
	home     string     // the home the agent keeps its records in, as claimHome names it
	at       time.Time  // of the last look
	busy     bool       // somebody looks now
	vain     int        // looks in vain since the state changed
	claiming sync.Mutex // held while a conversation is claimed; taken before mu
}

// claimHome names where a session's agent keeps its records. Sessions that share it could be taken for each other. p is nil where the
// place is gone.
func claimHome(p *executors.Place, in *inside, row Session) string {
	switch {
	case in == nil:
		return "user:" + row.CreatedBy
	case in.own && p != nil:
		return "machine:" + string(p.Kind)
	}
	return "workspace:" + row.WorkspaceID
}

// claimConversation makes a conversation the session's, unless another session holds it. With anew it takes the place of the one the session
// has, as after /clear. Any goroutine may call it, not holding l.mu.
func (l *live) claimConversation(ctx context.Context, id string, anew bool) error {
	l.search.claiming.Lock() // of two answers about this session the later one is told what the first one did
	defer l.search.claiming.Unlock()
	l.mu.Lock()
	row, home := l.row, l.search.home
	l.mu.Unlock()
	if row.Conversation == id || row.Conversation != "" && !anew {
		return nil
	}
	ok, err := l.svc.cfg.Store.ClaimConversation(ctx, Claim{SessionID: row.ID, TeamID: row.TeamID, Agent: row.Agent, Conversation: id, Home: home,
		At: l.svc.now(), Until: row.StartedAt})
	if err != nil || !ok {
		return err
	}
	l.mu.Lock()
	l.row.Conversation = id
	l.mu.Unlock()
	l.svc.touch(l)
	return nil
}

// The search for a conversation: so often at least apart, and so many times after each change of state. The agent writes its
// id some time after the first prompt.
const (
	seekEvery  = 2 * time.Second
	seekTries  = 5
	seekWithin = 10 * time.Second // for one search: the home may lie in a sandbox that hangs
)

// lateOutput returns the end of what the session printed.
func (l *live) lateOutput() []byte {
	const most = 256 << 10
	first, end := l.log.Bounds()
	buf := make([]byte, 0, most)
	for off := max(first, end-most); off < end && len(buf) < most; {
		n, at, err := l.log.ReadAt(buf[len(buf):most], off)
		if n == 0 || err != nil {
			break
		}
		buf, off = buf[:len(buf)+n], at+int64(n)
	}
	return buf
}

// seek looks for the conversation if that is due. It does not wait: the home may lie in a sandbox. A session has one search at a time.
func (s *Service) seek(l *live) {
	l.mu.Lock()
	due := l.seekDue() && !l.search.busy
	l.search.busy = l.search.busy || due
	l.mu.Unlock()
	if !due {
		return
	}
	if !s.run(func() {
		ctx, cancel := context.WithTimeout(s.hard, seekWithin)
		defer cancel()
		s.findConversation(ctx, l)
		l.mu.Lock()
		l.search.busy = false
		l.mu.Unlock()
	}) {
		l.mu.Lock()
		l.search.busy = false
		l.mu.Unlock()
	}
}

// seekDue reports whether to look for the conversation now. It is called under mu.
func (l *live) seekDue() bool {
	return l.row.Conversation == "" && l.worktree != "" && l.svc.cfg.Agents.Finds(l.row.Agent) && l.row.State != state.Starting &&
		(l.search.at.IsZero() || time.Since(l.search.at) >= seekEvery || l.row.State.Ended())
}

// findConversation looks for the agent's own id of the conversation, where the agent chooses it itself.
func (s *Service) findConversation(ctx context.Context, l *live) {
	l.mu.Lock()
	row, worktree, in, g := l.row, l.worktree, l.inside, l.guest
	due := l.seekDue()
	if due {
		l.search.at = time.Now()
	}
	l.mu.Unlock()
	if !due || in != nil && (g == nil || in.home == "") {
		return
	}
	taken, err := s.cfg.Store.Conversations(ctx, row.Agent, row.StartedAt)
	if err != nil {
		s.cfg.Log.Warn("conversations not read", "session_id", row.ID, "error", err)
		return
	}
	find := agents.Find{UserID: row.CreatedBy, Inside: in.in(ctx, g), Worktree: worktree, Since: row.StartedAt, Output: l.lateOutput, Taken: make(map[string]struct{}, len(taken))}
	for _, id := range taken {
		find.Taken[id] = struct{}{}
	}
	id, err := s.cfg.Agents.FindConversation(row.Agent, find)
	if err == nil && id != "" {
		err = l.claimConversation(ctx, id, false)
	}
	if err != nil {
		s.cfg.Log.Warn("conversation not looked for", "session_id", row.ID, "error", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.search.vain++; l.row.Conversation == "" && l.search.vain <= seekTries && !l.row.State.Ended() {
		s.after(seekEvery, func() { s.touch(l) })
	}
}
