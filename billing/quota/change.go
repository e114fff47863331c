package quota

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
)

// Bounds of what may be said.
const (
	mostHours      = 744 * 1000            // a thousand sandboxes the whole month
	mostNano       = 1_000_000_000_000_000 // a million dollars
	mostGrace      = 3600
	mostThresholds = 10
	mostText       = 500
	mostPlans      = 50
)

// mostOf is the most that may be said of a value.
var mostOf = map[string]int64{HoursMonth: mostHours, Concurrent: 10_000, CPUs: 1024, MemoryMB: 16 << 20, SessionMinutes: 366 * 24 * 60}

func wrong(field, format string, args ...any) error {
	return fault.New(fault.Invalid, "invalid_quota", "%s %s.", field, fmt.Sprintf(format, args...)).With("field", field)
}

// UserChange changes the limits of one user. Set gives values (nil = no bound); Inherit names those that are the plan's again.
type UserChange struct {
	UserID  string
	Set     map[string]*int64
	Inherit []string
}

// SetUsers changes the limits of users of a team, all or nothing. Where byOperator is false they may not exceed the plan's.
func (s *Service) SetUsers(ctx context.Context, teamID string, changes []UserChange, by string, byOperator bool) error {
	now := s.cfg.Now()
	def, err := s.DefaultPlan(ctx)
	if err != nil {
		return err
	}
	err = s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		t, err := s.cfg.Store.TeamPlan(ctx, teamID)
		if err != nil {
			return fmt.Errorf("reading a team's plan: %w", err)
		}
		plan := def
		if t.PlanID != "" {
			if plan, err = s.cfg.Store.Plan(ctx, t.PlanID); err != nil {
				return fmt.Errorf("reading the plan %s: %w", t.PlanID, err)
			}
		}
		members, err := s.cfg.Store.Members(ctx, teamID)
		if err != nil {
			return fmt.Errorf("reading the team's members: %w", err)
		}
		for i, c := range changes {
			if !slices.ContainsFunc(members, func(m Member) bool { return m.UserID == c.UserID }) {
				return fault.New(fault.NotFound, "member_not_found", "The team has no such member.").With("field", fmt.Sprintf("items[%d].user_id", i))
			}
			hand, err := s.cfg.Store.UserByHand(ctx, teamID, c.UserID)
			if err != nil {
				return fmt.Errorf("reading a user's quota: %w", err)
			}
			if hand, err = hand.with(c, plan, byOperator, i); err != nil {
				return err
			}
			if err := s.cfg.Store.PutByHand(ctx, teamID, c.UserID, hand, by, now); err != nil {
				return fmt.Errorf("keeping a user's quota: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.Changed(ctx, teamID)
	return nil
}

// with is what was said with a change of it.
func (h ByHand) with(c UserChange, plan Plan, byOperator bool, i int) (ByHand, error) {
	out := make(ByHand, len(h)+len(c.Set))
	for name, l := range h {
		out[name] = l
	}
	for _, name := range c.Inherit {
		if plan.Quota.field(name) == nil {
			return nil, wrong(fmt.Sprintf("items[%d].inherit", i), "names %q, which nobody gives by hand: there are %s", name, strings.Join(Fields, ", "))
		}
		delete(out, name)
	}
	for _, name := range Fields {
		v, said := c.Set[name]
		if !said {
			continue
		}
		field := fmt.Sprintf("items[%d].%s", i, name)
		if err := within(field, v, mostOf[name], least(name)); err != nil {
			return nil, err
		}
		most := *plan.Quota.field(name)
		if !byOperator && beyond(v, most) {
			if old, ok := h[name]; ok && old.ByOperator && !beyond(v, old.Value) {
				out[name] = Limit{v, true} // an operator has allowed that much
				continue
			}
			return nil, fault.New(fault.Quota, "quota_above_plan", "The team's plan %s allows %d at most for %s. Choose a larger plan, or ask an operator of this server.", plan.Name, *most, name).
				With("field", field).With("limit", *most).With("ways", []string{"upgrade"})
		}
		out[name] = Limit{v, byOperator}
	}
	return out, nil
}

// least is the least value: nobody can work in a size of 0 or for no minute at all.
func least(name string) int64 {
	switch name {
	case CPUs, MemoryMB, SessionMinutes:
		return 1
	}
	return 0
}

func within(field string, v *int64, most, least int64) error {
	if v != nil && (*v < least || *v > most) {
		return wrong(field, "must be between %d and %d, or null for no bound", least, most)
	}
	return nil
}

// Budget is a team's budget as it was set.
func (s *Service) Budget(ctx context.Context, teamID string) (Budget, error) {
	return s.budget(ctx, teamID)
}

// Alerts are the thresholds a team has passed this month.
func (s *Service) Alerts(ctx context.Context, teamID string) ([]Alert, error) {
	all, err := s.cfg.Store.Alerts(ctx, teamID, monthOf(s.cfg.Now()).name)
	if err != nil {
		return nil, fmt.Errorf("reading the team's alerts: %w", err)
	}
	return all, nil
}

// ChangeBudget has fn change a team's budget, and says how it is then.
func (s *Service) ChangeBudget(ctx context.Context, teamID, by string, fn func(b *Budget)) (Budget, error) {
	now := s.cfg.Now()
	var b Budget
	err := s.cfg.Store.Tx(ctx, func(ctx context.Context) (err error) {
		if b, err = s.budget(ctx, teamID); err != nil {
			return err
		}
		fn(&b)
		slices.Sort(b.Thresholds)
		if err := b.check(); err != nil {
			return err
		}
		b.UpdatedBy, b.UpdatedAt = by, now
		if err := s.cfg.Store.PutBudget(ctx, teamID, b); err != nil {
			return fmt.Errorf("keeping the team's budget: %w", err)
		}
		return nil
	})
	if err != nil {
		return b, err
	}
	s.Changed(ctx, teamID)
	return b, nil
}

func (b Budget) check() error {
	bad := func(field, format string, args ...any) error {
		return fault.New(fault.Invalid, "invalid_budget", "%s %s.", field, fmt.Sprintf(format, args...)).With("field", field)
	}
	switch {
	case b.LimitNano != nil && (*b.LimitNano < 0 || *b.LimitNano > mostNano):
		return bad("limit_nano", "must be between 0 and %d nano-USD, or null for no bound", int64(mostNano))
	case b.OverageCapNano != nil && (*b.OverageCapNano < 0 || *b.OverageCapNano > mostNano):
		return bad("overage_cap_nano", "must be between 0 and %d nano-USD, or null for no bound", int64(mostNano))
	case b.GraceSeconds < 0 || b.GraceSeconds > mostGrace:
		return bad("grace_seconds", "must be between 0 and %d", mostGrace)
	case len(b.Thresholds) > mostThresholds:
		return bad("thresholds", "may be %d at most", mostThresholds)
	}
	for i, p := range b.Thresholds {
		if p < 1 || p > 100 {
			return bad("thresholds", "are percentages between 1 and 100")
		}
		if i > 0 && b.Thresholds[i-1] == p {
			return bad("thresholds", "name %d %% twice", p)
		}
	}
	return nil
}

// Plan returns a plan; fault.NotFound when there is none.
func (s *Service) Plan(ctx context.Context, id string) (Plan, error) {
	p, err := s.cfg.Store.Plan(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return p, noPlan(id)
	}
	return p, err
}

func noPlan(id string) error {
	return fault.New(fault.NotFound, "plan_not_found", "There is no plan %q.", id).With("field", "plan_id")
}

var slug = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

// AddPlan makes a plan of an operator's own.
func (s *Service) AddPlan(ctx context.Context, p Plan, by string) (Plan, error) {
	if !slug.MatchString(p.ID) {
		return p, wrong("id", "must begin with a letter and have up to 40 of a-z, 0-9 and -")
	}
	if err := p.check(); err != nil {
		return p, err
	}
	p.UpdatedBy, p.UpdatedAt = by, s.cfg.Now()
	return p, s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		all, err := s.cfg.Store.Plans(ctx)
		if err != nil {
			return fmt.Errorf("reading the plans: %w", err)
		}
		if slices.ContainsFunc(all, func(o Plan) bool { return o.ID == p.ID }) {
			return fault.New(fault.Conflict, "plan_exists", "There is a plan %q already.", p.ID).With("field", "id")
		}
		if len(all) >= mostPlans {
			return fault.New(fault.Conflict, "too_many_plans", "There are %d plans, which is the most. Delete one that no team has.", len(all))
		}
		return s.cfg.Store.PutPlan(ctx, p)
	})
}

// ChangePlan has fn change a plan, which holds at once for the teams that have it.
func (s *Service) ChangePlan(ctx context.Context, id, by string, fn func(p *Plan)) (Plan, error) {
	now := s.cfg.Now()
	var p Plan
	err := s.cfg.Store.Tx(ctx, func(ctx context.Context) (err error) {
		if p, err = s.Plan(ctx, id); err != nil {
			return err
		}
		fn(&p)
		p.ID = id
		if err := p.check(); err != nil {
			return err
		}
		p.UpdatedBy, p.UpdatedAt = by, now
		return s.cfg.Store.PutPlan(ctx, p)
	})
	if err == nil {
		s.Changed(ctx, "")
	}
	return p, err
}

func (p Plan) check() error {
	q := p.Quota
	switch name := strings.TrimSpace(p.Name); {
	case name == "" || utf8.RuneCountInString(p.Name) > 80:
		return wrong("name", "must have between 1 and 80 characters")
	case utf8.RuneCountInString(p.Description) > mostText:
		return wrong("description", "may have %d characters at most", mostText)
	case p.SeatMonthNano < 0 || p.SeatMonthNano > mostNano || p.SeatMonthNano%10_000_000 != 0:
		return wrong("seat_month_nano", "must be whole cents, and not negative")
	case p.TrialDays < 0 || p.TrialDays > 730:
		return wrong("trial_days", "must be between 0 and 730")
	case p.Position < 0 || p.Position > 1000:
		return wrong("position", "must be between 0 and 1000")
	}
	for _, c := range []struct {
		name  string
		v     *int64
		most  int64
		least int64
	}{{"hours_month", q.HoursMonth, mostHours, 0}, {"concurrent", q.Concurrent, 10_000, 0}, {"concurrent_team", q.ConcurrentTeam, 100_000, 0}, {"cpus", q.CPUs, 1024, 1},
		{"memory_mb", q.MemoryMB, 16 << 20, 128}, {"session_minutes", q.SessionMinutes, mostOf[SessionMinutes], 1}, {"creations_hour", q.CreationsHour, 100_000, 0}, {"seats", q.Seats, 100_000, 1}} {
		if err := within(c.name, c.v, c.most, c.least); err != nil {
			return err
		}
	}
	return nil
}

// DeletePlan deletes a plan nobody has. Those that came with the program stay.
func (s *Service) DeletePlan(ctx context.Context, id string) error {
	if id == Free || id == "pro" || id == Enterprise {
		return fault.New(fault.Conflict, "plan_built_in", "The plan %s came with Parawork and stays. Change it, or do not offer it.", id)
	}
	def, err := s.DefaultPlan(ctx)
	if err != nil {
		return err
	}
	if def.ID == id {
		return fault.New(fault.Conflict, "plan_in_use", "It is the default plan. Choose another default plan first.")
	}
	return s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.Plan(ctx, id); err != nil {
			return err
		}
		teams, err := s.cfg.Store.TeamsOf(ctx, id)
		if err != nil {
			return fmt.Errorf("reading who has the plan %s: %w", id, err)
		}
		if len(teams) > 0 {
			return fault.New(fault.Conflict, "plan_in_use", "%d team(s) have this plan or pay for it. Give them another one first.", len(teams)).With("teams", len(teams))
		}
		return s.cfg.Store.DeletePlan(ctx, id)
	})
}

