package guest

import (
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/internal/fault"
)

// File names are bytes; JSON carries only valid UTF-8. A path therefore uses a lossless wire form in the pipe, the API and the
// UI: valid UTF-8 stays unchanged, and each byte that is not part of valid UTF-8 becomes the private-use character U+F700+byte
// (U+F780 to U+F7FF). A name that really contains one of those characters has its bytes escaped the same way, so the mapping is
// one to one. Decode before opening a file or calling git; when showing a path, such a character may be printed as \xHH.
const (
	escapeBase  = 0xF700
	escapeFirst = escapeBase + 0x80
	escapeLast  = escapeBase + 0xFF
)

// EncodePath turns the raw bytes of a path into the wire form. It is the identity for ordinary names.
func EncodePath(raw string) string {
	i := plainPrefix(raw)
	if i == len(raw) {
		return raw
	}
	var b strings.Builder
	b.Grow(len(raw) + 8)
	b.WriteString(raw[:i])
	for i < len(raw) {
		r, n := utf8.DecodeRuneInString(raw[i:])
		if (r == utf8.RuneError && n == 1) || (r >= escapeFirst && r <= escapeLast) {
			for _, c := range []byte(raw[i : i+n]) {
				b.WriteRune(escapeBase + rune(c))
			}
		} else {
			b.WriteString(raw[i : i+n])
		}
		i += n
	}
	return b.String()
}

// plainPrefix is the length of the longest prefix that needs no escape.
func plainPrefix(s string) int {
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if (r == utf8.RuneError && n == 1) || (r >= escapeFirst && r <= escapeLast) {
			return i
		}
		i += n
	}
	return len(s)
}

// DecodePath turns the wire form back into the raw bytes. A path that was never encoded comes back unchanged, unless its name
// contains one of the escape characters itself.
func DecodePath(wire string) string {
	if strings.IndexFunc(wire, isEscape) < 0 {
		return wire
	}
	var b strings.Builder
	b.Grow(len(wire))
	for i := 0; i < len(wire); {
		r, n := utf8.DecodeRuneInString(wire[i:])
		if isEscape(r) {
			b.WriteByte(byte(r - escapeBase))
		} else {
			b.WriteString(wire[i : i+n])
		}
		i += n
	}
	return b.String()
}

func isEscape(r rune) bool { return r >= escapeFirst && r <= escapeLast }

// CheckPath reports whether a path in wire form names something below the root: relative, slash-separated, without empty, "." or
// ".." elements or NUL, at most MaxPath bytes raw. It does not look at the disk, so links must still be guarded against where the
// path is opened. The error is a fault of kind Invalid.
func CheckPath(wire string) error {
	raw := DecodePath(wire)
	switch {
	case raw == "":
		return fault.New(fault.Invalid, "invalid_path", "The path is empty. Name a file inside the workspace.")
	case len(raw) > MaxPath:
		return fault.New(fault.Invalid, "invalid_path", "The path is longer than %d bytes.", MaxPath)
	case strings.IndexByte(raw, 0) >= 0:
		return fault.New(fault.Invalid, "invalid_path", "The path contains a NUL byte.")
	case raw[0] == '/':
		return fault.New(fault.Invalid, "invalid_path", "The path must be relative to the workspace's root.")
	}
	for part := range strings.SplitSeq(raw, "/") {
		if part == "" || part == "." || part == ".." {
			return fault.New(fault.Invalid, "invalid_path", "The path must not contain empty, \".\" or \"..\" parts.")
		}
	}
	return nil
}
