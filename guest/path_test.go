package guest_test

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/parawork/parawork/guest"
)

func FuzzPathLosesNothing(f *testing.F) {
	for _, s := range []string{"", "src/main.go", "caf\xe9", "\xff\xfe/\x80", "ünïcode", "\uF780\uF7FFx", "a\n\x1b[m", "\xed\xa0\x80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		wire := guest.EncodePath(raw)
		if !utf8.ValidString(wire) {
			t.Fatalf("%q gives %q, which is not UTF-8", raw, wire)
		}
		if back := guest.DecodePath(wire); back != raw {
			t.Fatalf("%q comes back as %q", raw, back)
		}
		b, err := json.Marshal(wire)
		if err != nil {
			t.Fatal(err)
		}
		var crossed string
		if err := json.Unmarshal(b, &crossed); err != nil || crossed != wire {
			t.Fatalf("%q crosses JSON as %q (%v)", wire, crossed, err)
		}
	})
}

func TestOrdinaryPathsStandAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"src/main.go", "with space", "ünïcode/日本", "back\\slash", "100%", "a+b"} {
		if w := guest.EncodePath(s); w != s {
			t.Errorf("%q is encoded as %q", s, w)
		}
		if err := guest.CheckPath(s); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
}
