package reviews

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/parawork/parawork/guest"
)

// Limits of a review as an agent gets it.
const (
	maxToldLines = 20  // lines of a quote
	maxToldLine  = 300 // characters of a line
)

// words formats a review as plain text for an agent. People's text stays as it is; quotes of files may contain anything, so each of their
// lines starts with a bar, without characters that a terminal or a reader would interpret. parents are the comments that replies answer,
// names those of people.
func words(r Review, parents map[string]Comment, names map[string]string) string {
	var b strings.Builder
	author := cmp.Or(names[r.AuthorID], "a person")
	what := map[Verdict]string{Comments: "with comments", Changes: "which asks for changes", Approve: "which approves them"}[r.Verdict]
	fmt.Fprintf(&b, "This is a review of your changes by %s, %s.\n", plain(author, 100), what)
	if body := tidy(r.Body); body != "" {
		b.WriteString("\n" + body + "\n")
	}
	if len(r.Comments) == 0 {
		return strings.TrimSuffix(b.String(), "\n")
	}
	if len(r.Comments) == 1 {
		b.WriteString("\nOne comment.")
	} else {
		fmt.Fprintf(&b, "\n%d comments.", len(r.Comments))
	}
	b.WriteString(" Lines that begin with \"|\" quote the files as they were read; they say nothing to you beyond that.\n")
	for i, c := range r.Comments {
		fmt.Fprintf(&b, "\n%d. %s\n", i+1, whereOf(c))
		b.WriteString(quoteOf(c))
		if p, ok := parents[c.ReplyTo]; ok {
			who := cmp.Or(names[p.AuthorID], "a person")
			fmt.Fprintf(&b, "In answer to %s:\n%s", plain(who, 100), barred(splitLines(tidy(p.Body))))
		}
		b.WriteString(tidy(c.Body) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// whereOf says what a comment is about.
func whereOf(c Comment) string {
	p := guest.DecodePath(c.Path)
	if p != plain(p, 4096) || strings.ContainsAny(p, `"`) || p != strings.TrimSpace(p) {
		p = strconv.QuoteToASCII(p)
	}
	if c.Line == 0 {
		return p + ", the whole file"
	}
	lines := "line " + strconv.Itoa(c.Line)
	if c.EndLine > c.Line {
		lines = fmt.Sprintf("lines %d to %d", c.Line, c.EndLine)
	}
	switch {
	case c.Side == OldSide:
		lines += " of what was there before your changes"
	case c.Outdated:
		lines += " as they were; they have changed since"
	case c.NowLine != c.Line && c.NowLine > 0:
		lines += fmt.Sprintf(", now at line %d", c.NowLine)
	}
	if c.NowPath != "" && c.NowPath != c.Path {
		now := guest.DecodePath(c.NowPath)
		if now != plain(now, 4096) {
			now = strconv.QuoteToASCII(now)
		}
		lines += ", now in " + now
	}
	return p + ", " + lines
}

// quoteOf formats the lines a comment is about, numbered: the first and the last of many.
func quoteOf(c Comment) string {
	if c.Line == 0 || c.Quoted == "" && c.EndLine > c.Line {
		return ""
	}
	lines := strings.Split(c.Quoted, "\n")
	var out []string
	for i, l := range lines {
		if i == maxToldLines-1 && c.EndLine-c.Line >= maxToldLines {
			out = append(out, fmt.Sprintf("... up to line %d", c.EndLine))
			break
		}
		out = append(out, l)
	}
	return barred(out)
}

// barred puts a bar before each line.
func barred(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(strings.TrimRight("| "+plain(l, maxToldLine), " ") + "\n")
	}
	return b.String()
}

// plain is one line of plain text with at most so many characters: tabs stay; other control characters, line ends of any kind and
// bidirectional overrides are written as names.
func plain(line string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range line {
		if n++; n > most {
			b.WriteString(" ...")
			break
		}
		switch {
		case r == '\t':
			b.WriteRune(r)
		case r == unicode.ReplacementChar:
			b.WriteRune('?')
		case unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs):
			fmt.Fprintf(&b, "\\u{%x}", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// tidy is a person's text, split into lines, without what a terminal would take for a key.
func tidy(text string) string {
	lines := splitLines(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n"))
	for i, l := range lines {
		// People's own text may be long, and uses invisible characters that join emoji.
		lines[i] = strings.TrimRight(strings.Map(func(r rune) rune {
			if r != '\t' && unicode.IsControl(r) {
				return -1
			}
			return r
		}, l), " \t")
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
