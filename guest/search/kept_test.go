package search

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parawork/parawork/guest"
)

// What a search keeps until it has seen all files is bounded, however many lines they have.
func TestKeptIsBounded(t *testing.T) {
	t.Parallel()
	f := &finder{req: guest.SearchRequest{Lines: true, Limit: guest.MaxFound}}
	text := strings.Repeat("x", guest.MaxFoundLine)
	for i := range 100 {
		one := guest.Found{Path: fmt.Sprintf("%03d", 99-i), Matches: 200}
		for n := range one.Matches {
			one.Lines = append(one.Lines, guest.FoundLine{Number: n + 1, Text: text, Match: true})
		}
		f.add(one)
		kept := 0
		for _, item := range f.answer.Items {
			kept += len(item.Lines) * len(text)
		}
		if kept > maxKept+guest.MaxFoundBytes {
			t.Fatalf("%d bytes are kept after %d files", kept, i+1)
		}
	}
	if a := f.result(); a.Files != 100 || a.Matches != 20_000 || a.Items[0].Path != "000" || len(a.Items) != 2 {
		t.Errorf("%d files of %d, %d lines, first %s", len(a.Items), a.Files, a.Matches, a.Items[0].Path)
	}
}
