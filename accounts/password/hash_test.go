package password

import (
	"crypto/rand"
	"strings"
	"testing"
)

// What an instance stores is OWASP's smallest argon2id or more, and a hash of another cost is renewed.
func TestAnInstancesHashesAreArgon2idAtTheCostOWASPNames(t *testing.T) {
	t.Parallel()
	ctx, h := t.Context(), NewHasher(rand.Reader)
	hash, err := h.Hash(ctx, "nine lives and a hat")
	if err != nil || !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Fatalf("hash %q, %v", hash, err)
	}
	if ok, stale, err := h.Check(ctx, hash, "nine lives and a hat"); !ok || stale || err != nil {
		t.Errorf("checking it: ok %t, stale %t, %v", ok, stale, err)
	}
	weak, err := NewHasherAt(rand.Reader, Cost{Memory: 64, Time: 1}).Hash(ctx, "nine lives and a hat")
	if err != nil {
		t.Fatal(err)
	}
	if ok, stale, err := h.Check(ctx, weak, "nine lives and a hat"); !ok || !stale || err != nil {
		t.Errorf("checking one that cost less: ok %t, stale %t, %v", ok, stale, err)
	}
}
