package executors_test

import (
	"slices"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/internal/fault"
)

func TestTheRegistryFindsOwnExecutorsAndMembers(t *testing.T) {
	t.Parallel()
	w := fake.NewWorld(t.TempDir(), nil)
	t.Cleanup(w.Close)
	own, family := fake.New(w), fake.NewFamily(w)
	r := executors.NewRegistry([]executors.Executor{own}, family)
	laptop := executors.Runner.Of("laptop")
	if _, ok := r.Find(t.Context(), laptop); ok {
		t.Error("a member that never was is found")
	}
	m := family.Add("laptop", executors.Owner{TeamID: "team_a", UserID: "ann"})
	family.Add("other", executors.Owner{TeamID: "team_b"})
	for k, want := range map[executors.Kind]executors.Executor{own.Kind(): own, laptop: m} {
		if e, ok := r.Find(t.Context(), k); !ok || e != want {
			t.Errorf("Find %q: %v, %v", k, e, ok)
		}
	}
	for _, k := range []executors.Kind{"", "docker", executors.Runner, executors.Runner.Of("gone")} {
		if e, ok := r.Find(t.Context(), k); ok {
			t.Errorf("Find %q: %v", k, e)
		}
	}
	if _, ok := r.OwnOf(laptop); ok || !slices.Equal(r.Own(), []executors.Executor{own}) {
		t.Error("a member is one of the server's own")
	}
	if all := r.All(t.Context()); len(all) != 3 || all[laptop] != m {
		t.Errorf("All: %v", all)
	}
	if ms := r.Members(t.Context(), "team_a"); len(ms) != 1 || ms[0] != m {
		t.Errorf("Members: %v", ms)
	}
	if o, ok := r.OwnerOf(t.Context(), laptop); !ok || o.UserID != "ann" {
		t.Errorf("OwnerOf: %+v, %v", o, ok)
	}
	if o, ok := r.OwnerOf(t.Context(), own.Kind()); !ok || o != (executors.Owner{}) {
		t.Errorf("OwnerOf the server's: %+v, %v", o, ok)
	}
	if !r.OfFamily(laptop) || !r.OfFamily(executors.Runner) || r.OfFamily(own.Kind()) {
		t.Error("families are not distinguished from the server's own")
	}
	if k := r.Kinds(); !slices.Equal(k, []executors.Kind{own.Kind(), executors.Runner}) {
		t.Errorf("Kinds: %v", k)
	}
}

func TestWhatIsNotThereIsSaidByWhatItWouldBe(t *testing.T) {
	t.Parallel()
	if err := executors.ErrNoExecutor(executors.Runner.Of("laptop")); fault.CodeOf(err) != "runner_not_found" || !fault.Is(err, fault.NotFound) {
		t.Errorf("a member: %v", err)
	}
	if err := executors.ErrNoExecutor("docker"); fault.CodeOf(err) != "executor_unavailable" || !fault.Is(err, fault.Unavailable) {
		t.Errorf("one of the server's own: %v", err)
	}
}
