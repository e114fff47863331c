package screen

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// generator makes output that uses what the screen knows, in any order.
type generator struct {
	*rand.Rand
	cols, rows int
	tame       bool // without what ours does otherwise on purpose
}

func (g *generator) pick(of ...string) string { return of[g.IntN(len(of))] }

func (g *generator) text() string {
	n := 1 + g.IntN(12)
	if g.IntN(6) == 0 {
		n = g.cols + g.IntN(2*g.cols)
	}
	var b strings.Builder
	for range n {
		switch g.IntN(20) {
		case 0, 1:
			b.WriteString(g.pick("世", "界", "あ", "ー", "한", "😀", "🚀"))
		case 2:
			b.WriteString(g.pick("é", "ß", "│", "─", "█", "…", "·", "╭"))
		case 3:
			b.WriteString(g.pick("e\u0301", "\u0301", "❤\ufe0f", "👩\u200d💻", "🇩🇪", "🇩", "👍🏽", "\u200d", "\ufe0f", "각", "\u1100", "\u1161", "\u11a8", "क\u093f", "\u0600"))
		default:
			b.WriteByte(byte(0x20 + g.IntN(0x5f)))
		}
	}
	return b.String()
}

func (g *generator) sgr() string {
	var p []string
	for range 1 + g.IntN(3) {
		switch g.IntN(12) {
		case 0, 1, 2:
			p = append(p, "0")
		case 3:
			p = append(p, fmt.Sprint(30+g.IntN(8)))
		case 4:
			p = append(p, fmt.Sprint(40+g.IntN(8)))
		case 5:
			p = append(p, fmt.Sprint(90+g.IntN(8)), fmt.Sprint(100+g.IntN(8)))
		case 6:
			p = append(p, fmt.Sprintf("%s;5;%d", g.pick("38", "48"), g.IntN(256)))
		case 7:
			p = append(p, fmt.Sprintf("%s;2;%d;%d;%d", g.pick("38", "48"), g.IntN(256), g.IntN(256), g.IntN(256)))
		case 8:
			p = append(p, g.pick("38:2::1:2:3", "48:5:17", "38:2:9:8:7", "58:2::4:5:6", "58:5:9", "58;5;7", "59", "38:5", "48;5", "38;2;1", "58;2;1;2;3"))
		case 9:
			p = append(p, g.pick("4", "4:3", "4:0", "4:2", "4:5", "21", "24", "4:9", "4:"))
		case 10:
			p = append(p, g.pick("1", "2", "3", "5", "7", "8", "9", "53"))
		default:
			p = append(p, g.pick("22", "23", "25", "27", "28", "29", "39", "49", "55", ""))
		}
	}
	return "\x1b[" + strings.Join(p, ";") + "m"
}

func (g *generator) n() string {
	switch g.IntN(8) {
	case 0:
		return ""
	case 1:
		return fmt.Sprint(g.IntN(3 * g.cols))
	}
	return fmt.Sprint(1 + g.IntN(6))
}

// piece returns one thing a program might write.
func (g *generator) piece() string {
	switch k := g.IntN(40); {
	case k < 12:
		return g.text()
	case k < 16:
		return g.sgr()
	case k < 20:
		return g.pick("\r\n", "\r\n", "\n", "\r", "\b", "\t", "\v", "\x0e", "\x0f", "\a")
	case k < 23:
		return fmt.Sprintf("\x1b[%d;%dH", 1+g.IntN(g.rows+1), 1+g.IntN(g.cols+1))
	case k < 26:
		return "\x1b[" + g.n() + g.pick("A", "B", "C", "D", "E", "F", "G", "`", "a", "d", "e", "I", "Z")
	case k < 29:
		return "\x1b[" + g.pick("", "0", "1", "2") + g.pick("J", "K", "K", "?J", "?K")
	case k < 32:
		return "\x1b[" + g.n() + g.pick("@", "P", "X", "L", "M", "S", "T", " @", " A", "'}", "'~")
	case k < 33:
		return g.pick("\x1b7", "\x1b8", "\x1b[s", "\x1b[u", "\x1bD", "\x1bM", "\x1bE", "\x1bH", "\x1b[g", "\x1b[3g", "\x1b=", "\x1b>", "\u0084", "\u0085", "\u0088")
	case k < 34:
		a := 1 + g.IntN(g.rows)
		return fmt.Sprintf("\x1b[%d;%dr", a, a+g.IntN(g.rows))
	case k < 35:
		return "\x1b" + g.pick("(", ")", "*", "+", "(", "(") + g.pick("0", "B", "B", "A", "4", "K") + g.pick("", "\x1bn", "\x1bo", "\x0f", "\x0f")
	case k < 37:
		modes := []string{"?1", "?6", "?12", "?25", "?45", "?47", "?66", "?1000", "?1002", "?1003", "?9", "?1004", "?1006", "?1016", "?1047", "?1048", "?1049", "?1049", "?2004", "?2026", "4", "20"}
		if !g.tame {
			modes = append(modes, "?7", "?2")
		}
		return "\x1b[" + g.pick(modes...) + g.pick("h", "l", "l")
	case k < 38:
		return g.pick("\x1b]8;;https://example.com/a\x1b\\", "\x1b]8;id=1;https://example.com/b\x07", "\x1b]8;;\x1b\\", "\x1b]8;;\x07",
			"\x1b]0;a title\x07", "\x1b]2;b – title\x1b\\", "\x1b[22;2t", "\x1b[23;2t", "\x1b]133;A\x07", "\x1b]9;4;1;50\x07")
	case k < 39:
		return g.pick("\x1b["+g.n()+"b", "\x1b["+fmt.Sprint(g.IntN(7))+" q", "\x1b[!p", "\x1b[1\"q", "\x1b[0\"q", "\x1b[3J", "\x1b[?1049h\x1b[H", "\x1b[>1u", "\x1b[<u", "\x1b[>4;2m")
	}
	odd := []string{"\x1bP+q544e\x1b\\", "\x1b_Gabc\x1b\\", "\x1b^x\x1b\\", "\x1b[1;2", "\x1b]0;cut", "\x1b[?", "\x1b", "\x18", "\x1a", "\xff", "\xc3", "\xe2\x94", "\xf0\x9f\x98", "\x7f",
		"\x1b[1<2m", "\x1b[ $p", "\x1b%G", "\x1b%@", "\x9b", "\u009b3mx", "\u009d0;t\u009c", "\x00", "\x1b[38:2:", "\x1b[1\n2C", "\x1bPq#0;2\x1b\\"}
	if !g.tame {
		odd = append(odd, "\x1bc", "\x1b#8")
	}
	return g.pick(odd...)
}

// stream returns a piece of output.
func (g *generator) stream(pieces int) []byte {
	var b strings.Builder
	for range pieces {
		b.WriteString(g.piece())
	}
	return []byte(b.String())
}

func newGenerator(seed uint64) *generator {
	r := rand.New(rand.NewPCG(seed, 1))
	return &generator{Rand: r, cols: 4 + r.IntN(30), rows: 2 + r.IntN(10)}
}
