package quota_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

// post is a guard's post: the ledger, the quotas and the enforcer over one database, sandboxes that are pretended, and a clock that stands
// still until it is put forward.
type post struct {
	t     *testing.T
	ctx   context.Context
	db    *store.DB
	team  string
	user  string
	l     *billing.Ledger
	q     *quota.Service
	e     *quota.Enforcer
	kept  *store.Enforce
	at    int64
	price int64 // of what runs, nano-USD an hour
	kind  executors.Kind

	mu         sync.Mutex
	boxes      map[string]*box // by workspace
	noPause    bool
	refuse     error // of the next Hold
	noWake     error
	holds      []string
	passed     []quota.Crossing
	notes      []string
	turned     []quota.GraceState
	notifyFail error
}

type box struct {
	id     string
	user   string
	paused bool
}

const dollar = billing.Nano

func newPost(t *testing.T, db *store.DB) *post {
	t.Helper()
	u, team := storetest.Seed(t, db)
	p := &post{kind: "e2b", t: t, ctx: t.Context(), db: db, team: team.ID, user: u.ID, price: 6 * dollar, boxes: make(map[string]*box), kept: store.NewEnforce(db),
		at: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).UnixMilli()}
	p.restart()
	return p
}

// restart makes the services of a new server on the stored data.
func (p *post) restart() {
	p.t.Helper()
	now := func() time.Time { return time.UnixMilli(p.at) }
	p.l = billing.New(billing.Config{Store: store.NewBilling(p.db), Clock: billing.NewClock(now, func() time.Duration { return time.Duration(p.at) * time.Millisecond })})
	p.do(p.l.Recover(p.ctx))
	p.q = quota.New(quota.Config{Store: store.NewQuota(p.db), Now: p.l.Now, OnServer: []string{"bubblewrap", "docker"}, GraceSeconds: 300})
	p.e = quota.NewEnforcer(quota.EnforcerConfig{Store: p.kept, Standings: p.q, Places: p, Notifier: p, Now: p.l.Now, OnServer: []string{"bubblewrap", "docker"}})
	p.q.OnChanged(p.e.Changed)
	p.do(p.e.Recover(p.ctx))
}

func (p *post) do(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *post) interval(ws string, b *box) executors.UsageInterval {
	return executors.UsageInterval{SandboxID: b.id, TeamID: p.team, WorkspaceID: ws, UserID: b.user, Kind: p.kind, Purpose: "agent", CPUs: 2, MemoryMB: 2048, PriceNano: p.price, Metered: true}
}

// start has a sandbox run in a workspace.
func (p *post) start(ws string) *box {
	p.t.Helper()
	b := &box{id: "sbx_" + ws, user: p.user}
	p.boxes[ws] = b
	p.run(ws, b)
	return b
}

func (p *post) run(ws string, b *box) {
	p.t.Helper()
	p.do(p.l.Began(p.ctx, p.interval(ws, b)))
}

// end ends a workspace's sandbox, as a person does.
func (p *post) end(ws string) {
	p.t.Helper()
	b := p.boxes[ws]
	delete(p.boxes, ws)
	p.do(p.l.Stopped(p.ctx, p.interval(ws, b), 0, executors.ByServer))
}

// pass lets time pass, with the heartbeats and looks there are in it.
func (p *post) pass(d time.Duration) {
	p.t.Helper()
	for until := p.at + d.Milliseconds(); p.at < until; {
		p.at = min(p.at+15_000, until)
		p.look()
	}
}

// look has everything looked at once.
func (p *post) look() {
	p.t.Helper()
	p.mu.Lock()
	var ids []string
	for _, b := range p.boxes {
		if !b.paused {
			ids = append(ids, b.id)
		}
	}
	p.mu.Unlock()
	p.do(p.l.Beat(p.ctx, ids))
	p.e.Beat(p.ctx)
	p.e.Settle()
}

