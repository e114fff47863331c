package textsearch

import (
	"slices"
	"testing"
)

// Both ways to take a text apart find the same words: a letter that is not ASCII behind a text must not change those before it.
func TestWordsOfASCII(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", " ", "Run the tests", "fooBar foo_bar HTTPServer x2Y a1b2C3 B", "parseConfigFile(path)--strict", "aB", "AbC dE", "42"} {
		want := wordsOf(s + " \u00e9")
		if got := wordsOf(s); !slices.Equal(append(got, "e"), want) {
			t.Errorf("%q: %q, not %q", s, got, want[:len(want)-1])
		}
	}
}
