package vault

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parawork/parawork/internal/atomicfile"
)

// KeyPrintSetting is the setting of the instance that says which key its sealed values are sealed with: Print of the key.
const KeyPrintSetting = "key_print"

// NextKey is where the key lies that is to take the place of the one at path.
func NextKey(path string) string { return path + ".next" }

// PlaceKey lets the key that waits beside path take its place.
func PlaceKey(path string) error {
	if err := os.Rename(NextKey(path), path); err != nil {
		return fmt.Errorf("placing the new secret key: %w", err)
	}
	return atomicfile.SyncDir(filepath.Dir(path))
}

// DropNextKey forgets a key that never took its place.
func DropNextKey(path string) error {
	if err := os.Remove(NextKey(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the key that was not used: %w", err)
	}
	return nil
}

// ErrNotSealed says that a value cannot be opened with the key it should be sealed with.
var ErrNotSealed = errNotSealed

// Verdict says whether a key opens a sealed value.
type Verdict int

// The verdicts. Undecided values are of an older form that opens only with what each is bound to: UpgradeSecrets gives them today's form.
const (
	Closed Verdict = iota
	Opened
	Undecided
)

// Try says whether key opens a sealed value. purpose and raw are as for Reseal.
func Try(key []byte, purpose string, raw bool, sealed []byte) Verdict {
	_, err := Reseal(key, key, purpose, raw, sealed)
	switch {
	case err == nil:
		return Opened
	case raw && purpose == "" && len(sealed) > 0 && sealed[0] == formDirect:
		return Undecided
	}
	return Closed
}

// Reseal returns what was sealed with the key before as it is sealed with the key next. purpose is what Seal was told, for values of an
// older form. raw: sealed is the bytes themselves, else their base64.
func Reseal(before, next []byte, purpose string, raw bool, sealed []byte) ([]byte, error) {
	if !raw {
		b, err := base64.StdEncoding.DecodeString(string(sealed))
		if err != nil {
			return nil, ErrNotSealed
		}
		after, err := Reseal(before, next, purpose, true, b)
		if err != nil {
			return nil, err
		}
		return []byte(base64.StdEncoding.EncodeToString(after)), nil
	}
	after, err := Rewrap(before, next, sealed)
	if err == nil || purpose == "" {
		return after, err
	}
	old := &Vault{key: before}
	value, ok := old.unseal(keyDirect, sealed, boundInstance(purpose))
	if !ok {
		return nil, ErrNotSealed
	}
	return sealEnvelope(rand.Reader, next, []byte(value), boundInstance(purpose))
}
