package redact_test

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/redact"
)

// A secret is masked in base64 whatever stands before and after it, in both alphabets, and in a URL.
func TestEncodedSecretsAreMasked(t *testing.T) {
	t.Parallel()
	const secret = "sk-ant-\xfb\xff/?+key-0123456789"
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		for _, around := range [][2]string{{"", ""}, {"", "\n"}, {"u:", ""}, {"x:", "yz"}, {"user:", "tail"}, {"xyz", "a"}} {
			text := enc.EncodeToString([]byte(around[0] + secret + around[1]))
			got := string(redact.New(secret).Write([]byte(text)))
			if len(got) != len(text) {
				t.Fatalf("%q: %d bytes became %d", around, len(text), len(got))
			}
			plain := strings.Trim(strings.ReplaceAll(got, "*", ""), "=")
			if most := len(enc.EncodeToString([]byte(around[0]))) + len(enc.EncodeToString([]byte(around[1]))) + 2; len(plain) > most {
				t.Errorf("%q: %q of %q is still seen", around, got, text)
			}
		}
	}
	text := "https://host/?key=" + url.QueryEscape(secret) + "&x=1"
	if got := string(redact.New(secret).Write([]byte(text))); !strings.HasPrefix(got, "https://host/?key=***") || !strings.HasSuffix(got, "***&x=1") {
		t.Errorf("in a URL: %q", got)
	}
	if got := string(redact.New("short1").Write([]byte(base64.StdEncoding.EncodeToString([]byte("short1"))))); strings.Contains(got, "*") {
		t.Errorf("a short secret was masked in its encoded form: %q", got)
	}
}