func (p *post) budget(fn func(b *quota.Budget)) {
	p.t.Helper()
	_, err := p.q.ChangeBudget(p.ctx, p.team, p.user, fn)
	p.do(err)
}

func (p *post) state(ws string) quota.GraceState {
	g, ok := p.e.Grace(ws)
	if !ok {
		return ""
	}
	return g.State
}

func (p *post) want(ws string, s quota.GraceState) {
	p.t.Helper()
	if got := p.state(ws); got != s {
		p.t.Fatalf("the grace of %s is %q, want %q", ws, got, s)
	}
}

// What follows are the sandboxes and the people.

func (p *post) Hold(ctx context.Context, ws, sandboxID, reason string) (bool, error) {
	p.mu.Lock()
	b, err, noPause := p.boxes[ws], p.refuse, p.noPause
	p.refuse = nil
	p.mu.Unlock()
	switch {
	case err != nil:
		return false, err
	case b == nil || b.id != sandboxID:
		return false, quota.ErrReplaced
	}
	if err := p.l.Stopped(ctx, p.interval(ws, b), 0, executors.ByServer); err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds = append(p.holds, ws+": "+reason)
	if noPause {
		delete(p.boxes, ws)
		return false, nil
	}
	b.paused = true
	return true, nil
}

func (p *post) Paused(ws string) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.boxes[ws]
	return "", b != nil && b.paused
}

func (p *post) Wake(ctx context.Context, ws string) error {
	p.mu.Lock()
	b, err := p.boxes[ws], p.noWake
	p.mu.Unlock()
	if err != nil || b == nil || !b.paused {
		return err
	}
	p.mu.Lock()
	b.paused = false
	p.mu.Unlock()
	p.run(ws, b)
	return nil
}

func (p *post) Passed(_ context.Context, a quota.Crossing, _ quota.Notify) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.notifyFail != nil {
		return p.notifyFail
	}
	p.passed = append(p.passed, a)
	return nil
}

func (p *post) Alerted(context.Context, quota.Crossing) {}

func (p *post) Turned(_ context.Context, g quota.WorkGrace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turned = append(p.turned, g.State)
}

func (p *post) Note(_ context.Context, _ quota.WorkGrace, words string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if words != "" {
		p.notes = append(p.notes, words)
	}
	return nil
}

// reported returns the thresholds that people were notified of.
func (p *post) reported(scope string) (out []int) {
	for _, a := range p.passed {
		if a.Scope == scope {
			out = append(out, a.Percent)
		}
	}
	return out
}

func posts(t *testing.T, fn func(t *testing.T, p *post)) {
	t.Helper()
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) { fn(t, newPost(t, db)) })
}

