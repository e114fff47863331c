// Package tunnel carries the protocol between a server and a member's own machine (executors/runner/wire) over one connection that the
// machine
// opens: a WebSocket, inside it TLS 1.3 in which each end proves the Ed25519 key the other has pinned, inside that HTTP/2 in which the
// server sends
// requests and the machine responds. It connects, reconnects, says why a connection ended, and opens streams; it does not interpret
// the requests.
//
//   - Each stream has its own flow control; a stream nobody reads blocks no other.
//   - Frames are small and taken from the streams in turn, and the kernel queues little: a keystroke's echo overtakes bulk data.
//   - Either end pings after PingEvery of silence, and gives up a connection that was silent for Dead.
package tunnel

import (
	"net/http"
	"time"
)

// Limits of a connection. Sizes are bytes.
const (
	// PingEvery is the silence after which an end sends a ping.
	PingEvery = 10 * time.Second
	// Dead is the silence after which a connection is given up.
	Dead = 25 * time.Second
	// handshakeTime bounds setting up a connection, from the first packet to the inner TLS.
	handshakeTime = 20 * time.Second
	// openTime bounds how long the machine may take to accept a stream.
	openTime = 30 * time.Second
	// goodbyeTime bounds sending the reason for a disconnection.
	goodbyeTime = 2 * time.Second

	// frameSize is the largest HTTP/2 frame either end sends: a keystroke waits behind at most one of each busy stream.
	frameSize = 16 << 10
	// socketFrame is the largest WebSocket frame either end sends or accepts.
	socketFrame = 64 << 10
	// streamWindow is how many unread bytes of one stream may be in flight: with a round trip of 80 ms it allows 12 MB a second.
	streamWindow = 1 << 20
	// machineWindow and machineStreams limit what the machine buffers for streams its programs do not read: a stuck stream uses its own
	// window and no more of the shared one, so that others are affected only once as many are stuck as windows fit.
	machineWindow  = 128 << 20
	machineStreams = 2000
	// headerSize limits the head of a request or a response.
	headerSize = 64 << 10
	// unsentLow is how many unsent bytes the kernel queues. Nothing can overtake those.
	unsentLow = 64 << 10
)

// byePath is where the server sends a machine the reason for a disconnection. This package handles it, never the machine's handler.
const byePath = "/tunnel/bye"

// Reasons for closing a connection after which the machine does not reconnect.
const (
	ReasonRevoked  = "The machine was revoked."
	ReasonReplaced = "Another program connected as this machine."
)

// Timing holds the times that tests shorten. The zero value is PingEvery and Dead.
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

// config returns the HTTP/2 configuration of either end.
func (t Timing) config() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxReadFrameSize:          frameSize,
		MaxReceiveBufferPerStream: streamWindow,
		SendPingTimeout:           t.Ping,
		PingTimeout:               t.Dead - t.Ping,
		WriteByteTimeout:          t.Dead,
	}
}
