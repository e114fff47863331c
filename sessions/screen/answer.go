package screen

import (
	"encoding/hex"
	"fmt"
	"strings"
)

const maxAnswers = 16 << 10 // bytes of answers to one Write; further questions get none

// reply answers the program, when answering is on.
func (s *Screen) reply(text string) {
	if s.answer && len(s.answers)+len(text) <= maxAnswers {
		s.answers = append(s.answers, text...)
	}
}

func (s *Screen) replyf(format string, args ...any) {
	if s.answer {
		s.reply(fmt.Sprintf(format, args...))
	}
}

// reportStatus does DSR.
func (s *Screen) reportStatus(what int32, private bool) {
	mark := ""
	if private {
		mark = "?"
	}
	switch what {
	case 5:
		if !private {
			s.reply("\x1b[0n")
		}
	case 6:
		x, y := min(s.buf.x, s.cols-1), s.buf.y
		if s.modes.origin {
			y -= s.buf.first
		}
		s.replyf("\x1b[%s%d;%dR", mark, y+1, x+1)
	case 996:
		if private {
			scheme := 2
			if s.dark() {
				scheme = 1
			}
			s.replyf("\x1b[?997;%dn", scheme)
		}
	}
}

// reportMode does DECRQM: 0 unknown, 1 set, 2 reset, 3 always set, 4 always reset.
func (s *Screen) reportMode(mode int32, private bool) {
	m := &s.modes
	is := func(on bool) int {
		if on {
			return 1
		}
		return 2
	}
	state := 0
	if !private {
		switch mode {
		case 2:
			state = 4
		case 4:
			state = is(m.insert)
		case 12:
			state = 3
		case 20:
			state = is(m.newline)
		}
		s.replyf("\x1b[%d;%d$y", mode, state)
		return
	}
	switch mode {
	case 1:
		state = is(m.appCursor)
	case 6:
		state = is(m.origin)
	case 7:
		state = is(!m.noWrap)
	case 8, 1048:
		state = 3
		if mode == 1048 {
			state = 1
		}
	case 9, 1000, 1002, 1003:
		state = is(m.mouse == int(mode))
	case 12:
		state = is(m.blink == 2)
	case 25:
		state = is(!m.hidden)
	case 45:
		state = is(m.reverseWrap)
	case 47, 1047, 1049:
		state = is(s.AltScreen())
	case 66:
		state = is(m.appKeypad)
	case 67, 1005, 1015:
		state = 4
	case 1004:
		state = is(m.focus)
	case 1006, 1016:
		state = is(m.mouseCode == int(mode))
	case 2004:
		state = is(m.paste)
	case 2026:
		state = is(s.synchronized())
	case 2031:
		state = is(m.schemeReports)
	}
	s.replyf("\x1b[?%d;%d$y", mode, state)
}

// Device control strings that get an answer.
const (
	requestSetting = uint32('$')<<8 | 'q'
	requestCap     = uint32('+')<<8 | 'q'
)

func answeredDCS(id uint32) bool { return id == requestSetting || id == requestCap }

// endDCS answers a device control string.
func (s *Screen) endDCS() {
	if !s.answer {
		return
	}
	switch s.hook {
	case requestSetting:
		s.replySetting(string(s.osc))
	case requestCap:
		for name := range strings.SplitSeq(string(s.osc), ";") {
			s.replyCap(name)
		}
	}
}

// replySetting answers DECRQSS.
func (s *Screen) replySetting(what string) {
	switch what {
	case "\"q":
		p := 0
		if s.cur.bg&protected != 0 {
			p = 1
		}
		s.replyf("\x1bP1$r%d\"q\x1b\\", p)
	case "\"p":
		s.reply("\x1bP1$r61;1\"p\x1b\\")
	case "r":
		s.replyf("\x1bP1$r%d;%dr\x1b\\", s.buf.first+1, s.buf.last+1)
	case "m":
		e := emitter{s: s}
		e.setStyle(s.cur.normal())
		sgr := strings.TrimSuffix(strings.TrimPrefix(string(e.out), "\x1b["), "m")
		if s.cur.bg&protected != 0 || s.cur.link != 0 || sgr == "" {
			sgr = "0"
		}
		s.replyf("\x1bP1$r%sm\x1b\\", sgr)
	case " q":
		s.replyf("\x1bP1$r%d q\x1b\\", max(1, s.modes.cursorStyle))
	default:
		s.reply("\x1bP0$r\x1b\\")
	}
}

// replyCap answers XTGETTCAP for one name in hexadecimal.
func (s *Screen) replyCap(name string) {
	plain, err := hex.DecodeString(name)
	value := ""
	switch string(plain) {
	case "TN", "name":
		value = "xterm-256color"
	case "Co", "colors":
		value = "256"
	case "RGB":
		value = "8/8/8"
	}
	if err != nil || value == "" {
		s.reply("\x1bP0+r" + first(name, 64) + "\x1b\\")
		return
	}
	s.reply("\x1bP1+r" + name + "=" + hex.EncodeToString([]byte(value)) + "\x1b\\")
}
