package agent_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/permissions"
	"github.com/parawork/parawork/agent/plan"
	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/store/threadstore"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/workspaces"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("database/sql.(*DB).connectionOpener"))
}

const (
	secret  = "correct-horse-battery"
	patient = 30 * time.Second // for what comes at once, on a busy machine
)

// harness is everything that outlives a server, and stands in for what the agent uses.
type harness struct {
	t      testing.TB
	ctx    context.Context
	store  *stored
	rows   *store.Workspaces
	team   string
	user   string
	model  *model
	tools  *toolset
	host   *host
	limits agent.Limits
	subs   subs
	window int64
	rules  *rules
	tasks  func(context.Context, tools.Caller, string, []plan.Task) ([]string, error)
	place  func(context.Context, string) (agent.Place, error)
	attach func(workspaceID, path string, data []byte) error
	cost   func(session, request string) (agent.Cost, bool)
	owner  string // "": server
	guide  agent.Guide

	mu    sync.Mutex
	now   time.Time
	gone  bool // the session is not in memory
	ended bool // the session has ended

	forked     *host // the session of a fork
	forkFails  error
	earlier    []sessions.Session // that continued the conversation before
	amended    []string           // "session item" of those that have ended
	siblings   []string           // what was made, and removed
	files      *files
	compacting int // conversations that were said to be about to be summarized

	svc  *agent.Service
	stop func()
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	db := storetest.SQLite(t)
	user, team := storetest.Seed(t, db)
	rows := store.NewWorkspaces(db)
	if err := rows.InsertProject(t.Context(), workspaces.Project{ID: "prj_1", TeamID: team.ID, Name: "p", State: workspaces.ProjectReady, CreatedBy: user.ID}); err != nil {
		t.Fatal(err)
	}
	if _, err := rows.InsertWorkspace(t.Context(), workspaces.Workspace{ID: "ws_1", TeamID: team.ID, ProjectID: "prj_1", Name: "w", Branch: "b", State: workspaces.Ready, CreatedBy: user.ID}); err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, rows: rows, ctx: tenant.In(t.Context(), team.ID), store: &stored{Threads: threadstore.New(db)}, team: team.ID, user: user.ID, model: &model{t: t}, tools: newToolset(), rules: &rules{}, now: time.Now(), files: &files{}}
	h.host = newHost(sessions.Session{ID: "ses_1", TeamID: team.ID, WorkspaceID: "ws_1", Agent: agent.Name, Conversation: "conv_1", CreatedBy: user.ID, State: state.Working, Permissions: agents.AskPermissions})
	t.Cleanup(func() { h.kill() })
	return h
}

// stored is the store. Tests can look at changes before they are made, and refuse them.
type stored struct {
	*threadstore.Threads
	mu     sync.Mutex
	before func(c agent.Change) error
	writes int
	reads  int
}

// cost returns how many changes were made and how many views were read since it was asked last.
func (s *stored) cost() (writes, reads int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	writes, reads, s.writes, s.reads = s.writes, s.reads, 0, 0
	return writes, reads
}

// View implements agent.Store.
func (s *stored) View(ctx context.Context, id string, w agent.Window) (agent.View, error) {
	s.mu.Lock()
	s.reads++
	s.mu.Unlock()
	return s.Threads.View(ctx, id, w)
}

func (s *stored) on(before func(c agent.Change) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = before
}

// Apply implements agent.Store.
func (s *stored) Apply(ctx context.Context, threadID string, c agent.Change) (int64, error) {
	s.mu.Lock()
	before := s.before
	s.writes++
	s.mu.Unlock()
	if before != nil {
		if err := before(c); err != nil {
			return 0, err
		}
	}
	return s.Threads.Apply(ctx, threadID, c)
}

