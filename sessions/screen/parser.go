package screen

import "unicode/utf8"

// The parser's states, after Paul Williams' diagram of the VT500.
const (
	ground = iota
	escape
	escapeIntermediate
	csiEntry
	csiParam
	csiIntermediate
	csiIgnore
	skipString // SOS, PM and APC
	oscString
	dcsEntry
	dcsParam
	dcsIgnore
	dcsIntermediate
	dcsPassthrough
)

// What the parser does on its way from state to state.
const (
	doIgnore = iota
	doError
	doPrint
	doExecute
	doOSCStart
	doOSCPut
	doOSCEnd
	doCSI
	doParam
	doCollect
	doESC
	doClear
	doHook
	doPut
	doUnhook
)

const (
	maxOSC   = 128 << 10 // bytes; longer ones are read to their end and dropped
	maxDCS   = 4 << 10
	smallBuf = 4 << 10 // a buffer that grew beyond is given back
)

// parser is the part of the screen's state that says how far into a sequence it is.
type parser struct {
	state   uint8
	collect uint32 // prefix and intermediate bytes, eight bits each
	params  params
	osc     []byte // of an OSC, or a DCS that will be answered
	over    bool   // osc is too long and was dropped
	hook    uint32 // which DCS it is
	held    [utf8.UTFMax]byte
	nheld   int // bytes of a character that is not whole yet
}

// transitions holds, for each state and character, action<<4 | next state. Characters from U+00A0 on count as U+00A0.
var transitions = makeTransitions()

func makeTransitions() (t [14 << 8]uint8) {
	for i := range t {
		t[i] = doError<<4 | ground
	}
	add := func(state, from, to int, action, next uint8) {
		for c := from; c <= to; c++ {
			t[state<<8|c] = action<<4 | next
		}
	}
	controls := func(state int, action uint8) {
		for _, r := range [][2]int{{0, 0x17}, {0x19, 0x19}, {0x1c, 0x1f}} {
			add(state, r[0], r[1], action, uint8(state))
		}
	}
	add(ground, 0x20, 0x7e, doPrint, ground)
	for s := ground; s <= dcsPassthrough; s++ {
		for _, c := range []int{0x18, 0x1a, 0x99, 0x9a} {
			add(s, c, c, doExecute, ground)
		}
		add(s, 0x80, 0x97, doExecute, ground)
		add(s, 0x9c, 0x9c, doIgnore, ground)
		add(s, 0x1b, 0x1b, doClear, escape)
		add(s, 0x9d, 0x9d, doOSCStart, oscString)
		for _, c := range []int{0x98, 0x9e, 0x9f} {
			add(s, c, c, doIgnore, skipString)
		}
		add(s, 0x9b, 0x9b, doClear, csiEntry)
		add(s, 0x90, 0x90, doClear, dcsEntry)
	}
	for _, s := range []int{ground, escape, csiEntry, csiParam, csiIgnore, csiIntermediate, escapeIntermediate} {
		controls(s, doExecute)
	}
	for _, s := range []int{escape, csiEntry, csiParam, csiIntermediate} {
		add(s, 0x7f, 0x7f, doIgnore, uint8(s))
	}
	controls(oscString, doIgnore)
	add(escape, 0x5d, 0x5d, doOSCStart, oscString)
	add(oscString, 0x20, 0x7f, doOSCPut, oscString)
	for _, c := range []int{0x9c, 0x1b, 0x18, 0x1a, 0x07} {
		add(oscString, c, c, doOSCEnd, ground)
	}
	for _, c := range []int{0x58, 0x5e, 0x5f} {
		add(escape, c, c, doIgnore, skipString)
	}
	add(skipString, 0x20, 0x7f, doIgnore, skipString)
	controls(skipString, doIgnore)
	add(skipString, 0x9c, 0x9c, doIgnore, ground)

	add(escape, 0x5b, 0x5b, doClear, csiEntry)
	add(csiEntry, 0x40, 0x7e, doCSI, ground)
	add(csiEntry, 0x30, 0x3b, doParam, csiParam)
	add(csiEntry, 0x3c, 0x3f, doCollect, csiParam)
	add(csiParam, 0x30, 0x3b, doParam, csiParam)
	add(csiParam, 0x40, 0x7e, doCSI, ground)
	add(csiParam, 0x3c, 0x3f, doIgnore, csiIgnore)
	add(csiIgnore, 0x20, 0x3f, doIgnore, csiIgnore)
	add(csiIgnore, 0x7f, 0x7f, doIgnore, csiIgnore)
	add(csiIgnore, 0x40, 0x7e, doIgnore, ground)
	add(csiEntry, 0x20, 0x2f, doCollect, csiIntermediate)
	add(csiIntermediate, 0x20, 0x2f, doCollect, csiIntermediate)
	add(csiIntermediate, 0x30, 0x3f, doIgnore, csiIgnore)
	add(csiIntermediate, 0x40, 0x7e, doCSI, ground)
	add(csiParam, 0x20, 0x2f, doCollect, csiIntermediate)

	add(escape, 0x20, 0x2f, doCollect, escapeIntermediate)
	add(escapeIntermediate, 0x20, 0x2f, doCollect, escapeIntermediate)
	add(escapeIntermediate, 0x30, 0x7e, doESC, ground)
	for _, r := range [][2]int{{0x30, 0x4f}, {0x51, 0x57}, {0x59, 0x5a}, {0x5c, 0x5c}, {0x60, 0x7e}} {
		add(escape, r[0], r[1], doESC, ground)
	}

	add(escape, 0x50, 0x50, doClear, dcsEntry)
	for _, s := range []int{dcsEntry, dcsIgnore, dcsParam, dcsIntermediate} {
		controls(s, doIgnore)
		add(s, 0x7f, 0x7f, doIgnore, uint8(s))
	}
	add(dcsEntry, 0x20, 0x2f, doCollect, dcsIntermediate)
	add(dcsEntry, 0x30, 0x3b, doParam, dcsParam)
	add(dcsEntry, 0x3c, 0x3f, doCollect, dcsParam)
	add(dcsIgnore, 0x20, 0x7f, doIgnore, dcsIgnore)
	add(dcsParam, 0x30, 0x3b, doParam, dcsParam)
	add(dcsParam, 0x3c, 0x3f, doIgnore, dcsIgnore)
	add(dcsParam, 0x20, 0x2f, doCollect, dcsIntermediate)
	add(dcsIntermediate, 0x20, 0x2f, doCollect, dcsIntermediate)
	add(dcsIntermediate, 0x30, 0x3f, doIgnore, dcsIgnore)
	for _, s := range []int{dcsIntermediate, dcsParam, dcsEntry} {
		add(s, 0x40, 0x7e, doHook, dcsPassthrough)
	}
	controls(dcsPassthrough, doPut)
	add(dcsPassthrough, 0x20, 0x7e, doPut, dcsPassthrough)
	add(dcsPassthrough, 0x7f, 0x7f, doIgnore, dcsPassthrough)
	for _, c := range []int{0x1b, 0x9c, 0x18, 0x1a} {
		add(dcsPassthrough, c, c, doUnhook, ground)
	}

	add(ground, 0xa0, 0xa0, doPrint, ground)
	add(oscString, 0xa0, 0xa0, doOSCPut, oscString)
	add(csiIgnore, 0xa0, 0xa0, doIgnore, csiIgnore)
	add(dcsIgnore, 0xa0, 0xa0, doIgnore, dcsIgnore)
	add(dcsPassthrough, 0xa0, 0xa0, doPut, dcsPassthrough)
	return t
}

