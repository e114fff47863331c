package edits

import (
	"slices"
	"strconv"
	"strings"

	"github.com/parawork/parawork/workspaces/sandboxgit"
)

// text is the content of a file by lines, without their ends.
type text struct {
	lines []string
	ended bool // the last line ends with a line feed
}

func textOf(content []byte) text {
	if len(content) == 0 {
		return text{ended: true}
	}
	s, ended := strings.CutSuffix(string(content), "\n")
	return text{strings.Split(s, "\n"), ended}
}

func (t text) bytes() []byte {
	if len(t.lines) == 0 {
		return nil
	}
	s := strings.Join(t.lines, "\n")
	if t.ended {
		s += "\n"
	}
	return []byte(s)
}

// is reports whether the text, with or without a line feed at its end, is the content that git calls oid, and returns it in that form.
func (t text) is(oid string) (text, bool) {
	for _, ended := range [...]bool{t.ended, !t.ended} {
		one := text{t.lines, ended}
		if oid != "" && sandboxgit.BlobName(oid, one.bytes()) == oid || oid == "" && len(t.lines) == 0 {
			return one, true
		}
	}
	return t, false
}

// budget is how many lines may still be compared and copied: records come from agents, which may make them expensive.
type budget int

// take reports whether there were n left, and takes them.
func (b *budget) take(n int) bool {
	*b -= budget(n)
	return *b >= 0
}

// apply makes the changes of a record's diff. false means that it does not fit the text, or that this would cost too much.
func (t text) apply(diff string, left *budget) (text, bool) {
	var hunks [][]string
	headless := true
	for l := range strings.SplitSeq(strings.TrimSuffix(diff, "\n"), "\n") {
		if strings.HasPrefix(l, "@@") {
			hunks, headless = append(hunks, []string{l}), false
			continue
		}
		if len(hunks) == 0 {
			hunks = append(hunks, []string{""})
		}
		hunks[len(hunks)-1] = append(hunks[len(hunks)-1], l)
	}
	if !left.take(len(t.lines)) {
		return t, false
	}
	out := text{append([]string(nil), t.lines...), t.ended}
	delta := 0
	for _, h := range hunks {
		var was, is []string
		for _, l := range h[1:] {
			switch {
			case l == "":
				was, is = append(was, ""), append(is, "")
			case l[0] == ' ':
				was, is = append(was, l[1:]), append(is, l[1:])
			case l[0] == '-':
				was = append(was, l[1:])
			case l[0] == '+':
				is = append(is, l[1:])
			case l[0] != '\\':
				return t, false
			}
		}
		if headless && len(was) == 0 { // a whole new content
			return text{is, true}, true
		}
		at, ok := out.find(was, start(h[0], len(was)), delta, left)
		if !ok || len(is) != len(was) && !left.take(len(out.lines)-at) {
			return t, false
		}
		out.lines = slices.Replace(out.lines, at, at+len(was), is...)
		delta += len(is) - len(was)
	}
	return out, true
}

// start reads where a hunk begins in the old text, from 0; -1 if its head does not say.
func start(head string, lines int) int {
	from, ok := strings.CutPrefix(head, "@@ -")
	if !ok {
		return -1
	}
	from, _, _ = strings.Cut(from, " ")
	from, _, _ = strings.Cut(from, ",")
	n, err := strconv.Atoi(from)
	if err != nil {
		return -1
	}
	if lines > 0 {
		n--
	}
	return n
}

// find returns where lines are: at their place, or at the only one that has them.
func (t text) find(lines []string, at, delta int, left *budget) (int, bool) {
	if at >= 0 && t.has(lines, at+delta, left) {
		return at + delta, true
	}
	if len(lines) == 0 {
		return 0, false
	}
	found, n := 0, 0
	for i := 0; i+len(lines) <= len(t.lines) && n < 2 && *left >= 0; i++ {
		if t.has(lines, i, left) {
			found, n = i, n+1
		}
	}
	return found, n == 1 && *left >= 0
}

func (t text) has(lines []string, at int, left *budget) bool {
	if at < 0 || at+len(lines) > len(t.lines) {
		return false
	}
	for i, l := range lines {
		if !left.take(1) || t.lines[at+i] != l {
			return false
		}
	}
	return true
}
