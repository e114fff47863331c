package redact

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
)

// MinFound is the length in bytes below which a Finder does not look for a value: files contain many short words by chance, and a match is
// refused, not only masked.
const MinFound = 12

// Finder looks for known values, and for their base64 and URL forms, in files and patches. Its time does not grow with the number of values.
// Safe for concurrent use; a nil Finder finds nothing.
type Finder struct {
	values []string
	of     []int // by pattern: the index of its value
	match  *matcher
}

// NewFinder returns a Finder of these values, nil where none is long enough.
func NewFinder(values ...string) *Finder {
	f := &Finder{}
	seen := map[string]bool{}
	var patterns [][]byte
	for _, v := range values {
		if len(v) < MinFound || seen[v] {
			continue
		}
		f.values = append(f.values, v)
		for _, p := range append([]string{v}, encoded(v)...) {
			if len(p) >= MinFound && !seen[p] {
				seen[p] = true
				patterns, f.of = append(patterns, []byte(p)), append(f.of, len(f.values)-1)
			}
		}
	}
	if len(patterns) == 0 {
		return nil
	}
	f.match = newMatcher(patterns)
	return f
}

// With returns a Finder of the values of both.
func (f *Finder) With(other *Finder) *Finder {
	if f == nil || other == nil {
		return cmp.Or(f, other)
	}
	return NewFinder(slices.Concat(f.values, other.values)...)
}

// Mark distinguishes one Finder's values from another's.
func (f *Finder) Mark() string {
	if f == nil {
		return ""
	}
	h := sha256.New()
	for _, v := range f.values {
		fmt.Fprintf(h, "%d:%s", len(v), v)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// each calls fn with the position in b of each value, in order of their beginnings, and with its number, until fn returns false.
func (f *Finder) each(b []byte, fn func(from, to, value int) bool) {
	if f != nil {
		f.match.each(b, func(from, n int) bool { return fn(from, from+len(f.match.patterns[n]), f.of[n]) })
	}
}

// In reports whether b contains a value for which hides returns true; a nil hides selects all.
func (f *Finder) In(b []byte, hides func(value string) bool) bool {
	found := false
	f.each(b, func(_, _, n int) bool {
		found = hides == nil || hides(f.values[n])
		return !found
	})
	return found
}

// Mask masks in b, in place and with equal length, the values for which hides returns true. It reports whether there was one.
func (f *Finder) Mask(b []byte, hides func(value string) bool) bool {
	if f == nil {
		return false
	}
	var spans []span // masked afterwards: values may overlap
	f.each(b, func(from, to, n int) bool {
		if hides == nil || hides(f.values[n]) {
			spans = append(spans, span{from, to})
		}
		return true
	})
	for _, s := range spans {
		for i := s.from; i < s.to; i++ {
			b[i] = Mask
		}
	}
	return len(spans) > 0
}

// Text returns s with values masked.
func (f *Finder) Text(s string, hides func(value string) bool) string {
	if f == nil || len(s) < MinFound {
		return s
	}
	b := []byte(s)
	if !f.Mask(b, hides) {
		return s
	}
	return string(b)
}

// Reader returns r with values masked in it; a nil Finder returns r itself. Every Reader holds back at most the longest value.
func (f *Finder) Reader(r io.Reader, hides func(value string) bool) *FoundReader {
	return &FoundReader{f: f, r: r, hides: hides}
}

// FoundReader is what Finder.Reader returns. Not safe for concurrent use.
type FoundReader struct {
	f     *Finder
	r     io.Reader
	hides func(string) bool
	raw   []byte // read but not returned yet, unmasked from tail on
	out   []byte // the masked part of raw that may be returned
	clean []byte // out before masking: a value may begin in it
	found bool
	err   error
}

// Found reports whether something was masked in what was read so far.
func (m *FoundReader) Found() bool { return m.found }

const findBuffer = 128 << 10

// Read returns the next bytes, masked.
func (m *FoundReader) Read(p []byte) (int, error) {
	if m.f == nil {
		return m.r.Read(p)
	}
	for len(m.out) == 0 {
		if m.err != nil {
			return 0, m.err
		}
		m.fill()
	}
	n := copy(p, m.out)
	m.out = m.out[n:]
	return n, nil
}

// fill reads a piece, and releases what can no longer be part of a value that continues.
func (m *FoundReader) fill() {
	size := max(findBuffer, 4*m.f.match.longest)
	if cap(m.raw) < size {
		m.raw = append(make([]byte, 0, size), m.raw...)
	}
	n, err := io.ReadFull(m.r, m.raw[len(m.raw):size])
	m.raw = m.raw[:len(m.raw)+n]
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	m.err = err
	free := len(m.raw)
	if err == nil {
		free -= m.f.match.longest - 1
	}
	work := append(append(make([]byte, 0, len(m.clean)+len(m.raw)), m.clean...), m.raw...)
	if m.f.Mask(work, m.hides) {
		m.found = true
	}
	m.out = work[len(m.clean) : len(m.clean)+free]
	before := append(m.clean, m.raw[:free]...)
	m.clean = append([]byte(nil), before[max(0, len(before)-(m.f.match.longest-1)):]...)
	m.raw = append(m.raw[:0], m.raw[free:]...)
}

// Scan reads r to its end and reports whether it contains a value for which hides returns true.
func (f *Finder) Scan(r io.Reader, hides func(value string) bool) (bool, error) {
	if f == nil {
		return false, nil
	}
	buf := make([]byte, max(findBuffer, 4*f.match.longest))
	kept := 0
	for {
		n, err := io.ReadFull(r, buf[kept:])
		if f.In(buf[:kept+n], hides) {
			return true, nil
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		kept = copy(buf, buf[kept+n-min(kept+n, f.match.longest-1):kept+n])
	}
}
