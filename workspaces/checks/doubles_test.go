package checks_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/checks"
	"github.com/parawork/parawork/workspaces/ingest"
)

var _ checks.Store = (*memory)(nil)

// memory is an in-memory store of checks and queues. Like the tables, it returns copies and leaves outputs out of lists.
type memory struct {
	mu      sync.Mutex
	runs    []checks.Run
	entries []checks.Entry
	now     map[string]checks.Now
	broken  error // error of each read of the queue
}

func runMissing() error {
	return fault.New(fault.NotFound, "check_run_not_found", "This run of a check no longer exists.")
}

func (m *memory) InsertCheckRuns(_ context.Context, runs []checks.Run) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runs = append(m.runs, runs...)
	return nil
}

func (m *memory) EditCheckRun(_ context.Context, id string, fn func(*checks.Run) error) (checks.Run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.runs, func(r checks.Run) bool { return r.ID == id })
	if i < 0 {
		return checks.Run{}, runMissing()
	}
	r := m.runs[i]
	if err := fn(&r); err != nil {
		return r, err
	}
	m.runs[i] = r
	return r, nil
}

func (m *memory) CheckRun(_ context.Context, id string) (checks.Run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.IndexFunc(m.runs, func(r checks.Run) bool { return r.ID == id }); i >= 0 {
		return m.runs[i], nil
	}
	return checks.Run{}, runMissing()
}

// these are the runs that want accepts, oldest first, without their outputs. The caller holds the lock.
func (m *memory) these(want func(checks.Run) bool) []checks.Run {
	var out []checks.Run
	for _, r := range m.runs {
		if want(r) {
			r.Output = ""
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b checks.Run) int { return int(a.CreatedAt - b.CreatedAt) })
	return out
}

func (m *memory) CheckRuns(_ context.Context, workspaceID string, limit int) ([]checks.Run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.these(func(r checks.Run) bool { return r.WorkspaceID == workspaceID })
	slices.Reverse(out)
	return out[:min(limit, len(out))], nil
}

func (m *memory) QueueRuns(_ context.Context, ids []string) ([]checks.Run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.these(func(r checks.Run) bool { return slices.Contains(ids, r.QueueID) }), nil
}

func (m *memory) LatestRuns(_ context.Context, teamID string, ids ...string) ([]checks.Run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.these(func(r checks.Run) bool {
		return r.TeamID == teamID && r.QueueID == "" && (len(ids) == 0 || slices.Contains(ids, r.WorkspaceID))
	})
	slices.Reverse(all)
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(r checks.Run) bool {
		key := r.WorkspaceID + " " + r.CheckID
		defer func() { seen[key] = true }()
		return seen[key]
	}), nil
}

func (m *memory) OpenCheckRuns(context.Context) ([]checks.Run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.these(func(r checks.Run) bool { return !r.State.Ended() }), nil
}

func (m *memory) DropCheckRuns(_ context.Context, workspaceID string, keep int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	mine := m.these(func(r checks.Run) bool { return r.WorkspaceID == workspaceID })
	old := map[string]bool{}
	for _, r := range mine[:max(0, len(mine)-keep)] {
		old[r.ID] = r.State.Ended()
	}
	m.runs = slices.DeleteFunc(m.runs, func(r checks.Run) bool { return old[r.ID] })
	return nil
}

func (m *memory) FilesNow(_ context.Context, _ string, ids ...string) (map[string]checks.Now, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := maps.Clone(m.now)
	maps.DeleteFunc(out, func(id string, _ checks.Now) bool { return len(ids) > 0 && !slices.Contains(ids, id) })
	return out, nil
}

func (m *memory) InsertEntry(_ context.Context, e checks.Entry) (checks.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.Position = 1
	for _, o := range m.entries {
		if o.WorkspaceID == e.WorkspaceID && o.EndedAt == 0 {
			return e, fault.New(fault.Conflict, "merge_queued", "The workspace is in the merge queue already.")
		}
		if o.ProjectID == e.ProjectID {
			e.Position = max(e.Position, o.Position+1)
		}
	}
	m.entries = append(m.entries, e)
	return e, nil
}

