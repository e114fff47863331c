package redact_test

import (
	"bytes"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/redact"
)

// naive masks in the whole raw stream what a masker that let `through` bytes out after having seen `seen` bytes could know.
func naive(raw []byte, secrets []string, from, to, seen int) []byte {
	out := bytes.Clone(raw[from:to])
	text, at := shown(raw[:seen])
	for _, s := range secrets {
		if len(s) < redact.MinSecret {
			continue
		}
		for i := 0; i+len(s) <= len(text); i++ {
			if string(text[i:i+len(s)]) == s {
				for _, j := range at[i : i+len(s)] {
					if j >= from && j < to {
						out[j-from] = redact.Mask
					}
				}
			}
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

var sequence = regexp.MustCompile("^(?:\x1b\\[[ -?]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|\x1b[PX^_][^\x1b]*\x1b\\\\|\x1b[ -/]+[0-~]|\x1b[0-OQ-WYZ\\\\`-~]|[\x00\x07\x7f])")

// shown is what a terminal shows of raw, whole escape sequences left out, and where each byte of it stands in raw.
func shown(raw []byte) (text []byte, at []int) {
	for i := 0; i < len(raw); {
		if n := len(sequence.Find(raw[i:])); n > 0 {
			i += n
			continue
		}
		if raw[i] == 0x1b { // one that is cut: nothing behind it is text yet
			return text, at
		}
		text, at = append(text, raw[i]), append(at, i)
		i++
	}
	return text, at
}

// strange reports whether raw has sequences that shown does not understand as a terminal does.
func strange(raw []byte) bool {
	rest := raw
	for len(rest) > 0 {
		if n := len(sequence.Find(rest)); n > 0 {
			if n > 2 && bytes.ContainsAny(rest[1:n-1], "\x18\x1a\x1b\x00\x7f") && !bytes.HasSuffix(rest[:n], []byte("\x1b\\")) {
				return true
			}
			rest = rest[n:]
			continue
		}
		if rest[0] == 0x1b || rest[0] == 0xc2 {
			return true
		}
		rest = rest[1:]
	}
	return false
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
		if bytes.ContainsAny(raw, "\x1b\x00\x07\x7f") {
			return // how much is held of a beginning that sequences lie in is another matter
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
	f.Add([]byte("se\x1b[0mcret\x1b]0;t\x07sec\x1b(Bret\x00secret\x1b[1"), "secretsecret\x00cretsec", []byte{1, 0, 7})
	f.Fuzz(func(t *testing.T, raw []byte, joined string, cuts []byte) {
		if len(raw) > 2000 || len(joined) > 400 || strange(raw) {
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

// A value is masked although escape sequences stand between its bytes, and they are passed on as they are.
func TestSecretsAcrossEscapeSequences(t *testing.T) {
	t.Parallel()
	const secret = "sk-live-0123456789"
	sequences := []string{"\x1b[0m", "\x1b[1;38;5;200m", "\x1b]0;a title\x07", "\x1b]8;;http://x\x1b\\", "\x1bPq\x1b\\", "\x1b(B", "\x1b7", "\x00", "\x07", "\x1b[3C", "\xc2\x9b1m", "\xc2\x9d0;t\xc2\x9c"}
	rng := rand.New(rand.NewPCG(5, 6))
	for round := range 400 {
		var raw, want []byte
		for _, c := range []byte(secret) {
			for range rng.IntN(3) {
				s := sequences[rng.IntN(len(sequences))]
				raw, want = append(raw, s...), append(want, s...)
			}
			raw, want = append(raw, c), append(want, redact.Mask)
		}
		raw, want = append(append([]byte("key: "), raw...), "\x1b[m done\r\n"...), append(append([]byte("key: "), want...), "\x1b[m done\r\n"...)
		m := redact.New(secret, "another-one", "x-y-z-1")
		var got []byte
		for at := 0; at < len(raw); {
			n := min(1+rng.IntN(1+round%60), len(raw)-at)
			got = append(got, m.Write(bytes.Clone(raw[at:at+n]))...)
			at += n
		}
		got = append(got, m.Flush()...)
		seen := 0 // the first bytes of a secret that comes byte by byte
		for i := range want {
			if got[i] != want[i] {
				seen++
			}
		}
		if len(got) != len(want) || seen >= redact.MinPrefix || bytes.Contains(got, []byte("6789")) {
			t.Fatalf("%q\nis %q", raw, got)
		}
	}
	m := redact.New(secret)
	if got := m.Text("a \x1b[1msk-live\x1b[0m-0123456789 b"); got != "a \x1b[1m*******\x1b[0m*********** b" {
		t.Errorf("the text is %q", got)
	}
	// What sequences hold themselves is masked too, and what is not a secret stays.
	if got := string(redact.New(secret).Write([]byte("\x1b]0;" + secret + "\x07 sk-live\x1b[0m-01234 5"))); got != "\x1b]0;"+strings.Repeat("*", len(secret))+"\x07 sk-live\x1b[0m-01234 5" {
		t.Errorf("got %q", got)
	}
}

// What begins like a secret and goes on with sequences without end is not held for ever.
func TestSequencesWithoutEndAreNotHeld(t *testing.T) {
	t.Parallel()
	m := redact.New("supersecret")
	m.Write([]byte("supers"))
	for range 10_000 {
		m.Write([]byte("\x1b[0m"))
	}
	if m.Held() > 8<<10 {
		t.Fatalf("%d bytes are held", m.Held())
	}
	if got := m.Write([]byte("ecret!")); !bytes.HasSuffix(got, []byte("*****!")) {
		t.Fatalf("the rest is %q", got)
	}
}

func BenchmarkMaskerOfManyValues(b *testing.B) {
	plain := bytes.Repeat([]byte("ok  \tgithub.com/parawork/parawork/internal/redact\t0.235s and more words of a build\r\n"), 400)
	coloured := bytes.Repeat([]byte("\x1b[38;5;114m+\x1b[0m \x1b[1mfunc\x1b[22m (m *Masker) \x1b[33mText\x1b[0m(s string) string {\r\n"), 400)
	one := []string{"sk-ant-api03-0123456789abcdef0123456789abcdef"}
	var many []string
	for i := range 20 {
		many = append(many, strings.Repeat(string(rune('a'+i)), 3)+"-token-0123456789abcdef")
	}
	for name, raw := range map[string][]byte{"plain": plain, "coloured": coloured} {
		for n, secrets := range map[string][]string{"one": one, "twenty": many} {
			b.Run(name+"/"+n, func(b *testing.B) {
				m := redact.New(secrets...)
				p := make([]byte, len(raw))
				b.SetBytes(int64(len(raw)))
				for b.Loop() {
					copy(p, raw)
					m.Write(p)
				}
			})
		}
	}
}
