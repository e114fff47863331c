package sandboxgit

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"

	"github.com/parawork/parawork/workspaces"
)

// ForeignMissing is why a file that has a second name, and is somebody else's, is in no snapshot.
const ForeignMissing = "It is a second name of a file of somebody else's."

// SecretMissing is why a secret's file is in no snapshot.
const SecretMissing = "It is a file of a secret."

// ValueMissing is why a file is in a snapshot with stars where a secret's value stands.
const ValueMissing = "It holds the value of a secret, which is masked in the snapshot."

// SmallFile is how large a file may be that is held in memory while it is read.
const SmallFile = 1 << 20

// BlobName is git's name of a blob, in the repository's kind of names, of which like is one.
func BlobName(like string, data []byte) string {
	var h hash.Hash = sha1.New() //nolint:gosec // git's names of objects
	if len(like) == 64 {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", len(data))
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

// Captured is a snapshot's commit and the commit it stands on.
type Captured struct {
	Head, Commit string
	nested       []string // folders with repositories of their own, when the taker met them
	Missing      []workspaces.Missing
}
