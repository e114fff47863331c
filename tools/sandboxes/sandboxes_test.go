package sandboxes_test

import (
	"cmp"
	"context"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/images"
	"github.com/parawork/parawork/executors/network"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/tools/sandboxes"
	"github.com/parawork/parawork/workspaces"
)

// world has workspaces that are ready at once, and a clock that is injected and does not advance by itself.
type world struct {
	*sandboxes.Service
	db   *store.DB
	team string
	ann  accounts.Actor

	mu         sync.Mutex
	now        time.Time
	workspaces map[string]workspaces.Workspace
	starting   func(context.Context) error // what starting a sandbox does; nil = nothing
	ended      map[string]bool             // sessions
	removing   func(workspaceID string)    // what removing a workspace waits for; nil = nothing
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db := storetest.SQLite(t)
	user, team := storetest.Seed(t, db)
	w := &world{team: team.ID, ann: accounts.Actor{User: user}, now: time.Unix(1000, 0), workspaces: map[string]workspaces.Workspace{}, ended: map[string]bool{}}
	w.db = db
	w.Service = w.server()
	return w
}

// server returns one of the instance's servers.
func (w *world) server() *sandboxes.Service {
	return sandboxes.New(sandboxes.Config{Store: toolstore.NewSandboxes(w.db), Workspaces: w, Places: w, Sessions: w, Rules: w, Now: w.clock,
		Actor: func(context.Context, string) (accounts.Actor, error) { return w.ann, nil }})
}

// Executor knows docker, which does everything, and local, which does nothing.
func (w *world) Executor(_ context.Context, _, _ string, asked executors.Kind) (sandboxes.Executor, error) {
	does := asked != "local"
	return sandboxes.Executor{Kind: cmp.Or(asked, "docker"), Images: does, Network: does}, nil
}

func (w *world) Image(_ context.Context, _, name string) (images.Choice, error) {
	if name == "secret" {
		return images.Choice{}, fault.New(fault.Forbidden, "image_not_allowed", "no")
	}
	return images.Choice{Name: name, Public: "sha256:" + name}, nil
}

func (w *world) Network(_ context.Context, _, _ string, p network.Policy) (network.Policy, error) {
	if p.Mode == executors.NetworkOpen {
		return network.Policy{}, nil
	}
	return p, nil
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) Workspace(_ context.Context, id string) (workspaces.Workspace, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, ok := w.workspaces[id]
	if !ok {
		return v, fault.New(fault.NotFound, "not_found", "none")
	}
	return v, nil
}

func (w *world) set(v workspaces.Workspace) (workspaces.Workspace, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.workspaces[v.ID] = v
	return v, nil
}

func (w *world) Create(_ context.Context, _ accounts.Actor, _ string, n workspaces.NewWorkspace) (workspaces.Workspace, error) {
	return w.set(workspaces.Workspace{ID: n.ID, State: workspaces.Ready})
}

func (w *world) RetryCreate(_ context.Context, id string) (workspaces.Workspace, error) {
	return w.set(workspaces.Workspace{ID: id, State: workspaces.Ready})
}

func (w *world) Delete(_ context.Context, _ accounts.Actor, id string) (workspaces.Workspace, error) {
	if w.removing != nil {
		w.removing(id)
	}
	return w.set(workspaces.Workspace{ID: id, State: workspaces.Ready, DeletedAt: 1})
}

func (w *world) Purge(_ context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.workspaces, id)
	return nil
}

func (w *world) Sandboxes(context.Context, string, string) (workspaces.Project, error) {
	return workspaces.Project{ID: "p", DefaultBranch: "main"}, nil
}

func (w *world) EnsureFor(ctx context.Context, _ string, _ executors.Purpose, _ string) (*executors.Place, error) {
	w.mu.Lock()
	starting := w.starting
	w.mu.Unlock()
	if starting != nil {
		return nil, starting(ctx)
	}
	return nil, nil
}

func (w *world) Live(string) (*executors.Place, bool)         { return nil, false }
func (w *world) Check(context.Context, string) error          { return nil }
func (w *world) Running(context.Context, string) (int, error) { return 0, nil }
func (w *world) Ended(_ context.Context, _, id string) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended[id], nil
}