func TestABudgetWarnsGivesAGraceStopsAndGoesOn(t *testing.T) {
	posts(t, func(t *testing.T, p *post) {
		p.budget(func(b *quota.Budget) { b.LimitNano = new(int64(1 * dollar)) })
		p.start("ws_1") // $6 an hour: ten minutes
		p.pass(7 * time.Minute)
		if got := p.reported("team_budget"); len(got) != 0 {
			t.Fatalf("told at 70 %%: %v", got)
		}
		p.pass(3*time.Minute - time.Second)
		if got := p.reported("team_budget"); !slices.Equal(got, []int{80, 90}) {
			t.Fatalf("told before it is spent: %v", got)
		}
		p.want("ws_1", "")
		p.pass(2 * time.Second)
		p.want("ws_1", quota.GraceCounting)
		g, _ := p.e.Grace("ws_1")
		if g.EndsAt-g.BeganAt != 300_000 || g.Scope != quota.ScopeTeamBudget || !strings.Contains(g.Reason, "budget of $1.00 is spent") {
			t.Fatalf("%+v", g)
		}
		// Somebody who begins meanwhile has a grace of their own.
		p.start("ws_2")
		p.pass(5 * time.Minute)
		p.want("ws_1", quota.GraceStopped)
		p.pass(time.Minute)
		p.want("ws_2", quota.GraceStopped)
		if got := p.reported("team_budget"); !slices.Equal(got, []int{80, 90, 100}) {
			t.Fatalf("told: %v", got)
		}
		if len(p.holds) != 2 || !strings.Contains(p.holds[0], "ws_1: The team's budget of $1.00 is spent in November. The sandbox is paused with everything in it.") {
			t.Fatalf("held: %q", p.holds)
		}
		spent, err := p.q.TeamStanding(p.ctx, p.team)
		p.do(err)
		// Nothing is spent while all sandboxes are suspended, and they stay suspended.
		p.pass(time.Hour)
		if again, err := p.q.TeamStanding(p.ctx, p.team); err != nil || again.SpentNano != spent.SpentNano || p.state("ws_1") != quota.GraceStopped {
			t.Fatalf("%d, then %d: %v", spent.SpentNano, again.SpentNano, err)
		}
		// A raise has both go on, at once, and re-arms what it put out of reach.
		p.budget(func(b *quota.Budget) { b.LimitNano = new(int64(100 * dollar)) })
		p.look()
		p.look()
		if p.state("ws_1") != "" || p.state("ws_2") != "" || p.boxes["ws_1"].paused || p.boxes["ws_2"].paused {
			t.Fatalf("after the raise: %v %v", p.state("ws_1"), p.state("ws_2"))
		}
		p.budget(func(b *quota.Budget) { b.LimitNano = new(spent.SpentNano + 1) })
		p.pass(15 * time.Second)
		if got := p.reported("team_budget"); !slices.Equal(got, []int{80, 90, 100, 100}) {
			t.Fatalf("told after the raise: %v", got)
		}
	})
}

func TestARaiseWithinTheGraceLiftsIt(t *testing.T) {
	posts(t, func(t *testing.T, p *post) {
		p.budget(func(b *quota.Budget) { b.LimitNano = new(int64(dollar / 10)) })
		p.start("ws_1")
		p.pass(2 * time.Minute)
		p.want("ws_1", quota.GraceCounting)
		p.budget(func(b *quota.Budget) { b.LimitNano = nil })
		p.look()
		p.want("ws_1", "")
		if p.boxes["ws_1"].paused || len(p.holds) != 0 {
			t.Error("it was suspended")
		}
		// One whose people end it themselves has none either.
		p.budget(func(b *quota.Budget) { b.LimitNano = new(int64(dollar / 10)) })
		p.look()
		p.want("ws_1", quota.GraceCounting)
		p.end("ws_1")
		p.look()
		p.want("ws_1", "")
	})
}

func TestTheNextMonthHasWorkGoOn(t *testing.T) {
	posts(t, func(t *testing.T, p *post) {
		p.at = time.Date(2026, 11, 30, 23, 40, 0, 0, time.UTC).UnixMilli()
		p.budget(func(b *quota.Budget) { b.LimitNano = new(int64(dollar)) })
		p.start("ws_1")
		p.pass(15*time.Minute + time.Second)
		p.want("ws_1", quota.GraceStopped)
		p.pass(5 * time.Minute)
		p.pass(30 * time.Second)
		if p.state("ws_1") != "" || p.boxes["ws_1"].paused {
			t.Fatalf("in December: %q", p.state("ws_1"))
		}
		// What it costs in December counts in December, and so does the alert.
		p.pass(8*time.Minute + 15*time.Second)
		if got := p.passed[len(p.passed)-1]; got.Period != "2026-12" || got.Percent != 80 {
			t.Errorf("%+v", got)
		}
	})
}

