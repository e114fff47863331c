package accounts_test

import (
	"encoding/base64"
	"fmt"

	"golang.org/x/crypto/argon2"
)

// weakHash is a valid hash with smaller figures than today's.
func weakHash(password string) string {
	salt := []byte("0123456789abcdef")
	sum := argon2.IDKey([]byte(password), salt, 1, 1024, 1, 32)
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=19$m=1024,t=1,p=1$%s$%s", b64.EncodeToString(salt), b64.EncodeToString(sum))
}
