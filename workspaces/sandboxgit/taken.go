package sandboxgit

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"

	"github.com/parawork/parawork/workspaces"
)

// ForeignMissing is why a hard link to somebody else's file is in no snapshot.
const ForeignMissing = "It is a hard link to somebody else's file."

// SecretMissing is why a secret's file is in no snapshot.
const SecretMissing = "It is a file of a secret."

// ValueMissing is why a snapshot has a file with a secret's value masked.
const ValueMissing = "It contains the value of a secret, which is masked in the snapshot."

// SmallFile is the largest size of a file that is read into memory.
const SmallFile = 1 << 20

// BlobName is git's object id of a blob, with the repository's hash algorithm, of which like is an example.
func BlobName(like string, data []byte) string {
	var h hash.Hash = sha1.New() //nolint:gosec // git's names of objects
	if len(like) == 64 {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", len(data))
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

// Captured is a snapshot's commit and its parent.
type Captured struct {
	Head, Commit string
	nested       []string // nested repositories, if the capture found them
	Missing      []workspaces.Missing
}
