package git

import (
	"bytes"
)

// maxEdits bounds how many lines two texts may differ by before the rest counts as one difference: memory grows with its square.
const maxEdits = 2_000

// LineBlock is a run of lines that differs: lines a0 to a1 of one text correspond to b0 to b1 of the other. Lines count from 0, ends are
// exclusive.
type LineBlock struct{ A0, A1, B0, B1 int }

// SplitLines splits a text after each line feed; the lines include it.
func SplitLines(text []byte) []string {
	var out []string
	for len(text) > 0 {
		n := bytes.IndexByte(text, '\n') + 1
		if n == 0 {
			n = len(text)
		}
		out = append(out, string(text[:n]))
		text = text[n:]
	}
	return out
}

// DiffLines finds the differing lines of two texts with the greedy algorithm of Myers ("An O(ND) Difference Algorithm and Its Variations",
// 1986).
func DiffLines(a, b []string) []LineBlock {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	x, y := a[head:len(a)-tail], b[head:len(b)-tail]
	if len(x) == 0 && len(y) == 0 {
		return nil
	}
	if len(x) == 0 || len(y) == 0 {
		return []LineBlock{{head, head + len(x), head, head + len(y)}}
	}
	same, ok := commonLines(x, y)
	if !ok {
		return []LineBlock{{head, head + len(x), head, head + len(y)}}
	}
	var out []LineBlock
	i, j := 0, 0
	for _, m := range append(same, [2]int{len(x), len(y)}) {
		if m[0] > i || m[1] > j {
			out = append(out, LineBlock{head + i, head + m[0], head + j, head + m[1]})
		}
		i, j = m[0]+1, m[1]+1
	}
	return out
}

// commonLines returns the pairs of lines that are in both texts, in order; false when they differ by more than maxEdits lines.
func commonLines(a, b []string) ([][2]int, bool) {
	ids := make(map[string]int32, len(a))
	number := func(lines []string) []int32 {
		out := make([]int32, len(lines))
		for i, l := range lines {
			n, ok := ids[l]
			if !ok {
				n = int32(len(ids))
				ids[l] = n
			}
			out[i] = n
		}
		return out
	}
	x, y := number(a), number(b)
	most := min(len(x)+len(y), maxEdits)
	reach := make([]int32, 2*most+3) // how far in x each diagonal reaches, shifted by most+1
	var trace [][]int32
	for d := 0; d <= most; d++ {
		trace = append(trace, append([]int32(nil), reach[most+1-d:most+2+d]...))
		for k := -d; k <= d; k += 2 {
			at := most + 1 + k
			var i int32
			if k == -d || k != d && reach[at-1] < reach[at+1] {
				i = reach[at+1]
			} else {
				i = reach[at-1] + 1
			}
			j := i - int32(k)
			for int(i) < len(x) && int(j) < len(y) && x[i] == y[j] {
				i, j = i+1, j+1
			}
			reach[at] = i
			if int(i) >= len(x) && int(j) >= len(y) {
				return walkBack(trace, d, len(x), len(y)), true
			}
		}
	}
	return nil, false
}

// walkBack follows the recorded reaches from the end to the start.
func walkBack(trace [][]int32, d, i, j int) [][2]int {
	var out [][2]int
	for ; d > 0; d-- {
		was := func(k int) int { // the state before the d-th edit, with diagonals from -d to d
			return int(trace[d][k+d])
		}
		k := i - j
		from := k - 1
		if k == -d || k != d && was(k-1) < was(k+1) {
			from = k + 1
		}
		pi := was(from)
		pj := pi - from
		for i > pi && j > pj && (from == k+1 && j > pj+1 || from == k-1 && i > pi+1) {
			i, j = i-1, j-1
			out = append(out, [2]int{i, j})
		}
		i, j = pi, pj
	}
	for i > 0 && j > 0 {
		i, j = i-1, j-1
		out = append(out, [2]int{i, j})
	}
	for l, r := 0, len(out)-1; l < r; l, r = l+1, r-1 {
		out[l], out[r] = out[r], out[l]
	}
	return out
}

// CarryRange maps lines a0 to a1 of one text to the other, given where the two differ. It fails if one of the lines differs, or, for an
// empty range, if there is a difference right at it: it could belong on either side.
func CarryRange(blocks []LineBlock, a0, a1 int) (int, bool) {
	shift := 0
	for _, b := range blocks {
		switch {
		case a0 == a1 && b.A0 <= a0 && a0 <= b.A1:
			return 0, false
		case b.A1 <= a0:
			shift = b.B1 - b.A1
		case b.A0 < a1:
			return 0, false
		}
	}
	return a0 + shift, true
}
