package mcpserver

import (
	"encoding/json"
)

// maxID is the longest id that is looked for, in bytes of JSON.
const maxID = 256

// idScanner finds the "id" of a JSON object that is too long to be held: it reads the object once and keeps only a word of it.
type idScanner struct {
	depth    int
	inString bool
	escaped  bool
	isKey    bool // the next word of the outermost object is a key
	word     []byte
	key      string // the last key of the outermost object
	found    []byte
}

func (s *idScanner) feed(part []byte) {
	for _, b := range part {
		s.step(b)
	}
}

func (s *idScanner) step(b byte) {
	if s.inString {
		s.collect(b)
		switch {
		case s.escaped:
			s.escaped = false
		case b == '\\':
			s.escaped = true
		case b == '"':
			s.inString = false
		}
		return
	}
	switch b {
	case '"':
		s.inString = true
		s.collect(b)
	case '{', '[':
		s.depth++
		s.isKey, s.word = s.depth == 1, nil
	case '}', ']':
		s.ended()
		s.depth--
	case ':':
		if s.depth == 1 {
			s.key, s.word, s.isKey = string(s.word), nil, false
		}
	case ',':
		s.ended()
		if s.depth == 1 {
			s.isKey = true
		}
	case ' ', '\t', '\r', '\n':
	default:
		s.collect(b)
	}
}

// collect adds to a word of the outermost object.
func (s *idScanner) collect(b byte) {
	if s.depth == 1 && (s.isKey || s.key == `"id"`) && len(s.word) <= maxID {
		s.word = append(s.word, b)
	}
}

// ended is called where a value may have ended.
func (s *idScanner) ended() {
	if s.depth == 1 && s.key == `"id"` && len(s.word) > 0 && len(s.word) <= maxID {
		s.found = s.word
	}
	if s.depth == 1 {
		s.word, s.key = nil, ""
	}
}

// id returns the id; nil when none was found.
func (s *idScanner) id() json.RawMessage {
	if !json.Valid(s.found) {
		return nil
	}
	return s.found
}
