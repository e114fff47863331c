// Package redact masks known secrets in a byte stream with masks of equal length, so that absolute offsets hold.
//
// A secret may arrive in pieces. The masker looks back over what it has already released, so it masks the later pieces of a secret
// in any case; of the piece at the end of the stream it holds back what may be the beginning of a secret, once that
// is MinPrefix bytes long. The owner calls Flush to release such bytes when nothing more came for a moment: so an echo of a few
// characters is never late by more than that moment, and at most the beginning of a secret that trickles in is visible.
package redact

import (
	"bytes"
	"encoding/base64"
	"net/url"
	"slices"
	"sort"
	"strings"
)

const (
	// MinSecret is the length in bytes below which a secret is not masked: masking every "true" would only garble the screen.
	MinSecret = 6
	// MinEncoded is the length in bytes from which a secret's encoded forms are masked as well.
	MinEncoded = 12
	// MinPrefix is how many bytes of a secret must end the stream before they are held back.
	MinPrefix = 4
	// Mask is the byte that stands for each byte of a secret.
	Mask = '*'
)

// maxHeld limits, in bytes, what is held back of a beginning that contains escape sequences.
const maxHeld = 4 << 10

// Masker masks secrets in one stream. It finds a secret in the raw bytes and in the text that a terminal shows of them: escape sequences
// between its bytes do not matter, and are passed on unchanged. Not safe for concurrent use. The zero Masker masks nothing.
type Masker struct {
	secrets [][]byte
	match   *matcher // of secrets
	longest int
	past    []byte // the last longest-1 bytes that were released, unmasked: where a match may begin
	held    []byte // bytes not released yet
	work    []byte // reused between calls
	seam    []byte // the same
	out     []span // the same

	state    parseState // parser state after the released bytes
	pastText []byte     // the last longest-1 bytes of their text
	joined   int        // bytes of pastText, from its end, that were contiguous: without an escape sequence between them
	text     []byte     // pastText, and the text of the current bytes
	pieces   []piece    // its runs in them
	after    parseState // behind them
}

// New returns a Masker for these secrets. A secret of several lines is also masked line by line, because a terminal changes the line ends.
// It ignores secrets shorter than MinSecret. One of MinEncoded bytes or more is also masked in base64 and in a URL, at any position of the
// encoded text.
func New(secrets ...string) *Masker {
	m := &Masker{}
	m.Add(secrets...)
	return m
}

// Again returns a Masker for the same secrets at the beginning of another stream.
func (m *Masker) Again() *Masker {
	return &Masker{secrets: slices.Clone(m.secrets), match: m.match, longest: m.longest}
}

// Add makes the Masker mask more secrets from here on, as New would have.
func (m *Masker) Add(secrets ...string) {
	seen := make(map[string]bool, len(m.secrets))
	for _, s := range m.secrets {
		seen[string(s)] = true
	}
	add := func(s string) {
		if len(s) >= MinSecret && !seen[s] {
			seen[s] = true
			m.secrets = append(m.secrets, []byte(s))
			m.longest = max(m.longest, len(s))
		}
	}
	defer func() {
		if len(m.secrets) > 0 {
			m.match = newMatcher(m.secrets)
		}
	}()
	for _, s := range secrets {
		add(s)
		for _, e := range encoded(s) {
			add(e)
		}
		if strings.ContainsAny(s, "\r\n") {
			for line := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == '\r' || r == '\n' }) {
				add(strings.TrimSpace(line))
			}
		}
	}
}

// Text returns s with secrets masked, as a separate text: it is not part of the stream.
func (m *Masker) Text(s string) string {
	if len(m.secrets) == 0 || len(s) < MinSecret {
		return s
	}
	b := []byte(s)
	t := Masker{secrets: m.secrets, match: m.match, longest: m.longest}
	parted := !plain(b)
	if parted {
		t.read(b)
	}
	if len(t.spans(b, parted)) == 0 {
		return s
	}
	return string(t.pass(b, len(b), parted))
}

// encoded returns the base64 forms of a secret, at each of the three positions it may have in a group of bytes, and its URL form. It leaves
// out characters that depend on neighbouring bytes.
func encoded(s string) []string {
	if len(s) < MinEncoded {
		return nil
	}
	var out []string
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			e := enc.EncodeToString(append(make([]byte, before), s...))
			e = e[(8*before+5)/6:]
			if (before+len(s))%3 != 0 {
				e = e[:len(e)-1]
			}
			out = append(out, e)
		}
	}
	return append(out, url.QueryEscape(s), url.PathEscape(s))
}

// Longest returns the length in bytes of the longest secret, 0 without any.
func (m *Masker) Longest() int { return m.longest }

// Held returns how many bytes are held back.
func (m *Masker) Held() int { return len(m.held) }

// Write takes the next bytes of the stream and returns those that may be released, possibly none. Together with the results of earlier calls
// they are the stream, byte for byte, with secrets masked. The result is valid until the next call; it may be p itself, which Write changes
// in place.
func (m *Masker) Write(p []byte) []byte {
	if len(m.secrets) == 0 || len(p) == 0 {
		return p
	}
	if len(m.held) > 0 {
		m.work = append(append(m.work[:0], m.held...), p...)
		m.held = m.held[:0]
		p = m.work
	}
	whole := p
	if p[len(p)-1] == 0xc2 { // it may be half of a control character, which decides whether the sequence before it continues
		whole = p[:len(p)-1]
	}
	keep := max(min(m.prefix(m.past, p), len(p)), len(p)-len(whole))
	parted := m.parted(p)
	if parted {
		m.read(p)
		if n := m.textPrefix(whole); n > 0 {
			keep = max(keep, n+len(p)-len(whole))
		}
	}
	if keep > 0 {
		m.held = append(m.held, p[len(p)-keep:]...)
	}
	return m.pass(p, len(p)-keep, parted)
}

