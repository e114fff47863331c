package fault_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/parawork/parawork/internal/fault"
)

// What others say is not shown: it may hold anything.
func TestWords(t *testing.T) {
	t.Parallel()
	full := fault.New(fault.Conflict, "full", "There are %d already.", 3)
	for _, c := range []struct {
		err  error
		want string
	}{{full, "There are 3 already."}, {fmt.Errorf("adding: %w", full), "There are 3 already."}, {errors.New("dial 10.0.0.1: secret"), "it did not answer"}} {
		if got := fault.Words(c.err, "it did not answer"); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}
