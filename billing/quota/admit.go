package quota

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
)

// everyTeam is why decisions look at everybody: the instance has one budget, and what is held back is read in one go.
const everyTeam = "whether the instance can afford a sandbox"

// Admit lets a sandbox begin, or begin again, and holds back what it may cost until it runs (Drop), or does not (Release): read and written
// in one transaction, so that of many starts for one free place one is let in. What is let in counts as if it ran for a lease: while this
// process is at it, and for two minutes at most after that died. In places without a price that are not metered everything is let in;
// those of this server that count while several teams share it are bound by hours and numbers alone.
func (s *Service) Admit(ctx context.Context, st executors.UsageInterval) error {
	ctx = tenant.All(ctx, everyTeam)
	if !st.Metered && st.PriceNano <= 0 {
		return nil
	}
	a := asked{UsageInterval: st, m: monthOf(s.cfg.Now()), own: own(s.cfg.OnServer, string(st.Kind), st.PriceNano)}
	var err error
	if a.shared, err = s.shared(ctx); err != nil {
		return err
	}
	if s.cfg.InstanceLimit != nil {
		limit, limited, err := s.cfg.InstanceLimit(ctx)
		if err != nil {
			return fmt.Errorf("reading the instance's budget: %w", err)
		}
		if limited {
			a.instance = &limit
		}
	}
	if st.TeamID != "" { // asked before the transaction: settings are read from elsewhere
		if a.def, err = s.DefaultPlan(ctx); err != nil {
			return err
		}
	}
	// One at a time in this process: others would make each other run again. Other processes' transactions do.
	unlock, err := s.turn.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if a.TeamID != "" {
		if a.models, err = s.monthSum(ctx, a.TeamID, a.m); err != nil {
			return err
		}
	}
	slow := s.slow(a.m.now, a.SandboxID)
	err = s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		a := a // it may be run again
		if len(slow) > 0 {
			if err := s.cfg.Store.Renew(ctx, slow, a.m.now+s.cfg.Pending.Milliseconds()); err != nil {
				return fmt.Errorf("holding on to what slow starts may cost: %w", err)
			}
		}
		if err := s.decide(ctx, &a); err != nil {
			return err
		}
		return s.hold(ctx, a)
	})
	if err == nil {
		s.mu.Lock()
		s.starts[a.SandboxID] = a.m.now
		s.mu.Unlock()
	}
	return err
}

// own reports whether a sandbox is in a place of this server for which nobody pays: what is about money does not stop it.
func own(onServer []string, kind string, priceNano int64) bool {
	return priceNano <= 0 && slices.Contains(onServer, kind)
}

// shared reports whether several teams share this server.
func (s *Service) shared(ctx context.Context) (bool, error) {
	if s.cfg.Teams == nil {
		return false, nil
	}
	n, err := s.cfg.Teams(ctx)
	if err != nil {
		return false, fmt.Errorf("counting the teams: %w", err)
	}
	return n > 1, nil
}

// Counts reports whether the time of a kind of place counts in people's hours although nobody put a price on it: that of the places of
// this server that isolate does, while several teams share them. A team alone is not limited on its own machine.
func (s *Service) Counts(ctx context.Context, kind string) (bool, error) {
	if !slices.Contains(s.cfg.OnServer, kind) {
		return false, nil
	}
	return s.shared(ctx)
}

// Counted lists the kinds of this server's places that Counts.
func (s *Service) Counted(ctx context.Context) ([]string, error) {
	shared, err := s.shared(ctx)
	if err != nil || !shared {
		return []string{}, err
	}
	return slices.Clone(s.cfg.OnServer), nil
}

// slowest is how long a start may take at most, ms: an image may have to be fetched. One of which nobody has heard for longer is forgotten.
const slowest = 65 * minuteMs

// slow are the starts this process has let in that are still under way, but for one: what is held back for them must not expire before
// they run, or others would be let in for the same place.
func (s *Service) slow(now int64, but string) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, since := range s.starts {
		switch age := now - since; {
		case age > slowest:
			delete(s.starts, id)
		case id != but && age > s.cfg.Pending.Milliseconds()/2:
			out = append(out, id)
		}
	}
	return out
}

// ended forgets a start: it runs, or did not begin.
func (s *Service) ended(sandboxID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.starts, sandboxID)
}

// asked is a start somebody asks for.
type asked struct {
	executors.UsageInterval
	m        month
	instance *int64 // its budget
	def      Plan   // the default one
	again    bool   // the sandbox has run before
	own      bool   // its place is this server's and costs nothing: hours and numbers bind it, money does not
	shared   bool   // the places of this server count in people's hours
	models   monthSum
}