func (w *world) left() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.workspaces)
}

func (w *world) obtain(t *testing.T, a accounts.Actor, r sandboxes.Request) (sandboxes.Sandbox, bool) {
	t.Helper()
	if r.Purpose == "" {
		r.Purpose = executors.ForExecution
	}
	sb, made, err := w.Obtain(t.Context(), a, w.team, r)
	if err != nil {
		t.Fatal(err)
	}
	return sb, made
}

func TestAKeyFindsTheUsersSandboxAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	talk := sandboxes.Request{Key: "talk"}
	first, made := w.obtain(t, w.ann, talk)
	if again, madeAgain := w.obtain(t, w.ann, talk); !made || madeAgain || again.ID != first.ID {
		t.Errorf("%s (made: %v), then %s (made: %v)", first.ID, made, again.ID, madeAgain)
	}
	others := map[string]bool{first.ID: true}
	for _, ask := range []struct {
		actor accounts.Actor
		sandboxes.Request
	}{{accounts.Actor{User: accounts.User{ID: "usr_eve"}}, talk}, {w.ann, sandboxes.Request{Key: "talk", Purpose: executors.ForApp}}, {w.ann, sandboxes.Request{}}, {w.ann, sandboxes.Request{}}} {
		sb, made := w.obtain(t, ask.actor, ask.Request)
		if !made || others[sb.ID] {
			t.Errorf("another user, purpose or no key found %s", sb.ID)
		}
		others[sb.ID] = true
	}
	app, _ := w.obtain(t, w.ann, sandboxes.Request{Key: "other"})
	if _, err := w.SetKey(t.Context(), app.ID, "talk"); fault.CodeOf(err) != "sandbox_key_taken" {
		t.Errorf("a key that is taken: %v", err)
	}
}

func TestRequestsAtOnceWithOneKeyGetOneSandbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var all sync.WaitGroup
	var ids sync.Map
	for range 8 {
		all.Go(func() {
			sb, _, err := w.Obtain(t.Context(), w.ann, w.team, sandboxes.Request{Key: "k", Purpose: executors.ForApp})
			if err != nil {
				t.Error(err)
			}
			ids.Store(sb.ID, true)
		})
	}
	all.Wait()
	n := 0
	ids.Range(func(any, any) bool { n++; return true })
	if n != 1 || w.left() != 1 {
		t.Errorf("%d sandboxes, %d workspaces", n, w.left())
	}
}

