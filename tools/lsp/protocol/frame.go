// Package protocol is the part of the Language Server Protocol that Parawork speaks as a client: frames, JSON-RPC and about twenty
// messages, written by hand and bounded everywhere. A language server runs beside a hostile agent: whatever it says is input to be
// checked. The package knows no sandbox, no file and no tool.
//
// Goroutines: a Conn has one that reads and one that writes, both of Serve, which waits for them.
package protocol

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
)

// Bounds of a connection.
const (
	MaxMessage = 8 << 20 // bytes of one message
	maxHeader  = 4 << 10 // bytes of the header of one
	maxID      = 256     // bytes of an id

	maxPending = 256      // requests of ours that wait for an answer
	maxQueue   = 16 << 20 // bytes that wait until the server reads them

	floodMessages  = 20_000   // this many messages a server may send at once,
	floodBytes     = 64 << 20 // and this many bytes;
	steadyMessages = 200      // and this many messages a second for as long as it likes,
	steadyBytes    = 1 << 20  // and this many bytes
)

// Encode returns a message with its header.
func Encode(body []byte) []byte {
	b := make([]byte, 0, len(body)+32)
	b = fmt.Appendf(b, "Content-Length: %d\r\n\r\n", len(body))
	return append(b, body...)
}

// errFrame is the error of a server that does not keep to the frames.
type errFrame string

func (e errFrame) Error() string { return string(e) }

// ReadMessage reads the next message. Lengths count bytes. io.EOF between two messages is their end.
func ReadMessage(r *bufio.Reader) ([]byte, error) { return readMessage(r, false) }

// header is what begins a message, at the end of a line: no message contains it, because JSON escapes the ends of lines.
var header = regexp.MustCompile(`(?i)Content-Length: ?[0-9]+\r\n$`)

// readMessage reads the next message; middle means that the rest of another one may come first.
func readMessage(r *bufio.Reader, middle bool) ([]byte, error) {
	length, read := -1, 0
	for {
		line, err := r.ReadSlice('\n')
		if middle && (err == nil || errors.Is(err, bufio.ErrBufferFull)) {
			at := header.FindIndex(line[max(0, len(line)-maxHeader):])
			if at == nil {
				continue
			}
			line, middle = line[max(0, len(line)-maxHeader)+at[0]:], false
		}
		if read += len(line); read > maxHeader || errors.Is(err, bufio.ErrBufferFull) {
			return nil, errFrame("it sent a header that is too long, or text that is no message")
		}
		if err != nil {
			if errors.Is(err, io.EOF) && read > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return nil, errFrame("it wrote text where a message was expected: " + strconv.QuoteToASCII(string(line[:min(len(line), 100)])))
		}
		if bytes.EqualFold(bytes.TrimSpace(name), []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil || length < 0 {
				return nil, errFrame("it sent a message whose length is no number")
			}
		}
	}
	switch {
	case length < 0:
		return nil, errFrame("it sent a message without a length")
	case length > MaxMessage:
		return nil, errFrame(fmt.Sprintf("it announced a message of %d bytes; the most is %d", length, MaxMessage))
	}
	var b bytes.Buffer // grows with what arrives, not with what was announced
	if n, err := io.CopyN(&b, r, int64(length)); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errFrame(fmt.Sprintf("it announced a message of %d bytes and sent %d", length, n))
		}
		return nil, err
	}
	return b.Bytes(), nil
}
