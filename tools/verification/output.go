package verification

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/tools"
)

// Bounds of an output's failing part.
const (
	maxOutput  = 8 << 10 // bytes
	maxLine    = 500     // bytes
	linesAhead = 2       // shown before a line that tells of a failure
	linesAfter = 6
	linesAtEnd = 20 // always shown
)

// tells finds lines that tell of a failure in the languages of common tools.
var tells = regexp.MustCompile(`(?i)\b(fail(s|ed|ure|ures|ing)?|error|errors|panic|exception|traceback|assert(ion)?(error)?|fatal|not ok|undefined|cannot|expected)\b|✗|✕|✖|×|●`)

// failingPart is the part of an output that says why a check failed: lines that tell of a failure with what is around them, and the end.
func failingPart(output string, most int) string {
	lines := strings.Split(strings.TrimRight(output, "\r\n\t "), "\n")
	shown := make([]bool, len(lines))
	mark := func(from, to int) {
		for i := max(from, 0); i < min(to, len(lines)); i++ {
			shown[i] = true
		}
	}
	mark(len(lines)-linesAtEnd, len(lines))
	for i, l := range lines {
		if tells.MatchString(cutAt(l, maxLine)) {
			mark(i-linesAhead, i+linesAfter+1)
		}
	}
	var b strings.Builder
	for i, l := range lines {
		switch {
		case shown[i]:
			b.WriteString(cutAt(strings.TrimRight(l, "\r"), maxLine) + "\n")
		case i == 0 || shown[i-1]:
			b.WriteString("[...]\n")
		}
	}
	return ends(strings.TrimSuffix(b.String(), "\n"), most)
}

// ends returns the beginning and the end of a text, with a mark between them.
func ends(s string, most int) string {
	const mark = "\n[...]\n"
	if len(s) <= most {
		return s
	}
	keep := max(most-len(mark), 0)
	head := cutAt(s, keep/2)
	tail := len(s) - (keep - keep/2)
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return head + mark + s[tail:]
}

func cutAt(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// summary says in words how a verification ended.
func summary(a answer, missing string) string {
	var b strings.Builder
	var before, unknown []string
	failed := 0
	for _, c := range a.Checks {
		switch {
		case c.Success:
			continue
		case c.WasFailing == nil:
			unknown = append(unknown, c.Name)
		case *c.WasFailing:
			before = append(before, c.Name)
		}
		failed++
	}
	switch {
	case failed == 0 && len(a.Checks) == 1:
		b.WriteString("The check passed.")
	case failed == 0:
		fmt.Fprintf(&b, "All %d checks passed.", len(a.Checks))
	default:
		fmt.Fprintf(&b, "%d of %d checks did not pass.", failed, len(a.Checks))
	}
	for _, group := range [...]struct {
		words string
		names []string
	}{{"Broken since the work began", a.NewFailures}, {"Failing before as well", before}, {"Not known whether they failed before", unknown}} {
		if len(group.names) > 0 {
			fmt.Fprintf(&b, " %s: %s.", group.words, strings.Join(group.names, ", "))
		}
	}
	if missing != "" {
		b.WriteString(" " + missing)
	}
	if a.Stale {
		b.WriteString(" Files changed while they ran, so this is not certain for the present ones: run it again.")
	}
	return b.String()
}

// result formats an answer within a limit: outputs are in the text and in the object, and are cut until both fit.
func result(a answer, words string, most int) (tools.Result, error) {
	for keep := maxOutput; ; keep /= 2 {
		text := words
		cut := false
		for i := range a.Checks {
			c := &a.Checks[i]
			if c.Success {
				continue
			}
			c.Output = failingPart(c.whole, keep)
			cut = cut || keep < maxOutput
			text += fmt.Sprintf("\n\n%s: %s. %s\n%s", c.Name, strings.ReplaceAll(string(c.State), "_", " "), c.reason, c.Output)
		}
		r, err := tools.Answer(text, a)
		r.IsError, r.Truncated = !a.Success, cut
		if err != nil || r.Bytes() <= most || keep == 0 {
			return r, err
		}
	}
}