func (m *memory) EditEntry(_ context.Context, id string, fn func(*checks.Entry) error) (checks.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.entries, func(e checks.Entry) bool { return e.ID == id })
	if i < 0 {
		return checks.Entry{}, fault.New(fault.NotFound, "not_found", "There is no such entry.")
	}
	e := m.entries[i]
	if err := fn(&e); err != nil {
		return e, err
	}
	m.entries[i] = e
	return e, nil
}

// queue is in order of projects and positions. The caller holds the lock.
func (m *memory) queue(want func(checks.Entry) bool) ([]checks.Entry, error) {
	var out []checks.Entry
	for _, e := range m.entries {
		if want(e) {
			out = append(out, e)
		}
	}
	return out, m.broken
}

func (m *memory) OpenEntries(_ context.Context, projectID string) ([]checks.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.queue(func(e checks.Entry) bool { return e.EndedAt == 0 && (projectID == "" || e.ProjectID == projectID) })
}

func (m *memory) TeamEntries(_ context.Context, teamID string) ([]checks.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.queue(func(e checks.Entry) bool { return e.EndedAt == 0 && e.TeamID == teamID })
}

func (m *memory) EndedEntries(_ context.Context, projectID string, limit int) ([]checks.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out, err := m.queue(func(e checks.Entry) bool { return e.EndedAt != 0 && e.ProjectID == projectID })
	slices.SortFunc(out, func(a, b checks.Entry) int { return int(b.EndedAt - a.EndedAt) })
	return out[:min(limit, len(out))], err
}

func (m *memory) NewestEntry(_ context.Context, workspaceID string) (*checks.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out, err := m.queue(func(e checks.Entry) bool { return e.WorkspaceID == workspaceID })
	if len(out) == 0 || err != nil {
		return nil, err
	}
	return &out[len(out)-1], nil
}

func (m *memory) breakReads(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = err
}

// doubles are the fakes around the checks: workspaces and projects, their files and branches, the base they are merged into, the members,
// and commands that end when the test says so.
type doubles struct {
	mu         sync.Mutex
	workspaces map[string]workspaces.Workspace
	projects   map[string]workspaces.Project
	files      map[string]ingest.FilesNow
	filesErr   error
	branch     map[string][2]string // commit and tree
	approved   map[string]string    // by workspace: the tree that was approved
	members    map[string]accounts.Actor
	timeline   []string // workspace, kind and text
	events     []events.Event

	base      string
	conflicts map[string][]workspaces.Conflict
	landed    []string // the commits, in order
	merges    int      // how often a result was computed
	beforeTip func()   // called once, before something lands; without the lock
	folders   []string // what was checked out and removed, in order

	commands map[string]*running
	auto     map[string]int // by line: what ends at once, with which code
	execErr  error
}

type running struct {
	command.Command
	req  command.Request
	by   string
	done chan struct{}
}

func newDoubles() *doubles {
	w := &doubles{workspaces: map[string]workspaces.Workspace{}, projects: map[string]workspaces.Project{}, files: map[string]ingest.FilesNow{},
		branch: map[string][2]string{}, approved: map[string]string{}, members: map[string]accounts.Actor{}, conflicts: map[string][]workspaces.Conflict{},
		commands: map[string]*running{}, auto: map[string]int{}, base: "base0"}
	w.projects["p"] = workspaces.Project{ID: "p", TeamID: "team"}
	w.join("ada", accounts.Member)
	return w
}

func (w *doubles) join(user string, role accounts.Role) {
	w.members[user] = accounts.Actor{User: accounts.User{ID: user}, Memberships: []accounts.Membership{{Team: accounts.Team{ID: "team", Slug: "team"}, Role: role}}}
}

