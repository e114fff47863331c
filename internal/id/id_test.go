package id_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/internal/id"
)

func TestNewGrowsAndNeverRepeats(t *testing.T) {
	t.Parallel()
	last := ""
	for range 20_000 { // more than one millisecond's counter can be exhausted by
		v := id.New("ws")
		if !id.Valid("ws", v) {
			t.Fatalf("%q is not a valid id", v)
		}
		if v <= last {
			t.Fatalf("%q does not sort after %q", v, last)
		}
		last = v
	}
}

func TestNewConcurrently(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1_000 {
				v := id.New("ses")
				mu.Lock()
				if seen[v] {
					t.Errorf("%q was made twice", v)
				}
				seen[v] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func TestValidRefusesWhatIsNotAnID(t *testing.T) {
	t.Parallel()
	good := id.New("ws")
	for _, s := range []string{"", "ws", "ws_", good[:len(good)-1], good + "0", "sx" + good[2:], strings.ToUpper(good),
		good[:len(good)-1] + "/", good[:len(good)-1] + "\n", "ws-" + good[3:], good[:len(good)-1] + "u"} {
		if id.Valid("ws", s) {
			t.Errorf("Valid(%q) = true", s)
		}
	}
	if id.Valid("usr", good) {
		t.Error("the prefix was not looked at")
	}
}
