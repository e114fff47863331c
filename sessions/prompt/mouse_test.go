package prompt_test

import (
	"testing"

	"github.com/parawork/parawork/sessions/prompt"
)

func TestGesturesAreNotKeys(t *testing.T) {
	t.Parallel()
	for p, want := range map[string]bool{"\x1b[I": true, "\x1b[O": true, "\x1b[<35;10;20M": true, "\x1b[<0;1;1M\x1b[<0;1;1m": true, "\x1b[M !!": true,
		"\x1b[I\x1b[<35;1;2M": true, "": false, "\x1b": false, "\x1b[A": false, "y": false, "\x1b[Iy": false, "\x1b[<35;1": false, "\x1b[<a;1M": false,
		"\x1b[M": false, "\x1b[": false, "\x1bOA": false} {
		if got := prompt.IsMouseReport([]byte(p)); got != want {
			t.Errorf("%q: %v", p, got)
		}
	}
}
