package vault

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parawork/parawork/internal/atomicfile"
)

// KeyPrintSetting is the setting of the instance with the Print of the key that its values are sealed with.
const KeyPrintSetting = "key_print"

// NextKey returns the path of the key that is to replace the one at path.
func NextKey(path string) string { return path + ".next" }

// PlaceKey replaces the key at path by its NextKey.
func PlaceKey(path string) error {
	if err := os.Rename(NextKey(path), path); err != nil {
		return fmt.Errorf("placing the new secret key: %w", err)
	}
	return atomicfile.SyncDir(filepath.Dir(path))
}

// DropNextKey deletes a next key that was not used.
func DropNextKey(path string) error {
	if err := os.Remove(NextKey(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the key that was not used: %w", err)
	}
	return nil
}

// ErrNotSealed says that a value cannot be opened with the key it should be sealed with.
var ErrNotSealed = errNotSealed

// Opens reports whether key opens a sealed value. raw is as for Reseal.
func Opens(key []byte, raw bool, sealed []byte) bool {
	_, err := Reseal(key, key, raw, sealed)
	return err == nil
}

// Reseal takes a value that is sealed with the key before and returns it sealed with the key next. raw: sealed is the bytes themselves, else
// their base64.
func Reseal(before, next []byte, raw bool, sealed []byte) ([]byte, error) {
	if raw {
		return Rewrap(before, next, sealed)
	}
	b, err := base64.StdEncoding.DecodeString(string(sealed))
	if err != nil {
		return nil, ErrNotSealed
	}
	after, err := Rewrap(before, next, b)
	if err != nil {
		return nil, err
	}
	return []byte(base64.StdEncoding.EncodeToString(after)), nil
}
