// Package lspframe reads and writes the frames of the Language Server Protocol: messages with a header that says how long they are. What is
// read is not trusted: everything is bounded. It has no state.
package lspframe

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
)

// MaxMessage is how many bytes a message may have.
const MaxMessage = 8 << 20

const maxHeader = 4 << 10 // bytes of the header of a message

// Encode returns a message with its header.
func Encode(body []byte) []byte {
	b := make([]byte, 0, len(body)+32)
	b = fmt.Appendf(b, "Content-Length: %d\r\n\r\n", len(body))
	return append(b, body...)
}

// Error is the error of a program that does not keep to the frames, in words that follow its name.
type Error string

func (e Error) Error() string { return string(e) }

// Read reads the next message. Lengths count bytes. io.EOF between two messages is their end.
func Read(r *bufio.Reader) ([]byte, error) { return read(r, false) }

// ReadMiddle reads the first whole message of a reader that begins in the middle of one.
func ReadMiddle(r *bufio.Reader) ([]byte, error) { return read(r, true) }

// header is what begins a message, at the end of a line: no message contains it, because JSON escapes the ends of lines.
var header = regexp.MustCompile(`(?i)Content-Length: ?[0-9]+\r\n$`)

// read reads the next message; middle means that the rest of another one may come first.
func read(r *bufio.Reader, middle bool) ([]byte, error) {
	length, size := -1, 0
	for {
		line, err := r.ReadSlice('\n')
		if middle && (err == nil || errors.Is(err, bufio.ErrBufferFull)) {
			at := header.FindIndex(line[max(0, len(line)-maxHeader):])
			if at == nil {
				continue
			}
			line, middle = line[max(0, len(line)-maxHeader)+at[0]:], false
		}
		if size += len(line); size > maxHeader || errors.Is(err, bufio.ErrBufferFull) {
			return nil, Error("it sent a header that is too long, or text that is no message")
		}
		if err != nil {
			if errors.Is(err, io.EOF) && size > 0 {
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
			return nil, Error("it wrote text where a message was expected: " + strconv.QuoteToASCII(string(line[:min(len(line), 100)])))
		}
		if bytes.EqualFold(bytes.TrimSpace(name), []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil || length < 0 {
				return nil, Error("it sent a message whose length is no number")
			}
		}
	}
	switch {
	case length < 0:
		return nil, Error("it sent a message without a length")
	case length > MaxMessage:
		return nil, Error(fmt.Sprintf("it announced a message of %d bytes; the most is %d", length, MaxMessage))
	}
	var b bytes.Buffer // grows with what arrives, not with what was announced
	if n, err := io.CopyN(&b, r, int64(length)); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, Error(fmt.Sprintf("it announced a message of %d bytes and sent %d", length, n))
		}
		return nil, err
	}
	return b.Bytes(), nil
}
