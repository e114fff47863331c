package masks

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/internal/atomicfile"
)

// Launch is what a running session must remember over a restart and what may not stand in the database in clear: it is kept
// beside the session's log, sealed with the server's key.
type Launch struct {
	Args    []string          `json:"args,omitempty"`    // extra arguments, for resume
	Env     map[string]string `json:"env,omitempty"`     // of the request, for resume
	NoWall  bool              `json:"no_wall,omitempty"` // somebody confirmed all permissions where nothing keeps the agent in
	ByKey   bool              `json:"by_key,omitempty"`  // its agent was given an account's key itself
	Inside  bool              `json:"inside,omitempty"`  // its home is the place's own
	Secrets []string          `json:"secrets,omitempty"` // to mask; dropped when the session has ended
	Uses    []secrets.Use     `json:"uses,omitempty"`    // which secrets it was given; likewise
	Files   []Placed          `json:"files,omitempty"`   // of secrets, that were written for it; likewise
	Own     bool              `json:"own,omitempty"`     // it was given secrets of who started it; likewise
	Token   string            `json:"token,omitempty"`   // what its agent shows to the model gateway; likewise
}

const launchFile = "launch.sealed"

// Launches keeps the launch of each session, sealed, beside its log.
type Launches struct {
	DataDir string // absolute; a session's folder is DataDir/sessions/<id>
	Key     []byte // at least 16 bytes; without it nothing is kept
}

// Sealed reports whether launches are kept.
func (k Launches) Sealed() bool { return len(k.Key) > 0 }

// Path is the file in which the launch of a session is kept.
func (k Launches) Path(id string) string { return filepath.Join(k.DataDir, "sessions", id, launchFile) }

// Keep writes l; without a key nothing is kept.
func (k Launches) Keep(id string, l Launch) error {
	if !k.Sealed() {
		return nil
	}
	raw, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encoding the launch of %s: %w", id, err)
	}
	aead, err := k.aead()
	if err != nil {
		return err
	}
	nonce := make([]byte, aead.NonceSize())
	rand.Read(nonce) // never fails
	if err := os.MkdirAll(filepath.Dir(k.Path(id)), 0o700); err != nil {
		return err
	}
	if err := atomicfile.Write(k.Path(id), aead.Seal(nonce, nonce, raw, []byte(id)), 0o600); err != nil {
		return fmt.Errorf("keeping the launch of %s: %w", id, err)
	}
	return nil
}

// Recall reads what Keep wrote; the zero Launch when there is nothing to read.
func (k Launches) Recall(id string) (Launch, error) {
	var l Launch
	if !k.Sealed() {
		return l, nil
	}
	f, err := os.Open(k.Path(id))
	if errors.Is(err, os.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	defer f.Close()
	sealed, err := io.ReadAll(io.LimitReader(f, 16<<20))
	if err != nil {
		return l, err
	}
	aead, err := k.aead()
	if err != nil {
		return l, err
	}
	if len(sealed) < aead.NonceSize() {
		return l, fmt.Errorf("the launch of %s is cut short", id)
	}
	raw, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], []byte(id))
	if err != nil {
		return l, fmt.Errorf("opening the launch of %s: %w", id, err)
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		return l, fmt.Errorf("reading the launch of %s: %w", id, err)
	}
	return l, nil
}

// Forget drops the secrets of an ended session.
func (k Launches) Forget(id string) error {
	l, err := k.Recall(id)
	if err == nil && len(l.Secrets)+len(l.Uses)+len(l.Files)+len(l.Token) > 0 {
		l.Secrets, l.Uses, l.Files, l.Token = nil, nil, nil, ""
		err = k.Keep(id, l)
	}
	return err
}

func (k Launches) aead() (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, k.Key, nil, "parawork/sessions/launch", 32) // a key of its own for this use
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
