package executortest

import (
	"slices"
	"testing"

	"github.com/parawork/parawork/executors"
)

// Abilities returns the names of the optional abilities of an executor, sorted, as a type assertion finds them. A wrapper that does not
// forward one loses it silently.
func Abilities(e executors.Executor) []string {
	return named(map[string]bool{
		"Callee": can[executors.Callee](e), "Destroyer": can[executors.Destroyer](e), "Owned": can[executors.Owned](e), "RemnantKeeper": can[executors.RemnantKeeper](e), "Remover": can[executors.Remover](e),
		"Sleeper": can[executors.Sleeper](e), "Stopper": can[executors.Stopper](e), "Warmer": can[executors.Warmer](e), "RunRecorder": can[executors.RunRecorder](e),
	})
}

// SandboxAbilities returns the names of the optional abilities of a sandbox likewise.
func SandboxAbilities(sb executors.Sandbox) []string {
	return named(map[string]bool{
		"Leased": can[executors.Leased](sb), "Limiter": can[executors.Limiter](sb), "Metered": can[executors.Metered](sb), "SinglePipe": can[executors.SinglePipe](sb),
		"Pauser": can[executors.Pauser](sb),
	})
}

// can reports whether v is a T.
func can[T any](v any) bool {
	_, ok := v.(T)
	return ok
}

// named returns the names of those that are present, sorted.
func named(is map[string]bool) []string {
	var out []string
	for name, there := range is {
		if there {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// testAbilities checks that an executor, and the sandboxes it makes and recovers, have the abilities their package declares, and no others.
func testAbilities(t *testing.T, cfg Config) {
	b := makeBox(t, cfg)
	if got := Abilities(b.ex); !slices.Equal(got, cfg.Abilities) {
		t.Errorf("the executor's abilities are %q, not %q", got, cfg.Abilities)
	}
	if got := SandboxAbilities(b.sb); !slices.Equal(got, cfg.SandboxAbilities) {
		t.Errorf("a sandbox's abilities are %q, not %q", got, cfg.SandboxAbilities)
	}
	again, err := cfg.New(t, b.dir).Recover(b.ctx, b.sb.Handle())
	if err != nil {
		t.Fatalf("Recover: %v", err)
	}
	if got := SandboxAbilities(again); !slices.Equal(got, cfg.SandboxAbilities) {
		t.Errorf("the abilities of a recovered sandbox are %q, not %q", got, cfg.SandboxAbilities)
	}
}