// boot starts a server.
func (h *harness) boot() {
	var cost func(context.Context, string, string) (agent.Cost, bool, error)
	if h.cost != nil {
		cost = func(_ context.Context, session, request string) (agent.Cost, bool, error) {
			c, ok := h.cost(session, request)
			return c, ok, nil
		}
	}
	h.svc = agent.New(agent.Config{
		Cost:  cost,
		Store: h.store, Sessions: h, Tools: h.tools, Rules: h.rules, Tasks: h.tasks, Place: h.place, Owner: cmp.Or(h.owner, "server"), Now: h.clock, Limits: h.limits, TurnLimits: h.store,
		Attach: func(_ context.Context, workspaceID, path string, data []byte) error {
			return h.attach(workspaceID, path, data)
		},
		Model: func(context.Context, sessions.Session, agent.Options) (agent.Model, error) {
			return agent.Model{Provider: h.model, Name: "scripted", Window: h.window, Output: 1000}, nil
		},
		Caller: func(_ context.Context, s sessions.Session) (tools.Caller, error) {
			return tools.Caller{TeamID: s.TeamID, WorkspaceID: s.WorkspaceID, SessionID: s.ID, UserID: s.CreatedBy, Agent: agent.Name, Groups: tools.Selection{On: append(agent.CoreGroups(), "tasks", "verification", "subagents")}}, nil
		},
		Project:   func(context.Context, string) (string, error) { return "prj_1", nil },
		Subagents: &h.subs, Fork: h.fork, Checkpoints: h, Files: h.files, Siblings: h, Guide: h.guide, Briefings: h.store,
	})
	ctx, cancel := context.WithCancel(h.ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = h.svc.Run(ctx)
	}()
	h.stop = func() {
		cancel()
		<-over
	}
}

// kill ends the server where it is. It stores nothing more.
func (h *harness) kill() {
	if h.stop != nil {
		h.stop()
		h.stop = nil
	}
}

func (h *harness) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// Hosted implements agent.Sessions.
func (h *harness) Hosted(id string) (agent.Host, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.forked != nil && h.forked.row.ID == id {
		return h.forked, true
	}
	return h.host, id == "ses_1" && !h.gone && !h.ended
}

// Compacting implements agent.Checkpoints.
func (h *harness) Compacting(sessions.Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.compacting++
}

// fork starts the session of a fork.
func (h *harness) fork(_ context.Context, _ accounts.Actor, _ string, req sessions.StartRequest, from sessions.From) (sessions.Session, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.forkFails != nil {
		return sessions.Session{}, h.forkFails
	}
	of := h.host.Row()
	of.ID, of.Conversation, of.Prompt, of.StartedAt = req.ID, from.Copy, req.Prompt, h.now.UnixMilli()
	h.forked = newHost(of)
	return of, nil
}

// Session implements agent.Sessions.
func (h *harness) Session(_ context.Context, id string) (sessions.Session, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if id != "ses_1" {
		return sessions.Session{}, fault.New(fault.NotFound, "not_found", "There is no session %s.", id)
	}
	row := h.host.Row()
	if h.ended {
		row.State = state.Exited
	}
	return row, nil
}

// Continuing implements agent.Sessions.
func (h *harness) Continuing(_ context.Context, _, conversation string) ([]sessions.Session, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.forked != nil && h.forked.row.Conversation == conversation {
		return []sessions.Session{h.forked.row}, nil
	}
	return append(slices.Clone(h.earlier), h.host.Row()), nil
}

// Amend implements agent.Sessions.
func (h *harness) Amend(_ context.Context, s sessions.Session, items []conversation.Item) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, it := range items {
		h.amended = append(h.amended, s.ID+" "+it.ID)
	}
}

// Make implements agent.Siblings.
func (h *harness) Make(ctx context.Context, _ accounts.Actor, _ string, at agent.FilesAt, name string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.siblings = append(h.siblings, fmt.Sprint(name, at))
	w := workspaces.Workspace{ID: fmt.Sprint("ws_sibling_", len(h.siblings)), TeamID: h.team, ProjectID: "prj_1", Name: name, State: workspaces.Ready, CreatedBy: h.user}
	w.Branch = w.ID
	_, err := h.rows.InsertWorkspace(ctx, w)
	return w.ID, err
}