// workspace adds a workspace whose branch is at head-<id> and has its files committed.
func (w *doubles) workspace(id string) workspaces.Workspace {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.workspaces[id] = workspaces.Workspace{ID: id, TeamID: "team", ProjectID: "p", Name: id, Branch: "branch-" + id, Base: "main", State: workspaces.Ready, CreatedBy: "ada"}
	w.files[id] = ingest.FilesNow{Tree: "tree-" + id, Head: "head-" + id, Clean: true}
	w.branch[id] = [2]string{"head-" + id, "tree-" + id}
	return w.workspaces[id]
}

func (w *doubles) do(fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn()
}

func (w *doubles) project(fn func(p *workspaces.Project)) {
	w.do(func() {
		p := w.projects["p"]
		fn(&p)
		w.projects["p"] = p
	})
}

func missing(what string) error {
	return fault.New(fault.NotFound, "not_found", "There is no such %s.", what)
}

func (w *doubles) Workspace(_ context.Context, id string) (workspaces.Workspace, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ws, ok := w.workspaces[id]; ok {
		return ws, nil
	}
	return workspaces.Workspace{}, missing("workspace")
}

func (w *doubles) Project(_ context.Context, id string) (workspaces.Project, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p, ok := w.projects[id]; ok {
		return p, nil
	}
	return workspaces.Project{}, missing("project")
}

func (w *doubles) Record(_ context.Context, a workspaces.Activity) error {
	w.do(func() { w.timeline = append(w.timeline, fmt.Sprintf("%s %s: %s", a.WorkspaceID, a.Kind, a.Text)) })
	return nil
}

func (w *doubles) Publish(_ context.Context, e events.Event) {
	w.do(func() { w.events = append(w.events, e) })
}

func (w *doubles) Actor(_ context.Context, userID string) (accounts.Actor, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a, ok := w.members[userID]; ok {
		return a, nil
	}
	return accounts.Actor{}, missing("user")
}

func (w *doubles) FilesNow(_ context.Context, id string) (ingest.FilesNow, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.filesErr != nil {
		return ingest.FilesNow{}, w.filesErr
	}
	return w.files[id], nil
}

func (w *doubles) BranchNow(_ context.Context, id string) (commit, tree string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.branch[id]
	return b[0], b[1], nil
}

func (w *doubles) CheckOut(_ context.Context, id, commit, branch string) (string, error) {
	w.do(func() { w.folders = append(w.folders, "out "+commit+" as "+branch) })
	return "/merged/" + id, nil
}

func (w *doubles) DropCheckOut(_ context.Context, id string) error {
	w.do(func() { w.folders = append(w.folders, "dropped "+id) })
	return nil
}

func (w *doubles) CheckEnv(context.Context, string) (map[string]string, error) {
	return map[string]string{"CI": "true"}, nil
}

func (w *doubles) MergedTree(_ context.Context, _ accounts.Actor, id, _, _ string) (commit, base string, conflicts []workspaces.Conflict, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.merges++
	if c := w.conflicts[id]; len(c) > 0 {
		return "", w.base, c, nil
	}
	return w.branch[id][0] + "+" + w.base, w.base, nil, nil
}

func (w *doubles) LandMerged(_ context.Context, _ accounts.Actor, _, commit, expected string) (workspaces.MergeResult, error) {
	var before func()
	w.do(func() { before, w.beforeTip = w.beforeTip, nil })
	if before != nil {
		before()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Contains(w.landed, commit) {
		return workspaces.MergeResult{Merged: true, Commit: commit}, nil
	}
	if w.base != expected {
		return workspaces.MergeResult{}, fault.New(fault.Conflict, "base_moved", "The base moved.")
	}
	w.base, w.landed = commit, append(w.landed, commit)
	return workspaces.MergeResult{Merged: true, Commit: commit}, nil
}

func (w *doubles) isApproved(_ context.Context, id, tree string) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return tree != "" && w.approved[id] == tree, nil
}

