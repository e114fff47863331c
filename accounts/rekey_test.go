package accounts_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"testing"

	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/testing/testaccounts"
)

// A value is opened with the key it was given over to, and with no other, whatever it is bound to; and giving it over twice is once.
func TestResealGivesValuesToAnotherKey(t *testing.T) {
	t.Parallel()
	before, next, other := bytes.Repeat([]byte{1}, vault.KeyBytes), bytes.Repeat([]byte{2}, vault.KeyBytes), bytes.Repeat([]byte{3}, vault.KeyBytes)
	with := func(key []byte) *testaccounts.Accounts { return testaccounts.New(testaccounts.Config{Key: key}) }
	sealed, err := with(before).Seal("purpose", "the value")
	if err != nil {
		t.Fatal(err)
	}
	after, err := vault.Reseal(before, next, false, []byte(sealed))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := with(next).Unseal("purpose", string(after)); err != nil || v != "the value" {
		t.Errorf("with its key: %q, %v", v, err)
	}
	for what, open := range map[string]func() (string, error){
		"the key before":  func() (string, error) { return with(before).Unseal("purpose", string(after)) },
		"another key":     func() (string, error) { return with(other).Unseal("purpose", string(after)) },
		"another purpose": func() (string, error) { return with(next).Unseal("another", string(after)) },
	} {
		if v, err := open(); err == nil {
			t.Errorf("with %s it opens as %q", what, v)
		}
	}
	if again, err := vault.Reseal(before, next, false, after); err != nil || !bytes.Equal(again, after) {
		t.Errorf("given over again: %v", err)
	}
	if _, err := vault.Reseal(other, next, false, []byte(sealed)); !errors.Is(err, vault.ErrNotSealed) {
		t.Errorf("with a key that never sealed it: %v", err)
	}
	for i := range base64.StdEncoding.DecodedLen(len(sealed)) - 2 { // not one byte of it may be another
		raw, _ := base64.StdEncoding.DecodeString(string(after))
		raw[i] ^= 1
		if _, err := with(next).Unseal("purpose", base64.StdEncoding.EncodeToString(raw)); err == nil {
			t.Errorf("with byte %d changed it opens", i)
		}
	}
	if p := vault.Print(before); len(p) != 32 || p == vault.Print(next) {
		t.Errorf("prints: %s, %s", p, vault.Print(next))
	}
}
