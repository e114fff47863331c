package app

import (
	"context"
	"slices"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/workspaces"
)

// Sessions and workspaces look for these in each other, by interfaces of their own.
var (
	_ interface {
		Record(ctx context.Context, a workspaces.Activity) error
		Moving(ctx context.Context, workspaceID string) error
	} = movable{}
	_ interface {
		Working(ctx context.Context, workspaceID string) (bool, error)
	} = (*sessions.Service)(nil)
)

// What an executor can do beyond its contract is found by type assertions. Here are the executors as the server has them, with all that is found
// of each: what a wrapper does not pass on is missed here, and nowhere else.
func TestExecutorsKeepTheirAbilities(t *testing.T) {
	h := built(t)
	want := map[executors.Kind][]string{
		"bubblewrap":    {"Destroyer", "RemnantKeeper", "Remover"},
		executors.Local: {"Destroyer", "RemnantKeeper", "Remover"},
		"docker":        {"Destroyer", "RemnantKeeper", "Remover", "RunRecorder", "Stopper"},
		"boxlite":       {"RemnantKeeper", "Sleeper"},
		"dockerhosts":   {"Destroyer", "RemnantKeeper", "Remover", "RunRecorder", "Stopper"},
		"vercel":        {"RemnantKeeper", "RunRecorder", "Sleeper"},
		"cloudflare":    {"RemnantKeeper", "RunRecorder"},
		"kubernetes":    {"Callee", "RemnantKeeper", "Remover", "RunRecorder", "Sleeper", "Warmer"},
		"e2b":           {"RemnantKeeper", "RunRecorder", "Sleeper", "Warmer"},
	}
	for _, e := range h.executors.Own() {
		if got := executortest.Abilities(e); !slices.Equal(got, want[e.Kind()]) {
			t.Errorf("%s has %q, not %q", e.Kind(), got, want[e.Kind()])
		}
		delete(want, e.Kind())
	}
	if !h.cfg.Sandboxing.Of("docker").On("enabled") {
		delete(want, "docker")
	}
	if len(want) > 0 {
		t.Errorf("not among the server's executors: %v", want)
	}
	if !h.executors.OfFamily(executors.Runner) {
		t.Error("members' machines are no family of the server")
	}
}
