package config

// RateLimits bound how often costly operations are asked for; see docs/limits.md.
type RateLimits struct {
	Enabled  bool `json:"enabled"`
	Search   Rate `json:"search"`
	Compare  Rate `json:"compare"`
	Export   Rate `json:"export"`
	Clone    Rate `json:"clone"`
	Build    Rate `json:"build"`
	Mail     Rate `json:"mail"`
	Disk     Rate `json:"disk"`
	Snapshot Rate `json:"snapshot"`
	Outside  Rate `json:"outside"`
}

// Rate is how often something may be asked for in a minute; 0 = without a bound.
type Rate struct {
	User int `json:"userPerMinute"` // by one person
	Team int `json:"teamPerMinute"` // by everybody of a team together
}

// defaultRates are more than people and ordinary scripts ask for.
func defaultRates() RateLimits {
	return RateLimits{Enabled: true, Search: Rate{120, 600}, Compare: Rate{300, 1500}, Export: Rate{12, 36}, Clone: Rate{12, 36}, Build: Rate{12, 36},
		Mail: Rate{30, 60}, Disk: Rate{60, 240}, Snapshot: Rate{120, 600}, Outside: Rate{30, 120}}
}

// ByName returns the limits by the names they have in config.json and in errors.
func (r RateLimits) ByName() map[string]Rate {
	return map[string]Rate{"search": r.Search, "compare": r.Compare, "export": r.Export, "clone": r.Clone, "build": r.Build, "mail": r.Mail, "disk": r.Disk,
		"snapshot": r.Snapshot, "outside": r.Outside}
}

func (d *decoder) checkRates(r RateLimits) {
	for name, rate := range r.ByName() {
		d.checkLeast("rateLimits."+name+".userPerMinute", rate.User, 0)
		d.checkLeast("rateLimits."+name+".teamPerMinute", rate.Team, 0)
	}
}
