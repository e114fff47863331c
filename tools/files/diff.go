package files

import (
	"fmt"
	"strings"

	"github.com/parawork/parawork/workspaces/git"
)

const (
	maxDiff  = 64 << 10 // bytes of the diff for programs
	maxShown = 6 << 10  // bytes of the diff for the agent, which knows what it wrote
	around   = 3        // lines around a difference
)

// unified returns the unified diff of two texts, without names, and how many lines were added and removed.
func unified(before, after []byte) (diff string, added, removed int) {
	a, b := git.SplitLines(before), git.SplitLines(after)
	blocks := git.DiffLines(a, b)
	var out strings.Builder
	line := func(mark byte, l string) {
		out.WriteByte(mark)
		out.WriteString(l)
		if !strings.HasSuffix(l, "\n") {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
	for i := 0; i < len(blocks); {
		j := i + 1 // blocks that share their surroundings make one hunk
		for j < len(blocks) && blocks[j].A0-blocks[j-1].A1 <= 2*around {
			j++
		}
		first, last := blocks[i], blocks[j-1]
		a0, a1 := max(first.A0-around, 0), min(last.A1+around, len(a))
		b0, b1 := first.B0-(first.A0-a0), last.B1+(a1-last.A1)
		fmt.Fprintf(&out, "@@ -%s +%s @@\n", span(a0, a1), span(b0, b1))
		at := a0
		for _, x := range blocks[i:j] {
			for ; at < x.A0; at++ {
				line(' ', a[at])
			}
			for ; at < x.A1; at++ {
				line('-', a[at])
			}
			for _, l := range b[x.B0:x.B1] {
				line('+', l)
			}
			added, removed = added+x.B1-x.B0, removed+x.A1-x.A0
		}
		for ; at < a1; at++ {
			line(' ', a[at])
		}
		i = j
	}
	return out.String(), added, removed
}

// span is a run of lines in the head of a hunk; an empty one is named by the line before it.
func span(from, to int) string {
	switch to - from {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return fmt.Sprint(from + 1)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}

// cutLines returns the first lines of a text that fit.
func cutLines(text string, most int) (string, bool) {
	if len(text) <= most {
		return text, false
	}
	return text[:strings.LastIndexByte(text[:max(most, 0)], '\n')+1], true
}
