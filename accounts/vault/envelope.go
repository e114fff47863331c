package vault

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// A sealed value has its own key, which is wrapped with the instance's:
//
//	form | nonce of the wrap, 12 | wrapped key, 32 + 16 | nonce, 12 | sealed value
//
// So a new instance key only needs to wrap the values' keys again; it need not know what each value is bound to.
const formEnvelope = 2

const wrapBytes = 12 + KeyBytes + 16

var errNotSealed = errors.New("this is not a sealed value, or another key sealed it")

func gcm(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("preparing the cipher: %w", err)
	}
	return cipher.NewGCM(block)
}

// wrapper is the cipher that wraps the keys of sealed values.
func wrapper(key []byte) (cipher.AEAD, error) {
	if len(key) != KeyBytes {
		return nil, ErrNoKey
	}
	k, err := hkdf.Key(sha256.New, key, nil, "parawork secrets 2", KeyBytes)
	if err != nil {
		return nil, fmt.Errorf("deriving a key: %w", err)
	}
	return gcm(k)
}

// sealEnvelope seals a value under key, bound to with.
func sealEnvelope(random io.Reader, key, value, with []byte) ([]byte, error) {
	wrap, err := wrapper(key)
	if err != nil {
		return nil, err
	}
	fresh := make([]byte, 12+KeyBytes+12)
	if _, err := io.ReadFull(random, fresh); err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	outer, own, inner := fresh[:12], fresh[12:12+KeyBytes], fresh[12+KeyBytes:]
	c, err := gcm(own)
	if err != nil {
		return nil, err
	}
	out := append([]byte{formEnvelope}, outer...)
	out = wrap.Seal(out, outer, own, []byte{formEnvelope})
	out = append(out, inner...)
	return c.Seal(out, inner, value, with), nil
}

// ownKey opens the key of a sealed value.
func ownKey(key, sealed []byte) ([]byte, error) {
	if len(sealed) < 1+wrapBytes+12 || sealed[0] != formEnvelope {
		return nil, errNotSealed
	}
	wrap, err := wrapper(key)
	if err != nil {
		return nil, err
	}
	own, err := wrap.Open(nil, sealed[1:13], sealed[13:1+wrapBytes], []byte{formEnvelope})
	if err != nil {
		return nil, errNotSealed
	}
	return own, nil
}

func openEnvelope(key, sealed, with []byte) ([]byte, error) {
	own, err := ownKey(key, sealed)
	if err != nil {
		return nil, err
	}
	c, err := gcm(own)
	if err != nil {
		return nil, err
	}
	rest := sealed[1+wrapBytes:]
	value, err := c.Open(nil, rest[:12], rest[12:], with)
	if err != nil {
		return nil, errNotSealed
	}
	return value, nil
}

// Rewrap takes a sealed value that the key before opens and returns it so that the key next opens it. A value that next opens already is
// returned unchanged. The value and what it is bound to stay the same.
func Rewrap(before, next, sealed []byte) ([]byte, error) {
	if _, err := ownKey(next, sealed); err == nil {
		return sealed, nil
	}
	own, err := ownKey(before, sealed)
	if err != nil {
		return nil, err
	}
	wrap, err := wrapper(next)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, 12)
	rand.Read(nonce)
	out := append([]byte{formEnvelope}, nonce...)
	out = wrap.Seal(out, nonce, own, []byte{formEnvelope})
	return append(out, sealed[1+wrapBytes:]...), nil
}

// Print returns a fingerprint of a key, which reveals nothing about the key.
func Print(key []byte) string {
	k, err := hkdf.Key(sha256.New, key, nil, "parawork print of the key", 16)
	if err != nil {
		return ""
	}
	return hex.EncodeToString(k)
}