// Write takes the next bytes of output. It takes all of them whatever they are, and never fails.
func (s *Screen) Write(p []byte) (int, error) {
	n := len(p)
	if s.nheld > 0 {
		p = s.resume(p)
	}
	s.run(p)
	if len(s.answers) > 0 {
		s.cfg.Answer(s.answers)
		s.answers = s.answers[:0]
	}
	return n, nil
}

// Held returns how many of the bytes written last, at most three, begin a character whose rest has not come. They are not
// part of a snapshot.
func (s *Screen) Held() int { return s.nheld }

// resume completes the character the last write ended in, and returns what follows.
func (s *Screen) resume(p []byte) []byte {
	var b [2 * utf8.UTFMax]byte
	was := copy(b[:], s.held[:s.nheld])
	n := was + copy(b[was:was+utf8.UTFMax], p)
	r, size := decodeRune(b[:n])
	if size == 0 {
		s.nheld = copy(s.held[:], b[:n])
		return nil
	}
	s.nheld = 0
	if r >= 0 {
		s.char(uint32(r), b[:size])
	}
	return p[size-was:]
}

// run parses p.
func (s *Screen) run(p []byte) {
	for i := 0; i < len(p); {
		c := p[i]
		if c >= 0x80 {
			r, size := decodeRune(p[i:])
			if size == 0 {
				s.nheld = copy(s.held[:], p[i:])
				return
			}
			if r >= 0 {
				if s.state == ground && r >= 0xa0 {
					s.print(uint32(r))
				} else {
					s.char(uint32(r), p[i:i+size])
				}
			}
			i += size
			continue
		}
		switch s.state {
		case ground:
			switch {
			case c-0x20 < 0x5f:
				i += s.printPlain(p[i:])
			case c == 0x1b:
				if n := s.plainCSI(p[i:]); n > 0 {
					i += n
					continue
				}
				s.clear()
				s.state = escape
				i++
			case c < 0x20:
				s.execute(c)
				i++
			default:
				i++
			}
		case oscString, dcsPassthrough, skipString:
			j := i
			for j < len(p) && p[j] >= 0x20 && p[j] < 0x7f {
				j++
			}
			if j == i {
				s.char(uint32(c), p[i:i+1])
				i++
				continue
			}
			s.keepString(p[i:j])
			i = j
		default:
			s.char(uint32(c), p[i:i+1])
			i++
		}
	}
}

