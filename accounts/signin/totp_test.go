package signin

import (
	"testing"
	"time"
)

// The vectors of RFC 6238 appendix B for SHA-1, cut to the six digits that apps show.
func TestASVS_6_5_1_CodesAreThoseOfTheRFC(t *testing.T) {
	t.Parallel()
	secret := []byte("12345678901234567890")
	for at, want := range map[int64]string{59: "287082", 1111111109: "081804", 1111111111: "050471", 1234567890: "005924", 2000000000: "279037", 20000000000: "353130"} {
		if got := totpCode(secret, at/totpStep); got != want {
			t.Errorf("at %d: %s, want %s", at, got, want)
		}
		for off, ok := range map[int64]bool{-59: at%30 == 29, -30: true, 0: true, 30: true, 60: false} {
			if step, got := totpMatch(secret, want, time.Unix(at+off, 0)); got != ok || ok && step != at/totpStep {
				t.Errorf("at %d, %d s off: %v, step %d", at, off, got, step)
			}
		}
	}
}
