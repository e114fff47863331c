package screen

import "unicode/utf8"

const (
	maxOSC   = 128 << 10 // bytes; longer ones are read to their end and discarded
	maxDCS   = 4 << 10
	smallBuf = 4 << 10 // a buffer that grew beyond this is freed
)

// parser is the part of the screen's state that records the position within a sequence.
type parser struct {
	state   uint8
	collect uint32 // prefix and intermediate bytes, eight bits each
	params  params
	osc     []byte // of an OSC, or a DCS that gets an answer
	over    bool   // osc is too long and was discarded
	hook    uint32 // which DCS it is
	held    [utf8.UTFMax]byte
	nheld   int // bytes of an incomplete character
}

// Write takes the next bytes of output. It accepts any bytes and never fails.
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

// Held returns how many of the last written bytes, at most three, begin an incomplete character. They are not part of a snapshot.
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

// decodeRune reads a character. It returns size 0 when the rest is missing, and -1 for invalid UTF-8, which is skipped.
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

// char processes one character, whose bytes are raw, by the table.
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

// keepString collects a piece of an OSC or of a DCS that gets an answer.
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

// plainCSI handles a control sequence that is complete at the beginning of p and has no subparameters and no intermediate bytes,
// as nearly all do. It returns its length, or 0 without having done anything.
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
