package desktop

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/internal/fault"
)

// keysyms are the keys that are no character, as X numbers them.
var keysyms = map[string]uint32{
	"enter": 0xff0d, "return": 0xff0d, "tab": 0xff09, "escape": 0xff1b, "esc": 0xff1b, "backspace": 0xff08, "delete": 0xffff, "insert": 0xff63, "space": ' ', "home": 0xff50, "end": 0xff57,
	"pageup": 0xff55, "pagedown": 0xff56, "arrowleft": 0xff51, "arrowup": 0xff52, "arrowright": 0xff53, "arrowdown": 0xff54, "left": 0xff51, "up": 0xff52, "right": 0xff53, "down": 0xff54,
	"f1": 0xffbe, "f2": 0xffbf, "f3": 0xffc0, "f4": 0xffc1, "f5": 0xffc2, "f6": 0xffc3, "f7": 0xffc4, "f8": 0xffc5, "f9": 0xffc6, "f10": 0xffc7, "f11": 0xffc8, "f12": 0xffc9,
	"shift": 0xffe1, "control": 0xffe3, "ctrl": 0xffe3, "alt": 0xffe9, "meta": 0xffeb, "super": 0xffeb, "cmd": 0xffeb,
}

// keysymOf is the number of a character; 0 for one that no key has.
func keysymOf(r rune) uint32 {
	switch {
	case r == '\n' || r == '\r':
		return keysyms["enter"]
	case r == '\t':
		return keysyms["tab"]
	case r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError:
		return 0
	case r <= 0xff:
		return uint32(r)
	}
	return 0x01000000 | uint32(r)
}

// combination parses keys that are pressed together, such as Control+A.
func combination(text string) ([]uint32, error) {
	parts := strings.Split(text, "+")
	if strings.HasSuffix(text, "+") && len(parts) > 1 { // the plus key itself
		parts = append(parts[:len(parts)-2], "+")
	}
	var out []uint32
	for _, p := range parts {
		k, ok := keysyms[strings.ToLower(strings.TrimSpace(p))]
		if r, size := utf8.DecodeRuneInString(p); !ok && size == len(p) && size > 0 {
			if len(parts) > 1 && r >= 'A' && r <= 'Z' { // Control+A is no Control+Shift+A
				r += 'a' - 'A'
			}
			k = keysymOf(r)
		}
		if k == 0 || slices.Contains(out, k) {
			return nil, fault.New(fault.Invalid, "invalid_key", "%q is no key. Name one such as Enter, ArrowDown or a, or several such as Control+A.", text).With("field", "key")
		}
		out = append(out, k)
	}
	return out, nil
}
