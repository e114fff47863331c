package triggers_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/automations/jobs"
	"github.com/parawork/parawork/automations/triggers"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/automationstore"
	"github.com/parawork/parawork/store/storetest"
)

// queue is jobs that end when the test says so.
type queue struct {
	mu   sync.Mutex
	jobs []jobs.Job
	cost int64
}

func (q *queue) Create(_ context.Context, a accounts.Actor, team, key string, r jobs.Request) (jobs.Job, bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range q.jobs {
		if j.Key == key {
			return j, false, nil
		}
	}
	j := jobs.Job{ID: fmt.Sprint("job_", len(q.jobs)), TeamID: team, CreatedBy: a.User.ID, Key: key, Request: r, Status: jobs.Queued}
	q.jobs = append(q.jobs, j)
	return j, true, nil
}

func (q *queue) Check(context.Context, accounts.Actor, string, jobs.Request) error { return nil }

func (q *queue) Get(_ context.Context, id string) (jobs.Job, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range q.jobs {
		if j.ID == id {
			return j, nil
		}
	}
	return jobs.Job{}, fault.New(fault.NotFound, "not_found", "There is no such job.")
}

func (q *queue) Cancel(_ context.Context, id, _ string) (jobs.Job, error) {
	q.end(id, jobs.Cancelled)
	return jobs.Job{}, nil
}

func (q *queue) Spent(context.Context, jobs.Job) *int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.cost
	return &n
}

// end ends a job; "" = all.
func (q *queue) end(id string, with jobs.Status) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.jobs {
		if (id == "" || q.jobs[i].ID == id) && !q.jobs[i].Status.Ended() {
			q.jobs[i].Status = with
		}
	}
}

func (q *queue) asked() (out []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range q.jobs {
		out = append(out, j.Request.Prompt)
	}
	return out
}

// safe keeps secrets as they are.
type safe map[string]string

func (s safe) KeepTeamSecret(_ context.Context, _, name, value, _ string) (string, error) {
	s[name] = value
	return name, nil
}

func (s safe) TeamSecret(_ context.Context, id, _, _ string) (string, error) { return s[id], nil }

func (s safe) DropTeamSecret(context.Context, string, string) error { return nil }

type harness struct {
	t     *testing.T
	db    *store.DB
	s     *triggers.Service
	jobs  *queue
	actor accounts.Actor
	team  string
	ctx   context.Context
	later atomic.Int64 // ms by which the clock is ahead
}

func (h *harness) now() time.Time {
	return time.Now().Add(time.Duration(h.later.Load()) * time.Millisecond)
}

// until waits for what others do.
func (h *harness) until(what string, ok func() bool) {
	h.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatalf("never: %s", what)
		}
	}
}

func newHarness(t *testing.T, db *store.DB) *harness {
	user, team := storetest.Seed(t, db)
	h := &harness{t: t, db: db, jobs: &queue{}, team: team.ID, actor: accounts.Actor{User: user, Memberships: []accounts.Membership{{Team: team, Role: accounts.Member}}}, ctx: tenant.All(t.Context(), "a test")}
	h.s = triggers.New(triggers.Config{Store: automationstore.New(db), Jobs: h.jobs, Secrets: safe{}, Events: events.New(), Now: h.now, Look: 5 * time.Millisecond,
		Actor: func(context.Context, string) (accounts.Actor, error) { return h.actor, nil }})
	return h
}

// runs starts acting for automations; end ends it.
func (h *harness) runs() (end func()) {
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = h.s.Run(ctx) }()
	return func() { cancel(); <-done }
}

func (h *harness) make(trigger triggers.Trigger, limits triggers.Limits) (triggers.Automation, string) {
	h.t.Helper()
	a, secret, err := h.s.Create(h.ctx, h.actor, h.team, triggers.Automation{Name: "Nightly", Trigger: trigger, Limits: limits, Work: jobs.Request{Prompt: "Do {{event.n}}", Agent: "claude-code"}})
	if err != nil {
		h.t.Fatal(err)
	}
	return a, secret
}

