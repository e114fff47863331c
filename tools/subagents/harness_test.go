package subagents_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/screen"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/sessions/transcript"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/tools/subagents"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/snapshot"
	"github.com/parawork/parawork/workspaces/stage"
)

// harness is everything that outlives a server, and stands in for the services that subagents use.
type harness struct {
	t     *testing.T
	store *toolstore.Subagents
	bus   *events.Bus
	actor accounts.Actor
	team  string

	mu       sync.Mutex
	now      time.Time
	ws       map[string]workspaces.Workspace
	sessions map[string]sessions.Session
	starts   []sessions.StartRequest
	said     map[string][]conversation.Placed
	prompts  map[string]prompt.Prompt
	spent    map[string]int64
	threads  map[string]subagents.Thread // of Parawork's own agent, by session
	woken    []string                    // what sessions were given, by Wake
	snaps    int
	commits  []string                     // workspaces whose files were committed
	joins    []workspaces.JoinRequest     // what was merged into ws_1
	joined   workspaces.UpdateResult      // the answer to the next merge
	refuse   error                        // of the next start
	onRead   func()                       // called once, when a conversation is read next
	onStart  func(*sessions.Session) bool // false: the server dies before it learns that the session was started
}

const secret = "correct-horse-battery"

func newHarness(t *testing.T) *harness {
	t.Helper()
	db := storetest.SQLite(t)
	user, team := storetest.Seed(t, db)
	h := &harness{t: t, store: toolstore.NewSubagents(db), bus: events.New(), team: team.ID, now: time.Now(), ws: map[string]workspaces.Workspace{}, sessions: map[string]sessions.Session{},
		said: map[string][]conversation.Placed{}, prompts: map[string]prompt.Prompt{}, spent: map[string]int64{}, threads: map[string]subagents.Thread{}}
	h.actor = accounts.Actor{User: user, Memberships: []accounts.Membership{{Team: team, Role: accounts.Member}}}
	if _, err := db.Exec(t.Context(), `INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, state, created_by, created_at) VALUES ('prj_1', ?, 'p', 'sample', '', '', 'ready', ?, 1)`,
		team.ID, user.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), `INSERT INTO workspaces (id, team_id, project_id, num, name, branch, base, executor, state, path, steps, created_by, created_at, updated_at)
		VALUES ('ws_1', ?, 'prj_1', 1, 'w', 'b', 'main', 'local', 'ready', '', '[]', ?, 1, 1)`, team.ID, user.ID); err != nil {
		t.Fatal(err)
	}
	h.ws["ws_1"] = workspaces.Workspace{ID: "ws_1", TeamID: team.ID, ProjectID: "prj_1", Branch: "b", State: workspaces.Ready}
	h.ws["ws_other"] = workspaces.Workspace{ID: "ws_other", TeamID: "team_other", State: workspaces.Ready}
	h.session("ses_top", "claude-code", state.Working)
	return h
}

func (h *harness) session(id, agent string, in state.State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sessions[id] = sessions.Session{ID: id, TeamID: h.team, WorkspaceID: "ws_1", Agent: agent, AgentName: "Claude Code", State: in, Permissions: "ask"}
}

// serve is one life of a server. kill ends it.
func (h *harness) serve(tune ...func(*subagents.Config)) (s *subagents.Service, kill func()) {
	h.t.Helper()
	cfg := subagents.Config{Store: h.store, Sessions: h, Prompts: queue{h}, Screens: h, Workspaces: h, Snapshots: h, Siblings: h, Commits: h, Merging: h, Accounts: h, Bus: h.bus, Events: h.bus, Secrets: h,
		Threads: &threads{harness: h}, GroupOf: func(tool string) string {
			return map[string]string{"task_list": "tasks", "task_create": "tasks", "file_read": "files"}[tool]
		}, Spent: h.Spent, Now: h.Now, Look: 5 * time.Millisecond}
	for _, fn := range tune {
		fn(&cfg)
	}
	s = subagents.New(cfg)
	if t, ok := cfg.Threads.(*threads); ok {
		t.svc = s
	}
	if err := s.Recover(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Run(ctx); err != nil {
			h.t.Errorf("Run: %v", err)
		}
	}()
	kill = sync.OnceFunc(func() { cancel(); <-done })
	h.t.Cleanup(kill)
	return s, kill
}

// top is the agent that no subagent started.
func (h *harness) top() subagents.Caller { return h.agent("ses_top") }

func (h *harness) agent(sessionID string) subagents.Caller {
	return subagents.Caller{TeamID: h.team, WorkspaceID: "ws_1", SessionID: sessionID, UserID: h.actor.User.ID}
}

func (h *harness) spawn(s *subagents.Service, c subagents.Caller, r subagents.Request) subagents.Subagent {
	h.t.Helper()
	if r.Name == "" {
		r.Name = "part"
	}
	if r.Task == "" {
		r.Task = "do it"
	}
	a, _, err := s.Spawn(h.t.Context(), c, r)
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

// until reads a subagent until want holds of it.
func (h *harness) until(s *subagents.Service, id string, want func(subagents.Subagent) bool) subagents.Subagent {
	h.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		a, err := s.Get(h.t.Context(), id)
		if err != nil {
			h.t.Fatal(err)
		}
		if want(a) {
			return a
		}
		if time.Now().After(end) {
			h.t.Fatalf("it does not come to that: %+v", a)
		}
	}
}

