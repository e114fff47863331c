package sessions

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

// launch is what a running session must remember over a restart and what may not stand in the database in clear: it is kept
// beside the session's log, sealed with the server's key.
type launch struct {
	Args    []string          `json:"args,omitempty"`    // extra arguments, for resume
	Env     map[string]string `json:"env,omitempty"`     // of the request, for resume
	NoWall  bool              `json:"no_wall,omitempty"` // somebody confirmed all permissions where nothing keeps the agent in
	ByKey   bool              `json:"by_key,omitempty"`  // its agent was given an account's key itself
	Inside  bool              `json:"inside,omitempty"`  // its home is the place's own
	Secrets []string          `json:"secrets,omitempty"` // to mask; dropped when the session has ended
	Uses    []secrets.Use     `json:"uses,omitempty"`    // which secrets it was given; likewise
	Files   []placed          `json:"files,omitempty"`   // of secrets, that were written for it; likewise
	Own     bool              `json:"own,omitempty"`     // it was given secrets of who started it; likewise
	Token   string            `json:"token,omitempty"`   // what its agent shows to the model gateway; likewise
}

const launchFile = "launch.sealed"

// keepLaunch writes l; without a key nothing is kept.
func (s *Service) keepLaunch(id string, l launch) error {
	if len(s.cfg.Key) == 0 {
		return nil
	}
	raw, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encoding the launch of %s: %w", id, err)
	}
	aead, err := s.aead()
	if err != nil {
		return err
	}
	nonce := make([]byte, aead.NonceSize())
	rand.Read(nonce) // never fails
	dir := s.dir(id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(dir, launchFile), aead.Seal(nonce, nonce, raw, []byte(id)), 0o600); err != nil {
		return fmt.Errorf("keeping the launch of %s: %w", id, err)
	}
	return nil
}

// recall reads what keepLaunch wrote; the zero launch when there is nothing to read.
func (s *Service) recall(id string) (launch, error) {
	var l launch
	if len(s.cfg.Key) == 0 {
		return l, nil
	}
	f, err := os.Open(filepath.Join(s.dir(id), launchFile))
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
	aead, err := s.aead()
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

// forgetSecrets drops the secrets of an ended session.
func (s *Service) forgetSecrets(id string) {
	l, err := s.recall(id)
	if err == nil && len(l.Secrets)+len(l.Uses)+len(l.Files)+len(l.Token) > 0 {
		l.Secrets, l.Uses, l.Files, l.Token = nil, nil, nil, ""
		err = s.keepLaunch(id, l)
	}
	if err != nil {
		s.cfg.Log.Warn("secrets of an ended session not dropped", "session_id", id, "error", err)
	}
}

func (s *Service) aead() (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, s.cfg.Key, nil, "parawork/sessions/launch", 32) // a key of its own for this use
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func (s *Service) dir(id string) string { return filepath.Join(s.cfg.DataDir, "sessions", id) }
