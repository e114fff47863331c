package executors

import (
	"bytes"
	"testing"
)

func TestCleanReason(t *testing.T) {
	t.Parallel()
	if got := CleanReason("a\x00b\x1b[31m\xff"); got != "a b [31m\uFFFD" {
		t.Errorf("%q", got)
	}
	if got := CleanReason(string(bytes.Repeat([]byte("é"), 3000))); len(got) > maxReason+3 {
		t.Errorf("%d bytes", len(got))
	}
}
