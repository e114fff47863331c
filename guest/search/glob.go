package search

import (
	"regexp"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// glob is a pattern of paths.
type glob struct {
	re    *regexp.Regexp
	names bool // it is about the last part of a path
}

func badGlob(pattern, why string) error {
	return fault.New(fault.Invalid, "invalid_glob", "The glob %.200q cannot be used: %s.", pattern, why)
}

// newGlob reads a glob: * and ? stay within a name, ** crosses folders, [a-z] is one of a set, {a,b} is either, and a backslash takes away
// a character's meaning.
func newGlob(pattern string) (*glob, error) {
	p := strings.TrimPrefix(pattern, "./")
	g := &glob{names: !strings.Contains(p, "/")}
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	braces := 0
	for i := 0; i < len(p); i++ {
		c := p[i]
		switch {
		case strings.HasPrefix(p[i:], "**/") && (i == 0 || p[i-1] == '/'):
			b.WriteString(`(?:[^/]+/)*`)
			i += 2
		case strings.HasPrefix(p[i:], "**"):
			b.WriteString(`.*`)
			i++
		case c == '*':
			b.WriteString(`[^/]*`)
		case c == '?':
			b.WriteString(`[^/]`)
		case c == '[':
			set, n := class(p[i:])
			if n == 0 {
				return nil, badGlob(pattern, "a [ has no ]")
			}
			b.WriteString(set)
			i += n - 1
		case c == '{':
			b.WriteString(`(?:`)
			braces++
		case c == '}' && braces > 0:
			b.WriteString(`)`)
			braces--
		case c == ',' && braces > 0:
			b.WriteString(`|`)
		case c == '\\' && i+1 < len(p):
			i++
			b.WriteString(regexp.QuoteMeta(p[i : i+1]))
		case c >= 0x80: // of a character of several bytes
			b.WriteByte(c)
		default:
			b.WriteString(regexp.QuoteMeta(p[i : i+1]))
		}
	}
	if braces > 0 {
		return nil, badGlob(pattern, "a { has no }")
	}
	b.WriteString(`\z`)
	var err error
	if g.re, err = regexp.Compile(b.String()); err != nil {
		return nil, badGlob(pattern, "it is no pattern of paths")
	}
	return g, nil
}

// class turns the set that p begins with into one of an expression, and returns its length; 0 when it has no end.
func class(p string) (string, int) {
	end := 1
	if strings.HasPrefix(p[end:], "!") || strings.HasPrefix(p[end:], "^") {
		end++
	}
	from := end
	n := strings.IndexByte(p[min(from+1, len(p)):], ']') // one at the beginning is a member
	if n < 0 {
		return "", 0
	}
	end = from + 1 + n
	members := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `^`, `\^`, `&`, `\&`, `~`, `\~`).Replace(p[from:end])
	if from > 1 {
		return `[^/` + members + `]`, end + 1
	}
	return `[` + members + `]`, end + 1
}

// match reports whether a path, relative to the searched folder, fits. A nil glob fits all.
func (g *glob) match(p string) bool {
	if g == nil {
		return true
	}
	if g.names {
		p = p[strings.LastIndexByte(p, '/')+1:]
	}
	return g.re.MatchString(p)
}