// hold writes what is held back.
func (s *Service) hold(ctx context.Context, a asked) error {
	lease := s.cfg.Lease.Milliseconds()
	r := Reservation{SandboxID: a.SandboxID, TeamID: a.TeamID, UserID: a.UserID, Executor: string(a.Kind), PriceNano: max(a.PriceNano, 0), CostNano: billing.Cost(a.PriceNano, lease),
		CreatedAt: a.m.now, ExpiresAt: a.m.now + s.cfg.Pending.Milliseconds()}
	if a.Metered {
		r.HoursMs = lease
	}
	if err := s.cfg.Store.Reserve(ctx, r); err != nil {
		return fmt.Errorf("holding back what a sandbox may cost: %w", err)
	}
	if !a.Metered || a.TeamID == "" || a.again {
		return nil
	}
	if err := s.cfg.Store.NoteCreation(ctx, a.SandboxID, a.TeamID, a.UserID, a.m.now, a.m.now-hourMs); err != nil {
		return fmt.Errorf("noting that a sandbox begins: %w", err)
	}
	return nil
}

// Drop gives back what was held back for a sandbox that runs now, in the transaction of ctx that notes that it does.
func (s *Service) Drop(ctx context.Context, sandboxID string) error {
	s.ended(sandboxID)
	_, err := s.cfg.Store.Unreserve(tenant.All(ctx, everyTeam), sandboxID)
	if err != nil {
		return fmt.Errorf("giving back what was held back for sandbox %s: %w", sandboxID, err)
	}
	return nil
}

// Release gives back what was held back for a sandbox that did not begin after all.
func (s *Service) Release(ctx context.Context, sandboxID string) error {
	ctx = tenant.All(ctx, everyTeam)
	s.ended(sandboxID)
	return s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		held, err := s.cfg.Store.Unreserve(ctx, sandboxID)
		if err != nil || !held {
			return err
		}
		ran, err := s.cfg.Store.Ran(ctx, sandboxID)
		if err != nil || ran { // that it did not wake does not undo that it was made
			return err
		}
		return s.cfg.Store.DropCreation(ctx, sandboxID)
	})
}

// decide refuses what does not fit.
func (s *Service) decide(ctx context.Context, a *asked) error {
	if !a.own {
		k, err := s.KillSwitch(ctx)
		if err != nil {
			return err
		}
		if k.On {
			return a.killed(k)
		}
	}
	held, err := s.cfg.Store.Reservations(ctx, a.m.now)
	if err != nil {
		return fmt.Errorf("reading what is held back: %w", err)
	}
	if a.TeamID != "" {
		if err := s.decideTeam(ctx, a, held); err != nil {
			return err
		}
	}
	if a.instance == nil || a.PriceNano <= 0 {
		return nil
	}
	closed, err := s.cfg.Store.ClosedOfAll(ctx, a.m.from, a.m.to)
	if err != nil {
		return fmt.Errorf("reading what was spent: %w", err)
	}
	running, err := s.cfg.Store.RunningOfAll(ctx)
	if err != nil {
		return fmt.Errorf("reading what runs: %w", err)
	}
	spent, reserved := plus(closed, a.m.cost(running)), int64(0)
	for _, r := range held {
		if r.SandboxID != a.SandboxID {
			reserved = plus(reserved, r.CostNano)
		}
	}
	for _, r := range running {
		if r.SandboxID != a.SandboxID {
			reserved = plus(reserved, s.aheadOf(r, a.m))
		}
	}
	if spent >= *a.instance || plus(plus(spent, reserved), s.least(a)) > *a.instance {
		return a.over("instance_budget", "This server's budget for paid places", spent, reserved, *a.instance, s.least(a),
			"Use a place on this server, ask an operator to raise the budget, or wait until "+day(a.m.to)+".")
	}
	return nil
}

// decideTeam refuses what the team's plan, the user's quota or the team's budget does not allow.
func (s *Service) decideTeam(ctx context.Context, a *asked, held []Reservation) error {
	t, err := s.cfg.Store.TeamPlan(ctx, a.TeamID)
	if err != nil {
		return fmt.Errorf("reading a team's plan: %w", err)
	}
	if err := a.unpaid(t, int64(s.cfg.PastDueDays)); err != nil && !a.own {
		return err
	}
	if a.Metered {
		plan := a.def
		if t.PlanID != "" {
			if plan, err = s.cfg.Store.Plan(ctx, t.PlanID); err != nil {
				return fmt.Errorf("reading the plan %s: %w", t.PlanID, err)
			}
		}
		if err := s.decideUser(ctx, a, plan, held); err != nil {
			return err
		}
	}
	if a.PriceNano <= 0 {
		return nil
	}
	st, err := s.money(ctx, a.TeamID, a.m, a.models, a.SandboxID, s.least(a))
	if err != nil {
		return err
	}
	if st.Stop == nil || plus(plus(st.Spent, st.Reserved), s.least(a)) <= *st.Stop && st.Spent < *st.Stop {
		return nil
	}
	return a.over("team_budget", "The team's budget", st.Spent, st.Reserved, *st.Stop, s.least(a),
		"Use a place on this server, have an admin of the team raise the budget, or wait until "+day(a.m.to)+".")
}

// least is what a sandbox costs that runs as briefly as is held back for it.
func (s *Service) least(a *asked) int64 { return billing.Cost(a.PriceNano, s.cfg.Lease.Milliseconds()) }