func TestOverageGoesOnUpToItsCap(t *testing.T) {
	posts(t, func(t *testing.T, p *post) {
		p.budget(func(b *quota.Budget) {
			b.LimitNano, b.Overage, b.OverageCapNano = new(int64(dollar)), true, new(int64(dollar))
		})
		p.start("ws_1")
		p.pass(12 * time.Minute)
		p.want("ws_1", "")
		if got := p.reported("team_budget"); !slices.Equal(got, []int{80, 90, 100}) {
			t.Fatalf("of the budget: %v", got)
		}
		p.pass(8*time.Minute + 15*time.Second)
		p.want("ws_1", quota.GraceCounting)
		if g, _ := p.e.Grace("ws_1"); g.Scope != quota.ScopeTeamOverage || !slices.Equal(p.reported("team_overage"), []int{80, 90, 100}) {
			t.Fatalf("%+v, told %v", g, p.reported("team_overage"))
		}
		p.budget(func(b *quota.Budget) { b.OverageCapNano = nil })
		p.look()
		p.want("ws_1", "")
	})
}

func TestHoursEndOneUsersSandboxesOnly(t *testing.T) {
	posts(t, func(t *testing.T, p *post) {
		one := int64(1)
		p.do(p.q.SetUsers(p.ctx, p.team, []quota.UserChange{{UserID: p.user, Set: map[string]*int64{quota.HoursMonth: &one}}}, p.user, true))
		p.price = 0 // metered all the same
		p.start("ws_1")
		p.start("ws_2") // two at once: half an hour
		other := &box{id: "sbx_other", user: "usr_other"}
		p.boxes["ws_o"] = other
		p.run("ws_o", other)
		p.pass(30*time.Minute + 15*time.Second)
		p.want("ws_1", quota.GraceCounting)
		p.want("ws_2", quota.GraceCounting)
		p.want("ws_o", "")
		if got := p.reported("user_hours"); !slices.Equal(got, []int{80, 90, 100}) {
			t.Fatalf("told: %v", got)
		}
		p.pass(5 * time.Minute)
		p.want("ws_1", quota.GraceStopped)
		two := int64(2)
		p.do(p.q.SetUsers(p.ctx, p.team, []quota.UserChange{{UserID: p.user, Set: map[string]*int64{quota.HoursMonth: &two}}}, p.user, true))
		p.look()
		p.look()
		p.want("ws_1", "")
		p.want("ws_2", "")
	})
}

func TestARunLastsAsLongAsItMay(t *testing.T) {
	posts(t, func(t *testing.T, p *post) {
		p.at = time.Date(2026, 11, 30, 23, 30, 0, 0, time.UTC).UnixMilli() // a day and a month begin within it: it is no new run
		p.restart()
		sixty := int64(60)
		p.do(p.q.SetUsers(p.ctx, p.team, []quota.UserChange{{UserID: p.user, Set: map[string]*int64{quota.SessionMinutes: &sixty}}}, p.user, true))
		began := p.at
		p.start("ws_1")
		p.pass(54 * time.Minute)
		p.want("ws_1", "")
		p.pass(75 * time.Second)
		p.want("ws_1", quota.GraceCounting)
		if g, _ := p.e.Grace("ws_1"); g.EndsAt != began+60*60_000 || g.Scope != quota.ScopeSessionMinutes {
			t.Fatalf("%+v, it began at %d", g, began)
		}
		p.pass(5 * time.Minute)
		p.want("ws_1", quota.GraceStopped)
		p.pass(time.Hour)
		p.want("ws_1", quota.GraceStopped) // until a person wakes it
		p.do(p.Wake(p.ctx, "ws_1"))
		p.pass(time.Minute)
		p.want("ws_1", "")
	})
}

