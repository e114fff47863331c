package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/redact"
)

// Values are masked in strings of JSON, however they are written there, and it stays JSON.
func TestMaskJSON(t *testing.T) {
	t.Parallel()
	values := []string{"plain-token-value", `qu"ote<and>\\back&slash`, "nine-lines\nof a file", "180000000000012", "nabcdefghijklm", "3cdefghijklmno"}
	f := redact.NewJSONFinder(values...)
	for _, v := range values {
		in := map[string]any{"a": "x " + v + " y", "at": 180000000000012, v: []string{v, v + v, "\nabcdefghijklm", "<defghijklmno"}, "other": "plain-token-valu"}
		raw, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		n := len(raw)
		if !f.MaskJSON(raw) || len(raw) != n {
			t.Fatalf("nothing masked of %q", v)
		}
		var out map[string]any
		if err := json.Unmarshal(raw, &out); err != nil {
			t.Fatalf("%q: %v in %s", v, err, raw)
		}
		if s := out["a"].(string); strings.Contains(s, v) || !strings.HasPrefix(s, "x **********") || !strings.HasSuffix(s, "* y") || out["other"] != "plain-token-valu" || out["at"] != 180000000000012.0 {
			t.Errorf("%q became %v", v, out)
		}
	}
	if raw := []byte(`{"a":"nothing of it"}`); f.MaskJSON(raw) || string(raw) != `{"a":"nothing of it"}` {
		t.Errorf("masked: %s", raw)
	}
}
