package guest

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Headers of the protocol.
const (
	HeaderPort     = "Parawork-Port"      // of the answer that connects a port of the sandbox
	HeaderOffset   = "Parawork-Offset"    // of an output answer: offset of its first byte
	HeaderInputSeq = "Parawork-Input-Seq" // of an input answer: the newest frame the guest has received
	HeaderFile     = "Parawork-File"      // of a file answer: FileInfo as JSON
	HeaderIfMatch  = "If-Match"           // sha256 in hex that the current file must have
)

// ScopeHome, as a request's scope, means the files of the home instead of those of the worktree.
const ScopeHome = "home"

// Ack reports that the host has everything of a stream before Offset: the guest may drop it.
type Ack struct {
	Stream Stream `json:"stream"`
	Offset int64  `json:"offset"`
	// Full reports that the host's disk is full: only the guest has what comes after Offset, even if the host has read it. A
	// program that writes more than the guest can hold waits as long as the host repeats this.
	Full bool `json:"full,omitempty"`
}

// SignalRequest names a signal ("SIGINT", "TERM", ...) for every descendant of a process.
type SignalRequest struct {
	Signal string `json:"signal"`
}

// StopRequest sets the time between TERM and KILL.
type StopRequest struct {
	GraceMs int64 `json:"grace_ms"`
}

// ErrorBody is the encoding of an error in the pipe; it becomes a *fault.Error again on the other side.
type ErrorBody struct {
	Kind    string `json:"kind"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// List is the answer to every list request.
type List[T any] struct {
	Items     []T  `json:"items"`
	Truncated bool `json:"truncated,omitempty"` // there are more entries, which are left out
}

// InputHeader is the length of the header of an input frame: u64 number, u32 length, big-endian.
const InputHeader = 12

// AppendInput appends an input frame to b.
func AppendInput(b []byte, seq uint64, p []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, seq)
	b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
	return append(b, p...)
}

// ReadInput reads one input frame; buf is used for its bytes where it is large enough. io.EOF at the end between frames.
func ReadInput(r io.Reader, buf []byte) (seq uint64, p []byte, err error) {
	var head [InputHeader]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[8:])
	if n > MaxInput {
		return 0, nil, fmt.Errorf("input frame of %d bytes is larger than %d", n, MaxInput)
	}
	if int(n) <= cap(buf) {
		p = buf[:n]
	} else {
		p = make([]byte, n)
	}
	if _, err := io.ReadFull(r, p); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return binary.BigEndian.Uint64(head[:8]), p, nil
}

// AppendRecord appends a stream record (u32 length, then JSON) to b.
func AppendRecord(b, json []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(json)))
	return append(b, json...)
}

// ReadRecord reads one stream record. io.EOF at the end between records.
func ReadRecord(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > MaxJSON {
		return nil, fmt.Errorf("record of %d bytes is larger than %d", n, MaxJSON)
	}
	p := make([]byte, n)
	if _, err := io.ReadFull(r, p); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return p, nil
}

// UpgradeStream is the protocol to which a host upgrades an HTTP/1.1 pipe, so that the pipe itself carries an output or an input.
// Output then comes in frames of FrameHeader (u32 length) and bytes, at most MaxFrame of them; a length of 0 is the end.
const (
	UpgradeStream = "parawork-stream"
	FrameHeader   = 4
	MaxFrame      = 1 << 20
)
