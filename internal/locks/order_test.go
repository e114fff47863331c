package locks_test

import (
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/locks"
)

func TestLocksAreTakenInTheirOrder(t *testing.T) { // alone: the reporter is the process's
	var breaches []string
	locks.CheckOrder(func(b string) { breaches = append(breaches, b) })
	first, second := locks.Ordered(1, "first"), locks.Ordered(2, "second")
	take := func(k *locks.Keyed, key string) func() {
		t.Helper()
		unlock, err := k.LockContext(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return unlock
	}
	one := take(&first, "a")
	two := take(&second, "a")
	one()
	two()
	if breaches != nil {
		t.Errorf("in order: %q", breaches)
	}
	two = take(&second, "a")
	one = take(&first, "a")
	if len(breaches) != 1 || !strings.Contains(breaches[0], `"first" of a is waited for while "second" of a`) {
		t.Errorf("out of order: %q", breaches)
	}
	two()
	also := take(&first, "b")
	if len(breaches) != 2 {
		t.Errorf("two of one rank: %q", breaches)
	}
	one()
	also()
	two = take(&second, "a")
	if unlock, ok := first.TryLock("a"); !ok || len(breaches) != 2 { // who does not wait cannot be waited for in turn
		t.Errorf("a lock that is not waited for: %v, %q", ok, breaches)
	} else {
		unlock()
	}
	two()
}