// Remove implements agent.Siblings.
func (h *harness) Remove(_ context.Context, _ accounts.Actor, workspaceID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.siblings = append(h.siblings, "removed "+workspaceID)
}

// open starts a server with the session's thread.
func (h *harness) open(o agent.Options) agent.Thread {
	h.t.Helper()
	h.boot()
	t, err := h.svc.Open(h.ctx, h.host.Row(), o)
	if err != nil {
		h.t.Fatal(err)
	}
	return t
}

func (h *harness) send(threadID, text string) agent.Message {
	h.t.Helper()
	m, err := h.svc.Send(h.ctx, threadID, agent.Prompt{Text: text, UserID: h.user})
	if err != nil {
		h.t.Fatal(err)
	}
	return m
}

// view is what a follower knows of a thread.
type view struct {
	agent.Thread
	turn     agent.Turn
	messages []agent.Message
	calls    []agent.Call
	text     string // of all deltas
}

func (v *view) add(u agent.Update) {
	if u.Delta != nil {
		v.text += u.Delta.Text
		return
	}
	v.Thread = u.Thread
	if u.Turn != nil {
		v.turn = *u.Turn
	}
	for _, m := range u.Messages {
		if at := slices.IndexFunc(v.messages, func(o agent.Message) bool { return o.ID == m.ID }); at >= 0 {
			v.messages[at] = m
		} else {
			v.messages = append(v.messages, m)
		}
	}
	for _, c := range u.Calls {
		if at := slices.IndexFunc(v.calls, func(o agent.Call) bool { return o.ID == c.ID }); at >= 0 {
			v.calls[at] = c
		} else {
			v.calls = append(v.calls, c)
		}
	}
}

// said lists the messages as role:text, with their state when they are not complete.
func (v *view) said() []string {
	var out []string
	for _, m := range v.messages {
		s := string(m.Role) + ":"
		for _, p := range m.Parts {
			if p.Kind == providers.Text {
				s += p.Text
			}
		}
		if m.State != agent.Complete {
			s += " (" + string(m.State) + ")"
		}
		out = append(out, s)
	}
	return out
}

// outcomes lists the calls as tool=state:text.
func (v *view) outcomes() []string {
	var out []string
	for _, c := range v.calls {
		s := c.Tool + "=" + string(c.State) + ":"
		for _, p := range c.Content {
			s += p.Text
		}
		out = append(out, s)
	}
	return out
}

var errSeen = errors.New("seen")

// until follows a thread until it is as wanted.
func (h *harness) until(threadID string, wanted func(*view) bool) *view {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.ctx, patient)
	defer cancel()
	var v view
	err := h.svc.Follow(ctx, threadID, 0, func(u agent.Update) error {
		if v.add(u); wanted(&v) {
			return errSeen
		}
		return nil
	})
	if !errors.Is(err, errSeen) {
		h.t.Fatalf("%v: the thread is %s (%s), messages %q, calls %q", err, v.State, v.Reason, v.said(), v.outcomes())
	}
	return &v
}

// rest waits for the end of a thread's turn.
func (h *harness) rest(threadID string) *view {
	h.t.Helper()
	return h.until(threadID, func(v *view) bool { return v.turn.ID != "" && v.turn.State != agent.TurnRunning })
}

func equal(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%q, not\n%q", what, got, want)
	}
}

// answer is what the model does with a request.
type answer func(ctx context.Context, req providers.Request, say func(providers.Event)) error

// model answers requests by a script.
type model struct {
	t        testing.TB
	mu       sync.Mutex
	script   []answer
	requests []providers.Request
}

func (m *model) then(answers ...answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.script = append(m.script, answers...)
}