// decideUser refuses what the user's quota does not allow.
func (s *Service) decideUser(ctx context.Context, a *asked, plan Plan, held []Reservation) error {
	q := plan.Quota
	if a.UserID != "" {
		hand, err := s.cfg.Store.UserByHand(ctx, a.TeamID, a.UserID)
		if err != nil {
			return fmt.Errorf("reading a user's quota: %w", err)
		}
		q = q.over(hand)
	}
	if err := a.tooLarge(q, plan); err != nil && !a.own { // how large those of this server are, its limits say
		return err
	}
	closed, err := s.cfg.Store.ClosedHoursOf(ctx, a.TeamID, a.UserID, a.m.from, a.m.to)
	if err != nil {
		return fmt.Errorf("reading how long a user's sandboxes ran: %w", err)
	}
	running, err := s.cfg.Store.Running(ctx, a.TeamID)
	if err != nil {
		return fmt.Errorf("reading what runs: %w", err)
	}
	st := stand(a.TeamID, a.UserID, q, plan, a.m, closed, running, held, a.SandboxID)
	if a.UserID != "" {
		if q.Concurrent != nil && st.Running >= *q.Concurrent {
			return a.tooMany("user_concurrency", "You have", st.Running, *q.Concurrent, plan)
		}
		if st.LimitMs != nil && st.UsedMs+st.ReservedMs >= *st.LimitMs {
			return a.noHours(st, s.cfg.Lease.Milliseconds())
		}
	}
	if q.ConcurrentTeam != nil {
		if n := count(a, running, held); n >= *q.ConcurrentTeam {
			return a.tooMany("team_concurrency", "The team has", n, *q.ConcurrentTeam, plan)
		}
	}
	if a.again, err = s.cfg.Store.Ran(ctx, a.SandboxID); err != nil {
		return fmt.Errorf("reading whether a sandbox has run before: %w", err)
	}
	if a.again || q.CreationsHour == nil {
		return nil
	}
	team, user, oldest, err := s.cfg.Store.Creations(ctx, a.TeamID, a.UserID, a.m.now-hourMs)
	if err != nil {
		return fmt.Errorf("counting sandboxes: %w", err)
	}
	again := max(oldest+hourMs-a.m.now, 1000)
	switch most := *q.CreationsHour; {
	case a.UserID != "" && user >= most:
		return a.tooOften("creations_user", "You", user, most, again)
	case team >= most*teamCreations:
		return a.tooOften("creations_team", "The team", team, most*teamCreations, again)
	}
	return nil
}

// count is how many sandboxes of metered places a team has, starts among them, but for the one that is asked for.
func count(a *asked, running []Running, held []Reservation) (n int64) {
	for _, r := range running {
		if r.Metered && r.SandboxID != a.SandboxID {
			n++
		}
	}
	for _, r := range held {
		if r.TeamID == a.TeamID && r.HoursMs > 0 && r.SandboxID != a.SandboxID {
			n++
		}
	}
	return n
}

// unpaid refuses a team whose payments stand against it.
func (a asked) unpaid(t TeamPlan, days int64) error {
	switch {
	case t.SuspendedFor != "":
		return a.refuse(fault.Quota, "payment_past_due", "payment", "Paid sandboxes of this team are held back because of a %s about a payment. Use a place on this server, and ask an operator.", t.SuspendedFor).
			With("reason", t.SuspendedFor).With("resets_at", nil)
	case t.Overdue(a.m.now, days):
		return a.refuse(fault.Quota, "payment_past_due", "payment", "The team's payment has been due since %s, so no paid sandbox begins. Pay the open invoice in the team's settings under Billing, or use a place on this server.", day(t.PastDueSince)).
			With("reason", "past_due").With("since", t.PastDueSince).With("resets_at", nil)
	}
	return nil
}

func (a asked) killed(k KillSwitch) error {
	why := ""
	if k.Reason != "" {
		why = " (" + k.Reason + ")"
	}
	return a.refuse(fault.Unavailable, "kill_switch", "kill_switch", "The operators of this server have stopped paid sandboxes%s: none begins until they allow it again. Work on this server goes on: use a place there.", why).
		With("reason", k.Reason).With("since", k.At).With("ways", []string{executors.FreePlace}).With("resets_at", nil)
}

func (a asked) sandboxes(n int64) string {
	what := "paid sandbox"
	if a.shared {
		what = "sandbox"
	}
	if n == 1 {
		return "1 " + what
	}
	return strconv.FormatInt(n, 10) + " " + what + "es"
}

// bound writes a size for people.
func bound(n int64, unit string) string {
	if unit == "memory_mb" {
		return executors.MemoryWords(n) + " of memory"
	}
	if n == 1 {
		return "1 CPU"
	}
	return strconv.FormatInt(n, 10) + " CPUs"
}

// hours writes a time for people: "9 h 58 min".
func hours(ms int64) string {
	h, m := ms/hourMs, ms%hourMs/minuteMs
	if m == 0 {
		return fmt.Sprintf("%d h", h)
	}
	return fmt.Sprintf("%d h %d min", h, m)
}

func minutes(ms int64) string {
	if n := (ms + minuteMs - 1) / minuteMs; n > 1 {
		return fmt.Sprintf("%d minutes", n)
	}
	return "a minute"
}