func (h *harness) report(a triggers.Automation, secret, body string) (triggers.Run, bool) {
	h.t.Helper()
	r, made, err := h.s.Report(h.t.Context(), a.ID, http.Header{"Parawork-Signature": {sign(secret, []byte(body))}}, []byte(body))
	if err != nil {
		h.t.Fatal(err)
	}
	return r, made
}

func (h *harness) all(a triggers.Automation) []triggers.Run {
	h.t.Helper()
	all, _, err := h.s.Runs(h.ctx, a.ID, page.Page{Limit: 100})
	if err != nil {
		h.t.Fatal(err)
	}
	return all
}

// ended waits until an automation has so many runs, all of them ended.
func (h *harness) ended(a triggers.Automation, n int) []triggers.Run {
	h.t.Helper()
	var all []triggers.Run
	h.until(fmt.Sprint(n, " runs have ended"), func() bool {
		all = h.all(a)
		done := 0
		for _, r := range all {
			if r.State.Ended() {
				done++
			}
		}
		return done == n
	})
	return all
}

// A thousand events, some of them reported twice, become the run that goes on and one after it.
func TestABurstOfEventsFolds(t *testing.T) {
	h := newHarness(t, storetest.SQLite(t))
	a, secret := h.make(triggers.Trigger{Kind: triggers.Webhook}, triggers.Limits{})
	if _, _, err := h.s.Report(t.Context(), a.ID, http.Header{"Parawork-Signature": {sign("wrong", []byte("{}"))}}, []byte("{}")); !fault.Is(err, fault.NotFound) {
		t.Errorf("a wrong signature: %v", err)
	}
	defer h.runs()()
	h.report(a, secret, `{"n": 0}`)
	h.until("the first one is asked for", func() bool { return len(h.jobs.asked()) == 1 && h.all(a)[0].State == triggers.Running })
	for n := 1; n < 1000; n++ {
		h.report(a, secret, fmt.Sprintf(`{"n": %d}`, n))
		if n%100 == 0 {
			if _, made := h.report(a, secret, fmt.Sprintf(`{"n": %d}`, n)); made {
				t.Error("an event that was reported twice counts twice")
			}
		}
	}
	h.jobs.end("", jobs.Completed)
	h.until("the next one is asked for", func() bool { return len(h.jobs.asked()) == 2 })
	h.jobs.end("", jobs.Completed)
	all := h.ended(a, 2)
	equal(t, "asked for", h.jobs.asked(), "Do 0", "Do 999")
	if len(all) != 2 || all[0].Folded != 998 || all[0].State != triggers.Completed || all[1].State != triggers.Completed {
		t.Errorf("%+v", all)
	}
}

func TestTimesThatWereMissed(t *testing.T) {
	for _, missed := range []triggers.Missed{triggers.Skip, triggers.RunOnce} {
		h := newHarness(t, storetest.SQLite(t))
		a, _ := h.make(triggers.Trigger{Kind: triggers.Schedule, Cron: "0 * * * *", Missed: missed}, triggers.Limits{})
		h.later.Store((3*time.Hour + 30*time.Minute).Milliseconds()) // the server was down
		end := h.runs()
		h.until("it was noticed", func() bool { return len(h.all(a)) == 1 })
		h.jobs.end("", jobs.Completed)
		end()
		if all := h.all(a); len(all) != 1 || all[0].Cause != "missed" || (all[0].State == triggers.Skipped) != (missed == triggers.Skip) {
			t.Errorf("%s: %+v", missed, all)
		}
		if got, _ := h.s.Get(h.ctx, a.ID); got.NextAt <= h.now().UnixMilli() || got.NextAt > h.now().Add(time.Hour).UnixMilli() {
			t.Errorf("%s: next at %v", missed, time.UnixMilli(got.NextAt))
		}
	}
}

func TestBudgetsAndFailuresStopAnAutomation(t *testing.T) { storetest.Each(t, budgetsAndFailures) }