// decodeRune reads a character. It returns size 0 when the rest is missing, and -1 for what is none: that is skipped.
func decodeRune(p []byte) (r rune, size int) {
	c := p[0]
	need := 0
	switch {
	case c < 0x80:
		return rune(c), 1
	case c&0xe0 == 0xc0:
		need, r = 2, rune(c&0x1f)
	case c&0xf0 == 0xe0:
		need, r = 3, rune(c&0x0f)
	case c&0xf8 == 0xf0:
		need, r = 4, rune(c&0x07)
	default:
		return -1, 1
	}
	for i := 1; i < need; i++ {
		if i == len(p) {
			return 0, 0
		}
		if p[i]&0xc0 != 0x80 {
			return -1, i
		}
		r = r<<6 | rune(p[i]&0x3f)
	}
	switch need {
	case 2:
		if r < 0x80 {
			return -1, 1
		}
	case 3:
		if r < 0x800 || r >= 0xd800 && r <= 0xdfff || r == 0xfeff {
			return -1, 3
		}
	case 4:
		if r < 0x10000 || r > 0x10ffff {
			return -1, 4
		}
	}
	return r, need
}

// clear begins a new sequence.
func (s *Screen) clear() {
	s.params.reset()
	s.collect = 0
}

// char takes one character, whose bytes are raw, by the table.
func (s *Screen) char(r uint32, raw []byte) {
	t := transitions[int(s.state)<<8|int(min(r, 0xa0))]
	next := t & 15
	switch t >> 4 {
	case doPrint:
		s.print(r)
	case doExecute:
		s.state = next
		s.execute(byte(r))
		return
	case doOSCStart:
		s.osc, s.over = s.osc[:0], false
	case doOSCPut, doPut:
		s.keepString(raw)
	case doOSCEnd:
		if r != 0x18 && r != 0x1a && !s.over {
			s.endOSC(r == 0x07)
		}
		s.dropString()
		if r == 0x1b {
			next = escape
		}
	case doCSI:
		s.dispatchCSI(s.collect<<8 | r)
		s.joinKind = none
	case doParam:
		s.params.add(byte(r))
	case doCollect:
		s.collect = s.collect<<8 | r
	case doESC:
		s.state = next
		s.dispatchESC(s.collect<<8 | r)
		s.joinKind = none
		return
	case doClear:
		s.clear()
	case doHook:
		s.hook = s.collect<<8 | r
		s.osc, s.over = s.osc[:0], false
	case doUnhook:
		if r != 0x18 && r != 0x1a && !s.over {
			s.endDCS()
		}
		s.dropString()
		if r == 0x1b {
			next = escape
		}
	}
	s.state = next
}

// keepString keeps a piece of an OSC or of a DCS that will be answered.
func (s *Screen) keepString(p []byte) {
	most := maxOSC
	switch {
	case s.state == skipString || s.over:
		return
	case s.state == dcsPassthrough:
		if most = maxDCS; !answeredDCS(s.hook) {
			return
		}
	}
	if len(s.osc)+len(p) > most {
		s.osc, s.over = nil, true
		return
	}
	s.osc = append(s.osc, p...)
}

// dropString ends an OSC or DCS.
func (s *Screen) dropString() {
	if cap(s.osc) > smallBuf {
		s.osc = nil
	}
	s.osc, s.over = s.osc[:0], false
	s.clear()
	s.joinKind = none
}

// plainCSI handles a control sequence that lies at the beginning of p whole and has no subparameters and no intermediate
// bytes, as nearly all do. It returns its length, or 0 and has done nothing.
func (s *Screen) plainCSI(p []byte) int {
	if len(p) < 3 || p[1] != '[' {
		return 0
	}
	i := 2
	prefix := uint32(0)
	if c := p[2]; c >= 0x3c && c <= 0x3f {
		prefix = uint32(c) << 8
		i++
	}
	n, v := 0, int32(0)
	for ; i < len(p); i++ {
		c := p[i]
		if d := c - '0'; d < 10 {
			if v = v*10 + int32(d); v > 1<<24 {
				return 0
			}
			continue
		}
		if c == ';' {
			if n == maxParams-1 {
				return 0
			}
			s.params.val[n] = v
			n++
			v = 0
			continue
		}
		if c-0x40 >= 0x3f {
			return 0
		}
		s.params.val[n] = v
		s.params.n, s.params.nsub = n+1, 0
		if prefix == 0 && c == 'm' {
			s.setStyle()
		} else {
			s.dispatchCSI(prefix | uint32(c))
		}
		s.joinKind = none
		return i + 1
	}
	return 0
}
