package providers

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Bounds of a stream of server-sent events.
const (
	mostEvent  = 24 << 20  // bytes of one event: the last one of Responses holds the whole answer once more
	mostStream = 512 << 20 // bytes of all events: each piece of text comes in an event of its own
)

var (
	errEventTooLarge  = errors.New("an event is too large")
	errStreamTooLarge = errors.New("the stream is too large")
)

// events reads server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html.
type events struct {
	in   *bufio.Reader
	left int64  // bytes that may still come
	text []byte // of the line that is read
	data []byte
	some bool // the event has data
	cr   bool // the last line ended with a carriage return: a line feed that follows belongs to it
}

func newEvents(in *bufio.Reader) *events {
	if start, _ := in.Peek(3); bytes.Equal(start, []byte("\xef\xbb\xbf")) {
		_, _ = in.Discard(3)
	}
	return &events{in: in, left: mostStream}
}

// next returns the data of the next event. It is valid until the next call. The end of the stream ends an event as an empty line does,
// because some servers leave the last one out: whether the answer is complete is for the format to say.
func (e *events) next() ([]byte, error) {
	e.data, e.some = e.data[:0], false
	for {
		line, err := e.line()
		if value, ok := bytes.CutPrefix(line, []byte("data")); ok && (len(value) == 0 || value[0] == ':') {
			if e.some {
				e.data = append(e.data, '\n')
			}
			value = bytes.TrimPrefix(value, []byte(":"))
			e.data, e.some = append(e.data, bytes.TrimPrefix(value, []byte(" "))...), true
		}
		switch {
		case len(e.data) > mostEvent:
			return nil, errEventTooLarge
		case e.some && (err == io.EOF || err == nil && len(line) == 0):
			return e.data, nil
		case err != nil:
			return nil, err
		case len(line) == 0:
			e.some = false
		}
	}
}

// line reads a line, without its end. It is valid until the next call.
func (e *events) line() ([]byte, error) {
	e.text = e.text[:0]
	for {
		if _, err := e.in.Peek(1); err != nil {
			return e.text, err
		}
		buf, _ := e.in.Peek(e.in.Buffered())
		if e.cr && buf[0] == '\n' {
			e.cr = false
			_, _ = e.in.Discard(1)
			continue
		}
		e.cr = false
		n := bytes.IndexAny(buf, "\r\n")
		ended := n >= 0
		if ended {
			e.cr = buf[n] == '\r'
			e.text = append(e.text, buf[:n]...)
			n++
		} else {
			n = len(buf)
			e.text = append(e.text, buf...)
		}
		_, _ = e.in.Discard(n)
		switch e.left -= int64(n); {
		case e.left < 0:
			return nil, errStreamTooLarge
		case len(e.text) > mostEvent:
			return nil, errEventTooLarge
		case ended:
			return e.text, nil
		}
	}
}