func (w *doubles) Exec(ctx context.Context, req command.Request) (command.Command, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.execErr != nil {
		return command.Command{}, w.execErr
	}
	_, by := executors.AskerOf(ctx)
	r := &running{req: req, by: by, done: make(chan struct{})}
	r.ID, r.State = fmt.Sprintf("cmd%d", len(w.commands)+1), command.Executing
	w.commands[r.ID] = r
	if code, ok := w.auto[line(req)]; ok {
		r.State, r.ExitCode = command.Completed, &code
		close(r.done)
	}
	return r.Command, nil
}

// line is the script that a check runs.
func line(req command.Request) string { return req.Argv[len(req.Argv)-1] }

func (w *doubles) Wait(ctx context.Context, id string) (command.Command, error) {
	w.mu.Lock()
	r := w.commands[id]
	w.mu.Unlock()
	if r == nil {
		return command.Command{}, missing("command")
	}
	select {
	case <-r.done:
		return w.Command(ctx, id)
	case <-ctx.Done():
		return command.Command{}, ctx.Err()
	}
}

func (w *doubles) Command(_ context.Context, id string) (command.Command, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.commands[id]; r != nil {
		return r.Command, nil
	}
	return command.Command{}, missing("command")
}

func (w *doubles) Cancel(ctx context.Context, id string) (command.Command, error) {
	w.mu.Lock()
	if r := w.commands[id]; r != nil && !r.State.Ended() {
		r.State = command.Cancelled
		close(r.done)
	}
	w.mu.Unlock()
	return w.Command(ctx, id)
}

// open are the commands that run a line now.
func (w *doubles) open(l string) (ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, r := range w.commands {
		if line(r.req) == l && !r.State.Ended() {
			ids = append(ids, id)
		}
	}
	return ids
}

// begun is how many commands were started for a line.
func (w *doubles) begun(l string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.commands {
		if line(r.req) == l {
			n++
		}
	}
	return n
}

// fixture is a Service with its doubles, in a bubble of time.
type fixture struct {
	*doubles
	t     *testing.T
	store *memory
	svc   *checks.Service
	stop  func()
	tick  int64
	after chan time.Time // ends the retry delay of a worker
	asked int            // how often a worker waited for a retry
}

// withService runs a test in a synctest bubble with a running Service.
func withService(t *testing.T, fn func(t *testing.T, fx *fixture)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fx := &fixture{doubles: newDoubles(), t: t, store: &memory{now: map[string]checks.Now{}}, after: make(chan time.Time)}
		fx.make()
		fx.run()
		defer func() { fx.stop() }()
		fn(t, fx)
	})
}

// make creates a new Service on the stored data, like a start of the server; nothing runs yet.
func (fx *fixture) make() {
	fx.stop = func() {}
	fx.svc = checks.New(checks.Config{Store: fx.store, Records: fx, Sandboxes: fx, Merges: fx, Commands: fx, Accounts: fx, Events: fx, Approved: fx.isApproved,
		Now: func() time.Time { // each moment differs, so that the newest is unique
			fx.mu.Lock()
			defer fx.mu.Unlock()
			fx.tick++
			return time.Unix(1_700_000_000+fx.tick, 0)
		},
		After: func(time.Duration) <-chan time.Time {
			fx.do(func() { fx.asked++ })
			return fx.after
		}})
}

// run runs the Service until stop.
func (fx *fixture) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	svc := fx.svc
	go func() {
		defer close(ended)
		if err := svc.Run(ctx); err != nil {
			fx.t.Errorf("Run: %v", err)
		}
	}()
	fx.stop = func() { cancel(); <-ended }
	synctest.Wait()
}

