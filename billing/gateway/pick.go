package gateway

import (
	"encoding/json"
	"strings"
)

// picker reads one JSON text as it passes, in pieces of any size, and keeps the few values it is asked for. What it keeps is bounded,
// however long the text is: the last event of a long answer holds all of the answer again, and its usage is a hundred bytes of that.
type picker struct {
	want map[string]bool // paths of object keys joined by dots; values in lists have none
	deep int             // keys in the longest of them

	state   int
	stack   []level
	path    []string // keys of the objects that are open, "" for lists
	key     []byte   // of the member that is being read
	text    []byte   // of the value that is being kept
	keeping string   // its path, "" = none is
	within  int      // how deep the stack was when keeping began
	esc     bool
	over    bool // the value that is being kept is too long
	got     map[string][]byte
	broken  bool
	done    bool
}

// level is what is open.
type level struct{ object bool }

const (
	pickValue  = iota // a value is to come
	pickKey           // a key, or the end of the object
	pickInKey         // in a key
	pickColon         // a colon is to come
	pickString        // in a string
	pickPlain         // in a number or a word
	pickAfter         // after a value
)

const (
	pickDepth = 64       // deeper paths are not distinguished: no wanted value lies there
	pickMost  = 16 << 10 // bytes of a value that is kept
	pickKeys  = 256      // bytes of a key
	pickNest  = 10_000   // levels; more is nobody's answer
)

func newPicker(paths ...string) *picker {
	p := &picker{want: make(map[string]bool, len(paths))}
	for _, path := range paths {
		p.want[path] = true
		p.deep = max(p.deep, strings.Count(path, ".")+1)
	}
	p.reset()
	return p
}

// reset begins with the next text.
func (p *picker) reset() {
	p.state, p.stack, p.path, p.key, p.text = pickValue, p.stack[:0], p.path[:0], p.key[:0], p.text[:0]
	p.keeping, p.esc, p.over, p.broken, p.done = "", false, false, false, false
	p.got = nil
}

// take reads the next piece.
func (p *picker) take(b []byte) {
	for _, c := range b {
		if p.broken {
			return
		}
		p.step(c)
	}
}

func (p *picker) step(c byte) {
	space := c == ' ' || c == '\n' || c == '\r' || c == '\t'
	switch p.state {
	case pickValue:
		if space {
			return
		}
		if c == ']' && len(p.stack) > 0 && !p.stack[len(p.stack)-1].object {
			p.close()
			return
		}
		p.begin()
		p.keep(c)
		switch c {
		case '{', '[':
			p.open(c == '{')
		case '"':
			p.state = pickString
		default:
			p.state = pickPlain
		}
	case pickKey:
		switch {
		case space || c == ',':
			p.keep(c)
		case c == '"':
			p.keep(c)
			p.state, p.key = pickInKey, p.key[:0]
		case c == '}':
			p.close()
		default:
			p.broken = true
		}
	case pickInKey:
		p.keep(c)
		switch {
		case p.esc:
			p.esc = false
			p.addKey(c)
		case c == '\\':
			p.esc = true
			p.addKey(c)
		case c == '"':
			p.state = pickColon
		default:
			p.addKey(c)
		}
	case pickColon:
		p.keep(c)
		if c == ':' {
			if n := len(p.path); n > 0 && n <= pickDepth {
				p.path[n-1] = p.name()
			}
			p.state = pickValue
		} else if !space {
			p.broken = true
		}
	case pickString:
		p.keep(c)
		switch {
		case p.esc:
			p.esc = false
		case c == '\\':
			p.esc = true
		case c == '"':
			p.end()
		}
	case pickPlain:
		if c == ',' || c == '}' || c == ']' || space {
			p.end()
			p.step(c)
			return
		}
		p.keep(c)
	case pickAfter:
		switch {
		case space:
			p.keep(c)
		case len(p.stack) == 0:
			p.broken = true // something behind the text
		case c == ',':
			p.keep(c)
			p.state = pickValue
			if p.stack[len(p.stack)-1].object {
				p.state = pickKey
			}
		case c == '}' || c == ']':
			p.close()
		default:
			p.broken = true
		}
	}
}

// name is the key that was read, unescaped.
func (p *picker) name() string {
	if strings.IndexByte(string(p.key), '\\') < 0 {
		return string(p.key)
	}
	var s string
	if json.Unmarshal([]byte(`"`+string(p.key)+`"`), &s) != nil {
		return "?"
	}
	return s
}

func (p *picker) addKey(c byte) {
	if len(p.key) < pickKeys {
		p.key = append(p.key, c)
	}
}

// begin notes that a value begins, and whether it is wanted.
func (p *picker) begin() {
	if p.keeping != "" || len(p.stack) > p.deep {
		return
	}
	where := strings.Join(p.path, ".")
	if p.want[where] {
		p.keeping, p.within, p.over, p.text = where, len(p.stack), false, p.text[:0]
	}
}

func (p *picker) keep(c byte) {
	if p.keeping == "" || p.over {
		return
	}
	if len(p.text) >= pickMost {
		p.over = true
		return
	}
	p.text = append(p.text, c)
}

func (p *picker) open(object bool) {
	if len(p.stack) >= pickNest {
		p.broken = true
		return
	}
	p.stack = append(p.stack, level{object})
	if len(p.stack) <= pickDepth {
		p.path = append(p.path, "")
	}
	p.state = pickValue
	if object {
		p.state = pickKey
	} else if n := len(p.path); n > 0 && len(p.stack) <= pickDepth {
		p.path[n-1] = "[]"
	}
}

// close ends what is open.
func (p *picker) close() {
	if len(p.stack) == 0 {
		p.broken = true
		return
	}
	c := byte(']')
	if p.stack[len(p.stack)-1].object {
		c = '}'
	}
	p.keep(c)
	if len(p.stack) <= pickDepth {
		p.path = p.path[:len(p.path)-1]
	}
	p.stack = p.stack[:len(p.stack)-1]
	p.end()
}

// end notes that a value ended.
func (p *picker) end() {
	p.state = pickAfter
	if len(p.stack) == 0 {
		p.done = true
	}
	if p.keeping == "" || len(p.stack) != p.within {
		return
	}
	if !p.over {
		if p.got == nil {
			p.got = make(map[string][]byte, 4)
		}
		p.got[p.keeping] = append([]byte(nil), p.text...)
	}
	p.keeping = ""
}

// str returns a string that was kept, "" when there is none.
func (p *picker) str(path string) (s string) {
	if raw, ok := p.got[path]; ok && json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
