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

// Launch is what the server must remember about a running session across a restart and may not store in the database in plain
// text: it is stored next to the session's log, sealed with the server's key.
type Launch struct {
	Args    []string          `json:"args,omitempty"`    // extra arguments, for resume
	Env     map[string]string `json:"env,omitempty"`     // of the request, for resume
	NoWall  bool              `json:"no_wall,omitempty"` // somebody confirmed all permissions where nothing isolates the agent
	ByKey   bool              `json:"by_key,omitempty"`  // its agent was given an account's key directly
	Inside  bool              `json:"inside,omitempty"`  // its home is the sandbox's own
	Secrets []string          `json:"secrets,omitempty"` // to mask; dropped when the session has ended
	Uses    []secrets.Use     `json:"uses,omitempty"`    // the secrets it was given; likewise
	Files   []Placed          `json:"files,omitempty"`   // files of secrets written for it; likewise
	Own     bool              `json:"own,omitempty"`     // it was given secrets of the person who started it; likewise
	Token   string            `json:"token,omitempty"`   // the token its agent presents to the model gateway; likewise
}

const launchFile = "launch.sealed"

// Launches stores the launch of each session, sealed, next to its log.
type Launches struct {
	DataDir string // absolute; a session's folder is DataDir/sessions/<id>
	Key     []byte // at least 16 bytes; without it nothing is stored
}

// Sealed reports whether launches are stored.
func (k Launches) Sealed() bool { return len(k.Key) > 0 }

// Path is the file that holds the launch of a session.
func (k Launches) Path(id string) string { return filepath.Join(k.DataDir, "sessions", id, launchFile) }

// Keep writes l; without a key it stores nothing.
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
		return fmt.Errorf("storing the launch of %s: %w", id, err)
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
		return l, fmt.Errorf("the launch of %s is truncated", id)
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
	key, err := hkdf.Key(sha256.New, k.Key, nil, "parawork/sessions/launch", 32) // a key derived for this use only
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
