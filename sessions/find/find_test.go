package find_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/find"
)

func lines(raw string) []string {
	var t find.Text
	t.Take([]byte(raw))
	if len(t.Buf) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(t.Buf), "\n"), "\n")
}

func TestTextOfWhatTerminalsPrint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		raw  string
		want []string
	}{
		{"plain\r\ntext\n\nmore", []string{"plain", "text", "more"}},
		{"\x1b[31mer\x1b[1;38;5;200mror\x1b[0m: no\x1b[K file", []string{"error: no file"}},
		{"10%\r20%\r100%\n", []string{"10%", "20%", "100%"}},
		{"\x1b[2K\x1b[1A\x1b[2K\x1b[Gnew line", []string{"new line"}},
		{"one\x1b[5;1Htwo\x1b[3Bthree", []string{"one", "two", "three"}},
		{"a\x1b[1Cb\x1b[3Cc", []string{"a b   c"}},
		{"left\x1b[40Gright", []string{"left right"}},
		{"\x1b]0;title\x07shown\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", []string{"shownlink"}},
		{"\x1bP+q544e\x1b\\after\x1b_x\x1b\\!", []string{"after!"}},
		{"lx\b\bls\n", []string{"ls"}},
		{"ha\x1b[3b!", []string{"haaaa!"}},
		{"\x1b(0lqk\x1b(B", []string{"lqk"}},
		{"nul\x00led\x07", []string{"nulled"}},
		{"täxt\tand 日本", []string{"täxt and 日本"}},
		{"cut \x1b[3", []string{"cut "}},
		{"\x1b[?25lhidden\x1b[?2026h", []string{"hidden"}},
		{"", nil},
	} {
		if got := lines(c.raw); !slices.Equal(got, c.want) {
			t.Errorf("%q is %q, want %q", c.raw, got, c.want)
		}
	}
}

func TestRawTellsWhereTextStands(t *testing.T) {
	t.Parallel()
	raw := "\x1b[31mer\x1b[0mror\r\nnext \x1b[1mli\x1b[0mne"
	var x find.Text
	x.Take([]byte(raw))
	for _, word := range []string{"error", "next", "line", "ror", "ne"} {
		at := x.Raw(bytes.Index(x.Buf, []byte(word)))
		if raw[at] != word[0] {
			t.Errorf("%s stands at %d, which is %q", word, at, raw[at])
		}
	}
}

func find1(t *testing.T, q find.Query, raw string) (out []string) {
	t.Helper()
	m, err := find.Compile(q)
	if err != nil {
		t.Fatal(err)
	}
	var x find.Text
	x.Take([]byte(raw))
	m.Each(&x, func(at int, line []byte, from, to int) { out = append(out, string(line[from:to])) })
	if len(out) > 0 && !m.May(find.NewFilter(&x)) {
		t.Errorf("%+v: the filter hides a match", q)
	}
	return out
}