func TestTheKillSwitchAndUnpaidBillsStopWork(t *testing.T) {
	posts(t, func(t *testing.T, p *post) {
		p.start("ws_1")
		p.look()
		_, err := p.q.SetKillSwitch(p.ctx, true, false, "A bill nobody understands", p.user)
		p.do(err)
		p.pass(10 * time.Minute)
		p.want("ws_1", "") // what runs goes on unless the operator says otherwise
		_, err = p.q.SetKillSwitch(p.ctx, true, true, "A bill nobody understands", p.user)
		p.do(err)
		p.pass(15 * time.Second)
		p.want("ws_1", quota.GraceCounting)
		p.pass(5 * time.Minute)
		p.want("ws_1", quota.GraceStopped)
		if !strings.Contains(p.holds[0], "A bill nobody understands.") {
			t.Error(p.holds[0])
		}
		_, err = p.q.SetKillSwitch(p.ctx, false, false, "", p.user)
		p.do(err)
		p.look()
		p.look()
		p.want("ws_1", "")
		if _, err := p.db.Exec(p.ctx, `INSERT INTO team_billing (team_id, status, past_due_since, updated_at) VALUES (?, 'past_due', ?, 0)`, p.team, p.at-8*24*3600_000); err != nil {
			t.Fatal(err)
		}
		p.pass(6 * time.Minute)
		p.want("ws_1", quota.GraceStopped)
		if g, _ := p.e.Grace("ws_1"); g.Scope != quota.ScopePastDue {
			t.Errorf("%+v", g)
		}
		if _, err := p.db.Exec(p.ctx, `UPDATE team_billing SET past_due_since = 0 WHERE team_id = ?`, p.team); err != nil {
			t.Fatal(err)
		}
		p.e.Changed(p.team)
		p.look()
		p.look()
		p.want("ws_1", "")
	})
}

func TestWhatCannotPauseIsEndedAndBegunByPeople(t *testing.T) {
	posts(t, func(t *testing.T, p *post) {
		p.noPause = true
		p.budget(func(b *quota.Budget) { b.LimitNano = new(int64(dollar / 10)) })
		p.start("ws_1")
		p.pass(7 * time.Minute)
		p.want("ws_1", quota.GraceEnded)
		p.budget(func(b *quota.Budget) { b.LimitNano = new(int64(10 * dollar)) })
		p.look()
		p.want("ws_1", "")
		if last := p.notes[len(p.notes)-1]; !strings.Contains(last, "resume the session") {
			t.Error(last)
		}
	})
}

// A sandbox that a limit suspended and that runs after a restart, since recovery woke it, is still resumed automatically later.
func TestWhatWasWokenToBeFoundIsNotForgotten(t *testing.T) {
	posts(t, func(t *testing.T, p *post) {
		p.budget(func(b *quota.Budget) { b.LimitNano = new(int64(dollar / 10)) })
		box := p.start("ws_1")
		p.pass(7 * time.Minute)
		p.want("ws_1", quota.GraceStopped)
		p.restart()
		p.run("ws_1", box)
		p.look()
		p.want("ws_1", quota.GraceStopped)
		p.do(p.l.Stopped(p.ctx, p.interval("ws_1", box), 0, executors.ByServer)) // it is suspended again
		p.look()
		p.want("ws_1", quota.GraceStopped)
		p.budget(func(b *quota.Budget) { b.LimitNano = new(int64(10 * dollar)) })
		p.look()
		p.want("ws_1", "")
		if box.paused {
			t.Error("it does not go on")
		}
	})
}

// A sandbox that was ended for the length of its run is reported for a day: its workspace may be gone, or run on another executor.
func TestARunThatWasEndedIsForgotten(t *testing.T) {
	posts(t, func(t *testing.T, p *post) {
		p.noPause = true
		minutes := int64(8)
		p.do(p.q.SetUsers(p.ctx, p.team, []quota.UserChange{{UserID: p.user, Set: map[string]*int64{quota.SessionMinutes: &minutes}}}, p.user, true))
		p.start("ws_1")
		p.pass(9 * time.Minute)
		p.want("ws_1", quota.GraceEnded)
		p.at += 23 * time.Hour.Milliseconds()
		p.look()
		p.want("ws_1", quota.GraceEnded)
		p.at += time.Hour.Milliseconds()
		p.look()
		p.want("ws_1", "")
	})
}

