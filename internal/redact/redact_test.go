package redact_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/redact"
)

// naive masks in the whole raw stream what a masker that let `through` bytes out after having seen `seen` bytes could know.
func naive(raw []byte, secrets []string, from, to, seen int) []byte {
	out := bytes.Clone(raw[from:to])
	for _, s := range secrets {
		if len(s) < redact.MinSecret {
			continue
		}
		for i := 0; i+len(s) <= seen; i++ {
			if string(raw[i:i+len(s)]) != s {
				continue
			}
			for j := max(i, from); j < min(i+len(s), to); j++ {
				out[j-from] = redact.Mask
			}
		}
	}
	return out
}

// play feeds raw in pieces (lengths from cuts; 0 = Flush) and checks every step against naive.
func play(t *testing.T, raw []byte, secrets []string, cuts []byte) []byte {
	t.Helper()
	m := redact.New(secrets...)
	var out []byte
	at, let := 0, 0
	check := func(got []byte, wrote int) {
		t.Helper()
		want := naive(raw, secrets, let, let+len(got), at)
		if !bytes.Equal(got, want) {
			t.Fatalf("after %d bytes of %q with %q: got %q, want %q", at, raw, secrets, got, want)
		}
		out = append(out, got...)
		let += len(got)
		if let+m.Held() != at {
			t.Fatalf("let %d + held %d of %d", let, m.Held(), at)
		}
		begun := 0 // the longest beginning of a secret at the end of what was seen
		for _, s := range secrets {
			for n := min(len(s)-1, at); n >= redact.MinPrefix && len(s) >= redact.MinSecret; n-- {
				if string(raw[at-n:at]) == s[:n] {
					begun = max(begun, n)
				}
			}
		}
		if held := at - let; held > begun {
			t.Fatalf("holds %q, which begins no secret of %q", raw[let:at], secrets)
		} else if wrote > 0 && held < min(begun, wrote) {
			t.Fatalf("let %q through, which begins a secret of %q", raw[:let], secrets)
		}
	}
	for i := 0; at < len(raw); i++ {
		n := 1 + i%7
		if len(cuts) > 0 {
			n = int(cuts[i%len(cuts)])
		}
		if n == 0 {
			check(m.Flush(), 0)
			n = 1
		}
		n = min(n, len(raw)-at)
		piece := bytes.Clone(raw[at : at+n])
		at += n
		check(m.Write(piece), n)
	}
	check(m.Flush(), 0)
	return out
}

func TestSecretsAreMaskedWithEqualLength(t *testing.T) {
	t.Parallel()
	secrets := []string{"sk-ant-api03-secret", "hunter2-hunter2", "abcabcabcd", "tiny"}
	raw := []byte("key sk-ant-api03-secret, tiny, sk-ant-api03-secreT, abcabcabcabcd and hunter2-hunter2-hunter2 end")
	for size := 4; size < 40; size++ {
		got := string(play(t, raw, secrets, []byte{byte(size)}))
		if size > len(raw) || len(got) != len(raw) {
			t.Fatalf("length changed")
		}
		if !strings.Contains(got, "tiny") || !strings.Contains(got, "sk-ant-api03-secreT") || !strings.HasSuffix(got, " end") {
			t.Fatalf("too much was masked: %q", got)
		}
	}
	if got := string(play(t, raw, secrets, []byte{200})); strings.Contains(got, "hunter2") || strings.Contains(got, "abcd") || strings.Contains(got, "secret,") {
		t.Fatalf("a secret is left in %q", got)
	}
}

func TestOnlyThePrefixIsHeldBack(t *testing.T) {
	t.Parallel()
	m := redact.New("supersecret")
	if got := string(m.Write([]byte("say sup"))); got != "say sup" {
		t.Fatalf("three bytes of a secret must not wait, got %q", got)
	}
	if got := string(m.Write([]byte("er"))); got != "" || m.Held() != 2 {
		t.Fatalf("what goes on a beginning that was let through must wait: %q, %d", got, m.Held())
	}
	if got := string(m.Write([]byte("secret!"))); got != "********!" {
		t.Fatalf("got %q", got)
	}
	if got := string(m.Write([]byte("supers"))); got != "" || m.Held() != 6 {
		t.Fatalf("got %q, held %d", got, m.Held())
	}
	if got := string(m.Write([]byte("onic"))); got != "supersonic" {
		t.Fatalf("got %q", got)
	}
	m.Write([]byte("superse"))
	if got := string(m.Flush()); got != "superse" {
		t.Fatalf("got %q", got)
	}
	if got := string(m.Write([]byte("cret."))); got != "****." {
		t.Fatalf("the rest of a secret that was given free: %q", got)
	}
}

func TestSecretOfSeveralLines(t *testing.T) {
	t.Parallel()
	m := redact.New("-----BEGIN KEY-----\nMIIEowIBAAKCAQEA\n-----END KEY-----\n")
	got := string(m.Write([]byte("x MIIEowIBAAKCAQEA\r\n y")))
	if got != "x ****************\r\n y" {
		t.Fatalf("got %q", got)
	}
}

func TestNoSecretsCostNothing(t *testing.T) {
	t.Parallel()
	var m redact.Masker
	p := []byte("anything")
	if got := m.Write(p); &got[0] != &p[0] || len(got) != len(p) {
		t.Fatal("the bytes were copied")
	}
}

func FuzzMasker(f *testing.F) {
	f.Add([]byte("aaaaaaaabaaaaaab"), "aaaaaab\x00aaaaaaa\x00bbbbbbb", []byte{1, 0, 3})
	f.Add([]byte("xxabcdefabcdefgyy"), "abcdefg\x00defabcd", []byte{5, 9})
	f.Add([]byte("secretsecretsecret"), "secretsecret", []byte{1})
	f.Fuzz(func(t *testing.T, raw []byte, joined string, cuts []byte) {
		if len(raw) > 2000 || len(joined) > 400 {
			return
		}
		var secrets []string
		for s := range strings.SplitSeq(joined, "\x00") {
			if !strings.ContainsAny(s, "\r\n") {
				secrets = append(secrets, s)
			}
		}
		play(t, raw, secrets, cuts)
	})
}

func BenchmarkMasker(b *testing.B) {
	m := redact.New("sk-ant-api03-0123456789abcdef", "ghp_0123456789abcdef0123")
	p := bytes.Repeat([]byte("the quick brown fox \x1b[31mjumps\x1b[0m over the lazy dog\r\n"), 320)
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		m.Write(p)
	}
}
