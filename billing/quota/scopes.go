package quota

// Scopes say which limit something is about, as in limit_alerts and graces.
const (
	ScopeUserHours      = "user_hours"
	ScopeTeamBudget     = "team_budget"
	ScopeTeamOverage    = "team_overage"
	ScopeInstanceBudget = "instance_budget"
	ScopeSessionMinutes = "session_minutes"
	ScopeKillSwitch     = "kill_switch"
	ScopePastDue        = "past_due"
)
