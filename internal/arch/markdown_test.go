package arch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// pageBounds are how many lines of a page somebody reads before they begin.
var pageBounds = map[string]int{"README.md": 80, "CONTRIBUTING.md": 60, "docs/architecture.md": 200}

// Pages are read in editors and in differences, too: their lines stay short, but for tables and code, which cannot be broken.
func TestMarkdownLines(t *testing.T) {
	t.Parallel()
	const most = 120
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/flows/*.md"} {
		found, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	if len(pages) < 10 {
		t.Fatalf("found only %q", pages)
	}
	for _, page := range pages {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel("../..", page)
		if err != nil {
			t.Fatal(err)
		}
		if n, bound := strings.Count(string(b), "\n"), pageBounds[name]; bound != 0 && n > bound {
			t.Errorf("%s has %d lines, more than %d: move what only some readers need to a page in docs", name, n, bound)
		}
		code := false
		for i, line := range strings.Split(string(b), "\n") {
			text := strings.TrimSpace(line)
			if strings.Contains(text, "```") {
				code = !code
			}
			if n := utf8.RuneCountInString(line); n > most && !code && !strings.HasPrefix(text, "|") {
				t.Errorf("%s:%d has %d characters, more than %d: break it", page, i+1, n, most)
			}
		}
	}
}
