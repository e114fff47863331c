// Package media knows what goes into and comes out of a conversation besides text that fits: pictures, attached files, and results that
// are longer than what a model is sent. They are stored apart from the messages, which refer to them.
package media

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
)

// Text is the MIME type of a text: an attached one, or a whole result.
const Text = "text/plain"

// Content is what a part of a message refers to. It never changes: its ID is made of it.
type Content struct {
	ID   string
	MIME string
	Data []byte
}

// New returns a content with its ID.
func New(mime string, data []byte) Content {
	sum := sha256.Sum256(append([]byte(mime+"\n"), data...))
	return Content{"med_" + hex.EncodeToString(sum[:16]), mime, data}
}

// Store finds contents. A missing one is fault.NotFound.
type Store interface {
	// Media returns a content of a thread of a workspace.
	Media(ctx context.Context, workspaceID, id string) (Content, error)
}
