package testkit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

// A server that is killed while its disk is full, and starts while it still is, ends nobody's shell: also not in workspaces whose archive
// the full disk refused. Once there is room each of them goes on.
func TestAStartOnAFullDiskEndsNothing(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"no room", "no names"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			h := testkit.StartWith(t, testkit.With{Disk: smallDisk(t, "size=96m,nr_inodes=6000")})
			p := h.Sample()
			places := []string{"local", "local", "local", "local"}
			if haveBubblewrap() {
				places[1], places[3] = "bubblewrap", "bubblewrap"
			}
			var all []testkit.Workspace
			var shells []testkit.Session
			for i, place := range places {
				ws := h.WorkspaceIn(place, p, fmt.Sprint("Work ", i))
				s := h.Run(ws.ID, "/bin/sh", "-c", "echo up; while read l; do seq 1 200000; echo got $l; done")
				must(t, h.Attach(s.ID, "from=0").See("up"))
				all, shells = append(all, ws), append(shells, s)
			}
			fill := func() func() { return fillDisk(t, h.DataDir(), 0) }
			if way == "no names" {
				fill = func() func() { return fillInodes(t, h.DataDir()) }
			}
			empty := fill()
			for _, s := range shells[:2] { // more than is on disk
				x := h.Attach(s.ID, "from=0")
				x.Type("full\r")
				must(t, x.See("got full"))
			}
			for _, ws := range all[:2] {
				if err := h.Try("POST", "/workspaces/"+ws.ID+"/archive", nil, nil); err == nil || !strings.Contains(err.Error(), "disk_full") {
					t.Errorf("archiving on a full disk: %v", err)
				}
			}
			h.Kill()
			h.Boot()
			for i, s := range shells {
				var now testkit.Session
				h.API("GET", "/sessions/"+s.ID, nil, &now)
				if now.State == "exited" || now.State == "failed" || now.State == "lost" {
					t.Errorf("on the full disk the shell in %s is %s: %s", places[i], now.State, now.StateReason)
				}
			}
			empty()
			for _, s := range shells {
				x := h.Attach(s.ID, "from=0")
				x.Type("room\r")
				must(t, x.See("got room"))
			}
			if t.Failed() {
				t.Log(h.Log())
			}
		})
	}
}
