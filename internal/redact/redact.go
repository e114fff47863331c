// Package redact masks known secrets in a byte stream with masks of equal length, so that absolute offsets hold.
//
// A secret may arrive in pieces. The masker looks back over what it has already let through, so the later pieces of a secret
// are masked in any case; of the piece at the end of the stream it holds back what may be the beginning of a secret, once that
// is MinPrefix bytes long. The owner gives such bytes free with Flush when nothing more came for a moment: an echo of a few
// characters is never late by more than that moment, and at most the beginning of a secret that dribbles in is seen.
package redact

import (
	"bytes"
	"encoding/base64"
	"net/url"
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

// Masker masks secrets in one stream. Not safe for concurrent use. The zero Masker masks nothing.
type Masker struct {
	secrets [][]byte
	longest int
	past    []byte // the last longest-1 bytes that were let through, unmasked: where a match may begin
	held    []byte // bytes not let through yet
	work    []byte // reused between calls
	seam    []byte // the same
}

// New returns a Masker for these secrets. A secret of several lines is also masked line by line, because a terminal changes
// the line ends. What is shorter than MinSecret is left out. One of MinEncoded bytes or more is masked in base64 and in a URL,
// too, wherever in the encoded text it stands.
func New(secrets ...string) *Masker {
	m := &Masker{}
	m.Add(secrets...)
	return m
}

// Add lets the Masker mask more secrets from here on, as New would have.
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

// Text returns s with secrets masked, as a text of its own: it is no part of the stream.
func (m *Masker) Text(s string) string {
	if len(m.secrets) == 0 || len(s) < MinSecret {
		return s
	}
	b := []byte(s)
	found := false
	for _, secret := range m.secrets {
		each(b, secret, func(int) { found = true })
		if found {
			break
		}
	}
	if !found {
		return s
	}
	t := Masker{secrets: m.secrets, longest: m.longest}
	return string(t.pass(b, len(b)))
}

// encoded returns how a secret looks in base64, at each of the three places it may have in a group of bytes, and in a URL. The
// characters it shares with its neighbours are left out.
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

// Write takes the next bytes of the stream and returns those that may be let through, which may be none. Together with what
// earlier calls returned they are the stream, byte for byte, with secrets masked. The result is valid until the next call; it
// may be p itself, which Write changes in place.
func (m *Masker) Write(p []byte) []byte {
	if len(m.secrets) == 0 || len(p) == 0 {
		return p
	}
	if len(m.held) > 0 {
		m.work = append(append(m.work[:0], m.held...), p...)
		m.held = m.held[:0]
		p = m.work
	}
	keep := min(m.prefix(p), len(p))
	if keep > 0 {
		m.held = append(m.held, p[len(p)-keep:]...)
	}
	return m.pass(p, len(p)-keep)
}

// Flush gives the bytes held back free. The rest of a secret that began in them is masked all the same when it comes.
func (m *Masker) Flush() []byte {
	if len(m.held) == 0 {
		return nil
	}
	m.work = append(m.work[:0], m.held...)
	m.held = m.held[:0]
	return m.pass(m.work, len(m.work))
}

// pass masks every occurrence that lies in past + p, remembers the end of the raw bytes of p[:n], and returns p[:n] masked.
func (m *Masker) pass(p []byte, n int) []byte {
	spans := m.spans(p)
	m.remember(p[:n])
	for _, s := range spans {
		for i := s.from; i < min(s.to, n); i++ {
			p[i] = Mask
		}
	}
	return p[:n]
}

type span struct{ from, to int } // in p

// spans returns where secrets lie in p, those included that begin in past.
func (m *Masker) spans(p []byte) []span {
	var out []span
	if len(m.past) > 0 {
		// The seam: what may begin in past and end in p.
		m.seam = append(append(m.seam[:0], m.past...), p[:min(len(p), m.longest-1)]...)
		for _, s := range m.secrets {
			each(m.seam, s, func(i int) {
				if from, to := i-len(m.past), i-len(m.past)+len(s); from < 0 && to > 0 {
					out = append(out, span{0, to})
				}
			})
		}
	}
	for _, s := range m.secrets {
		each(p, s, func(i int) { out = append(out, span{i, i + len(s)}) })
	}
	return out
}

// each calls fn with every index of s in p, overlapping ones too.
func each(p, s []byte, fn func(int)) {
	for at := 0; ; {
		i := bytes.Index(p[at:], s)
		if i < 0 {
			return
		}
		fn(at + i)
		at += i + 1
	}
}

func (m *Masker) remember(p []byte) {
	keep := m.longest - 1
	if len(p) >= keep {
		m.past = append(m.past[:0], p[len(p)-keep:]...)
		return
	}
	if over := len(m.past) + len(p) - keep; over > 0 {
		m.past = append(m.past[:0], m.past[over:]...)
	}
	m.past = append(m.past, p...)
}

// prefix returns the length of the longest end of past + p that is a proper prefix of a secret and at least MinPrefix long.
func (m *Masker) prefix(p []byte) int {
	end := p
	if n := m.longest - 1; len(p) < n {
		m.seam = append(append(m.seam[:0], m.past...), p...)
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
