package fault_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/parawork/parawork/internal/fault"
)

func TestWhatAnErrorIs(t *testing.T) {
	t.Parallel()
	cause := errors.New("EACCES")
	f := fault.Wrap(cause, fault.Unavailable, "docker_away", "Docker does not answer at %s.", "/run/docker.sock")
	err := fmt.Errorf("making a sandbox: %w", f)
	if fault.KindOf(err) != fault.Unavailable || fault.CodeOf(err) != "docker_away" || !fault.Is(err, fault.Unavailable) || fault.Is(err, fault.Internal) {
		t.Errorf("%s, %s", fault.KindOf(err), fault.CodeOf(err))
	}
	if !errors.Is(err, cause) || f.Error() != "Docker does not answer at /run/docker.sock.: EACCES" || f.Message != "Docker does not answer at /run/docker.sock." {
		t.Errorf("%v; for people: %s", f, f.Message)
	}
	if got := fault.New(fault.Invalid, "x", "No.").Error(); got != "No." {
		t.Errorf("%q", got)
	}
	if fault.KindOf(nil) != "" || fault.CodeOf(nil) != "" || fault.Is(nil, "") || fault.Is(nil, fault.Internal) {
		t.Error("nothing is an error")
	}
	if fault.KindOf(cause) != fault.Internal || fault.CodeOf(cause) != "" || !fault.Is(cause, fault.Internal) {
		t.Error("an error without a kind is internal")
	}
	outer := fault.Wrap(err, fault.Conflict, "busy", "It is busy.") // the first in the chain counts
	if fault.KindOf(outer) != fault.Conflict || fault.CodeOf(outer) != "busy" || !errors.Is(outer, cause) {
		t.Errorf("%v", outer)
	}
}

// An error may be shared by many who meet it: who adds a detail gets one of their own.
func TestDetailsAreOfACopy(t *testing.T) {
	t.Parallel()
	shared := fault.New(fault.Invalid, "bad", "No.")
	one := shared.With("field", "name")
	two := one.With("most", 5).With("field", "email")
	if shared.Details != nil || len(one.Details) != 1 || one.Details["field"] != "name" {
		t.Errorf("%v, %v", shared.Details, one.Details)
	}
	if len(two.Details) != 2 || two.Details["field"] != "email" || two.Details["most"] != 5 || two.Code != "bad" || two.Message != "No." {
		t.Errorf("%+v", two)
	}
}

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
