package screen

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// endOSC executes an operating system command; bell reports how it ended.
func (s *Screen) endOSC(bell bool) {
	code, rest := 0, s.osc
	for len(rest) > 0 && rest[0] != ';' {
		d := rest[0] - '0'
		if d > 9 || code > 100_000 {
			return
		}
		code = code*10 + int(d)
		rest = rest[1:]
	}
	if len(s.osc) == len(rest) {
		return // not a number
	}
	if len(rest) > 0 {
		rest = rest[1:]
	}
	switch code {
	case 0, 2:
		s.setTitle(string(rest))
	case 4:
		s.indexedColors(string(rest), bell)
	case 7:
		s.notify(Event{Kind: Directory, Text: string(rest)})
	case 8:
		s.setLink(rest)
	case 9:
		s.notice(string(rest))
	case 10, 11, 12:
		s.specialColors(code-10, string(rest), bell)
	case 52:
		if which, text, ok := strings.Cut(string(rest), ";"); ok {
			s.notify(Event{Kind: Clipboard, Title: which, Text: text})
			if text == "?" {
				s.reply("\x1b]52;" + first(which, 8) + ";" + end(bell)) // never the clipboard's contents
			}
		}
	case 104:
		s.restoreIndexed(string(rest))
	case 110, 111, 112:
		s.colors.special[code-110] = 0
	case 777:
		if text, ok := bytes.CutPrefix(rest, []byte("notify;")); ok {
			title, body, _ := strings.Cut(string(text), ";")
			s.notify(Event{Kind: Notify, Title: title, Text: body})
		}
	case 7501:
		s.notify(Event{Kind: AgentState, Text: string(rest)})
	}
}

// end returns the terminator of an answer: that of the query.
func end(bell bool) string {
	if bell {
		return "\a"
	}
	return "\x1b\\"
}

// first returns the first n bytes of s, cut at a character.
func first(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func (s *Screen) setTitle(title string) {
	s.title = strings.Clone(first(title, maxTitle))
	s.notify(Event{Kind: TitleSet, Text: s.title})
}

// notice does OSC 9: a notification, a progress, or another of ConEmu's numbered commands.
func (s *Screen) notice(text string) {
	if rest, ok := strings.CutPrefix(text, "4;"); ok {
		s.progress = ""
		if state := rest[:min(1, len(rest))]; len(rest) <= 16 && state >= "1" && state <= "4" {
			s.progress = strings.Clone(rest)
		}
		s.notify(Event{Kind: Progress, Text: rest})
		return
	}
	n := 0
	for n < len(text) && n < 2 && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	if text == "" || n > 0 && (n == len(text) || text[n] == ';') {
		return
	}
	s.notify(Event{Kind: Notify, Text: text})
}

// setLink does OSC 8: it begins or ends a hyperlink.
func (s *Screen) setLink(p []byte) {
	at := bytes.IndexByte(p, ';')
	if at < 0 {
		return
	}
	head, uri := string(bytes.TrimSpace(p[:at])), p[at+1:]
	if len(uri) == 0 && head != "" {
		return
	}
	s.cur.link = 0
	s.changed = true
	if len(uri) > 0 && len(uri) <= maxURI {
		l := link{uri: string(uri)}
		for param := range strings.SplitSeq(head, ":") {
			if id, ok := strings.CutPrefix(param, "id="); ok {
				if len(id) <= maxLinkID {
					l.id = id
				}
				break
			}
		}
		if s.links.due(s.links.live()) {
			s.sweep()
		}
		s.cur.link = s.links.number(l)
	}
	s.cur.updateExt()
}
