package password

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
)

// However many sign in, four passwords at most are hashed at once: each hash takes 19 MiB and a processor.
func TestNoMoreThanFourPasswordsAreHashedAtOnce(t *testing.T) {
	t.Parallel()
	if n := hashSeats(); n < 1 || n > 4 {
		t.Fatalf("%d at once", n)
	}
	h := NewHasher(rand.Reader)
	for range hashSeats() {
		if err := h.sit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	gone := errors.New("the client has left")
	ctx, leave := context.WithCancelCause(t.Context())
	leave(gone)
	if _, err := h.Hash(ctx, "a password"); !errors.Is(err, gone) {
		t.Errorf("one more while all seats are taken: %v", err)
	}
	if _, _, err := h.Check(ctx, nobody, "a password"); !errors.Is(err, gone) {
		t.Errorf("one more while all seats are taken: %v", err)
	}
	h.rise()
	if _, err := h.Hash(t.Context(), "a password"); err != nil {
		t.Errorf("with a seat free: %v", err)
	}
}