// restart stops the server and starts the next one on the same storage and the same sandboxes.
func (fx *fixture) restart() {
	fx.t.Helper()
	fx.stop()
	fx.make()
	if err := fx.svc.Recover(fx.t.Context()); err != nil {
		fx.t.Fatalf("Recover: %v", err)
	}
	fx.run()
}

// set gives the project these checks.
func (fx *fixture) set(list ...workspaces.Check) {
	fx.project(func(p *workspaces.Project) { p.Checks = list })
}

func check(id string, required bool) workspaces.Check {
	return workspaces.Check{ID: id, Name: "Check " + id, Command: "run " + id, Required: required}
}

// begin starts checks and waits until everything waits for commands.
func (fx *fixture) begin(workspaceID string, ids ...string) {
	fx.t.Helper()
	if err := fx.svc.Start(fx.t.Context(), "ada", workspaceID, ids); err != nil {
		fx.t.Fatalf("Start: %v", err)
	}
	synctest.Wait()
}

// end ends the command of a check; fn says how.
func (fx *fixture) end(checkID string, fn func(c *command.Command)) {
	fx.t.Helper()
	ids := fx.open("run " + checkID)
	if len(ids) != 1 {
		fx.t.Fatalf("%d commands run for the check %s", len(ids), checkID)
	}
	fx.do(func() {
		r := fx.commands[ids[0]]
		r.Stdout = []byte("printed by " + checkID)
		fn(&r.Command)
		close(r.done)
	})
	synctest.Wait()
}

func exit(code int) func(*command.Command) {
	return func(c *command.Command) { c.State, c.ExitCode = command.Completed, &code }
}

// newest is the newest run of a check on the workspace's own files.
func (fx *fixture) newest(workspaceID, checkID string) checks.Run {
	fx.t.Helper()
	list, err := fx.store.CheckRuns(fx.t.Context(), workspaceID, 1000)
	if err != nil {
		fx.t.Fatal(err)
	}
	for _, r := range list {
		if r.CheckID == checkID && r.QueueID == "" {
			r, err := fx.svc.Get(fx.t.Context(), r.ID)
			if err != nil {
				fx.t.Fatal(err)
			}
			return r
		}
	}
	fx.t.Fatalf("the check %s never ran in %s", checkID, workspaceID)
	return checks.Run{}
}

// standing is the state of the workspace's checks as its page shows it.
func (fx *fixture) standing(workspaceID string) checks.State {
	fx.t.Helper()
	o, err := fx.svc.Overview(fx.t.Context(), workspaceID)
	if err != nil {
		fx.t.Fatalf("Overview: %v", err)
	}
	return o.State
}

// change changes a workspace's files, and stores a snapshot of them.
func (fx *fixture) change(workspaceID, tree string) {
	fx.do(func() {
		f := fx.files[workspaceID]
		f.Tree, f.Clean = tree, false
		fx.files[workspaceID] = f
	})
	fx.store.mu.Lock()
	defer fx.store.mu.Unlock()
	fx.store.now[workspaceID] = checks.Now{Tree: tree}
}

// enqueue adds a workspace to the queue and waits until everything waits for commands.
func (fx *fixture) enqueue(workspaceID string) checks.Entry {
	fx.t.Helper()
	e, err := fx.svc.Enqueue(fx.t.Context(), fx.members["ada"], workspaceID, checks.EnqueueRequest{})
	if err != nil {
		fx.t.Fatalf("Enqueue: %v", err)
	}
	synctest.Wait()
	return e
}

// entry is the newest entry of a workspace.
func (fx *fixture) entry(workspaceID string) *checks.Listed {
	fx.t.Helper()
	e, err := fx.svc.Newest(fx.t.Context(), workspaceID)
	if err != nil || e == nil {
		fx.t.Fatalf("Newest: %v, %v", e, err)
	}
	return e
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Errorf("%v (code %q), want the code %q", err, fault.CodeOf(err), code)
	}
}

var errBroken = errors.New("the disk is gone")
