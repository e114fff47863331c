package executortest

import (
	"slices"
	"testing"

	"github.com/parawork/parawork/executors"
)

// Abilities names the optional abilities of an executor, as whoever looks for them by a type assertion finds them. A wrapper that does not pass
// one on loses it without a word.
func Abilities(e executors.Executor) []string {
	var out []string
	if _, ok := e.(executors.Ender); ok {
		out = append(out, "Ender")
	}
	if _, ok := e.(executors.Owned); ok {
		out = append(out, "Owned")
	}
	if _, ok := e.(executors.Remainer); ok {
		out = append(out, "Remainer")
	}
	if _, ok := e.(executors.Remover); ok {
		out = append(out, "Remover")
	}
	if _, ok := e.(executors.Sleeper); ok {
		out = append(out, "Sleeper")
	}
	if _, ok := e.(executors.Stopper); ok {
		out = append(out, "Stopper")
	}
	if _, ok := e.(executors.Warmer); ok {
		out = append(out, "Warmer")
	}
	if _, ok := e.(executors.Witness); ok {
		out = append(out, "Witness")
	}
	return out
}

// SandboxAbilities names the optional abilities of a sandbox likewise.
func SandboxAbilities(sb executors.Sandbox) []string {
	var out []string
	if _, ok := sb.(executors.Leased); ok {
		out = append(out, "Leased")
	}
	if _, ok := sb.(executors.Limiter); ok {
		out = append(out, "Limiter")
	}
	if _, ok := sb.(executors.Metered); ok {
		out = append(out, "Metered")
	}
	if _, ok := sb.(executors.Narrow); ok {
		out = append(out, "Narrow")
	}
	if _, ok := sb.(executors.Pauser); ok {
		out = append(out, "Pauser")
	}
	return out
}

// testAbilities sees that an executor, and what it makes and finds again, can do what its package says it can, and nothing else.
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
		t.Errorf("the abilities of a sandbox that was found again are %q, not %q", got, cfg.SandboxAbilities)
	}
}
