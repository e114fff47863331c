package prompt

import "testing"

func TestPasted(t *testing.T) {
	t.Parallel()
	got := string(pasted("one\r\ntwo\n\x1b[201~three\x03\tfour é\n\n", true))
	if got != "\x1b[200~one\rtwo\r[201~three\tfour é\x1b[201~" {
		t.Errorf("got %q", got)
	}
}
