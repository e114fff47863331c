package jobs_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/automations/jobs"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/screen"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/sessions/transcript"
	"github.com/parawork/parawork/store/jobstore"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/tools/artifacts"
	"github.com/parawork/parawork/tools/sandboxes"
	"github.com/parawork/parawork/workspaces"
)

const secret = "correct-horse-battery"

// harness is everything that outlives a server, and stands in for the services that jobs use.
type harness struct {
	t       *testing.T
	store   *jobstore.Jobs
	bus     *events.Bus
	team    string
	ann     accounts.Actor
	bob     accounts.Actor
	isolate bool

	mu       sync.Mutex
	now      time.Time
	ws       map[string]workspaces.Workspace
	boxes    map[string]sandboxes.Sandbox // by key
	ended    []string                     // sandboxes
	sessions map[string]sessions.Session
	starts   []sessions.StartRequest
	keys     []string // sessions that were interrupted
	said     map[string][]conversation.Placed
	printed  map[string]string
	saved    []artifacts.Artifact
	posts    []notify.Post
	targets  map[string]notify.Address
	refuse   func(workspaceID string) error // of a start
	collect  error
	discard  error       // of an artifact
	onStart  func() bool // false: the server dies before it learns that the session was started
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	db := storetest.SQLite(t)
	user, team := storetest.Seed(t, db)
	other, _ := storetest.Seed(t, db)
	in := []accounts.Membership{{Team: team, Role: accounts.Member}}
	return &harness{t: t, store: jobstore.New(db), bus: events.New(), team: team.ID, ann: accounts.Actor{User: user, Memberships: in}, bob: accounts.Actor{User: other, Memberships: in}, isolate: true, now: time.Now(),
		ws: map[string]workspaces.Workspace{}, boxes: map[string]sandboxes.Sandbox{}, sessions: map[string]sessions.Session{}, said: map[string][]conversation.Placed{}, printed: map[string]string{},
		targets: map[string]notify.Address{}}
}

// serve is one life of a server. kill ends it.
func (h *harness) serve(tune ...func(*jobs.Config)) (s *jobs.Service, kill func()) {
	h.t.Helper()
	cfg := jobs.Config{Store: h.store, Sessions: crew{h}, Terminals: h, Workspaces: h, Sandboxes: boxes{h}, Places: h, Artifacts: files{h}, Hooks: h, Actor: h.Actor,
		Asks: func(agent string) bool { return agent != "command" && agent != "plain" }, Spent: h.Spent, Secrets: h, PublicURL: "https://pw.example/", Bus: h.bus, Events: h.bus, Now: h.Now, Look: 5 * time.Millisecond}
	for _, fn := range tune {
		fn(&cfg)
	}
	s = jobs.New(cfg)
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

func (h *harness) create(s *jobs.Service, r jobs.Request) jobs.Job {
	h.t.Helper()
	if r.Prompt == "" {
		r.Prompt = "do it; $(rm -rf /)"
	}
	if r.Agent == "" {
		r.Agent = "claude-code"
	}
	j, made, err := s.Create(h.t.Context(), h.ann, h.team, "", r)
	if err != nil || !made {
		h.t.Fatal(made, err)
	}
	return j
}

// until reads a job until want holds of it.
func (h *harness) until(s *jobs.Service, id string, want func(jobs.Job) bool) jobs.Job {
	h.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		j, err := s.Get(h.t.Context(), id)
		if err != nil {
			h.t.Fatal(err)
		}
		if want(j) {
			return j
		}
		if time.Now().After(end) {
			h.t.Fatalf("it does not come to that: %+v", j)
		}
	}
}

func is(status jobs.Status) func(jobs.Job) bool {
	return func(j jobs.Job) bool { return j.Status == status }
}

func done(j jobs.Job) bool { return j.Step == jobs.Done }

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

func (h *harness) idle(id string) {
	h.becomes(id, func(one *sessions.Session) { one.State, one.Basis.DoneAt = state.Idle, h.now.UnixMilli() })
}

func (h *harness) exits(id string, code int) {
	h.becomes(id, func(one *sessions.Session) { one.State, one.ExitCode = state.Exited, &code })
}

