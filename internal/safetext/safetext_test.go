package safetext_test

import (
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/safetext"
)

func TestTextIsSafeToShow(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		" a\x1b[31m b\x00 ": "a[31m b", "a\u202eb": "ab", "a\xffb": "a\ufffdb", "a\u2028b": "ab", "a\nb": "ab",
		strings.Repeat("é", safetext.MaxLine+5): strings.Repeat("é", safetext.MaxLine),
	} {
		if got := safetext.Line(in); got != want {
			t.Errorf("Line(%q) = %q, not %q", in, got, want)
		}
	}
	const text = "\n\ta\u202e\r\nb\x07\n\n"
	if got := safetext.Lines(text); got != "\ta\nb" {
		t.Errorf("Lines: %q", got)
	}
	if got := safetext.OneLine(text); got != "a b" {
		t.Errorf("OneLine: %q", got)
	}
	if got := safetext.Cut("äöü", 2); got != "äö" {
		t.Errorf("Cut: %q", got)
	}
}