func TestAUserHasAtMostSoManySandboxes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range sandboxes.MaxOpen - 2 {
		w.obtain(t, w.ann, sandboxes.Request{})
	}
	var all sync.WaitGroup
	servers := []*sandboxes.Service{w.Service, w.server()}
	for i := range 8 {
		all.Go(func() {
			if _, _, err := servers[i%2].Obtain(t.Context(), w.ann, w.team, sandboxes.Request{Purpose: executors.ForApp}); err != nil && fault.CodeOf(err) != "sandbox_limit" {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if _, _, err := w.Obtain(t.Context(), accounts.Actor{User: accounts.User{ID: "usr_eve"}}, w.team, sandboxes.Request{Purpose: executors.ForApp, Most: 1}); err != nil {
		t.Error(err)
	}
	if _, _, err := w.Obtain(t.Context(), accounts.Actor{User: accounts.User{ID: "usr_eve"}}, w.team, sandboxes.Request{Purpose: executors.ForApp, Most: 1}); fault.CodeOf(err) != "sandbox_limit" {
		t.Errorf("one more than the request allows: %v", err)
	}
	if w.left() != sandboxes.MaxOpen+1 {
		t.Errorf("%d sandboxes after requests at once, want %d", w.left(), sandboxes.MaxOpen+1)
	}
}

func TestASandboxEndsWhenItWasIdle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sb, _ := w.obtain(t, w.ann, sandboxes.Request{Key: "k", Idle: 10 * time.Second})
	w.pass(9 * time.Second)
	request, answered := context.WithCancel(t.Context())
	if _, err := w.Use(request, sb.ID); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Minute)
	w.Expire(t.Context())
	if _, err := w.Get(t.Context(), sb.ID); err != nil {
		t.Fatalf("it ended while a request used it: %v", err)
	}
	answered()
	w.pass(9 * time.Second)
	w.Expire(t.Context())
	if _, err := w.Get(t.Context(), sb.ID); err != nil {
		t.Fatalf("it ended too early: %v", err)
	}
	w.pass(time.Second)
	// The request's end is noticed by a goroutine, so the first look may be too early.
	for w.left() > 0 && t.Context().Err() == nil {
		w.Expire(t.Context())
		w.pass(10 * time.Second)
	}
	if _, err := w.Get(t.Context(), sb.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("it did not end: %v", err)
	}
	if again, made := w.obtain(t, w.ann, sandboxes.Request{Key: "k"}); !made || again.ID == sb.ID {
		t.Errorf("the key of one that ended: %+v", again)
	}
}

// A key finds a sandbox that is as asked for. Another one is replaced on request only, and only by one that may be made.
func TestAnImageAndANetworkOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ask := func(r sandboxes.Request) (sandboxes.Sandbox, error) {
		r.Key, r.Purpose = "k", executors.ForExecution
		sb, _, err := w.Obtain(t.Context(), w.ann, w.team, r)
		return sb, err
	}
	none, open := &network.Policy{Mode: executors.NetworkNone}, &network.Policy{Mode: executors.NetworkOpen}
	list := &network.Policy{Mode: executors.NetworkAllow, Allow: []string{"a.test"}}
	for code, r := range map[string]sandboxes.Request{"sandbox_image_unsupported": {Executor: "local", Image: "python:3"}, "sandbox_network_unsupported": {Executor: "local", Network: none}, "image_not_allowed": {Image: "secret"}} {
		if _, err := ask(r); fault.CodeOf(err) != code {
			t.Errorf("%+v: %v", r, err)
		}
	}
	first, err := ask(sandboxes.Request{Image: " python:3 ", Network: list})
	if err != nil || first.Executor != "docker" || !reflect.DeepEqual(first.Image, images.Choice{Name: "python:3", Public: "sha256:python:3"}) {
		t.Fatalf("%+v, %v", first, err)
	}
	for _, r := range []sandboxes.Request{{}, {Image: "python:3"}, {Network: list}} {
		if sb, err := ask(r); err != nil || sb.ID != first.ID || sb.Network.Mode != executors.NetworkAllow {
			t.Errorf("%+v found %+v, %v", r, sb, err)
		}
	}
	for _, r := range []sandboxes.Request{{Image: "python:4"}, {Network: none}, {Network: open}, {Network: &network.Policy{Mode: executors.NetworkAllow}}} {
		if _, err := ask(r); fault.CodeOf(err) != "sandbox_differs" {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if _, err := ask(sandboxes.Request{Image: "secret", Replace: true}); fault.CodeOf(err) != "image_not_allowed" {
		t.Errorf("a replacement that may not be made: %v", err)
	}
	if sb, err := ask(sandboxes.Request{Image: "python:3", Replace: true}); err != nil || sb.ID != first.ID {
		t.Errorf("nothing to replace: %+v, %v", sb, err)
	}
	other, err := ask(sandboxes.Request{Image: "python:4", Network: open, Replace: true})
	if err != nil || other.ID == first.ID || other.Image.Name != "python:4" || other.Network.Mode != "" || w.left() != 1 {
		t.Errorf("replaced: %+v, %v, %d workspaces", other, err, w.left())
	}
}

// A place that does not answer, such as a member's own machine, delays the end of its team's sandboxes alone.
func TestASlowPlaceDelaysNoOtherTeam(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if ok, err := store.NewAccounts(w.db).InsertTeam(t.Context(), accounts.Team{ID: "team_other", Slug: "other", Name: "Other"}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	slow := map[string]bool{}
	for range 20 {
		sb, _ := w.obtain(t, w.ann, sandboxes.Request{Idle: 10 * time.Second})
		slow[sb.WorkspaceID] = true
	}
	other, _, err := w.Obtain(t.Context(), w.ann, "team_other", sandboxes.Request{Purpose: executors.ForApp, Idle: 11 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	removed, answers := make(chan struct{}), make(chan struct{})
	w.removing = func(id string) {
		if id == other.WorkspaceID {
			close(removed)
		}
		if slow[id] {
			<-answers
		}
	}
	w.pass(time.Minute)
	var all sync.WaitGroup
	all.Go(func() { w.Expire(t.Context()) })
	select {
	case <-removed:
	case <-time.After(30 * time.Second):
		t.Error("another team's sandbox does not end")
	}
	close(answers)
	all.Wait()
	for w.left() > 0 && t.Context().Err() == nil {
		w.Expire(t.Context())
	}
}

func TestASandboxEndsWithItsSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.obtain(t, w.ann, sandboxes.Request{SessionID: "ses_1"})
	w.Expire(t.Context())
	if w.left() != 1 {
		t.Fatal("it ended before its session")
	}
	w.mu.Lock()
	w.ended["ses_1"] = true
	w.mu.Unlock()
	if w.Expire(t.Context()); w.left() != 0 {
		t.Error("it did not end with its session")
	}
	if _, _, err := w.Obtain(t.Context(), w.ann, w.team, sandboxes.Request{Purpose: executors.ForApp, SessionID: "ses_1"}); fault.CodeOf(err) != "sandbox_session_ended" {
		t.Errorf("a session that has ended: %v", err)
	}
}

// A sandbox with a life ends then, though it is used and extended.
func TestASandboxEndsWithItsLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sb, _ := w.obtain(t, w.ann, sandboxes.Request{Life: time.Minute})
	if _, err := w.Use(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	if sb, err := w.Extend(t.Context(), sb.ID, time.Hour); err != nil || sb.EndsAt != sb.CreatedAt+time.Minute.Milliseconds() {
		t.Errorf("extended to %d of %d: %v", sb.EndsAt, sb.EndsBy, err)
	}
	w.pass(time.Minute)
	if w.Expire(t.Context()); w.left() != 0 {
		t.Error("it did not end")
	}
}

// Neither a slow start nor a workspace that its user deleted leaves a key without a sandbox.
func TestASandboxBeingMadeDoesNotExpire(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.starting = func(ctx context.Context) error { w.pass(time.Hour); w.Expire(ctx); return nil }
	sb, made := w.obtain(t, w.ann, sandboxes.Request{Key: "k", Idle: 10 * time.Second})
	w.starting = nil
	if _, err := w.Delete(t.Context(), w.ann, sb.WorkspaceID); !made || err != nil {
		t.Fatal(made, err)
	}
	if again, made := w.obtain(t, w.ann, sandboxes.Request{Key: "k"}); !made || again.ID == sb.ID || w.left() != 1 {
		t.Errorf("after its workspace was deleted: %+v (made: %v), %d workspaces", again, made, w.left())
	}
}

func TestASandboxThatEndsWhileItIsMadeLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.starting = func(ctx context.Context) error {
		items, _, err := w.List(ctx, w.team, "", page.Page{Limit: 10})
		for _, sb := range items {
			if err := w.End(ctx, sb.ID); err != nil {
				t.Error(err)
			}
		}
		return err
	}
	if _, _, err := w.Obtain(t.Context(), w.ann, w.team, sandboxes.Request{Purpose: executors.ForApp}); !fault.Is(err, fault.NotFound) {
		t.Errorf("a sandbox that was ended while it was made: %v", err)
	}
	if w.Expire(t.Context()); w.left() != 0 {
		t.Error("its workspace is left")
	}
}

// Who asks again after their connection broke finds what they asked for.
func TestASandboxIsFoundAgainByWhoLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, leave := context.WithCancel(t.Context())
	w.starting = func(ctx context.Context) error { leave(); return context.Cause(ctx) }
	if _, _, err := w.Obtain(ctx, w.ann, w.team, sandboxes.Request{Key: "k", Purpose: executors.ForApp}); err == nil {
		t.Error("no error for who left")
	}
	w.starting = nil
	if sb, made := w.obtain(t, w.ann, sandboxes.Request{Key: "k", Purpose: executors.ForApp}); made || sb.ID == "" {
		t.Errorf("%+v, made anew: %v", sb, made)
	}
}
