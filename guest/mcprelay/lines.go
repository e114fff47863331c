package mcprelay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// maxMessage bounds one message of either side, in bytes without the line's end.
const maxMessage = 4 << 20

// line is one line of a stream. One that is too long has no data; what could be found out about it is in long.
type line struct {
	data []byte
	long *finder
}

// readLine returns the next line that is not empty. A last line without an end counts, and the next call returns the error.
func readLine(from *bufio.Reader) (line, error) {
	var l line
	for {
		piece, err := from.ReadSlice('\n')
		switch {
		case l.long != nil:
			l.long.feed(piece)
		case len(l.data)+len(piece) > maxMessage+1:
			l.long = &finder{}
			l.long.feed(l.data)
			l.long.feed(piece)
			l.data = nil
		default:
			l.data = append(l.data, piece...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		l.data = bytes.TrimSpace(l.data)
		if l.long != nil || len(l.data) > 0 && (err == nil || errors.Is(err, io.EOF)) {
			return l, nil
		}
		if err != nil {
			return line{}, err
		}
	}
}

// finder finds the id of a message that is too long to be held. It holds only the text at the message's first level, cut short:
// some libraries write the id last.
type finder struct {
	depth            int
	inString, escape bool
	top              []byte // the current member of the first level
	id               json.RawMessage
	method           bool
}

// maxMember bounds the text of a member of the first level; longer ones are no id.
const maxMember = 512

func (f *finder) feed(p []byte) {
	for _, b := range p {
		switch {
		case f.inString:
			f.inString = f.escape || b != '"'
			f.escape = !f.escape && b == '\\'
		case b == '"':
			f.inString = true
		case b == '{' || b == '[':
			if f.depth++; f.depth == 1 {
				continue
			}
		case b == '}' || b == ']':
			if f.depth--; f.depth == 0 {
				f.member()
			}
		case b == ',' && f.depth == 1:
			f.member()
			continue
		}
		if f.depth == 1 && len(f.top) < maxMember {
			f.top = append(f.top, b)
		}
	}
}

// member notes a member of the first level that has ended.
func (f *finder) member() {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if len(f.top) < maxMember && json.Unmarshal([]byte("{"+string(f.top)+"}"), &m) == nil {
		if isID(m.ID) {
			f.id = m.ID
		}
		f.method = f.method || m.Method != ""
	}
	f.top = f.top[:0]
}

// message is what the relay reads of a message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Params json.RawMessage `json:"params"`
}

func (m message) request() bool  { return m.Method != "" && isID(m.ID) }
func (m message) response() bool { return m.Method == "" && isID(m.ID) }

// parse returns the messages of a line: several for a batch, none for what is no message.
func parse(data []byte) []message {
	var out []message
	if data[0] == '[' {
		if json.Unmarshal(data, &out) != nil {
			return nil
		}
		return out
	}
	var m message
	if data[0] != '{' || json.Unmarshal(data, &m) != nil {
		return nil
	}
	return []message{m}
}

// isID reports whether raw is a string or a number, as ids are.
func isID(raw json.RawMessage) bool {
	if len(raw) == 0 || len(raw) > maxMember {
		return false
	}
	return raw[0] == '"' || raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9'
}
