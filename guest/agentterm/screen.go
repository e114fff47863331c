package agentterm

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/parawork/parawork/guest"
)

// screen is the conversation with a line to type in below it.
type screen struct {
	mu     sync.Mutex
	out    io.Writer
	cols   func() int
	line   []rune
	at     int    // the cursor in line
	status string // shown in place of an empty line
}

func (s *screen) enable()  { s.with(func() { s.write("\x1b[?2004h"); s.draw() }) }
func (s *screen) disable() { s.with(func() { s.erase(); s.write("\x1b[?2004l") }) }

func (s *screen) with(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

func (s *screen) write(text string) { _, _ = io.WriteString(s.out, text) }
func (s *screen) erase()            { s.write("\r\x1b[K") }

// draw shows as much of the line as fits, around the cursor.
func (s *screen) draw() {
	most := max(s.cols()-4, 10)
	if len(s.line) == 0 {
		s.write("\x1b[36m›\x1b[0m \x1b[2m" + string(fit([]rune(s.status), most)) + "\x1b[0m\r\x1b[2C")
		return
	}
	from, cursor := s.at, 0
	before := cells(s.line[:s.at])
	for n := len(before) - 1; n >= 0 && cursor+before[n].cols < most; n-- {
		cursor += before[n].cols
		if from = 0; n > 0 {
			from = before[n-1].end
		}
	}
	text := strings.NewReplacer("\n", "⏎", "\t", " ").Replace(string(fit(s.line[from:], most)))
	s.write("\x1b[36m›\x1b[0m " + text + fmt.Sprintf("\r\x1b[%dC", 2+cursor))
}

// print prints lines above the line.
func (s *screen) print(text string) {
	if text == "" {
		return
	}
	s.with(func() {
		s.erase()
		s.write(strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\r\n") + "\r\n")
		s.draw()
	})
}

func (s *screen) state(text string) {
	if text == "" {
		return
	}
	s.with(func() {
		s.status = text
		s.erase()
		s.draw()
	})
}

func (s *screen) typed(text string) {
	s.with(func() {
		if len(string(s.line))+len(text) > guest.MaxAgentPrompt {
			s.write("\a")
			return
		}
		in := []rune(text)
		s.line = append(s.line[:s.at:s.at], append(in, s.line[s.at:]...)...)
		s.at += len(in)
		s.erase()
		s.draw()
	})
}

// take returns the line and empties it.
func (s *screen) take() (line string) {
	s.with(func() {
		line, s.line, s.at = string(s.line), nil, 0
		s.erase()
		s.draw()
	})
	return line
}

// clear empties the line; false when it was empty.
func (s *screen) clear() bool { return s.take() != "" }

func (s *screen) empty() (empty bool) {
	s.with(func() { empty = len(s.line) == 0 })
	return empty
}

func (s *screen) edit(a action) {
	s.with(func() {
		switch a {
		case left:
			s.at = s.before()
		case right:
			for _, c := range cells(s.line) {
				if c.end > s.at {
					s.at = c.end
					break
				}
			}
		case home:
			s.at = 0
		case last:
			s.at = len(s.line)
		case backspace:
			s.cut(s.before())
		case deleteLine:
			s.cut(0)
		case deleteWord:
			from := s.at
			for from > 0 && s.line[from-1] == ' ' {
				from--
			}
			for from > 0 && s.line[from-1] != ' ' {
				from--
			}
			s.cut(from)
		}
		s.erase()
		s.draw()
	})
}

// before is where the character before the cursor begins.
func (s *screen) before() (at int) {
	for _, c := range cells(s.line) {
		if c.end >= s.at {
			break
		}
		at = c.end
	}
	return at
}

// cut removes what is between from and the cursor.
func (s *screen) cut(from int) {
	if from = max(from, 0); from < s.at {
		s.line = append(s.line[:from:from], s.line[s.at:]...)
		s.at = from
	}
}
