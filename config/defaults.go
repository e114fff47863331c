package config

import "github.com/parawork/parawork/internal/schema"

// Default returns the configuration without a file: what each key is when it is not given. Agents and kinds are those of Load.
func Default(agents map[string]string, kinds []Kind) *Config {
	c := &Config{
		Server:   Server{Listen: "127.0.0.1:8080", TrustedProxies: []string{}},
		DataDir:  "./data",
		Database: Database{URL: "sqlite", WaitSeconds: 300},
		Log:      Log{Level: "info", Format: "text"},
		Accounts: Accounts{Password: true, Passkeys: true, SessionIdleHours: 7 * 24, SessionMaxHours: 30 * 24, Providers: map[string]SignInProvider{}},
		History:  History{MaxSession: 1024},

		RateLimits: defaultRates(),
		Demo:       defaultDemo(),
		Trash:      Trash{KeepDays: 30},
		Artifacts:  Artifacts{TeamQuotaBytes: 10 << 30, Storage: ArtifactStorage{Type: "folder", Region: "us-east-1"}},
		Browser:    Browser{MemoryMB: 1536, IdleMinutes: 15},

		Snapshots: Snapshots{PollDays: 7, KeepDays: 30},
		Projects:  Projects{AllowedRoots: []string{}, BranchPrefix: "parawork/", CopyIgnored: []string{".env"}},
		Agents:    defaultAgents(agents),
		Sandboxing: Sandboxing{
			DefaultProvider: "auto", AllowUserChoice: true, MonthlyBudgetUSD: 500, Caches: Caches{Enabled: true, MaxMB: 20480}, Sync: Sync{MaxFileMB: 100, MaxTotalMB: 2048}, Commands: Commands{KeepMinutes: 60, QueueMinutes: 10, TimeoutSeconds: 30},
			Limits:  Limits{Default: SandboxLimits{Processes: 4096}, DiskEverySeconds: 20},
			Pool:    Pool{Min: 3, Max: 10},
			Network: Network{Mode: "open", Allow: []string{}, AllowPrivate: []string{}},
		},
		Outgoing: Outgoing{Allow: []string{}},
		Agent:    OwnAgent{MaxSteps: 250, MaxMinutes: 360},
		Gateway:  Gateway{Enabled: true, MaxBodyMB: 32, FirstByteSeconds: 600, MaxOutputTokens: 128_000},
		Billing:  Billing{GraceSeconds: 300, PastDueDays: 7, Stripe: Stripe{WebhookSecrets: []string{}}},
	}
	c.Sandboxing.tree, c.Sandboxing.places = newTree(kinds), make(map[string]schema.Values)
	for _, k := range kinds {
		c.Sandboxing.places[k.Name] = k.Settings.Defaults()
	}
	return c
}

func defaultAgents(programs map[string]string) map[string]Agent {
	out := map[string]Agent{}
	for name, program := range programs {
		a := newAgent()
		a.Command = program
		out[name] = a
	}
	return out
}
