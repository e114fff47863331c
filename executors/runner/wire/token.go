package wire

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

// tokenPrefix begins every enrolment token, so that scanners for leaked secrets recognize it.
const tokenPrefix = "pw_runner_"

// Sizes of a token's parts, in characters.
const (
	tokenIDLen     = 26
	tokenSecretLen = 43 // 256 bits in base 62
	printLen       = 16
	tokenSumLen    = 8
)

// Token enrols a machine: "pw_runner_<id>_<secret>_<fingerprint of the server's key>_<crc32>". The machine trusts only a server whose key
// has that fingerprint, and the checksum distinguishes a typing error from an expired token.
type Token struct {
	ID     string // 26 characters
	Secret string // 43 digits of base 62
	Print  string // Fingerprint of the server's key
}

var errToken = errors.New("this is not an enrolment token: copy the whole of it, from pw_runner_ to its end")

// Fingerprint is the first 16 hex digits of the SHA-256 of a server's key.
func Fingerprint(serverKey ed25519.PublicKey) string {
	sum := sha256.Sum256(serverKey)
	return hex.EncodeToString(sum[:])[:printLen]
}

// String formats the token.
func (t Token) String() string {
	body := tokenPrefix + t.ID + "_" + t.Secret + "_" + t.Print
	return body + "_" + tokenSum(body)
}

func tokenSum(body string) string {
	return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(body)))
}

// ParseToken parses a token. The error is a sentence for the person who typed it and contains nothing of the token.
func ParseToken(s string) (Token, error) {
	const size = len(tokenPrefix) + tokenIDLen + 1 + tokenSecretLen + 1 + printLen + 1 + tokenSumLen
	rest, ok := strings.CutPrefix(s, tokenPrefix)
	if !ok || len(s) != size {
		return Token{}, errToken
	}
	parts := strings.Split(rest, "_")
	if len(parts) != 4 || len(parts[0]) != tokenIDLen || len(parts[1]) != tokenSecretLen || len(parts[2]) != printLen {
		return Token{}, errToken
	}
	t := Token{ID: parts[0], Secret: parts[1], Print: parts[2]}
	if t.String() != s {
		return Token{}, errToken
	}
	return t, nil
}

// Knows reports whether the token belongs to the server with this key.
func (t Token) Knows(serverKey ed25519.PublicKey) bool {
	return len(serverKey) == ed25519.PublicKeySize && t.Print == Fingerprint(serverKey)
}