// Flush releases the bytes held back. The rest of a secret that began in them is masked all the same when it comes.
func (m *Masker) Flush() []byte {
	if len(m.held) == 0 {
		return nil
	}
	m.work = append(m.work[:0], m.held...)
	m.held = m.held[:0]
	parted := m.parted(m.work)
	if parted {
		m.read(m.work)
	}
	return m.pass(m.work, len(m.work), parted)
}

// read extracts the text of p, after pastText.
func (m *Masker) read(p []byte) {
	m.text, m.pieces, m.after = strip(p, m.state, append(m.text[:0], m.pastText...), m.pieces[:0])
}

// pass masks every occurrence that lies in past + p, remembers the end of the raw bytes of p[:n], and returns p[:n] masked. parted says that
// the text of p was extracted.
func (m *Masker) pass(p []byte, n int, parted bool) []byte {
	spans := m.spans(p, parted)
	if parted && n < len(p) {
		m.read(p[:n])
	}
	m.remember(p[:n], parted)
	for _, s := range spans {
		for i := s.from; i < min(s.to, n); i++ {
			p[i] = Mask
		}
	}
	return p[:n]
}

type span struct{ from, to int } // in p

// spans returns where secrets lie in p, including those that begin in past.
func (m *Masker) spans(p []byte, parted bool) []span {
	out := m.out[:0]
	if len(m.past) > 0 {
		// The seam: what may begin in past and end in p.
		m.seam = append(append(m.seam[:0], m.past...), p[:min(len(p), m.longest-1)]...)
		m.match.each(m.seam, func(at, n int) bool {
			if from, to := at-len(m.past), at-len(m.past)+len(m.secrets[n]); from < 0 && to > 0 {
				out = append(out, span{0, to})
			}
			return true
		})
	}
	m.match.each(p, func(at, n int) bool {
		out = append(out, span{at, at + len(m.secrets[n])})
		return true
	})
	if parted {
		out = m.textSpans(out)
	}
	m.out = out
	return out
}

// parted reports whether the text may contain secrets that the bytes do not: only where escape sequences lie between its bytes.
func (m *Masker) parted(p []byte) bool {
	return m.state != ground || m.joined < len(m.pastText) || !plain(p)
}

// textSpans adds where secrets lie in the extracted text.
func (m *Masker) textSpans(out []span) []span {
	m.match.each(m.text, func(from, n int) bool {
		to := from + len(m.secrets[n])
		after := sort.Search(len(m.pieces), func(k int) bool { return m.pieces[k].text > from })
		for k := max(after-1, 0); k < len(m.pieces) && m.pieces[k].text < to; k++ {
			end := len(m.text)
			if k+1 < len(m.pieces) {
				end = m.pieces[k+1].text
			}
			q := m.pieces[k]
			out = append(out, span{q.raw + max(from, q.text) - q.text, q.raw + min(to, end) - q.text})
		}
		return true
	})
	return out
}

// remember records what is released.
func (m *Masker) remember(p []byte, parted bool) {
	keep := m.longest - 1
	if !parted {
		m.pastText = tail(m.pastText, p, keep)
		m.joined = len(m.pastText)
	} else {
		together := m.joined
		m.state, m.joined = m.after, 0 // what follows comes after a sequence
		if n := len(m.pieces); n > 0 {
			if last := m.pieces[n-1]; last.raw+len(m.text)-last.text == len(p) { // or continues this text
				m.joined = min(len(m.text)-last.text, keep)
				if n == 1 && last.raw == 0 && m.joined < keep { // all of p
					m.joined = min(m.joined+together, keep)
				}
			}
		}
		m.pastText = append(m.pastText[:0], m.text[max(0, len(m.text)-keep):]...)
	}
	m.past = tail(m.past, p, keep)
}

// tail returns the last keep bytes of past + p, in past's memory.
func tail(past, p []byte, keep int) []byte {
	if len(p) >= keep {
		return append(past[:0], p[len(p)-keep:]...)
	}
	if over := len(past) + len(p) - keep; over > 0 {
		past = append(past[:0], past[over:]...)
	}
	return append(past, p...)
}

// prefix returns the length of the longest end of past + p that is a proper prefix of a secret and at least MinPrefix long.
func (m *Masker) prefix(past, p []byte) int {
	end := p
	if n := m.longest - 1; len(p) < n {
		m.seam = append(append(m.seam[:0], past...), p...)
		end = m.seam
	}
	best := 0
	for _, s := range m.secrets {
		for n := min(len(s)-1, len(end)); n >= MinPrefix && n > best; n-- {
			if end[len(end)-1] == s[n-1] && bytes.Equal(end[len(end)-n:], s[:n]) {
				best = n
			}
		}
	}
	return best
}

// textPrefix returns how many bytes at the end of p, from the longest end of its extracted text on, may be the beginning of a secret.
func (m *Masker) textPrefix(p []byte) int {
	text, pieces := m.text, m.pieces
	if n := len(text); n > 0 && text[n-1] == 0xc2 && len(pieces) > 0 { // not in p
		text = text[:n-1]
	}
	from := len(text) - m.prefix(nil, text)
	if from == len(text) {
		return 0
	}
	for k := len(pieces) - 1; k >= 0; k-- {
		if q := pieces[k]; q.text <= from {
			if keep := len(p) - (q.raw + from - q.text); keep <= maxHeld+m.longest {
				return keep
			}
			return 0
		}
	}
	if len(p) <= maxHeld+m.longest { // it began in released bytes
		return len(p)
	}
	return 0
}
