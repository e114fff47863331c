package machine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/runner/policy"
)

// A program that did not start a command reports it too, and no longer reports one that has ended.
func TestLookTellsWhatRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir(), policy.Default(), nil)
	sb, err := r.make(t.Context(), ask("ws_1"))
	check(t, err)
	c := r.guest(sb)
	words(t, c, sh(t, c, "true").ID)
	sh(t, c, "while :; do sleep 1; done")
	r.restart()
	eventually(t, "one shell is reported", func() bool {
		all := r.m.Look(t.Context())
		return len(all) == 1 && len(all[0].Programs) == 1 && slices.ContainsFunc([]string{"sh", "dash", "bash", "sleep", "a program"}, func(name string) bool { return strings.Contains(all[0].Programs[0], name) })
	})
}
