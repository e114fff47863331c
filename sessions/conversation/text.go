package conversation

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strings"
	"unicode/utf8"
)

// clean makes text safe to show: valid UTF-8 without escape sequences and control characters other than line ends and tabs.
func clean(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	if strings.IndexFunc(s, unshown) < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == 0x1b:
			n = escape(s[i:])
		case r == '\r':
			if i+1 < len(s) && s[i+1] == '\n' {
				break
			}
			b.WriteByte('\n')
		case !unshown(r):
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

func unshown(r rune) bool {
	return r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f
}

// escape returns the length of the escape sequence s begins with.
func escape(s string) int {
	if len(s) < 2 {
		return len(s)
	}
	switch s[1] {
	case '[': // CSI: parameters, then one final byte
		for i := 2; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}
			if s[i] < 0x20 || s[i] > 0x7e {
				return i
			}
		}
		return len(s)
	case ']', 'P', '_', '^', 'X': // strings: up to BEL or ST
		for i := 2; i < len(s); i++ {
			if s[i] == 7 {
				return i + 1
			}
			if s[i] == 0x1b {
				return min(i+2, len(s))
			}
			if s[i] == '\n' {
				return i
			}
		}
		return len(s)
	}
	_, n := utf8.DecodeRuneInString(s[1:])
	return 1 + n
}

// cut shortens s to at most n bytes without splitting a character.
func cut(s string, n int) (string, bool) {
	if len(s) <= n {
		return s, false
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n], true
}

// line joins text into one line.
func line(s string) string {
	s, _ = cut(s, 8*maxTitle)
	return strings.Join(strings.Fields(s), " ")
}

// ident derives an ID from a value in the record: the value itself where it is short and plain, otherwise a hash of it.
func ident(s string) string {
	plain := s != "" && len(s) <= 80
	for i := 0; plain && i < len(s); i++ {
		c := s[i]
		plain = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' || c == ':'
	}
	if plain {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return "h-" + hex.EncodeToString(sum[:12])
}

// relative returns a path relative to the worktree, where it is inside it.
func relative(root, p string) string {
	p = strings.TrimPrefix(p, "file://")
	if root == "" || !path.IsAbs(p) {
		return p
	}
	p = path.Clean(p)
	if rest, ok := strings.CutPrefix(p, strings.TrimSuffix(root, "/")+"/"); ok {
		return rest
	}
	return p
}
