package manager

import (
	"fmt"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
)

// The slot of a workspace without a sandbox is dropped after a while, unless somebody is about to make one.
func TestSlotsOfWorkspacesWithoutASandboxAreForgotten(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000)
	m := &Manager{cfg: Config{Now: func() time.Time { return now }}, slots: map[string]*slot{}}
	for i := range 1000 {
		m.UnreachableSandbox(fmt.Sprint("gone", i))
	}
	m.slot("lives").place = &place{}
	m.slot("cannot be reached").stray = &executors.Record{}
	m.slot("is being made").turn <- struct{}{}
	now = now.Add(slotKept - time.Minute)
	m.UnreachableSandbox("asked for lately")
	m.sweepSlots()
	if len(m.slots) != 1004 {
		t.Fatalf("%d slots", len(m.slots))
	}
	now = now.Add(2 * time.Minute)
	m.sweepSlots()
	for _, id := range []string{"lives", "cannot be reached", "is being made", "asked for lately"} {
		if m.slots[id] == nil {
			t.Errorf("the slot of a workspace that %s is gone", id)
		}
	}
	if len(m.slots) != 4 {
		t.Errorf("%d slots are kept", len(m.slots))
	}
}
