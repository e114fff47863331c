package screen

// TakeLines calls fn with the text of each line of the scrollback, the oldest first, and drops them. goesOn reports that the line
// was wrapped at the edge of the screen: the next one, which may still be on the screen, is a part of it. The count of lines
// retained by viewers is no longer maintained: use a Screen whose lines are taken only for reading.
func (s *Screen) TakeLines(fn func(text string, goesOn bool)) {
	l := line{cells: make([]cell, s.cols)}
	var b []byte
	for i := range s.hist.n {
		l.fill(0)
		decode(s.hist.at(i), &l)
		goesOn := s.main.row(0).wrapped // the line below records it
		if i+1 < s.hist.n {
			goesOn = s.hist.at(i + 1)[0] != 0
		}
		b = s.appendText(b[:0], &l, !goesOn)
		fn(string(b), goesOn)
	}
	s.hist.head, s.hist.n, s.hist.end = 0, 0, 0
}