func is(status subagents.Status) func(subagents.Subagent) bool {
	return func(a subagents.Subagent) bool { return a.Status == status }
}

func gone(a subagents.Subagent) bool { return !a.Live }

// becomes moves a session to another state.
func (h *harness) becomes(id string, change func(*sessions.Session)) {
	h.mu.Lock()
	one := h.sessions[id]
	was := one.State
	change(&one)
	if one.State != was {
		one.StateAt = h.now.UnixMilli()
	}
	h.sessions[id] = one
	h.mu.Unlock()
	h.bus.Publish(h.t.Context(), events.Event{Type: "session.updated", ID: id, TeamID: h.team})
}

func (h *harness) state(id string, to state.State) {
	h.becomes(id, func(one *sessions.Session) { one.State = to })
}

func (h *harness) says(id, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said[id] = append(h.said[id], conversation.Placed{Item: conversation.Item{Kind: conversation.Text, Text: text}})
}

func (h *harness) asked(id, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said[id] = append(h.said[id], conversation.Placed{Item: conversation.Item{Kind: conversation.Prompt, Text: text}})
}

func (h *harness) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

func (h *harness) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *harness) Actor(context.Context, string) (accounts.Actor, error) { return h.actor, nil }

func (h *harness) InAnswers(context.Context, string) (*redact.Finder, error) {
	return redact.NewJSONFinder(secret), nil
}

func (h *harness) Spent(_ context.Context, ids ...string) (map[string]int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]int64{}
	for _, id := range ids {
		if nano, ok := h.spent[id]; ok {
			out[id] = nano
		}
	}
	return out, nil
}

func (h *harness) Workspace(_ context.Context, id string) (workspaces.Workspace, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w, ok := h.ws[id]
	if !ok {
		return w, fault.New(fault.NotFound, "workspace_not_found", "No workspace.")
	}
	return w, nil
}

func (h *harness) Take(context.Context, string, snapshot.Request) (snapshot.Snap, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.snaps++
	return snapshot.Snap{ID: fmt.Sprintf("snp_%d", h.snaps)}, nil
}

func (h *harness) SnapshotByID(_ context.Context, id string) (snapshot.Snap, error) {
	return snapshot.Snap{ID: id, Commit: "commit of " + id, Head: "head of " + id}, nil
}

func (h *harness) RestoreSnapshot(_ context.Context, _ accounts.Actor, _ snapshot.Snap, r snapshot.RestoreRequest) (snapshot.Restored, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := workspaces.Workspace{ID: r.ID, TeamID: h.team, ProjectID: "prj_1", Name: r.Name, Branch: "parawork/" + r.Name, State: workspaces.Ready}
	h.ws[r.ID] = w
	return snapshot.Restored{Workspace: w}, nil
}

func (h *harness) Commit(_ context.Context, _ accounts.Actor, workspaceID string, _ stage.CommitRequest) (workspaces.Commit, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commits = append(h.commits, workspaceID)
	return workspaces.Commit{}, fault.New(fault.Conflict, "nothing_to_commit", "Nothing to commit.")
}

func (h *harness) Join(_ context.Context, _ accounts.Actor, workspaceID string, r workspaces.JoinRequest) (workspaces.UpdateResult, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if workspaceID != "ws_1" {
		h.t.Errorf("merged into %s", workspaceID)
	}
	h.joins = append(h.joins, r)
	return h.joined, nil
}

func (h *harness) Get(_ context.Context, id string) (sessions.Session, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one, ok := h.sessions[id]
	if !ok {
		return one, fault.New(fault.NotFound, "session_not_found", "No session.")
	}
	return one, nil
}

func (h *harness) List(_ context.Context, workspaceID string) (out []sessions.Session, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range h.sessions {
		if one.WorkspaceID == workspaceID {
			out = append(out, one)
		}
	}
	return out, nil
}

func (h *harness) CheckAgent(_ context.Context, name string) error {
	if name == "missing" {
		return fault.New(fault.Conflict, "agent_not_installed", "Install it.")
	}
	return nil
}

func (h *harness) Start(ctx context.Context, actor accounts.Actor, workspaceID string, req sessions.StartRequest) (sessions.Session, error) {
	h.mu.Lock()
	unlock := sync.OnceFunc(h.mu.Unlock)
	defer unlock()
	if err := h.refuse; err != nil {
		h.refuse = nil
		return sessions.Session{}, err
	}
	if _, twice := h.sessions[req.ID]; twice || req.ID == "" {
		h.t.Errorf("the session %q is started twice", req.ID)
	}
	one := sessions.Session{ID: req.ID, TeamID: h.team, WorkspaceID: workspaceID, Agent: req.Agent, State: state.Starting, StateAt: h.now.UnixMilli(), Prompt: req.Prompt, Permissions: req.Permissions,
		CreatedBy: actor.User.ID}
	if req.Prompt != "" {
		one.PromptSentAt = h.now.UnixMilli()
	}
	learned := h.onStart == nil || h.onStart(&one)
	h.sessions[req.ID], h.starts = one, append(h.starts, req)
	if !learned {
		unlock()
		<-ctx.Done()
		return sessions.Session{}, context.Cause(ctx)
	}
	return one, nil
}

