package guest_test

import (
	"testing"

	"github.com/parawork/parawork/guest"
)

// A guest's impossible report of an early output is rejected.
func TestEarlyOutputIsChecked(t *testing.T) {
	t.Parallel()
	p := func(state guest.ProcessState, end int64, s guest.Stream, n int) guest.Process {
		return guest.Process{ID: "a", State: state, Ends: map[guest.Stream]int64{guest.Stdout: end, guest.Stderr: 0}, Early: map[guest.Stream][]byte{s: make([]byte, n)}}
	}
	if err := p(guest.Exited, 5, guest.Stdout, 5).Check("a"); err != nil {
		t.Error(err)
	}
	for name, wrong := range map[string]guest.Process{
		"running": p(guest.Running, 5, guest.Stdout, 5), "short": p(guest.Exited, 5, guest.Stdout, 4), "long": p(guest.Exited, guest.MaxEarly+1, guest.Stdout, guest.MaxEarly+1),
		"a terminal": p(guest.Exited, 0, guest.Terminal, 0), "a stranger": p(guest.Exited, 0, "x", 0),
	} {
		if wrong.Check("a") == nil {
			t.Errorf("%s: believed", name)
		}
	}
}
