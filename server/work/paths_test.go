package work

import (
	"slices"
	"testing"
)

func TestBestPathsFirst(t *testing.T) {
	t.Parallel()
	all := []string{"docs/main/notes.md", "cmd/domain.go", "cmd/main.go", "main_test.go", "mxaxixn.txt", "README.md", "é/ünï.go"}
	for query, want := range map[string][]string{
		"main": {"cmd/main.go", "main_test.go", "cmd/domain.go", "docs/main/notes.md", "mxaxixn.txt"},
		"MD":   {"README.md", "docs/main/notes.md", "cmd/main.go", "cmd/domain.go"},
		"éü":   {"é/ünï.go"},
		"zzz":  {},
	} {
		if got := bestPaths(all, query, 10); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", query, got, want)
		}
	}
	if got := bestPaths(all, "", 2); len(got) != 2 {
		t.Errorf("the limit was not kept: %q", got)
	}
}
