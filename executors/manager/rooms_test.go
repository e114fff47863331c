package manager

import (
	"fmt"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
)

// What is kept of a workspace without a sandbox is forgotten after a while, unless somebody is about to make one.
func TestRoomsOfWorkspacesWithoutASandboxAreForgotten(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000)
	m := &Manager{cfg: Config{Now: func() time.Time { return now }}, rooms: map[string]*room{}}
	for i := range 1000 {
		m.Astray(fmt.Sprint("gone", i))
	}
	m.room("lives").place = &place{}
	m.room("cannot be reached").stray = &executors.Record{}
	m.room("is being made").turn <- struct{}{}
	now = now.Add(roomKept - time.Minute)
	m.Astray("asked for lately")
	m.sweepRooms()
	if len(m.rooms) != 1004 {
		t.Fatalf("%d rooms", len(m.rooms))
	}
	now = now.Add(2 * time.Minute)
	m.sweepRooms()
	for _, id := range []string{"lives", "cannot be reached", "is being made", "asked for lately"} {
		if m.rooms[id] == nil {
			t.Errorf("the room of a workspace that %s is gone", id)
		}
	}
	if len(m.rooms) != 4 {
		t.Errorf("%d rooms are kept", len(m.rooms))
	}
}
