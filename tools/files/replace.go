package files

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// replacement replaces one text by another.
type replacement struct {
	Old string `json:"old"`
	New string `json:"new"`
	All bool   `json:"replace_all"`
}

// in replaces in a text. field names the old text in errors.
func (r replacement) in(text, p, field string) (string, error) {
	if r.Old == r.New {
		return "", fault.New(fault.Invalid, "edit_changes_nothing", "%s and its replacement are the same.", field).With("field", field)
	}
	switch n := strings.Count(text, r.Old); {
	case n == 0:
		return "", r.missing(text, p, field)
	case n > 1 && !r.All:
		return "", fault.New(fault.Conflict, "edit_ambiguous", "%s occurs %d times in %s, at lines %s. Nothing was written. Give more of the lines around it, or replace_all.", field, n, shown(p), places(text, r.Old)).With("field", field)
	case len(text)+n*(len(r.New)-len(r.Old)) > maxEdit: // asked before there is such a text
		return "", tooLarge(p)
	}
	return strings.ReplaceAll(text, r.Old, r.New), nil
}

// places are the lines at which a text occurs.
func places(text, old string) string {
	const most = 10
	var out []string
	line := 1
	for {
		i := strings.Index(text, old)
		if i < 0 {
			return strings.Join(out, ", ")
		}
		if len(out) == most {
			return strings.Join(out, ", ") + ", ..."
		}
		line += strings.Count(text[:i], "\n")
		out = append(out, fmt.Sprint(line))
		line += strings.Count(text[i:i+len(old)], "\n")
		text = text[i+len(old):]
	}
}

// missing says that a text does not occur, and what comes nearest to it.
func (r replacement) missing(text, p, field string) error {
	near := nearest(text, r.Old)
	words := "Nothing in the file is like it: read it again."
	if len(near) > 0 {
		words = strings.Join(near, " ")
	}
	return fault.New(fault.Conflict, "edit_not_found", "%s does not occur in %s. Nothing was written. %s", field, shown(p), words).With("field", field)
}

// Bounds of the search for what comes nearest.
const (
	mostCandidates = 3
	mostCompared   = 4000    // places that are compared line by line,
	mostLines      = 200     // as many lines,
	mostSearched   = 1 << 20 // in so many bytes at the file's beginning
)

// candidate is a place in a file that is like a text.
type candidate struct {
	line  int // of the file, from 0
	alike int // lines that are the same but for white space
	first int // bytes at the beginning and the end of the first line that are the same
}

// nearest describes the places that are most like a text: first those that differ in white space alone.
func nearest(text, old string) []string {
	lines, want := strings.Split(text[:min(len(text), mostSearched)], "\n"), strings.Split(strings.Trim(old, "\r\n"), "\n")
	whole := len(want) <= mostLines
	want = want[:min(len(want), mostLines)]
	squeezed, has := squeezeAll(want), squeezeAll(lines)
	lead := slices.IndexFunc(squeezed, func(s string) bool { return s != "" }) // the first line with something in it
	if lead < 0 {
		return nil
	}
	var found []candidate
	for i, l := range has {
		if n := common(l, squeezed[lead]); n > 0 && i >= lead && len(found) < mostCompared {
			found = append(found, candidate{line: i - lead, first: n})
		}
	}
	for i := range found {
		c := &found[i]
		for j := range min(len(want), len(lines)-c.line) {
			if has[c.line+j] == squeezed[j] {
				c.alike++
			}
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.alike, a.alike), cmp.Compare(b.first, a.first))
	})
	var out []string
	for _, c := range found[:min(len(found), mostCandidates)] {
		if whole && c.alike == len(want) {
			out = append(out, fmt.Sprintf("%s but for white space: %s.", whereIs(c.line, len(want), "are the same", "is the same"), whiteSpace(lines[c.line:c.line+len(want)], want)))
			continue
		}
		if len(out) > 0 && c.alike == 0 {
			break
		}
		out = append(out, fmt.Sprintf("%s like it (%d of %d lines are the same): %.120q.", whereIs(c.line, len(want), "are", "is"), c.alike, len(want), lines[c.line+lead]))
	}
	return out
}

func whereIs(line, n int, are, is string) string {
	if n == 1 {
		return fmt.Sprintf("Line %d %s", line+1, is)
	}
	return fmt.Sprintf("Lines %d to %d %s", line+1, line+n, are)
}

// squeezeAll are lines with each white space as one space.
func squeezeAll(lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = strings.Join(strings.Fields(l), " ")
	}
	return out
}

// common is how many bytes at the beginning and at the end of two lines are the same; 0 when less than half of the longer one is.
func common(a, b string) int {
	n, longer := 0, max(len(a), len(b))
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	end := 0
	for end < min(len(a), len(b))-n && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	if n += end; 2*n < longer {
		return 0
	}
	return n
}

// whiteSpace says how the first line that differs does so.
func whiteSpace(has, want []string) string {
	for i, h := range has {
		w := want[i]
		if h == w {
			continue
		}
		switch hi, wi := indent(h), indent(w); {
		case strings.TrimSuffix(h, "\r") == strings.TrimSuffix(w, "\r"):
			return "the file's lines end with CRLF"
		case hi != wi:
			return fmt.Sprintf("the file has %s at the beginning of a line where you gave %s", blanks(hi), blanks(wi))
		case strings.TrimRight(h, " \t\r") == strings.TrimRight(w, " \t\r"):
			return fmt.Sprintf("the file has %s at the end of a line where you gave %s", blanks(h[len(strings.TrimRight(h, " \t\r")):]), blanks(w[len(strings.TrimRight(w, " \t\r")):]))
		}
		return fmt.Sprintf("the file has %.120q where you gave %.120q", h, w)
	}
	return "only the ends of the lines differ"
}

func indent(l string) string { return l[:len(l)-len(strings.TrimLeft(l, " \t"))] }

// blanks counts tabs and spaces.
func blanks(s string) string {
	tabs, spaces := strings.Count(s, "\t"), strings.Count(s, " ")
	switch {
	case tabs > 0 && spaces > 0:
		return fmt.Sprintf("%d tabs and %d spaces", tabs, spaces)
	case tabs > 0:
		return fmt.Sprintf("%d tabs", tabs)
	case spaces > 0:
		return fmt.Sprintf("%d spaces", spaces)
	}
	return "nothing"
}