func (m *model) asked() []providers.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// Stream implements providers.Provider.
func (m *model) Stream(ctx context.Context, req providers.Request) iter.Seq2[providers.Event, error] {
	m.mu.Lock()
	m.requests = append(m.requests, req)
	next := answer(func(context.Context, providers.Request, func(providers.Event)) error {
		return &providers.Error{Kind: providers.ErrInvalidRequest, Message: "the script has ended"}
	})
	if len(m.script) > 0 {
		next, m.script = m.script[0], m.script[1:]
	}
	m.mu.Unlock()
	return func(yield func(providers.Event, error) bool) {
		left := false
		err := next(ctx, req, func(e providers.Event) {
			left = left || !yield(e, nil)
		})
		if err != nil && !left {
			yield(providers.Event{}, err)
		}
	}
}

// says answers with a text, in pieces, and ends the turn.
func says(pieces ...string) answer { return stopped(providers.StopEndTurn, pieces...) }

func stopped(why providers.Stop, pieces ...string) answer { return saysUsing(10, why, pieces...) }

func saysUsing(tokens int64, why providers.Stop, pieces ...string) answer {
	return func(_ context.Context, _ providers.Request, say func(providers.Event)) error {
		for _, p := range pieces {
			say(providers.Event{Kind: providers.TextDelta, Text: p})
		}
		say(providers.Event{Kind: providers.PartDone, Part: providers.Part{Kind: providers.Text, Text: strings.Join(pieces, "")}})
		say(providers.Event{Kind: providers.Done, Stop: why, Usage: providers.Usage{Input: tokens, Output: 5}})
		return nil
	}
}

// wants answers with calls: names and arguments in turn. Arguments that are no JSON object come as they are.
func wants(calls ...string) answer { return wantsUsing(10, calls...) }

func wantsUsing(tokens int64, calls ...string) answer {
	return func(_ context.Context, req providers.Request, say func(providers.Event)) error {
		for i := 0; i+1 < len(calls); i += 2 {
			p := providers.Part{Kind: providers.ToolCall, CallID: strings.Repeat("c", len(req.Messages)) + string(rune('a'+i/2)), Name: calls[i]}
			if args := calls[i+1]; json.Valid([]byte(args)) && strings.HasPrefix(args, "{") {
				p.Args = json.RawMessage(args)
			} else {
				p.RawArgs = args
			}
			say(providers.Event{Kind: providers.CallBegun, Index: i / 2, Part: p})
			say(providers.Event{Kind: providers.PartDone, Index: i / 2, Part: p})
		}
		say(providers.Event{Kind: providers.Done, Stop: providers.StopToolCalls, Usage: providers.Usage{Input: tokens, Output: 5}, Request: "gw"})
		return nil
	}
}

func fails(kind providers.ErrorKind, words string) answer {
	return func(context.Context, providers.Request, func(providers.Event)) error {
		return &providers.Error{Kind: kind, Message: words}
	}
}

