package signin

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"strings"

	"github.com/parawork/parawork/accounts/password"
)

// A browser that somebody signed in with gets a value that says so, and shows it at its next sign-in: attempts from there are counted
// apart, so that an attacker who guesses from elsewhere, or from behind the same address, locks nobody out. It opens nothing
// by itself. See OWASP's "Slow Down Online Guessing Attacks with Device Cookies".

// DeviceCookieDays is how long a browser keeps it.
const DeviceCookieDays = 365

// devices tells browsers that somebody signed in with from others.
type devices struct {
	vault Vault
	rand  io.Reader
}

// cookie returns a new value for a browser that the user with this address has signed in with.
func (d devices) cookie(email string) (string, error) {
	nonce, err := password.NewSecret(d.rand, 16)
	if err != nil {
		return "", err
	}
	mac, err := d.mac(nonce, email)
	if err != nil {
		return "", err
	}
	return nonce + "." + mac, nil
}

// of returns what attempts on the account from this browser are counted by, "" where it is none that signed in to it.
func (d devices) of(email, cookie string) string {
	nonce, sum, ok := strings.Cut(cookie, ".")
	if !ok || len(nonce) > 64 {
		return ""
	}
	want, err := d.mac(nonce, email)
	if err != nil || !hmac.Equal([]byte(want), []byte(sum)) {
		return ""
	}
	return nonce
}

func (d devices) mac(nonce, email string) (string, error) {
	key, err := d.vault.Derive("parawork device cookie 1")
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(nonce + "\x00" + email))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)), nil
}
