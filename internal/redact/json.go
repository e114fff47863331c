package redact

import (
	"encoding/json"
	"strings"
)

// NewJSONFinder returns a Finder of values in JSON, as encoding/json writes it; nil where none is long enough. It is for MaskJSON.
func NewJSONFinder(values ...string) *Finder {
	f := NewFinder(values...)
	if f == nil {
		return nil
	}
	patterns := f.match.patterns
	for n, v := range f.values {
		if quoted, err := json.Marshal(v); err == nil && len(quoted) > len(v)+2 {
			patterns, f.of = append(patterns, quoted[1:len(quoted)-1]), append(f.of, n)
		}
	}
	f.match = newMatcher(patterns)
	return f
}

// MaskJSON masks values in the strings of a JSON text, in place and with equal length. It reports whether there was one.
func (f *Finder) MaskJSON(b []byte) bool {
	var spans []span
	f.each(b, func(from, to, _ int) bool {
		spans = append(spans, span{from, to})
		return true
	})
	if len(spans) == 0 {
		return false
	}
	in := make([]bool, len(b))
	for _, s := range spans {
		for i := s.from; i < s.to; i++ {
			in[i] = true
		}
	}
	masked, quoted := false, false
	for i := 0; i < len(b); {
		n := 1 // a character, or an escape sequence: one that is matched only in part stays as it is
		switch {
		case quoted && b[i] == '\\' && i+1 < len(b):
			if n = 2; b[i+1] == 'u' {
				n = 6
			}
		case b[i] == '"':
			quoted = !quoted
			i++
			continue
		case !quoted:
			i++
			continue
		}
		n = min(n, len(b)-i)
		all := true
		for _, is := range in[i : i+n] {
			all = all && is
		}
		if all {
			copy(b[i:i+n], strings.Repeat(string(rune(Mask)), n))
			masked = true
		}
		i += n
	}
	return masked
}
