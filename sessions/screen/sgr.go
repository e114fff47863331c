package screen

// setStyle does SGR.
func (s *Screen) setStyle() {
	p, st := &s.params, &s.cur
	s.changed = true
	for i := 0; i < p.n; i++ {
		v := p.val[i]
		switch {
		case v == 0:
			st.fg, st.bg = 0, 0
			st.ext &^= underlineMask | colorMask
			st.updateExt()
		case v == 38:
			i += s.readColor(i, &st.fg)
		case v == 48:
			i += s.readColor(i, &st.bg)
		case v == 58:
			i += s.readColor(i, &st.ext)
		case v >= 30 && v <= 37:
			st.fg = st.fg&^colorMask | mode16 | uint32(v-30)
		case v >= 40 && v <= 47:
			st.bg = st.bg&^colorMask | mode16 | uint32(v-40)
		case v >= 90 && v <= 97:
			st.fg = st.fg&^colorMask | mode16 | uint32(v-90+8)
		case v >= 100 && v <= 107:
			st.bg = st.bg&^colorMask | mode16 | uint32(v-100+8)
		default:
			s.setAttribute(v, p.subs(i))
		}
	}
}

func (s *Screen) setAttribute(v int32, subs []int32) {
	st := &s.cur
	switch v {
	case 1:
		st.fg |= bold
	case 2:
		st.bg |= dim
	case 3:
		st.bg |= italic
	case 4:
		kind := int32(1)
		if len(subs) > 0 {
			kind = subs[0]
		}
		s.setUnderline(kind)
	case 5:
		st.fg |= blink
	case 7:
		st.fg |= inverse
	case 8:
		st.fg |= invisible
	case 9:
		st.fg |= strike
	case 21:
		s.setUnderline(2)
	case 22:
		st.fg &^= bold
		st.bg &^= dim
	case 23:
		st.bg &^= italic
	case 24:
		s.setUnderline(0)
	case 25:
		st.fg &^= blink
	case 27:
		st.fg &^= inverse
	case 28:
		st.fg &^= invisible
	case 29:
		st.fg &^= strike
	case 39:
		st.fg &^= colorMask
	case 49:
		st.bg &^= colorMask
	case 53:
		st.bg |= overline
	case 55:
		st.bg &^= overline
	case 59:
		st.ext |= colorMask // xterm.js: white, not the colour of the text
		st.updateExt()
	}
}

func (s *Screen) setUnderline(kind int32) {
	st := &s.cur
	if kind < 0 || kind > 5 {
		kind = 1
	}
	st.ext = st.ext&^underlineMask | uint32(kind)<<underlineShift
	st.fg |= underline
	if kind == 0 {
		st.fg &^= underline
	}
	st.updateExt()
}

// readColor reads the extended colour that begins at parameter i, in any of the forms programs use, into a part of a style.
// It returns how many further parameters it took.
func (s *Screen) readColor(i int, to *uint32) int {
	p := &s.params
	acc := [6]int32{0, 0, -1, 0, 0, 0} // target, mode, colour space, then the colour
	space, took := 0, 0
	for {
		acc[took+space] = p.val[i+took]
		if subs := p.subs(i + took); len(subs) > 0 {
			for k := 0; k < len(subs) && k+took+1+space < len(acc); k++ {
				if acc[1] == 5 {
					space = 1
					if k+took+1+space >= len(acc) {
						break
					}
				}
				acc[took+k+1+space] = subs[k]
			}
			break
		}
		if acc[1] == 5 && took+space >= 2 || acc[1] == 2 && took+space >= 5 {
			break
		}
		if acc[1] != 0 {
			space = 1
		}
		if took++; took+i >= p.n || took+space >= len(acc) {
			break
		}
	}
	for k := 2; k < len(acc); k++ {
		acc[k] = max(acc[k], 0)
	}
	switch acc[1] {
	case 2:
		*to = *to&^colorMask | modeRGB | uint32(acc[3]&0xff)<<16 | uint32(acc[4]&0xff)<<8 | uint32(acc[5]&0xff)
	case 5:
		*to = *to&^colorMask | mode256 | uint32(acc[3]&0xff)
	}
	return took
}
