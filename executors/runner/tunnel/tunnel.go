// Package tunnel carries what a server and a member's own machine say to each other (executors/runner/wire) over one connection that the machine
// opens: a WebSocket, in it TLS 1.3 in which each end proves the Ed25519 key the other has pinned, in it HTTP/2 in which the server asks
// and the machine answers. It knows how to connect, to stay connected, to tell why a connection ended and to hand out streams; what is
// asked is not its business.
//
//   - Each stream has its own flow control; a stream nobody reads holds up no other.
//   - Frames are small and taken from the streams in turn, and little waits in the kernel: a keystroke's echo passes a flood.
//   - Either end asks after PingEvery of silence whether the other is there, and gives a connection up that was silent for Dead.
package tunnel

import (
	"net/http"
	"time"
)

// Limits of a connection. Sizes are bytes.
const (
	// PingEvery is the silence after which the other end is asked whether it is there.
	PingEvery = 10 * time.Second
	// Dead is the silence after which a connection is given up.
	Dead = 25 * time.Second
	// handshakeTime bounds the making of a connection, from the first packet to the inner TLS.
	handshakeTime = 20 * time.Second
	// openTime bounds how long the machine may take to take up a stream.
	openTime = 30 * time.Second
	// goodbyeTime bounds how long the other end is told why it is let go.
	goodbyeTime = 2 * time.Second

	// frameSize is the largest HTTP/2 frame either end sends: a keystroke waits behind at most one of each busy stream.
	frameSize = 16 << 10
	// socketFrame is the largest WebSocket frame either end sends or takes.
	socketFrame = 64 << 10
	// streamWindow is how much of one stream may be under way unread: on a way of 80 ms there and back it allows 12 MB a second.
	streamWindow = 1 << 20
	// machineWindow and machineStreams bound what the machine keeps for streams its programs do not read: a stream holds its own window and
	// no more of what all share, so that it takes as many that are stuck as windows fit before they are felt by others.
	machineWindow  = 128 << 20
	machineStreams = 2000
	// headerSize bounds the head of a question or an answer.
	headerSize = 64 << 10
	// unsentLow is how much the kernel keeps that has not gone out yet. What waits there can not be overtaken any more.
	unsentLow = 64 << 10
)

// byePath is where the server tells a machine why it lets it go. It is answered here, never by the machine's handler.
const byePath = "/tunnel/bye"

// Reasons to close a connection that the machine does not answer by connecting again.
const (
	ReasonRevoked  = "The machine was revoked."
	ReasonReplaced = "Another program connected as this machine."
)

// Timing is what tests make shorter. The zero value is PingEvery and Dead.
type Timing struct {
	Ping, Dead time.Duration
}

func (t Timing) or() Timing {
	if t.Ping <= 0 {
		return standard()
	}
	if t.Dead <= t.Ping {
		t.Dead = t.Ping + (Dead - PingEvery)
	}
	return t
}

// config is what HTTP/2 is told at either end.
func (t Timing) config() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxReadFrameSize:          frameSize,
		MaxReceiveBufferPerStream: streamWindow,
		SendPingTimeout:           t.Ping,
		PingTimeout:               t.Dead - t.Ping,
		WriteByteTimeout:          t.Dead,
	}
}
