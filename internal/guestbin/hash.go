package guestbin

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Hash names a guest by what is in it: an image or template that has the guest of this name needs no upload.
func Hash(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading the guest: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("reading the guest: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// Hashed is the guest that was hashed last. The zero value is ready; safe for concurrent use.
type Hashed struct {
	mu   sync.Mutex
	path string
	at   time.Time
	size int64
	hash string
}

// Of returns the Hash of the guest at path, which is read again when it has changed.
func (h *Hashed) Of(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("finding the guest: %w", err)
	}
	h.mu.Lock()
	known := ""
	if h.path == path && h.at.Equal(info.ModTime()) && h.size == info.Size() {
		known = h.hash
	}
	h.mu.Unlock()
	if known != "" {
		return known, nil
	}
	hash, err := Hash(path)
	if err != nil {
		return "", err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.path, h.at, h.size, h.hash = path, info.ModTime(), info.Size(), hash
	return hash, nil
}
