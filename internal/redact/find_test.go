package redact_test

import (
	"bytes"
	"encoding/base64"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/parawork/parawork/internal/redact"
)

// A Finder finds exactly what a plain search finds, wherever a stream is cut.
func TestFinderFindsWhatIsThere(t *testing.T) {
	t.Parallel()
	values := []string{"sk-live-0123456789", "sk-live-0123456789-longer", "correct-horse-battery", "aaaaaaaaaaaaaaab", "two lines of\na file with a secret", "short"}
	f := redact.NewFinder(values...)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var text bytes.Buffer
		for range rng.IntN(30) {
			switch rng.IntN(4) {
			case 0:
				text.WriteString(values[rng.IntN(len(values))])
			case 1:
				v := values[rng.IntN(len(values))]
				text.WriteString(v[:rng.IntN(len(v))])
			case 2:
				text.WriteString(strings.Repeat("a", rng.IntN(40)))
			default:
				text.WriteString(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", rng.IntN(3)) + values[rng.IntN(5)])))
			}
		}
		raw := text.Bytes()
		want := bytes.Clone(raw)
		for _, v := range values[:5] {
			for i := 0; i+len(v) <= len(raw); i++ {
				if string(raw[i:i+len(v)]) == v {
					copy(want[i:], bytes.Repeat([]byte("*"), len(v)))
				}
			}
		}
		got := bytes.Clone(raw)
		hit := f.Mask(got, nil)
		for i := range want { // encoded forms are masked besides
			if want[i] == '*' && got[i] != '*' {
				t.Fatalf("%q is left in %q", raw[i], got)
			}
		}
		r := f.Reader(iotest.OneByteReader(bytes.NewReader(raw)), nil)
		streamed, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(streamed, got) || r.Found() != hit {
			t.Fatalf("streamed %q, %v; want %q", streamed, err, got)
		}
		if found, err := f.Scan(iotest.HalfReader(bytes.NewReader(raw)), nil); err != nil || found != hit {
			t.Fatalf("scan of %q: %v, %v", raw, found, err)
		}
	}
}

func TestFinderLeavesWhatIsNoSecret(t *testing.T) {
	t.Parallel()
	f := redact.NewFinder("known-to-everybody", "really-a-secret")
	text := "known-to-everybody and really-a-secret"
	hides := func(v string) bool { return v != "known-to-everybody" }
	if got := f.Text(text, hides); got != "known-to-everybody and "+strings.Repeat("*", 15) {
		t.Errorf("got %q", got)
	}
	if redact.NewFinder("short", "true") != nil {
		t.Error("short values are looked for")
	}
	if f.In([]byte("known-to-everybody"), hides) {
		t.Error("found what is not hidden")
	}
}

func TestFindersTogether(t *testing.T) {
	t.Parallel()
	a, b := redact.NewFinder("known-to-everybody", "really-a-secret"), redact.NewFinder("really-a-secret", "another-long-secret")
	text := "known-to-everybody, really-a-secret, another-long-secret"
	for _, f := range []*redact.Finder{a.With(b), b.With(a)} {
		if got := f.Text(text, nil); got != strings.Repeat("*", 18)+", "+strings.Repeat("*", 15)+", "+strings.Repeat("*", 19) {
			t.Errorf("got %q", got)
		}
	}
	var none *redact.Finder
	if a.With(nil) != a || none.With(b) != b || none.With(nil) != nil {
		t.Error("with nothing it is not the same")
	}
}

// A large stream is masked across the seams of the reader's buffers.
func TestFinderAcrossBuffers(t *testing.T) {
	t.Parallel()
	const v = "a-value-across-the-seam-of-buffers"
	f := redact.NewFinder(v)
	for _, at := range []int{128<<10 - 5, 128<<10 - len(v), 256<<10 - 1, 300_000} {
		raw := bytes.Repeat([]byte("."), at)
		raw = append(append(raw, v...), bytes.Repeat([]byte(","), 200_000)...)
		got, err := io.ReadAll(f.Reader(bytes.NewReader(raw), nil))
		if err != nil || len(got) != len(raw) || bytes.Contains(got, []byte(v[:8])) || bytes.Contains(got, []byte(v[20:])) || bytes.Count(got, []byte("*")) != len(v) {
			t.Errorf("at %d: %d bytes of %d, %v", at, len(got), len(raw), err)
		}
		if found, _ := f.Scan(bytes.NewReader(raw), nil); !found {
			t.Errorf("at %d: not found", at)
		}
	}
}

func BenchmarkFinder(b *testing.B) {
	rng := rand.New(rand.NewPCG(3, 4))
	var values []string
	for range 200 {
		v := make([]byte, 40)
		for i := range v {
			v[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[rng.IntN(36)]
		}
		values = append(values, string(v))
	}
	f := redact.NewFinder(values...)
	text := bytes.Repeat([]byte("func main() { fmt.Println(\"hello, world\") } // what code looks like\n"), 16<<10)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		f.In(text, nil)
	}
}
