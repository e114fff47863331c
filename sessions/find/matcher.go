package find

import (
	"bytes"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"

	"github.com/parawork/parawork/internal/fault"
)

// Query describes what to look for.
type Query struct {
	Text  string
	Regex bool // Text is a regular expression
	Case  bool // case-sensitive
}

// maxQuery bounds a query.
const maxQuery = 1000

// Matcher finds a query in texts. Safe for concurrent use.
type Matcher struct {
	literal []byte         // searched as it is, or in lower case; nil: use re
	fold    bool           // literal is in lower case
	re      *regexp.Regexp // matched against single lines
	needs   []uint32       // hashes of the trigrams a text must have
	anchor  []byte         // in lower case: every line that matches re contains it; nil: unknown
}

// Compile returns a Matcher. Errors: invalid_query.
func Compile(q Query) (*Matcher, error) {
	switch {
	case q.Text == "":
		return nil, fault.New(fault.Invalid, "invalid_query", "The search is empty. Enter what to search for.").With("field", "q")
	case len(q.Text) > maxQuery:
		return nil, fault.New(fault.Invalid, "invalid_query", "A search has at most %d characters.", maxQuery).With("field", "q")
	case !utf8.ValidString(q.Text):
		return nil, fault.New(fault.Invalid, "invalid_query", "The search is not UTF-8 text.").With("field", "q")
	}
	m := &Matcher{}
	pattern := q.Text
	if !q.Regex {
		if q.Case || isASCII(q.Text) {
			m.literal, m.fold = []byte(q.Text), !q.Case
			if m.fold {
				for i, c := range m.literal {
					m.literal[i] = folded[c]
				}
			}
			m.need(q.Text)
			return m, nil
		}
		pattern = regexp.QuoteMeta(pattern) // other alphabets have capitals too
	}
	flags := syntax.Perl
	if !q.Case {
		pattern = "(?i)" + pattern
	}
	tree, err := syntax.Parse(pattern, flags)
	if err != nil {
		return nil, fault.New(fault.Invalid, "invalid_query", "The regular expression is invalid: %s.", err).With("field", "q")
	}
	if m.re, err = regexp.Compile(pattern); err != nil {
		return nil, fault.New(fault.Invalid, "invalid_query", "The regular expression is invalid: %s.", err).With("field", "q")
	}
	m.require(tree.Simplify())
	return m, nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// require records the trigrams that every match of the expression contains.
func (m *Matcher) require(re *syntax.Regexp) {
	switch re.Op {
	case syntax.OpLiteral:
		s := string(re.Rune)
		m.need(s)
		if len(s) > len(m.anchor) && isASCII(s) {
			m.anchor = []byte(s)
			for i, c := range m.anchor {
				m.anchor[i] = folded[c]
			}
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			m.require(sub)
		}
	case syntax.OpCapture, syntax.OpPlus:
		m.require(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			m.require(re.Sub[0])
		}
	}
}

// need records the trigrams of s that are ASCII: for others the upper case is unknown.
func (m *Matcher) need(s string) {
	for i := 0; i+3 <= len(s); i++ {
		if isASCII(s[i : i+3]) {
			// K and S have upper-case variants outside ASCII (the Kelvin sign, the long s) that a case-insensitive regular
			// expression matches.
			if m.re != nil && bytes.ContainsAny([]byte(s[i:i+3]), "kKsS") {
				continue
			}
			m.needs = append(m.needs, hash(folded[s[i]], folded[s[i+1]], folded[s[i+2]]))
		}
	}
}

// May reports whether a text with this filter may have a match.
func (m *Matcher) May(f Filter) bool {
	for _, h := range m.needs {
		if !f.has(h) {
			return false
		}
	}
	return true
}

// Each calls fn with each matching line, in order, without its '
// ': where it begins in t.Buf, and where in it the first match is.
func (m *Matcher) Each(t *Text, fn func(at int, line []byte, from, to int)) {
	if m.re != nil {
		m.eachRegexp(t, fn)
		return
	}
	hay := t.Buf
	if m.fold {
		hay = t.lower()
	}
	for at := 0; at < len(hay); {
		i := bytes.Index(hay[at:], m.literal)
		if i < 0 {
			return
		}
		i += at
		begin := bytes.LastIndexByte(t.Buf[:i], '\n') + 1
		end := i + len(m.literal)
		if k := bytes.IndexByte(t.Buf[i:], '\n'); k >= 0 {
			if i+k < end { // across a line's end: a literal matches only if it contains a line end
				at = i + k + 1
				continue
			}
			end = i + k
		}
		fn(begin, t.Buf[begin:end], i-begin, i-begin+len(m.literal))
		at = end + 1
	}
}

func (m *Matcher) eachRegexp(t *Text, fn func(at int, line []byte, from, to int)) {
	// Try only lines with the anchor, unless the text has one of the two letters outside ASCII that fold to k and s.
	quick := len(m.anchor) > 1 && !bytes.Contains(t.Buf, []byte("\u212a")) && !bytes.Contains(t.Buf, []byte("\u017f"))
	for at := 0; at < len(t.Buf); {
		if quick {
			i := bytes.Index(t.lower()[at:], m.anchor)
			if i < 0 {
				return
			}
			at = bytes.LastIndexByte(t.Buf[:at+i], '\n') + 1
		}
		k := bytes.IndexByte(t.Buf[at:], '\n')
		if k < 0 {
			k = len(t.Buf) - at
		}
		line := t.Buf[at : at+k]
		if loc := m.re.FindIndex(line); loc != nil && loc[1] > loc[0] {
			fn(at, line, loc[0], loc[1])
		}
		at += k + 1
	}
}
