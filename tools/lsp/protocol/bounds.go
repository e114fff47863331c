// Package protocol is the part of the Language Server Protocol that Parawork speaks as a client: frames, JSON-RPC and about twenty
// messages, written by hand and bounded everywhere. A language server runs beside a hostile agent: whatever it says is input to be
// checked. The package knows no sandbox, no file and no tool.
//
// Goroutines: a Conn has one that reads and one that writes, both of Serve, which waits for them.
package protocol

import "github.com/parawork/parawork/internal/lspframe"

// MaxMessage is how many bytes a message may have.
const MaxMessage = lspframe.MaxMessage

// Bounds of a connection.
const (
	maxID = 256 // bytes of an id

	maxPending = 256      // requests of ours that wait for an answer
	maxQueue   = 16 << 20 // bytes that wait until the server reads them

	floodMessages  = 20_000   // this many messages a server may send at once,
	floodBytes     = 64 << 20 // and this many bytes;
	steadyMessages = 200      // and this many messages a second for as long as it likes,
	steadyBytes    = 1 << 20  // and this many bytes
)