// blocks says something, reports that it did, and answers when it is let go; it stops with the request.
func blocks(said string, begun chan<- struct{}, on <-chan struct{}, rest answer) answer {
	return func(ctx context.Context, req providers.Request, say func(providers.Event)) error {
		if said != "" {
			say(providers.Event{Kind: providers.TextDelta, Text: said})
		}
		close(begun)
		select {
		case <-on:
			return rest(ctx, req, say)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// last is what the model was sent as the newest message, as text.
func last(req providers.Request) string {
	var b strings.Builder
	for _, p := range req.Messages[len(req.Messages)-1].Parts {
		b.WriteString(p.Text)
		for _, c := range p.Content {
			b.WriteString(c.Text)
		}
	}
	return b.String()
}

// toolset has tools that do as tests say.
type toolset struct {
	mu     sync.Mutex
	does   map[string]func(ctx context.Context, args json.RawMessage) (tools.Result, error)
	made   []string                // calls, as name and arguments
	limits map[string]tools.Limits // of the last call
}

func newToolset() *toolset {
	return &toolset{does: map[string]func(context.Context, json.RawMessage) (tools.Result, error){}, limits: map[string]tools.Limits{}}
}

// Specs implements agent.Tools.
func (s *toolset) Specs() []tools.Spec {
	args, pathArgs := json.RawMessage(`{"type":"object"}`), json.RawMessage(`{"type":"object","properties":{"path":{}}}`)
	return []tools.Spec{
		{Name: "file_read", Title: "Read", Group: "files", Arguments: args, Permission: tools.Allow},
		{Name: "file_edit", Title: "Edit", Group: "files", Arguments: pathArgs, Permission: tools.Ask, Needs: tools.Needs{Writes: true}},
		{Name: "file_multi_edit", Title: "Edit", Group: "files", Arguments: pathArgs, Permission: tools.Ask, Needs: tools.Needs{Writes: true}},
		{Name: "file_write", Title: "Write", Group: "files", Arguments: pathArgs, Permission: tools.Ask, Needs: tools.Needs{Writes: true}},
		{Name: "run_command", Title: "Run", Group: "commands", Arguments: args, Permission: tools.Ask, Needs: tools.Needs{Writes: true}},
		{Name: "task_create", Title: "Task", Group: "tasks", Arguments: args, Permission: tools.Allow, Needs: tools.Needs{Writes: true}},
		{Name: "task_export", Title: "Export", Group: "tasks", Arguments: args, Permission: tools.Allow, Needs: tools.Needs{Writes: true}},
		{Name: "browser_screenshot", Title: "Picture", Group: "browser", Arguments: args, Permission: tools.Allow},
		{Name: "subagent_wait", Title: "Wait", Group: "subagents", Arguments: args, Permission: tools.Allow},
		{Name: "subagent_spawn", Title: "Spawn", Group: "subagents", Arguments: args, Permission: tools.Allow, Needs: tools.Needs{Writes: true}},
		{Name: "subagent_merge", Title: "Merge", Group: "subagents", Arguments: args, Permission: tools.Allow, Needs: tools.Needs{Writes: true}},
		{Name: "verify", Title: "Verify", Group: "verification", Arguments: args, Permission: tools.Allow, Needs: tools.Needs{Writes: true}},
		{Name: "review_comment", Title: "Comment", Group: "review", Arguments: args, Permission: tools.Allow, Needs: tools.Needs{Writes: true}, Unlisted: true},
	}
}

// Call implements agent.Tools.
func (s *toolset) Call(ctx context.Context, c tools.Caller, name string, args json.RawMessage) (tools.Result, error) {
	s.mu.Lock()
	s.made = append(s.made, name+" "+string(args))
	s.limits[name] = c.Limits
	do := s.does[name]
	s.mu.Unlock()
	if do == nil {
		return tools.Result{Content: tools.Text(name + " did " + string(args))}, nil
	}
	return do(ctx, args)
}

func (s *toolset) calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.made)
}

// host is the session.
type host struct {
	secrets []string // besides secret
	row     sessions.Session
	done    chan struct{}
	asks    chan asked

	admin   accounts.Actor // who answers
	hinted  chan struct{}  // the last hint is another one
	mu      sync.Mutex
	hint    agents.Hint
	items   []conversation.Item
	prompts []string
}

// asked is a question to a person.
type asked struct {
	key    string
	ask    agents.Ask
	answer chan agents.Answer
	ended  chan error // why it was asked no more
}

func newHost(row sessions.Session) *host {
	return &host{row: row, done: make(chan struct{}), asks: make(chan asked, 16), hinted: make(chan struct{}, 1)}
}

func (o *host) Row() sessions.Session { return o.row }
func (o *host) Done() <-chan struct{} { return o.done }
func (o *host) Observe(h agents.Hint) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hint = h
	select {
	case o.hinted <- struct{}{}:
	default:
	}
}
func (o *host) Prompted(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.prompts = append(o.prompts, text)
}
func (o *host) Record(items []conversation.Item) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.items = append(o.items, items...)
}
func (o *host) Mask(text string) string { return redact.New(append(o.secrets, secret)...).Text(text) }
func (o *host) Stream() *redact.Masker  { return redact.New(secret) }
func (o *host) Ask(ctx context.Context, key string, a agents.Ask, accept question.Accept) (agents.Answer, error) {
	q := asked{key: key, ask: a, answer: make(chan agents.Answer, 1), ended: make(chan error, 1)}
	o.asks <- q
	select {
	case answer := <-q.answer:
		if accept != nil && len(answer.Options) > 0 {
			if err := accept(ctx, o.admin, answer); err != nil {
				return agents.Answer{}, err
			}
		}
		return answer, nil
	case <-ctx.Done():
		q.ended <- context.Cause(ctx)
		return agents.Answer{}, context.Cause(ctx)
	}
}

