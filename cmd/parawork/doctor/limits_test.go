package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/store"
)

// What a machine that teams share limits where config.json is silent, and what the doctor finds where it says "no limit".
func TestLimitsOfASharedMachine(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]struct {
		limits executors.Limits
		found  []string
	}{
		`{}`: {fromconfig.SharedLimits, nil},
		`{"sandboxing":{"limits":{"default":{"cpus":0,"memoryMb":512}}}}`: {executors.Limits{MemoryMB: 512, Processes: 4096, DiskMB: 20480}, []string{"limits.default.cpus"}},
		`{"history":{"maxTeam":0},"sandboxing":{"limits":{"default":{"cpus":0,"memoryMb":0,"processes":0,"diskMb":0}}}}`: {executors.Limits{},
			[]string{"limits.default.cpus", "limits.default.memoryMb", "limits.default.processes", "limits.default.diskMb", "history.maxTeam"}},
		`{"sandboxing":{"limits":{"default":{"diskMb":0},"maximum":{"diskMb":100}}}}`: {executors.Limits{CPUs: 2, MemoryMB: 4096, Processes: 4096}, nil},
	} {
		file := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := fromconfig.Load(file, func(string) string { return "" }, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := fromconfig.Unsaid(cfg).With(fromconfig.LimitsOn(cfg.Sandboxing.Limits.Default)); got != c.limits {
			t.Errorf("%s: %+v, want %+v", text, got, c.limits)
		}
		for teams, want := range map[int][]string{1: nil, 2: c.found} {
			var out strings.Builder
			r := &report{out: &out}
			r.unlimited(cfg, teams)
			if r.notes != len(want) {
				t.Errorf("%s, %d teams: %d findings, want %d:\n%s", text, teams, r.notes, len(want), out.String())
			}
			for _, key := range want {
				if !strings.Contains(out.String(), key) {
					t.Errorf("%s, %d teams: nothing of %s:\n%s", text, teams, key, out.String())
				}
			}
		}
	}
}

// The doctor says when several teams share a server and no plan bounds anybody.
func TestTheDoctorSaysThatQuotasBindNobody(t *testing.T) {
	t.Parallel()
	free := []string{"enterprise", "team"}
	for name, c := range map[string]struct {
		plan string
		st   store.State
		want int
	}{
		"nobody said anything":    {st: store.State{Teams: 2, Unbound: free}, want: 1},
		"a single team":           {st: store.State{Teams: 1, Unbound: free}},
		"a team has a plan":       {st: store.State{Teams: 2, Unbound: free, BoundTeams: 1}},
		"config.json names one":   {plan: "free", st: store.State{Teams: 2, Unbound: free}},
		"operators chose one":     {st: store.State{Teams: 2, Unbound: free, Settings: `{"default_plan":"pro"}`}},
		"operators chose without": {plan: "free", st: store.State{Teams: 2, Unbound: free, Settings: `{"default_plan":"team"}`}, want: 1},
	} {
		var out strings.Builder
		r := &report{out: &out}
		r.quotas(&config.Config{Billing: config.Billing{DefaultPlan: c.plan}}, c.st)
		if r.notes != c.want {
			t.Errorf("%s: %s", name, out.String())
		}
	}
}