func (h *harness) says(id, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := int64(len(h.said[id]) + 2)
	h.said[id] = append(h.said[id], conversation.Placed{Item: conversation.Item{ID: fmt.Sprint("i", n), Kind: conversation.Text, Text: text}, Version: n})
}

func (h *harness) prints(id, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.printed[id] += text
}

func (h *harness) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

// count reads something of the harness.
func (h *harness) count(n func() int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return n()
}

func (h *harness) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *harness) Actor(_ context.Context, id string) (accounts.Actor, error) {
	if id == h.bob.User.ID {
		return h.bob, nil
	}
	return h.ann, nil
}

func (h *harness) InAnswers(context.Context, string) (*redact.Finder, error) {
	return redact.NewJSONFinder(secret), nil
}

func (h *harness) Spent(_ context.Context, ids ...string) (map[string]int64, error) {
	return map[string]int64{ids[0]: 7}, nil
}

func (h *harness) Choose(_ context.Context, _, _ string, wishes ...executors.Kind) (executors.Kind, error) {
	return wishes[0], nil
}

func (h *harness) Isolates(context.Context, executors.Kind) bool { return h.isolate }

func (h *harness) Find(_ context.Context, _, _, pattern string, _ int) ([]string, error) {
	if pattern == "*.none" {
		return nil, nil
	}
	return []string{"out/a.txt", "out/b.txt"}, nil
}

func (h *harness) Workspace(_ context.Context, id string) (workspaces.Workspace, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w, ok := h.ws[id]
	if !ok {
		return w, fault.New(fault.NotFound, "not_found", "none")
	}
	return w, nil
}

func (h *harness) Project(_ context.Context, id string) (workspaces.Project, error) {
	if id != "prj_1" {
		return workspaces.Project{TeamID: "team_other"}, nil
	}
	return workspaces.Project{ID: id, TeamID: h.team, State: workspaces.ProjectReady}, nil
}

func (h *harness) Create(_ context.Context, _ accounts.Actor, _ string, n workspaces.NewWorkspace) (workspaces.Workspace, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, twice := h.ws[n.ID]; twice {
		h.t.Errorf("the workspace %s was made twice", n.ID)
	}
	h.ws[n.ID] = workspaces.Workspace{ID: n.ID, TeamID: h.team, Name: n.Name, Branch: n.Branch, State: workspaces.Ready}
	return h.ws[n.ID], nil
}

func (h *harness) RetryCreate(ctx context.Context, id string) (workspaces.Workspace, error) {
	return h.Workspace(ctx, id)
}

// boxes gives out sandboxes.
type boxes struct{ *harness }

func (b boxes) Obtain(_ context.Context, actor accounts.Actor, _ string, r sandboxes.Request) (sandboxes.Sandbox, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if sb, ok := b.boxes[r.Key]; ok {
		return sb, false, nil
	}
	n := len(b.boxes)
	sb := sandboxes.Sandbox{ID: fmt.Sprint("asb_", n), TeamID: b.team, UserID: actor.User.ID, Key: r.Key, WorkspaceID: fmt.Sprint("ws_box_", n)}
	b.boxes[r.Key] = sb
	b.ws[sb.WorkspaceID] = workspaces.Workspace{ID: sb.WorkspaceID, TeamID: b.team, State: workspaces.Ready, Private: true}
	return sb, true, nil
}

func (b boxes) Get(_ context.Context, id string) (sandboxes.Sandbox, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, sb := range b.boxes {
		if sb.ID == id {
			return sb, nil
		}
	}
	return sandboxes.Sandbox{}, fault.New(fault.NotFound, "sandbox_not_found", "none")
}

func (b boxes) End(_ context.Context, id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = append(b.ended, id)
	return nil
}

// crew has the sessions.
type crew struct{ *harness }

func (c crew) CheckAgent(_ context.Context, name string) error {
	if name == "missing" {
		return fault.New(fault.Conflict, "agent_not_installed", "Install it.")
	}
	return nil
}

func (c crew) Get(_ context.Context, id string) (sessions.Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, ok := c.sessions[id]
	if !ok {
		return one, fault.New(fault.NotFound, "not_found", "none")
	}
	return one, nil
}