// rules are permission rules.
type rules struct {
	mu  sync.Mutex
	all []permissions.Rule
}

// Rules implements agent.Rules.
func (s *rules) Rules(context.Context, string, string, string) ([]permissions.Rule, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all), nil
}

// Add implements agent.Rules.
func (s *rules) Add(_ context.Context, r permissions.Rule) (permissions.Rule, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, r)
	return r, nil
}

func (s *rules) list() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.all {
		out = append(out, r.Scope()+" "+r.String())
	}
	return out
}

// mood waits until the session's agent is said to be in a mood.
func (h *harness) mood(want agents.Mood) {
	h.t.Helper()
	for late := time.After(patient); ; {
		h.host.mu.Lock()
		got := h.host.hint.Mood
		h.host.mu.Unlock()
		if got == want {
			return
		}
		select {
		case <-h.host.hinted:
		case <-late:
			h.t.Fatalf("the agent is said to be %s, not %s", got, want)
		}
	}
}

// recorded lists the session's conversation as kind:status, an item in its last state.
func (o *host) recorded() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var ids, out []string
	for _, it := range o.items {
		s := string(it.Kind)
		if it.Status != "" {
			s += ":" + string(it.Status)
		}
		if at := slices.Index(ids, it.ID); at >= 0 {
			out[at] = s
			continue
		}
		ids, out = append(ids, it.ID), append(out, s)
	}
	return out
}

// question waits for the next question.
func (h *harness) question() asked {
	h.t.Helper()
	select {
	case q := <-h.host.asks:
		return q
	case <-time.After(patient):
		h.t.Fatal("no question was asked")
		return asked{}
	}
}

func (q asked) choose(id, text string) {
	q.answer <- agents.Answer{Options: []agents.Option{{ID: id}}, Text: text}
}

func wait(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patient):
		t.Fatalf("%s: it did not come", what)
	}
}

// files notes what is asked of the workspace's files.
type files struct {
	mu      sync.Mutex
	taken   int
	spans   []agent.Span // of the last plan
	writing func() error // before files are written; nil = nothing
	written []string
}

// Snapshot implements agent.Files.
func (f *files) Snapshot(context.Context, string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken++
	return fmt.Sprint("snp_", f.taken), nil
}

// Plan implements agent.Files.
func (f *files) Plan(_ context.Context, _ string, spans []agent.Span) (json.RawMessage, []string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spans = spans
	return json.RawMessage(`"a plan"`), []string{"a.txt"}, nil
}

// Write implements agent.Files.
func (f *files) Write(_ context.Context, _, _, _ string, plan json.RawMessage, _ bool) (string, error) {
	f.mu.Lock()
	writing := f.writing
	f.mu.Unlock()
	if writing != nil {
		if err := writing(); err != nil {
			return "", err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.written = append(f.written, string(plan))
	return "snp_safe", nil
}