// paying are the states of a subscription that gives its plan.
var paying = map[string]bool{"active": true, "trialing": true, "past_due": true}

// SetPlan gives a team a plan. source is who assigns it. planID "" takes back the plan of that source: then the paid plan holds, if there is one,
// else the default. What an operator gave goes before what is paid for. seats are those paid for; only the payment service says.
func (s *Service) SetPlan(ctx context.Context, teamID, planID, source string, seats int64) error {
	now := s.cfg.Now()
	ctx = tenant.In(ctx, teamID)
	var was, is TeamPlan
	err := s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		if planID != "" {
			if _, err := s.Plan(ctx, planID); err != nil {
				return err
			}
		}
		t, err := s.cfg.Store.TeamPlan(ctx, teamID)
		if err != nil {
			return fmt.Errorf("reading a team's plan: %w", err)
		}
		was = t
		t.TeamID, t.UpdatedAt = teamID, now
		switch {
		case source == ByStripe:
			t.PaidPlanID, t.Seats = planID, seats
			if t.Source != ByOperator {
				t.PlanID, t.Source = planID, ByStripe
			}
		case planID != "":
			t.PlanID, t.Source = planID, source
		case paying[t.Status] && t.PaidPlanID != "":
			t.PlanID, t.Source = t.PaidPlanID, ByStripe
		default:
			t.PlanID, t.Source = "", ""
		}
		if t.PlanID == "" {
			t.Source = ""
		}
		is = t
		return s.cfg.Store.PutTeamPlan(ctx, t)
	})
	if err != nil {
		return err
	}
	if was.PlanID != is.PlanID {
		if source == ByStripe && s.cfg.Audit != nil {
			err := s.cfg.Audit.Append(ctx, audit.Entry{Chain: teamID, Action: "team_plan.set", TargetKind: "team", TargetID: teamID, Result: audit.Done,
				Data: map[string]string{"from": was.PlanID, "to": is.PlanID, "source": source}})
			if err != nil {
				s.cfg.Log.Error("change of plan not recorded", "team_id", teamID, "error", err)
			}
		}
		s.Changed(ctx, teamID)
	}
	return nil
}