func (h *harness) Interrupt(_ context.Context, _ accounts.Actor, id string, _ bool) (sessions.Interruption, error) {
	h.state(id, state.Idle)
	return sessions.Interruption{}, nil
}

func (h *harness) End(_ context.Context, id, reason string) (sessions.Session, error) {
	h.becomes(id, func(one *sessions.Session) { one.State, one.StateReason = state.Exited, reason })
	return h.Get(context.Background(), id)
}

func (h *harness) Conversation(_ context.Context, id string, q conversation.Query) (out sessions.Conversation, err error) {
	h.mu.Lock()
	onRead := h.onRead
	h.onRead = nil
	h.mu.Unlock()
	if onRead != nil {
		onRead()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	out.Record = transcript.Kept
	if h.sessions[id].Agent != "claude-code" && h.sessions[id].Agent != agents.Parawork {
		out.Record = transcript.None
	}
	out.Items = slices.DeleteFunc(slices.Clone(h.said[id]), func(it conversation.Placed) bool { return q.Kinds != nil && !slices.Contains(q.Kinds, it.Kind) })
	if n := len(out.Items) - q.Limit; n > 0 {
		out.Items = out.Items[n:]
	}
	return out, nil
}

func (h *harness) Screen(context.Context, string, int) (screen.Text, []string, error) {
	return screen.Text{}, []string{"the end of the screen", ""}, nil
}

// threads is the harness as the threads of Parawork's own agent.
type threads struct {
	*harness
	svc *subagents.Service
}

func (t *threads) SessionThread(_ context.Context, sessionID string) (subagents.Thread, bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one, ok := t.threads[sessionID]
	return one, ok, nil
}

func (t *threads) Wake(ctx context.Context, sessionID string) error {
	if one, _, _ := t.SessionThread(ctx, sessionID); one.Rests {
		return nil
	}
	all, err := t.svc.Results(ctx, sessionID)
	for _, r := range all {
		t.mu.Lock()
		t.woken = append(t.woken, r.Text)
		t.mu.Unlock()
		if err := t.svc.Returned(ctx, sessionID, r.Key); err != nil {
			return err
		}
	}
	return err
}

// own has a session of Parawork's own agent at the top.
func (h *harness) own(mode string) subagents.Caller {
	h.session("ses_own", agents.Parawork, state.Working)
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.sessions["ses_own"]
	one.AccountID, one.Argv = "acc_1", []string{"--api", "chat"}
	h.sessions["ses_own"] = one
	h.threads["ses_own"] = subagents.Thread{Model: "local-model", Mode: mode}
	return h.agent("ses_own")
}

// rests says that the last turn of a session of Parawork's own agent was interrupted, or was not.
func (h *harness) rests(sessionID string, yes bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.threads[sessionID]
	one.Rests = yes
	h.threads[sessionID] = one
}

func (h *harness) given() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.woken)
}

// queue is the harness as the queue of prompts.
type queue struct{ h *harness }

func (q queue) AddPrompt(_ context.Context, _ accounts.Actor, sessionID string, n prompt.Request) (prompt.Prompt, error) {
	q.h.mu.Lock()
	defer q.h.mu.Unlock()
	p := prompt.Prompt{ID: n.ID, SessionID: sessionID, Text: n.Text, State: prompt.Queued}
	q.h.prompts[n.ID] = p
	return p, nil
}

func (q queue) Prompt(_ context.Context, id string) (prompt.Prompt, error) {
	q.h.mu.Lock()
	defer q.h.mu.Unlock()
	p, ok := q.h.prompts[id]
	if !ok {
		return p, fault.New(fault.NotFound, "prompt_not_found", "No prompt.")
	}
	return p, nil
}

// sent has all queued prompts be sent.
func (q queue) sent() {
	q.h.mu.Lock()
	defer q.h.mu.Unlock()
	for id, p := range q.h.prompts {
		p.State, p.SentAt = prompt.Sent, q.h.now.UnixMilli()
		q.h.prompts[id] = p
	}
}

var all = page.Page{Limit: 100}

// stuck makes workspaces that are never restored: the row alone is stored.
type stuck struct{ *harness }

func (s stuck) RestoreSnapshot(ctx context.Context, _ accounts.Actor, _ snapshot.Snap, r snapshot.RestoreRequest) (snapshot.Restored, error) {
	s.mu.Lock()
	s.ws[r.ID] = workspaces.Workspace{ID: r.ID, TeamID: s.team, ProjectID: "prj_1", Name: r.Name, State: workspaces.Archived}
	s.mu.Unlock()
	<-ctx.Done()
	return snapshot.Restored{}, context.Cause(ctx)
}
