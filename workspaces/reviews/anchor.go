package reviews

import (
	"bufio"
	"errors"
	"io"
	"iter"
	"regexp"
	"strconv"
	"strings"
)

// hunk is a run of lines in which two texts differ, as in `git diff --unified=0`: with no lines on a side, the start there is the line
// before.
type hunk struct{ oldStart, oldLines, newStart, newLines int }

var hunkHead = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)

// readHunks parses the hunk headers of a patch of one file, without context.
func readHunks(r io.Reader) ([]hunk, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	var out []hunk
	left := 0 // skip the hunk's lines: they may look like headers
	for {
		line, err := in.ReadSlice('\n')
		head := string(line[:min(len(line), 200)])
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		switch m := hunkHead.FindStringSubmatch(head); {
		case left > 0 && strings.HasPrefix(head, `\`):
		case left > 0:
			left--
		case m != nil:
			h := hunkOf(m)
			left = h.oldLines + h.newLines
			out = append(out, h)
		}
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// hunkOf parses a match of hunkHead.
func hunkOf(m []string) hunk {
	n := func(i int) int {
		if m[i] == "" {
			return 1
		}
		v, _ := strconv.Atoi(m[i])
		return v
	}
	return hunk{n(1), n(2), n(3), n(4)}
}

// shift returns where the lines first to last of the old text start in the new one. touched: they are not all there unchanged and adjacent;
// at is then the nearest place.
func shift(hunks []hunk, first, last int) (at int, touched bool) {
	at = first
	for _, h := range hunks {
		end := h.oldStart + h.oldLines - 1 // number of old lines
		if h.oldLines == 0 {
			switch {
			case h.oldStart < first:
				at += h.newLines
			case h.oldStart < last:
				touched = true
			}
			continue
		}
		switch {
		case end < first:
			at += h.newLines - h.oldLines
		case h.oldStart > last:
		case touched: // determined by an earlier hunk
		default:
			touched = true
			if h.oldStart <= first {
				at = max(h.newStart, 1)
			}
		}
	}
	return at, touched
}

// find searches a text for lines by their content and surrounding lines. Of several matches it takes the one with the most similar
// surroundings, then the nearest. It ignores differences in white space. It returns the first line's number.
func find(text, lines []string, around Around, near int) (int, bool) {
	if len(lines) == 0 || len(lines) > len(text) {
		return 0, false
	}
	for _, same := range []func(a, b string) bool{func(a, b string) bool { return a == b }, sameButSpace} {
		best, bestScore, bestRemote, hits := 0, -1, 0, 0
		for i := range places(text, lines, same) {
			hits++
			score, far := likeness(text, i, len(lines), around), max(i+1-near, near-i-1)
			if score > bestScore || score == bestScore && far < bestRemote {
				best, bestScore, bestRemote = i+1, score, far
			}
		}
		// A lone bracket is everywhere: without a neighbour it does not identify a place.
		if hits > 0 && (bestScore > 0 || hits == 1 && telling(lines)) {
			return best, true
		}
	}
	return 0, false
}

// sameButSpace reports whether lines differ at most in the space around them.
func sameButSpace(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }

// places yields where these lines occur consecutively in a text. An agent can choose both, so each line of the text is compared a bounded
// number of times, however repetitive the lines are (the algorithm of Knuth, Morris and Pratt).
func places(text, lines []string, same func(a, b string) bool) iter.Seq[int] {
	// back is the failure function: for a match up to j, the length of the match that starts later.
	back := make([]int, len(lines))
	for j, k := 1, 0; j < len(lines); j++ {
		for k > 0 && !same(lines[j], lines[k]) {
			k = back[k-1]
		}
		if same(lines[j], lines[k]) {
			k++
		}
		back[j] = k
	}
	return func(yield func(int) bool) {
		if len(lines) == 0 {
			return
		}
		fit := 0
		for i, l := range text {
			for fit > 0 && !same(l, lines[fit]) {
				fit = back[fit-1]
			}
			if same(l, lines[fit]) {
				fit++
			}
			if fit < len(lines) {
				continue
			}
			if !yield(i + 1 - fit) {
				return
			}
			fit = back[fit-1]
		}
	}
}

// likeness counts the unchanged lines around a place.
func likeness(text []string, at, n int, around Around) int {
	score := 0
	for i := range around.Before {
		if k := at - 1 - i; k >= 0 && strings.TrimSpace(text[k]) == strings.TrimSpace(around.Before[len(around.Before)-1-i]) && telling(text[k:k+1]) {
			score++
		}
	}
	for i, l := range around.After {
		if k := at + n + i; k < len(text) && strings.TrimSpace(text[k]) == strings.TrimSpace(l) && telling(text[k:k+1]) {
			score++
		}
	}
	return score
}

// telling reports whether lines have more than brackets and white space, so that they identify a place.
func telling(lines []string) bool {
	for _, l := range lines {
		n := 0
		for _, r := range l {
			if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r > 127 {
				n++
			}
		}
		if n >= 3 {
			return true
		}
	}
	return false
}

// Limits of what is read and stored of a file.
const (
	maxAnchorFile = 8 << 20 // of a commented file
	maxQuoted     = 16 << 10
	maxLineKept   = 1000 // bytes
	maxLines      = 500  // per comment
	around        = 3
)

// splitLines are the lines of a text without their ends.
func splitLines(text string) []string {
	if text == "" {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSuffix(l, "\r")
	}
	return lines
}

// quote returns the lines first to last of a text as stored, and the surrounding lines.
func quote(lines []string, first, last int) (string, Around) {
	var q []string
	size := 0
	for _, l := range lines[first-1 : last] {
		l = kept(l)
		if size += len(l) + 1; size > maxQuoted {
			break
		}
		q = append(q, l)
	}
	cut := func(from, to int) []string {
		var out []string
		for _, l := range lines[max(from, 0):min(to, len(lines))] {
			out = append(out, kept(l))
		}
		return out
	}
	return strings.Join(q, "\n"), Around{Before: cut(first-1-around, first-1), After: cut(last, last+around)}
}

// kept is a line as it is stored: valid text of bounded length.
func kept(l string) string {
	if len(l) > maxLineKept {
		l = l[:maxLineKept]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(l, "\uFFFD"), "\x00", "\uFFFD")
}

// keptLines are lines as they are stored.
func keptLines(lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = kept(l)
	}
	return out
}

// splitQuoted are the lines of a quote. An empty one is one empty line.
func splitQuoted(q string) []string { return strings.Split(q, "\n") }
