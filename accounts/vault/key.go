package vault

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parawork/parawork/internal/atomicfile"
	"github.com/parawork/parawork/internal/fault"
)

// KeyBytes is the length of the key that seals secrets.
const KeyBytes = 32

// OpenKey returns the key in the file at path, and makes the file (0600) when it is missing. Two processes that start at once
// get the same key.
func OpenKey(path string) ([]byte, error) {
	key, err := ReadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the secret key: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".secret.key-*") // 0600
	if err != nil {
		return nil, fmt.Errorf("making the secret key: %w", err)
	}
	defer os.Remove(tmp.Name())
	key = make([]byte, KeyBytes)
	rand.Read(key)
	_, err = tmp.Write(key)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err != nil {
		return nil, fmt.Errorf("writing the secret key: %w", err)
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) { // link, since rename would replace another's
		return nil, fmt.Errorf("placing the secret key: %w", err)
	}
	// Before anything is sealed with it: a database elsewhere would outlive a power cut that the file's name does not.
	if err := atomicfile.SyncDir(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("placing the secret key: %w", err)
	}
	return ReadKey(path)
}

// ReadKey returns the key in the file at path; a missing file is fs.ErrNotExist. Errors: key_readable, key_damaged.
func ReadKey(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the secret key: %w", err)
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil {
		return nil, fmt.Errorf("reading the secret key: %w", err)
	} else if st.Mode().Perm()&0o077 != 0 {
		return nil, fault.New(fault.Forbidden, "key_readable", "%s can be read by others. Run: chmod 600 %s", path, path)
	}
	key, err := io.ReadAll(io.LimitReader(f, KeyBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading the secret key: %w", err)
	}
	if len(key) != KeyBytes {
		return nil, fault.New(fault.Invalid, "key_damaged",
			"%s must hold exactly %d bytes. Restore it from a backup. If there is none, `parawork admin rotate-key --lost` lists what must then be entered again.", path, KeyBytes)
	}
	return key, nil
}
