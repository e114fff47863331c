package screen

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// RGB is a colour, 0xRRGGBB.
type RGB uint32

// Colors are the colours of a viewer's theme.
type Colors struct {
	Foreground, Background, Cursor RGB
	Palette                        [16]RGB // all zero: the defaults
}

const isSet = 1 << 24

// colorChanges are the colours that programs set: isSet | RGB.
type colorChanges struct {
	special [3]uint32 // text, background, cursor
	indexed map[uint8]uint32
}

var usualPalette = [16]RGB{
	0x2e3436, 0xcc0000, 0x4e9a06, 0xc4a000, 0x3465a4, 0x75507b, 0x06989a, 0xd3d7cf,
	0x555753, 0xef2929, 0x8ae234, 0xfce94f, 0x729fcf, 0xad7fa8, 0x34e2e2, 0xeeeeec,
}

// indexed returns a colour of the palette.
func (s *Screen) indexed(i uint8) RGB {
	if c, ok := s.colors.indexed[i]; ok {
		return RGB(c & rgbMask)
	}
	if i < 16 {
		if s.cfg.Colors.Palette != ([16]RGB{}) {
			return s.cfg.Colors.Palette[i]
		}
		return usualPalette[i]
	}
	if i >= 232 {
		v := RGB(i-232)*10 + 8
		return v<<16 | v<<8 | v
	}
	level := func(n uint8) RGB {
		if n == 0 {
			return 0
		}
		return RGB(n)*40 + 55
	}
	i -= 16
	return level(i/36)<<16 | level(i/6%6)<<8 | level(i%6)
}

// specialColor returns the colour of text, background or cursor.
func (s *Screen) specialColor(i int) RGB {
	if c := s.colors.special[i]; c&isSet != 0 {
		return RGB(c & rgbMask)
	}
	c := s.cfg.Colors
	if c.Foreground == c.Background { // not set
		c.Foreground, c.Background, c.Cursor = 0xffffff, 0x000000, 0xffffff
	}
	return [3]RGB{c.Foreground, c.Background, c.Cursor}[i]
}

// SetColors sets the colours used to answer queries from now on.
func (s *Screen) SetColors(c Colors) { s.cfg.Colors = c }

func (s *Screen) dark() bool {
	c := s.specialColor(1)
	return 299*(c>>16)+587*(c>>8&0xff)+114*(c&0xff) < 128_000
}

// indexedColors does OSC 4: pairs of a number and a colour to set, or "?".
func (s *Screen) indexedColors(text string, bell bool) {
	slots := strings.Split(text, ";")
	for ; len(slots) > 1; slots = slots[2:] {
		i, err := strconv.ParseUint(slots[0], 10, 8)
		if err != nil || slots[0][0] == '+' {
			continue
		}
		if slots[1] == "?" {
			s.reply(fmt.Sprintf("\x1b]4;%d;%s%s", i, s.indexed(uint8(i)), end(bell)))
			continue
		}
		if c, ok := parseColor(slots[1]); ok {
			if s.colors.indexed == nil {
				s.colors.indexed = make(map[uint8]uint32)
			}
			s.colors.indexed[uint8(i)] = isSet | uint32(c)
		}
	}
}

// specialColors does OSC 10 to 12: colours of text, background and cursor from the i-th on.
func (s *Screen) specialColors(i int, text string, bell bool) {
	for slot := range strings.SplitSeq(text, ";") {
		if i >= len(s.colors.special) {
			return
		}
		if slot == "?" {
			s.reply(fmt.Sprintf("\x1b]%d;%s%s", 10+i, s.specialColor(i), end(bell)))
		} else if c, ok := parseColor(slot); ok {
			s.colors.special[i] = isSet | uint32(c)
		}
		i++
	}
}

// restoreIndexed does OSC 104.
func (s *Screen) restoreIndexed(text string) {
	if text == "" {
		s.colors.indexed = nil
		return
	}
	for slot := range strings.SplitSeq(text, ";") {
		if i, err := strconv.ParseUint(slot, 10, 8); err == nil {
			delete(s.colors.indexed, uint8(i))
		}
	}
}

// String returns the colour in the format in which a terminal reports it.
func (c RGB) String() string {
	r, g, b := c>>16&0xff, c>>8&0xff, c&0xff
	return fmt.Sprintf("rgb:%02x%02x/%02x%02x/%02x%02x", uint(r), uint(r), uint(g), uint(g), uint(b), uint(b))
}

// parseColor reads "rgb:r/g/b" with one to four digits each, and "#rgb" with as many.
func parseColor(text string) (RGB, bool) {
	text = strings.ToLower(text)
	var parts []string
	hash := false
	if rest, ok := strings.CutPrefix(text, "rgb:"); ok {
		parts = strings.Split(rest, "/")
	} else if rest, ok := strings.CutPrefix(text, "#"); ok && len(rest) > 0 && len(rest)%3 == 0 {
		n := len(rest) / 3
		parts, hash = []string{rest[:n], rest[n : 2*n], rest[2*n:]}, true
	}
	if len(parts) != 3 || len(parts[0]) != len(parts[1]) || len(parts[1]) != len(parts[2]) {
		return 0, false
	}
	digits := len(parts[0])
	if digits < 1 || digits > 4 {
		return 0, false
	}
	var c RGB
	for _, p := range parts {
		v, err := strconv.ParseUint(p, 16, 16)
		if err != nil {
			return 0, false
		}
		if hash {
			v = [5]uint64{1: v << 4, 2: v, 3: v >> 4, 4: v >> 8}[digits]
		} else {
			v = uint64(math.Round(float64(v) / float64(uint64(1)<<(4*digits)-1) * 255))
		}
		c = c<<8 | RGB(v&0xff)
	}
	return c, true
}