func TestWhatFailsIsTriedAgain(t *testing.T) {
	posts(t, func(t *testing.T, p *post) {
		p.budget(func(b *quota.Budget) { b.LimitNano = new(int64(dollar / 10)) })
		p.start("ws_1")
		p.pass(2 * time.Minute)
		p.refuse = errors.New("the place does not answer")
		p.pass(4*time.Minute + 15*time.Second)
		p.want("ws_1", quota.GraceStopping)
		p.pass(30 * time.Second)
		p.want("ws_1", quota.GraceStopped)
		p.noWake = errors.New("no room")
		p.budget(func(b *quota.Budget) { b.LimitNano = nil })
		p.look()
		p.want("ws_1", quota.GraceStopped)
		p.noWake = nil
		p.pass(90 * time.Second)
		p.want("ws_1", "")
	})
}

func TestAnotherServerGoesOn(t *testing.T) {
	posts(t, func(t *testing.T, p *post) {
		p.budget(func(b *quota.Budget) { b.LimitNano = new(int64(dollar / 10)) })
		p.start("ws_1")
		p.pass(2 * time.Minute)
		g, _ := p.e.Grace("ws_1")
		p.restart()
		p.want("ws_1", quota.GraceCounting)
		if again, _ := p.e.Grace("ws_1"); again != g {
			t.Fatalf("%+v became %+v", g, again)
		}
		// It was away when the grace ended: that was its end all the same.
		p.at += 10 * 60_000
		p.restart()
		p.look()
		p.want("ws_1", quota.GraceStopped)
		// The server died between suspending the sandbox and recording it.
		if _, err := p.db.Exec(p.ctx, `UPDATE graces SET state = 'stopping' WHERE workspace_id = 'ws_1'`); err != nil {
			t.Fatal(err)
		}
		p.restart()
		p.look()
		p.want("ws_1", quota.GraceStopped)
		if n := len(p.holds); n != 1 {
			t.Errorf("held %d times", n)
		}
		// It died between waking it and saying so.
		p.budget(func(b *quota.Budget) { b.LimitNano = nil })
		p.do(p.Wake(p.ctx, "ws_1"))
		p.restart()
		p.look()
		p.want("ws_1", "")
		if got := p.reported("team_budget"); !slices.Equal(got, []int{100}) {
			t.Errorf("told: %v", got)
		}
	})
}

func TestAThresholdIsReportedOnceByManyServers(t *testing.T) {
	posts(t, func(t *testing.T, p *post) {
		p.budget(func(b *quota.Budget) { b.LimitNano, b.Thresholds = new(int64(10*dollar)), []int64{10, 50} })
		p.start("ws_1")
		p.pass(10*time.Minute + 15*time.Second)
		// A failed notification is sent once that works again.
		if got := p.reported("team_budget"); !slices.Equal(got, []int{10}) {
			t.Fatalf("told: %v", got)
		}
		p.notifyFail = errors.New("the outbox is full")
		p.pass(45 * time.Minute)
		p.notifyFail = nil
		var all sync.WaitGroup
		for range 4 {
			e := quota.NewEnforcer(quota.EnforcerConfig{Store: p.kept, Standings: p.q, Places: p, Notifier: p, Now: p.l.Now, OnServer: []string{"bubblewrap", "docker"}})
			all.Go(func() { e.Beat(p.ctx); e.Settle() })
		}
		all.Wait()
		if got := p.reported("team_budget"); !slices.Equal(got, []int{10, 50}) {
			t.Fatalf("told: %v", got)
		}
		news, err := p.e.News(p.ctx, p.team)
		p.do(err)
		var words []string
		for _, a := range news {
			words = append(words, fmt.Sprint(a.Percent))
		}
		if !slices.Equal(words, []string{"50", "10"}) {
			t.Errorf("news: %v", words)
		}
	})
}
