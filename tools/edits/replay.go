package edits

import (
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

// apply makes the changes of a record's diff. false means that it does not fit the text.
func (t text) apply(diff string) (text, bool) {
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
		at, ok := out.find(was, start(h[0], len(was)), delta)
		if !ok {
			return t, false
		}
		out.lines = append(out.lines[:at:at], append(is, out.lines[at+len(was):]...)...)
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
func (t text) find(lines []string, at, delta int) (int, bool) {
	if at >= 0 && t.has(lines, at+delta) {
		return at + delta, true
	}
	if len(lines) == 0 {
		return 0, false
	}
	found, n := 0, 0
	for i := 0; i+len(lines) <= len(t.lines) && n < 2; i++ {
		if t.has(lines, i) {
			found, n = i, n+1
		}
	}
	return found, n == 1
}

func (t text) has(lines []string, at int) bool {
	if at < 0 || at+len(lines) > len(t.lines) {
		return false
	}
	for i, l := range lines {
		if t.lines[at+i] != l {
			return false
		}
	}
	return true
}
