package sessions

import (
	"context"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/state"
)

// Claim assigns a conversation to a session. In a home each conversation of an agent belongs to one session.
type Claim struct {
	SessionID, TeamID   string
	Agent, Conversation string
	Home                string // where the agent stores its records, as named by claimHome
	At                  int64  // ms UTC
	// Until lets the claim pass from a session that had ended by then (ms UTC). A running session keeps it.
	Until int64
}

// search is the search for the conversation of a session's agent. The session's mu guards all but claiming.
type search struct {
	home     string     // the home the agent stores its records in, as named by claimHome
	at       time.Time  // of the last look
	busy     bool       // a search is running
	vain     int        // unsuccessful searches since the state changed
	claiming sync.Mutex // held while a conversation is claimed; taken before mu
}

// claimHome names where a session's agent stores its records. Sessions that share it could be confused with each other. p is nil
// where the sandbox is gone.
func claimHome(p *executors.Place, in *inside, row Session) string {
	switch {
	case in == nil:
		return "user:" + row.CreatedBy
	case in.own && p != nil:
		return "machine:" + string(p.Kind)
	}
	return "workspace:" + row.WorkspaceID
}

// claimConversation assigns a conversation to the session, unless another session has it. With anew it replaces the session's
// current one, as after /clear. Any goroutine may call it, without holding l.mu.
func (l *live) claimConversation(ctx context.Context, id string, anew bool) error {
	l.search.claiming.Lock() // of two concurrent claims for this session the second sees what the first did
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

// The search for a conversation: its least interval, and how many searches follow each change of state. The agent writes its ID
// some time after the first prompt.
const (
	seekEvery  = 2 * time.Second
	seekTries  = 5
	seekWithin = 10 * time.Second // for one search: the home may be in a sandbox that hangs
)

// lateOutput returns the end of the session's output.
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

// seek looks for the conversation if that is due. It does not wait: the home may be in a sandbox. A session has one search at a
// time.
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

// seekDue reports whether to look for the conversation now. The caller holds mu.
func (l *live) seekDue() bool {
	return l.row.Conversation == "" && l.worktree != "" && l.svc.cfg.Agents.Finds(l.row.Agent) && l.row.State != state.Starting &&
		(l.search.at.IsZero() || time.Since(l.search.at) >= seekEvery || l.row.State.Ended())
}

// findConversation looks for the agent's ID of the conversation, where the agent chooses it itself.
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
		s.cfg.Log.Warn("the search for the conversation failed", "session_id", row.ID, "error", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.search.vain++; l.row.Conversation == "" && l.search.vain <= seekTries && !l.row.State.Ended() {
		s.after(seekEvery, func() { s.touch(l) })
	}
}