// markKill names the kill switch.
const markKill = "kill_switch"

// KillSwitch tells whether paid sandboxes may begin at all.
func (s *Service) KillSwitch(ctx context.Context) (k KillSwitch, err error) {
	text, err := s.cfg.Store.Mark(ctx, markKill)
	if err != nil {
		return k, fmt.Errorf("reading the kill switch: %w", err)
	}
	if text == "" {
		return k, nil
	}
	if err := json.Unmarshal([]byte(text), &k); err != nil {
		return k, fmt.Errorf("reading the kill switch: %w", err)
	}
	return k, nil
}

// SetKillSwitch prevents starts of paid sandboxes, or allows them again. stop also suspends running ones, after a grace period.
func (s *Service) SetKillSwitch(ctx context.Context, on, stop bool, reason, by string) (KillSwitch, error) {
	if utf8.RuneCountInString(reason) > mostText {
		return KillSwitch{}, wrong("reason", "may have %d characters at most", mostText)
	}
	k := KillSwitch{On: on, Stop: on && stop, Reason: strings.TrimSpace(reason), By: by, At: s.cfg.Now()}
	if !on {
		k.Reason = ""
	}
	text, err := json.Marshal(k)
	if err != nil {
		return k, err
	}
	if err := s.cfg.Store.SetMark(ctx, markKill, string(text)); err != nil {
		return k, fmt.Errorf("keeping the kill switch: %w", err)
	}
	s.Changed(ctx, "")
	return k, nil
}
