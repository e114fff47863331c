package wire_test

import (
	"crypto/ed25519"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/runner/wire"
)

func TestTokenComesBackAndTyposAreSeen(t *testing.T) {
	t.Parallel()
	key := ed25519.PublicKey(strings.Repeat("k", ed25519.PublicKeySize))
	tok := wire.Token{ID: strings.Repeat("0", 26), Secret: strings.Repeat("aZ", 21) + "9", Print: wire.Fingerprint(key)}
	s := tok.String()
	got, err := wire.ParseToken(s)
	if err != nil || got != tok || !got.Knows(key) || got.Knows(ed25519.PublicKey(strings.Repeat("x", 32))) || got.Knows(nil) {
		t.Fatalf("%+v %v", got, err)
	}
	for i := range s {
		b := []byte(s)
		b[i] ^= 1
		if _, err := wire.ParseToken(string(b)); err == nil {
			t.Errorf("a typo at %d is not seen", i)
		}
	}
	for _, bad := range []string{"", "pw_runner_", s[:len(s)-1], s + "0", " " + s, "pw_user_" + s[10:], strings.Repeat("_", len(s))} {
		if _, err := wire.ParseToken(bad); err == nil {
			t.Errorf("%q is taken", bad)
		} else if len(bad) > 20 && strings.Contains(err.Error(), tok.Secret) {
			t.Error("the error tells the token")
		}
	}
}