func budgetsAndFailures(t *testing.T, db *store.DB) {
	h := newHarness(t, db)
	a, _ := h.make(triggers.Trigger{Kind: triggers.Manual}, triggers.Limits{RunNano: 50, MonthNano: 60})
	b, _ := h.make(triggers.Trigger{Kind: triggers.Manual}, triggers.Limits{})
	defer h.runs()()
	start := func(a triggers.Automation, key string) triggers.Run {
		t.Helper()
		r, _, err := h.s.Start(h.ctx, a.ID, key, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := start(a, "k")
	if again := start(a, "k"); again.ID != first.ID {
		t.Error("a key started two runs")
	}
	h.jobs.mu.Lock()
	h.jobs.cost = 70
	h.jobs.mu.Unlock()
	h.ended(a, 1)
	start(a, "l")
	if all := h.ended(a, 2); all[1].State != triggers.Failed || *all[1].CostNano != 70 || all[0].State != triggers.Skipped || all[0].Code != "automation_budget_spent" {
		t.Errorf("%+v", all)
	}
	for n := range 5 {
		start(b, fmt.Sprint(n))
		h.until("it fails", func() bool {
			h.jobs.end("", jobs.Failed)
			return len(h.all(b)) == n+1 && h.all(b)[0].State == triggers.Failed
		})
	}
	if got, _ := h.s.Get(h.ctx, b.ID); !got.Paused || got.Because == "" {
		t.Errorf("after five failures: %+v", got)
	}
	x, err := h.s.Health(h.ctx, a.ID)
	if err != nil || x.MonthNano != 70 || x.Runs != 1 || x.Failed != 1 || x.Last == nil || x.Last.State != triggers.Skipped {
		t.Errorf("%+v, %v", x, err)
	}
	if _, err := automationstore.New(h.db).RunOfBranch(h.ctx, "prj_none", "main"); !fault.Is(err, fault.NotFound) {
		t.Errorf("the run of an unknown branch: %v", err)
	}
	if err := automationstore.New(h.db).ForgetRuns(h.ctx, h.now().Add(time.Hour).UnixMilli(), 0); err != nil || len(h.all(b)) != 0 {
		t.Errorf("runs that are old: %v", err)
	}
}

// A server that dies after it has asked for a job, and before it has noted that, asks for none again.
func TestARunIsAskedForOnce(t *testing.T) {
	h := newHarness(t, storetest.SQLite(t))
	a, _ := h.make(triggers.Trigger{Kind: triggers.Manual}, triggers.Limits{})
	r, _, err := h.s.Start(h.ctx, a.ID, "", map[string]string{"n": "it"})
	if err != nil {
		t.Fatal(err)
	}
	running := func() bool { return h.all(a)[0].State == triggers.Running }
	end := h.runs()
	h.until("it runs", running)
	end()
	if _, err := automationstore.New(h.db).EditRun(h.ctx, r.ID, func(r *triggers.Run) error { r.State, r.JobIDs, r.StartedAt = triggers.Waiting, nil, 0; return nil }); err != nil {
		t.Fatal(err)
	}
	end = h.runs()
	h.until("it runs again", running)
	end()
	equal(t, "asked for", h.jobs.asked(), "Do it")
}

// An automation whose owner has left the team starts nothing more, and one that is removed has its run cancelled.
func TestTheOwnerLeftAndTheAutomationWasRemoved(t *testing.T) {
	h := newHarness(t, storetest.SQLite(t))
	a, _ := h.make(triggers.Trigger{Kind: triggers.Manual}, triggers.Limits{})
	b, _ := h.make(triggers.Trigger{Kind: triggers.Manual}, triggers.Limits{})
	start := func(a triggers.Automation) {
		if _, _, err := h.s.Start(h.ctx, a.ID, "", nil); err != nil {
			t.Fatal(err)
		}
	}
	start(b)
	end := h.runs()
	h.until("it runs", func() bool { return h.all(b)[0].State == triggers.Running })
	if err := h.s.Delete(h.ctx, b.ID); err != nil {
		t.Fatal(err)
	}
	if all := h.ended(b, 1); all[0].State != triggers.Failed {
		t.Errorf("removed: %+v", all)
	}
	end()
	h.actor.Memberships = nil
	start(a)
	defer h.runs()()
	if all := h.ended(a, 1); all[0].Code != "automation_owner_left" {
		t.Errorf("%+v", all)
	}
	if got, _ := h.s.Get(h.ctx, a.ID); !got.Paused || got.Because == "" {
		t.Errorf("%+v", got)
	}
}
