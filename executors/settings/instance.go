package settings

import (
	"regexp"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/schema"
)

// Values are the settings that are of no kind of place.
type Values struct {
	DefaultExecutor  string // a kind, or auto
	AllowUserChoice  bool   // members may name a place
	MonthlyBudgetUSD int64  // of paid sandboxes of the whole instance; 0 = none may be made
	DefaultPlan      string // of teams that nobody gave one
	Pool             Pool
}

// Pool is how many sandboxes are made ahead of time.
type Pool struct {
	Enabled  bool
	Min, Max int64
}

// Names of the settings, as in the API.
const (
	DefaultExecutor  = "default_executor"
	AllowUserChoice  = "allow_user_choice"
	MonthlyBudgetUSD = "monthly_budget_usd"
	DefaultPlan      = "default_plan"
	PoolEnabled      = "pool.enabled"
	PoolMin          = "pool.min"
	PoolMax          = "pool.max"
)

var planName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

// Instance are the settings that are of no kind of place. Their keys are those of the whole config.json.
var Instance = schema.Schema{
	{Key: "sandboxing.defaultProvider", Name: DefaultExecutor, Type: schema.Text, Default: "auto", Label: "Place for workspaces that name none",
		Hint: "Teams and projects may name another.", Check: func(v any) string {
			if v == "" {
				return `must name a place, or be "auto"`
			}
			return ""
		}},
	{Key: "sandboxing.allowUserChoice", Name: AllowUserChoice, Type: schema.Boolean, Default: true, Label: "People may choose the place of their workspaces",
		Hint: "A team can forbid it to its members."},
	{Key: "sandboxing.monthlyBudgetUsd", Name: MonthlyBudgetUSD, Type: schema.Number, Default: 500, Unit: "dollars", Label: "Budget a month",
		Hint: "For places that cost, all teams together. At 100 % no new sandbox starts there. 0: none."},
	{Key: "sandboxing.pool.enabled", Name: PoolEnabled, Type: schema.Boolean, Label: "Keep some sandboxes ready",
		Hint: "Workspaces start at once. What waits for them costs, whether it is used or not."},
	{Key: "sandboxing.pool.min", Name: PoolMin, Type: schema.Number, Default: 3, Max: 100, Label: "Ready at least", Unit: "sandboxes"},
	{Key: "sandboxing.pool.max", Name: PoolMax, Type: schema.Number, Default: 10, Max: 100, Label: "Ready at most", Unit: "sandboxes"},
	{Key: "billing.defaultPlan", Name: DefaultPlan, Type: schema.Text, Label: "Plan of teams that nobody gave one", Check: func(v any) string {
		if v != "" && !planName.MatchString(v.(string)) {
			return "must be the id of a plan such as free"
		}
		return ""
	}},
}

func valuesOf(v schema.Values) Values {
	at := func(name string) string {
		f, _ := Instance.Named(name)
		return f.Key
	}
	return Values{DefaultExecutor: v.Text(at(DefaultExecutor)), AllowUserChoice: v.On(at(AllowUserChoice)), MonthlyBudgetUSD: v.Number(at(MonthlyBudgetUSD)),
		DefaultPlan: v.Text(at(DefaultPlan)), Pool: Pool{Enabled: v.On(at(PoolEnabled)), Min: v.Number(at(PoolMin)), Max: v.Number(at(PoolMax))}}
}

func wrong(name, words string) error {
	return fault.New(fault.Invalid, "invalid_setting", "%s %s.", name, words).With("field", name)
}

// check refuses values that cannot be meant.
func check(v schema.Values) error {
	for _, p := range v.Problems() {
		if p.Field.Name != "" { // what only config.json says was checked when it was read
			return wrong(p.Field.Name, p.Words)
		}
	}
	if _, ok := v.Schema().Named(PoolMin); !ok {
		return nil
	}
	if p := valuesOf(v).Pool; p.Max < p.Min {
		return wrong(PoolMax, "must be at least pool.min and at most 100")
	}
	return nil
}
