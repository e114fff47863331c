package page_test

import (
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
)

func TestCursorComesBack(t *testing.T) {
	t.Parallel()
	for _, k := range []page.Key{{}, {At: 1_700_000_000_000, ID: "ws_1"}, {At: -1, ID: "a:b"}} {
		got, err := page.Parse(page.Encode(k))
		if err != nil || got != k {
			t.Errorf("Parse(Encode(%v)) = %v, %v", k, got, err)
		}
	}
}

func TestParseRefusesForeignCursors(t *testing.T) {
	t.Parallel()
	for _, c := range []string{"%", "abc", "bm9jb2xvbg", "eDp5", page.Encode(page.Key{ID: "a\x00b"}), page.Encode(page.Key{ID: "\xff"}), string(make([]byte, 600))} {
		if _, err := page.Parse(c); !fault.Is(err, fault.Invalid) {
			t.Errorf("Parse(%q) = %v, want invalid", c, err)
		}
	}
}

func TestSizeAndCut(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]int{-1: 50, 0: 50, 1: 1, 200: 200, 5000: 200} {
		if got := (page.Page{Limit: limit}).Size(); got != want {
			t.Errorf("Size of %d = %d, want %d", limit, got, want)
		}
	}
	key := func(i int) page.Key { return page.Key{At: int64(i)} }
	items, next := page.Cut(page.Page{Limit: 2}, []int{1, 2, 3}, key)
	if len(items) != 2 || next != page.Encode(page.Key{At: 2}) {
		t.Errorf("Cut = %v, %q", items, next)
	}
	if items, next = page.Cut(page.Page{Limit: 3}, []int{1, 2, 3}, key); len(items) != 3 || next != "" {
		t.Errorf("Cut of the last page = %v, %q", items, next)
	}
}