func TestQueries(t *testing.T) {
	t.Parallel()
	raw := "The Quick brown fox\r\n\x1b[1mERR\x1b[31mOR\x1b[0m 42: ÉCOLE\nKelvin \u212a error 7\n"
	for _, c := range []struct {
		q    find.Query
		want []string
	}{
		{find.Query{Text: "quick"}, []string{"Quick"}},
		{find.Query{Text: "quick", Case: true}, nil},
		{find.Query{Text: "error"}, []string{"ERROR", "error"}},
		{find.Query{Text: "école"}, []string{"ÉCOLE"}},
		{find.Query{Text: "fox\n"}, nil},
		{find.Query{Text: `error \d+`, Regex: true}, []string{"ERROR 42", "error 7"}},
		{find.Query{Text: `^\w+ (Quick|slow)`, Regex: true, Case: true}, []string{"The Quick"}},
		{find.Query{Text: `(bro)+wn`, Regex: true}, []string{"brown"}},
		{find.Query{Text: `k error`, Regex: true}, []string{"\u212a error"}},
		{find.Query{Text: `x*`, Regex: true}, []string{"x"}},
		{find.Query{Text: "a.b"}, nil},
	} {
		if got := find1(t, c.q, raw); !slices.Equal(got, c.want) && !(c.q.Text == "x*" && len(got) == 0) {
			t.Errorf("%+v finds %q, want %q", c.q, got, c.want)
		}
	}
	for _, q := range []find.Query{{}, {Text: "(", Regex: true}, {Text: strings.Repeat("x", 2000)}, {Text: "\xff"}} {
		if _, err := find.Compile(q); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// stream is agent-like output: words with colours, redraws and long runs without a line end.
func stream(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	var b bytes.Buffer
	for b.Len() < n {
		switch rng.IntN(12) {
		case 0:
			b.WriteString("\r\n")
		case 1:
			fmt.Fprintf(&b, "\x1b[%dm", rng.IntN(40))
		case 2:
			b.WriteString("\x1b[2K\x1b[1A\x1b[G")
		case 3:
			fmt.Fprintf(&b, "\x1b]0;%d\x07", rng.IntN(1000))
		default:
			fmt.Fprintf(&b, "%s%d ", []string{"file", "func", "Error", "test", "läuft"}[rng.IntN(5)], rng.IntN(5000))
		}
	}
	return b.Bytes()[:n]
}

// A stream is cut the same way however much of it is there, and what is found in its blocks is what is found in it.
func TestBlocksAreTheSameHoweverMuchFollows(t *testing.T) {
	t.Parallel()
	raw := stream(1, 5*find.BlockBytes)
	raw = append(raw, bytes.Repeat([]byte("x"), 3*find.MaxBlock)...)
	raw = append(raw, stream(2, 2*find.BlockBytes)...)
	cut := func(all []byte) (ends []int) {
		var x find.Text
		for at := 0; at < len(all); {
			n, whole := x.Take(all[at:])
			if !whole {
				break
			}
			at += n
			ends = append(ends, at)
		}
		return ends
	}
	all := cut(raw)
	if len(all) < 8 {
		t.Fatalf("blocks %v", all)
	}
	for range 50 {
		n := rand.IntN(len(raw))
		got := cut(raw[:n])
		if !slices.Equal(got, all[:len(got)]) {
			t.Fatalf("cut at %v of %d bytes, %v of all", got, n, all)
		}
	}
}

func TestShards(t *testing.T) {
	t.Parallel()
	var x find.Text
	x.Take(stream(3, find.BlockBytes))
	f := find.NewFilter(&x)
	in := []find.Block{{Start: 0, End: 300_000, From: 5, To: 900, Filter: f}, {Start: 300_000, End: 600_000, From: 800, To: 700, Filter: f}}
	raw := find.Encode(in)
	out, err := find.Decode(raw)
	if err != nil || len(out) != 2 || out[1].Start != 300_000 || out[1].To != 700 || !bytes.Equal(out[1].Filter, f) {
		t.Fatalf("%v %v", out, err)
	}
	for i := range raw {
		broken := slices.Clone(raw)
		broken[i] ^= 0x40
		if _, err := find.Decode(broken); err == nil {
			t.Fatalf("byte %d does not matter", i)
		}
		if _, err := find.Decode(raw[:i]); err == nil {
			t.Fatalf("cut at %d", i)
		}
	}
	t.Logf("filter of %d KiB for a block of %d KiB", len(f)>>10, find.BlockBytes>>10)
}

func FuzzTake(f *testing.F) {
	f.Add([]byte("a\x1b[31mb\b\x1b[3bc\r\n"), "b")
	f.Fuzz(func(t *testing.T, raw []byte, text string) {
		var x find.Text
		n, _ := x.Take(raw)
		if n > len(raw) || n == 0 && len(raw) > 0 {
			t.Fatalf("took %d of %d", n, len(raw))
		}
		for i := range x.Buf {
			if r := x.Raw(i); r < 0 || r > len(raw) {
				t.Fatalf("%d stands at %d", i, r)
			}
		}
		for _, re := range []bool{false, true} {
			m, err := find.Compile(find.Query{Text: text, Regex: re})
			if err != nil {
				continue
			}
			found := false
			m.Each(&x, func(at int, line []byte, from, to int) {
				found = true
				if at+len(line) > len(x.Buf) || from > to || to > len(line) {
					t.Fatal("a match out of its line")
				}
			})
			if found && !m.May(find.NewFilter(&x)) {
				t.Fatalf("the filter hides %q", text)
			}
		}
	})
}

func BenchmarkTake(b *testing.B) {
	raw := stream(4, find.BlockBytes)
	var x find.Text
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		x.Take(raw)
	}
}

func BenchmarkFilter(b *testing.B) {
	var x find.Text
	x.Take(stream(4, find.BlockBytes))
	b.SetBytes(find.BlockBytes)
	for b.Loop() {
		find.NewFilter(&x)
	}
}
