package screen

import "time"

// Modes are the modes that programs set, for code that turns keys and clicks into bytes.
type Modes struct {
	AppCursor, AppKeypad, BracketedPaste, Focus  bool
	Insert, Origin, Wrap, ReverseWrap, NewLine   bool
	CursorShown                                  bool
	SyncOutput                                   bool // a frame is being drawn; ends automatically after a second
	ColorSchemeReports                           bool // mode 2031
	Mouse                                        int  // 0, or 9, 1000, 1002, 1003
	MouseSGR, MousePixels, MouseUTF8, MouseUrxvt bool
	CursorStyle                                  int // as in DECSCUSR, 0 to 6
	KittyFlags                                   int
	ModifyOtherKeys                              int
}

type modes struct {
	insert, newline                     bool
	appCursor, appKeypad, paste, focus  bool
	origin, noWrap, reverseWrap, hidden bool
	sync                                bool
	syncAt                              time.Time
	schemeReports                       bool
	mouse                               int
	mouseCode                           int // 0, 1006 or 1016
	mouseUTF8, mouseUrxvt               bool
	cursorStyle                         uint8
	blink                               uint8   // of mode 12: 0 never set, 1 off, 2 on
	kitty                               []uint8 // a stack, never empty
	otherKeys                           uint8
}

const maxKitty = 16

func defaultModes() modes { return modes{kitty: make([]uint8, 1, 2)} }

// soft does what DECSTR does.
func (m *modes) soft() {
	m.insert, m.appCursor, m.appKeypad, m.paste, m.focus = false, false, false, false, false
	m.origin, m.noWrap, m.reverseWrap, m.hidden, m.sync = false, false, false, false, false
	m.cursorStyle = 0
}

func (m *modes) pushKitty(flags uint8) {
	if len(m.kitty) == maxKitty {
		m.kitty = append(m.kitty[:0], m.kitty[1:]...)
	}
	m.kitty = append(m.kitty, flags)
}

func (m *modes) popKitty(n int) {
	if n < len(m.kitty) {
		m.kitty = m.kitty[:len(m.kitty)-n]
		return
	}
	m.kitty = m.kitty[:1]
	m.kitty[0] = 0
}

func (m *modes) setKitty(flags uint8, how int32) {
	top := &m.kitty[len(m.kitty)-1]
	switch how {
	case 2:
		*top |= flags
	case 3:
		*top &^= flags
	default:
		*top = flags
	}
}

// synchronized reports whether a frame is being drawn.
func (s *Screen) synchronized() bool {
	return s.modes.sync && s.cfg.Now().Sub(s.modes.syncAt) < syncFor
}

// Modes returns the modes as they are now.
func (s *Screen) Modes() Modes {
	m := &s.modes
	return Modes{
		AppCursor: m.appCursor, AppKeypad: m.appKeypad, BracketedPaste: m.paste, Focus: m.focus,
		Insert: m.insert, Origin: m.origin, Wrap: !m.noWrap, ReverseWrap: m.reverseWrap, NewLine: m.newline,
		CursorShown: !m.hidden, SyncOutput: s.synchronized(), ColorSchemeReports: m.schemeReports,
		Mouse: m.mouse, MouseSGR: m.mouseCode == 1006, MousePixels: m.mouseCode == 1016,
		MouseUTF8: m.mouseUTF8, MouseUrxvt: m.mouseUrxvt,
		CursorStyle: int(m.cursorStyle), KittyFlags: int(m.kitty[len(m.kitty)-1]), ModifyOtherKeys: int(m.otherKeys),
	}
}

func (s *Screen) setMode(mode int32, on bool) {
	switch mode {
	case 4:
		s.modes.insert = on
	case 20:
		s.modes.newline = on
	}
}

func (s *Screen) setPrivateMode(mode int32, on bool) {
	m := &s.modes
	switch mode {
	case 1:
		m.appCursor = on
	case 2:
		if on {
			s.sets = [4]uint8{}
			s.charset = 0
		}
	case 6:
		m.origin = on
		s.moveTo(0, 0)
	case 7:
		m.noWrap = !on
	case 9, 1000, 1002, 1003:
		m.mouse = 0
		if on {
			m.mouse = int(mode)
		}
	case 12:
		m.blink = 1
		if on {
			m.blink = 2
		}
	case 25:
		m.hidden = !on
	case 45:
		m.reverseWrap = on
	case 47, 1047, 1049:
		s.switchScreen(on, mode == 1049)
	case 66:
		m.appKeypad = on
	case 1004:
		m.focus = on
	case 1005:
		m.mouseUTF8 = on
	case 1006, 1016:
		m.mouseCode = 0
		if on {
			m.mouseCode = int(mode)
		}
	case 1015:
		m.mouseUrxvt = on
	case 1048:
		if on {
			s.saveCursor()
		} else {
			s.restoreCursor()
		}
	case 2004:
		m.paste = on
	case 2026:
		m.sync = on
		if on {
			m.syncAt = s.cfg.Now()
		}
	case 2031:
		m.schemeReports = on
	}
}

// switchScreen shows the alternate screen or the main one.
func (s *Screen) switchScreen(alt, cursor bool) {
	if alt {
		if cursor {
			s.saveCursor()
		}
		if s.buf == &s.main {
			if s.changed {
				s.refresh()
			}
			s.showAlt()
		}
		return
	}
	if s.buf == &s.alt {
		s.main.x, s.main.y = s.alt.x, s.alt.y
		s.buf = &s.main
		b := &s.alt
		b.first, b.last = 0, s.rows-1
		b.resetTabs(s.cols)
		for i := range b.lines {
			b.lines[i].fill(0)
		}
		s.notify(Event{Kind: ScreenKind})
	}
	if cursor {
		s.restoreCursor()
	}
}

func (s *Screen) showAlt() {
	b := &s.alt
	if len(b.lines) != s.rows || len(b.lines[0].cells) != s.cols {
		b.allocate(s.cols, s.rows)
	}
	for i := range b.lines {
		b.lines[i].fill(s.blank)
	}
	b.x, b.y = s.main.x, s.main.y
	s.buf = b
	s.notify(Event{Kind: ScreenKind})
}