func (c crew) Start(ctx context.Context, actor accounts.Actor, workspaceID string, req sessions.StartRequest) (sessions.Session, error) {
	c.mu.Lock()
	died := false
	defer func() {
		c.mu.Unlock()
		if died {
			<-ctx.Done()
		}
	}()
	if c.refuse != nil {
		if err := c.refuse(workspaceID); err != nil {
			return sessions.Session{}, err
		}
	}
	if _, twice := c.sessions[req.ID]; twice {
		c.t.Errorf("the session %s was started twice", req.ID)
	}
	one := sessions.Session{ID: req.ID, TeamID: c.team, WorkspaceID: workspaceID, Agent: req.Agent, State: state.Working, CreatedBy: actor.User.ID, PromptSentAt: c.now.UnixMilli(), StateAt: c.now.UnixMilli()}
	c.starts, c.sessions[req.ID] = append(c.starts, req), one
	if c.onStart != nil && !c.onStart() {
		died = true
		return one, context.Canceled
	}
	return one, nil
}

func (c crew) Interrupt(_ context.Context, _ accounts.Actor, id string, _ bool) (sessions.Interruption, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys = append(c.keys, id)
	return sessions.Interruption{}, nil
}

func (c crew) End(_ context.Context, id, reason string) (sessions.Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.sessions[id]
	one.State, one.StateReason = state.Exited, reason
	c.sessions[id] = one
	return one, nil
}

func (c crew) Conversation(_ context.Context, id string, q conversation.Query) (sessions.Conversation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(c.said[id]), func(p conversation.Placed) bool { return p.Version <= q.Since })
	out := sessions.Conversation{Page: conversation.Page{Items: all}, Record: transcript.Kept}
	if len(c.said[id]) == 0 {
		out.Record = transcript.None
	}
	return out, nil
}

func (h *harness) Screen(_ context.Context, id string, _ int) (screen.Text, []string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return screen.Text{}, strings.Split(h.printed[id], "\n"), nil
}

func (h *harness) Output(_ context.Context, id string, from int64, _ int) ([]byte, int64, int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return []byte(h.printed[id][from:]), from, int64(len(h.printed[id])), nil
}

// files keeps artifacts.
type files struct{ *harness }

func (f files) Collect(context.Context, string, string, bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.collect
}

func (f files) Save(_ context.Context, m artifacts.Maker, req artifacts.SaveRequest) (artifacts.Artifact, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if req.Path == "missing.txt" {
		return artifacts.Artifact{}, fault.New(fault.NotFound, "artifact_source_missing", "There is no file missing.txt.")
	}
	a := artifacts.Artifact{ID: "art_" + req.Name, WorkspaceID: m.WorkspaceID, SessionID: m.SessionID, Name: req.Name, Size: 3, MIME: "text/plain"}
	f.saved = append(f.saved, a)
	return a, nil
}

func (f files) Get(_ context.Context, id string) (artifacts.Artifact, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.saved {
		if a.ID == id {
			return a, nil
		}
	}
	return artifacts.Artifact{}, fault.New(fault.NotFound, "artifact_not_found", "none")
}

func (f files) Delete(_ context.Context, a artifacts.Artifact) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.saved = slices.DeleteFunc(f.saved, func(has artifacts.Artifact) bool { return has.ID == a.ID })
	return f.discard
}

func (f files) List(_ context.Context, of artifacts.Filter, _ page.Page) (out []artifacts.Artifact, _ string, _ error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.saved {
		if a.WorkspaceID == of.WorkspaceID {
			out = append(out, a)
		}
	}
	return out, "", nil
}

func (h *harness) KeepAddress(_ context.Context, _, about, _ string, a notify.Address) (string, string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.targets[about] = a
	return "https://hooks.example/…", "sec_" + about, nil
}

func (h *harness) DropAddress(context.Context, string, string) error { return nil }

func (h *harness) Post(_ context.Context, p notify.Post) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.posts = append(h.posts, p)
	return nil
}

func (h *harness) Sent(context.Context, string) ([]notify.Delivery, error) { return nil, nil }

// workspacesOf are the names of the workspaces that were made.
func (h *harness) workspaceNames() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, w := range slices.Collect(maps.Values(h.ws)) {
		out = append(out, w.Name)
	}
	return out
}
