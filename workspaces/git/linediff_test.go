package git

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// rebuild makes b of a by the blocks between them, which must have the same lines everywhere else.
func rebuild(t *testing.T, a, b []string, blocks []LineBlock) {
	t.Helper()
	i, j := 0, 0
	for _, x := range blocks {
		if x.A0-i != x.B0-j || x.A0 < i || x.B0 < j || x.A0 == x.A1 && x.B0 == x.B1 || !slices.Equal(a[i:x.A0], b[j:x.B0]) {
			t.Fatalf("blocks %v of\n%q\n%q", blocks, a, b)
		}
		i, j = x.A1, x.B1
	}
	if !slices.Equal(a[i:], b[j:]) {
		t.Fatalf("blocks %v of\n%q\n%q", blocks, a, b)
	}
}

func TestDiffLines(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	text := func(n, letters int) []string {
		var out []string
		for range n {
			out = append(out, string(rune('a'+r.IntN(letters))))
		}
		return out
	}
	for range 3_000 {
		a := text(r.IntN(30), 1+r.IntN(6))
		b := text(r.IntN(30), 1+r.IntN(6))
		rebuild(t, a, b, DiffLines(a, b))
		// A few edits of the same text are found as no more than they are.
		c := slices.Clone(a)
		edits := r.IntN(3)
		for range edits {
			c = slices.Insert(c, r.IntN(len(c)+1), "new")
		}
		blocks := DiffLines(a, c)
		rebuild(t, a, c, blocks)
		lines := 0
		for _, x := range blocks {
			lines += x.A1 - x.A0 + x.B1 - x.B0
		}
		if lines != edits {
			t.Fatalf("%d edits became %v of %q and %q", edits, blocks, a, c)
		}
	}
	// What differs by too much is one difference.
	long, other := strings.Split(strings.Repeat("x ", maxEdits), " "), strings.Split(strings.Repeat("y ", maxEdits), " ")
	rebuild(t, long, other, DiffLines(long, other))
}

func TestCarryRange(t *testing.T) {
	t.Parallel()
	a := strings.Split("1 2 3 4 5 6 7 8", " ")
	b := strings.Split("0 1 2 3 X 5 6 8", " ") // one line more, one changed, one gone
	blocks := DiffLines(a, b)
	for _, c := range []struct{ a0, a1, want int }{
		{0, 1, 1}, {0, 3, 1}, {4, 6, 5}, {7, 8, 7}, {1, 1, 2}, {5, 5, 6}, {8, 8, 8},
		{2, 4, -1}, {3, 4, -1}, {5, 7, -1}, {0, 0, -1}, {4, 4, -1}, {7, 7, -1}, {0, 8, -1},
	} {
		got, ok := CarryRange(blocks, c.a0, c.a1)
		if ok != (c.want >= 0) || ok && got != c.want {
			t.Errorf("%d to %d: %d %v, want %d", c.a0, c.a1, got, ok, c.want)
		}
	}
}
