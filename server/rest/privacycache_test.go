package rest

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// Of those who ask about a team at the same moment one reads; other teams wait for nobody; a change is known at once.
func TestThePrivateWorkspacesOfATeamAreReadOnceForAll(t *testing.T) {
	t.Parallel()
	var v privacyCache
	now := time.UnixMilli(1_000_000)
	reading, mine := v.of("a", now)
	if !mine {
		t.Fatal("nobody reads")
	}
	if again, mine := v.of("a", now); mine || again != reading {
		t.Error("two read the same")
	}
	if other, mine := v.of("b", now); !mine || other == reading {
		t.Error("one team waits for another's reading")
	}
	v.lift() // a workspace became private while it was being read
	fresh, mine := v.of("a", now)
	if !mine || fresh == reading {
		t.Error("what was read before the change is believed after it")
	}
	fresh.at = now
	close(fresh.done)
	if got, mine := v.of("a", now.Add(privacyCacheFresh)); mine || got != fresh {
		t.Error("read again although it is fresh")
	}
	if _, mine := v.of("a", now.Add(privacyCacheFresh+time.Millisecond)); !mine {
		t.Error("what another process may have changed is believed for ever")
	}
	failed, _ := v.of("c", now)
	failed.err = errors.New("no database")
	close(failed.done)
	if _, mine := v.of("c", now); !mine {
		t.Error("a reading that failed is kept")
	}
	for i := range 10 * privacyCacheTeams {
		r, mine := v.of(fmt.Sprint("team", i), now)
		if r.at = now; mine {
			close(r.done)
		}
		now = now.Add(privacyCacheFresh / 10)
	}
	if n := len(v.teams); n > privacyCacheTeams+1 {
		t.Errorf("%d teams are kept", n)
	}
}
