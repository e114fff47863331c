package screen

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestFeatures says what output leaves on a screen of 10 by 4: its lines, and where the cursor is.
func TestFeatures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, out, want string }{
		{"text", "ab\r\ncd", "ab|cd|| 2,1"},
		{"line feed keeps the column", "ab\ncd", "ab|  cd|| 4,1"},
		{"line feed mode", "\x1b[20hab\ncd", "ab|cd|| 2,1"},
		{"scrolling", "1\r\n2\r\n3\r\n4\r\n5", "2|3|4|5 1,3"},
		{"wrap waits", "0123456789", "0123456789||| 9,0"},
		{"wrap", "0123456789a", "0123456789|a|| 1,1"},
		{"wrap is dropped by CR", "0123456789\ra", "a123456789||| 1,0"},
		{"wrap is dropped by BS", "0123456789\ba", "01234567a9||| 9,0"},
		{"no wrap", "\x1b[?7l0123456789ab", "012345678b||| 9,0"},
		{"wide wraps early", "012345678世", "012345678|世|| 2,1"},
		{"wide overwritten in half", "世界\x1b[2Gx", " x界||| 2,0"},
		{"tabs", "a\tb\tc", "a       bc||| 9,0"},
		{"tab stops", "\x1b[3g\x1b[4G\x1bH\rx\ty\tz", "x  y     z||| 9,0"},
		{"back tab", "\x1b[9Ga\x1b[Zb", "        b||| 9,0"},
		{"cursor position", "\x1b[2;3Hx", "|  x|| 3,1"},
		{"cursor moves", "\x1b[3B\x1b[4Ca\x1b[2Ab\x1b[3Dc\x1b[Ed\x1b[Fe\x1b[7Gf\x1b[4dg", "|e  c bf|d|    a  g 8,3"},
		{"erase line", "abcdef\x1b[3G\x1b[K\r\nabcdef\x1b[3G\x1b[1K\r\nabcdef\x1b[2K", "ab|   def|| 6,2"},
		{"erase below", "aa\r\nbb\r\ncc\x1b[2;2H\x1b[J", "aa|b|| 1,1"},
		{"erase above", "aa\r\nbb\r\ncc\x1b[2;1H\x1b[1J", "| b|cc| 0,1"},
		{"erase all", "aa\r\nbb\x1b[2J", "||| 2,1"},
		{"selective erase", "\x1b[1\"qab\x1b[0\"qcd\x1b[?2K", "ab||| 4,0"},
		{"insert chars", "abc\x1b[2G\x1b[2@", "a  bc||| 1,0"},
		{"delete chars", "abcdef\x1b[2G\x1b[2P", "adef||| 1,0"},
		{"erase chars", "abcdef\x1b[2G\x1b[2X", "a  def||| 1,0"},
		{"insert mode", "abc\x1b[2G\x1b[4hXY\x1b[4l", "aXYbc||| 3,0"},
		{"insert lines", "1\r\n2\r\n3\r\n4\x1b[2;2H\x1b[L", "1||2|3 0,1"},
		{"delete lines", "1\r\n2\r\n3\r\n4\x1b[2;2H\x1b[2M", "1|4|| 0,1"},
		{"region", "1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3H\nx", "1|3|x|4 1,2"},
		{"region scrolled by hand", "1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[S", "1|3||4 0,0"},
		{"region scrolled down", "1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[T", "1||2|4 0,0"},
		{"reverse index", "1\r\n2\x1b[H\x1bMx", "x|1|2| 1,0"},
		{"index", "1\x1bD2\x1bE3", "1| 2|3| 1,2"},
		{"origin", "\x1b[2;3r\x1b[?6h\x1b[1;1Ha\x1b[9;1Hb", "|a|b| 1,2"},
		{"save and restore", "ab\x1b7\x1b[4;5H\x1b8c", "abc||| 3,0"},
		{"save and restore, short", "ab\x1b[s\x1b[4;5H\x1b[uc", "abc||| 3,0"},
		{"alternate screen", "main\x1b[?1049h\x1b[Halt", "alt||| 3,0"},
		{"and back", "main\x1b[?1049h\x1b[Halt\x1b[?1049lX", "mainX||| 5,0"},
		{"alternate screen 47", "main\x1b[?47h\x1b[2;1Halt\x1b[?47lX", "main|   X|| 4,1"},
		{"graphics", "\x1b(0lqk\x1b(Bq", "┌─┐q||| 4,0"},
		{"shifted set", "\x1b)0q\x0eq\x0fq", "q─q||| 3,0"},
		{"repeat", "ab\x1b[3b", "abbbb||| 5,0"},
		{"repeat only a character", "ab\x1b[C\x1b[3b", "ab||| 3,0"},
		{"alignment", "\x1b#8", "EEEEEEEEEE|EEEEEEEEEE|EEEEEEEEEE|EEEEEEEEEE 0,0"},
		{"soft reset", "\x1b[2;3r\x1b[4h\x1b[?6h\x1b[!p\x1b[Hab\x1b[Hc", "cb||| 1,0"},
		{"hard reset", "ab\x1b[2;3r\x1bcx", "x||| 1,0"},
		{"reverse wrap", "\x1b[?45h0123456789a\b\b\bx", "01234567x9|a|| 9,0"},
		{"columns in and out", "abc\r\ndef\x1b[2G\x1b['}", "a bc|d ef|| 1,1"},
		{"shifted left", "abc\r\ndef\x1b[ @", "bc|ef|| 3,1"},
		{"C1 as UTF-8", "a\u0085b\u009b2Cc", "a|b  c|| 4,1"},
		{"controls inside a sequence", "\x1b[2\n;3Hx", "|  x|| 3,1"},
		{"cancelled", "\x1b[31\x18x\x1b[3\x1ay", "xy||| 2,0"},
		{"strings are skipped", "a\x1bPqabc\x1b\\b\x1b_x\x1b\\c\x1b^y\x1b\\d\x1bXz\x1b\\e", "abcde||| 5,0"},
		{"unknown sequences", "a\x1b[1;2y\x1b[=5z\x1b#3b\x1b[?99hc", "abc||| 3,0"},
		{"bad UTF-8", "a\xffb\xc3c\xe2\x82d\xed\xa0\x80e\xf4\x90\x80\x80f", "abcdef||| 6,0"},
		{"delete is nothing", "a\x7fb", "ab||| 2,0"},
		{"shell marks", "\x1b]133;A\x07$ \x1b]133;B\x07x", "$ x||| 3,0"},
		{"combining", "e\u0301x", "e\u0301x||| 2,0"},
		{"emoji", "👩\u200d💻x", "👩\u200d💻x||| 3,0"},
		{"flags", "🇩🇪🇫🇷x", "🇩🇪🇫🇷x||| 5,0"},
		{"variation", "❤\ufe0fx", "❤\ufe0fx||| 3,0"},
		{"hangul", "\u1112\u1161\u11abx", "\u1112\u1161\u11abx||| 3,0"},
		{"skin", "👍🏽x", "👍🏽x||| 3,0"},
		{"mark after a move stands alone", "e\x1b[m\u0301", "e\u0301||| 2,0"},
	} {
		s := New(Config{Cols: 10, Rows: 4})
		s.Write([]byte(c.out))
		text := s.Text()
		got := fmt.Sprintf("%s %d,%d", strings.Join(text.Lines, "|"), text.Cursor.X, text.Cursor.Y)
		if got != c.want {
			t.Errorf("%s: %q\n got %q\nwant %q", c.name, c.out, got, c.want)
		}
	}
}

// TestStyles says what the cell an x is printed into looks like.
func TestStyles(t *testing.T) {
	t.Parallel()
	for sgr, want := range map[string]style{
		"":                               {},
		"1;2;3;5;7;8;9;53":               {fg: bold | blink | inverse | invisible | strike, bg: dim | italic | overline},
		"1;2;22":                         {},
		"3;5;7;8;9;53;23;25;27;28;29;55": {},
		"31;42":                          {fg: mode16 | 1, bg: mode16 | 2},
		"91;102":                         {fg: mode16 | 9, bg: mode16 | 10},
		"31;42;39;49":                    {},
		"38;5;200;48;5;17":               {fg: mode256 | 200, bg: mode256 | 17},
		"38;2;1;2;3":                     {fg: modeRGB | 0x010203},
		"38:2::1:2:3":                    {fg: modeRGB | 0x010203},
		"38:2:1:2:3":                     {fg: modeRGB | 0x020300},
		"48:5:9":                         {bg: mode256 | 9},
		"4":                              {fg: underline, bg: hasExt, ext: 1 << underlineShift},
		"4:3":                            {fg: underline, bg: hasExt, ext: 3 << underlineShift},
		"4:0":                            {},
		"21":                             {fg: underline, bg: hasExt, ext: 2 << underlineShift},
		"21;24":                          {},
		"4;58;5;3":                       {fg: underline, bg: hasExt, ext: 1<<underlineShift | mode256 | 3},
		"58:2::1:2:3;4:5":                {fg: underline, bg: hasExt, ext: 5<<underlineShift | modeRGB | 0x010203},
		"1;31;0":                         {},
		"1;31;":                          {},
		"38;5":                           {fg: mode256},
		"38;2;300":                       {fg: modeRGB | 44<<16},
		"99":                             {},
	} {
		s := New(Config{Cols: 10, Rows: 2})
		s.Write([]byte("\x1b[" + sgr + "mx"))
		if got := s.styles.list[s.main.row(0).cells[0].style()]; got != want {
			t.Errorf("SGR %q: %+v, want %+v", sgr, got, want)
		}
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	var got []byte
	now := time.Unix(100, 0)
	s := New(Config{Cols: 80, Rows: 24, Name: "test(1)", Colors: Colors{Foreground: 0xeeeeee, Background: 0x102030, Cursor: 0xff0000},
		Answer: func(p []byte) { got = append(got, p...) }, Now: func() time.Time { return now }})
	ask := func(question string) string {
		got = nil
		s.Write([]byte(question))
		return string(got)
	}
	if a := ask("\x1b[c\x1b[6n"); a != "" {
		t.Errorf("answered %q before it may", a)
	}
	s.SetAnswering(true)
	for _, c := range [][2]string{
		{"\x1b[c", "\x1b[?62;22c"},
		{"\x1b[0c", "\x1b[?62;22c"},
		{"\x1b[1c", ""},
		{"\x1b[>c", "\x1b[>0;276;0c"},
		{"\x1b[>0q", "\x1bP>|test(1)\x1b\\"},
		{"\x1b[5n", "\x1b[0n"},
		{"\x1b[3;7H\x1b[6n", "\x1b[3;7R"},
		{"\x1b[?6n", "\x1b[?3;7R"},
		{"\x1b[5;9r\x1b[?6h\x1b[2;2H\x1b[6n\x1b[?6l\x1b[r", "\x1b[2;2R"},
		{"\x1b[80Gx\x1b[6n\x1b[H", "\x1b[1;80R"},
		{"\x1b[?996n", "\x1b[?997;1n"},
		{"\x1b]10;?\x07", "\x1b]10;rgb:eeee/eeee/eeee\x07"},
		{"\x1b]11;?\x1b\\", "\x1b]11;rgb:1010/2020/3030\x1b\\"},
		{"\x1b]12;?\x1b\\", "\x1b]12;rgb:ffff/0000/0000\x1b\\"},
		{"\x1b]10;?;?\x07", "\x1b]10;rgb:eeee/eeee/eeee\x07\x1b]11;rgb:1010/2020/3030\x07"},
		{"\x1b]11;#abc\x07\x1b]11;?\x07\x1b]111\x07", "\x1b]11;rgb:a0a0/b0b0/c0c0\x07"},
		{"\x1b]4;1;rgb:1/2/3;1;?\x07", "\x1b]4;1;rgb:1111/2222/3333\x07"},
		{"\x1b]104;1\x07\x1b]4;231;?\x07", "\x1b]4;231;rgb:ffff/ffff/ffff\x07"},
		{"\x1b]4;16;?;232;?\x07", "\x1b]4;16;rgb:0000/0000/0000\x07\x1b]4;232;rgb:0808/0808/0808\x07"},
		{"\x1b[?2026$p", "\x1b[?2026;2$y"},
		{"\x1b[?2026h\x1b[?2026$p", "\x1b[?2026;1$y"},
		{"\x1b[?2004h\x1b[?2004$p\x1b[?7$p\x1b[4$p\x1b[?12345$p", "\x1b[?2004;1$y\x1b[?7;1$y\x1b[4;2$y\x1b[?12345;0$y"},
		{"\x1b[?u", "\x1b[?0u"},
		{"\x1b[>7u\x1b[?u\x1b[=2;2u\x1b[>1u\x1b[?u\x1b[<u\x1b[?u\x1b[<9u\x1b[?u", "\x1b[?7u\x1b[?1u\x1b[?7u\x1b[?0u"},
		{"\x1b[>4;2m\x1b[?4m\x1b[>4m\x1b[?4m", "\x1b[>4;2m\x1b[>4;0m"},
		{"\x1b[18t", "\x1b[8;24;80t"},
		{"\x1b[2;5r\x1bP$qr\x1b\\\x1b[r", "\x1bP1$r2;5r\x1b\\"},
		{"\x1b[1;31m\x1bP$qm\x1b\\\x1b[m", "\x1bP1$r0;1;31m\x1b\\"},
		{"\x1bP$qm\x1b\\", "\x1bP1$r0m\x1b\\"},
		{"\x1b[4 q\x1bP$q q\x1b\\", "\x1bP1$r4 q\x1b\\"},
		{"\x1bP$qx\x1b\\", "\x1bP0$r\x1b\\"},
		{"\x1bP+q544e;zz\x1b\\", "\x1bP1+r544e=787465726d2d323536636f6c6f72\x1b\\\x1bP0+rzz\x1b\\"},
		{"\x1b]52;c;?\x07", "\x1b]52;c;\x07"},
		{"\x1bP$qm\x18", ""},
	} {
		if a := ask(c[0]); a != c[1] {
			t.Errorf("%q: answered %q, want %q", c[0], a, c[1])
		}
	}
	now = now.Add(2 * time.Second)
	if a := ask("\x1b[?2026$p"); a != "\x1b[?2026;2$y" {
		t.Errorf("a frame that never ends: %q", a)
	}
	s.SetAnswering(false)
	if a := ask("\x1b[c"); a != "" {
		t.Errorf("answered %q though it may not", a)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	var got []Event
	s := New(Config{Cols: 80, Rows: 24, Event: func(e Event) { got = append(got, e) }})
	s.Write([]byte("\a\x1b]0;one\x07\x1b]2;zwei ä\x1b\\\x1b]9;done\x07\x1b]9;4;1;50\x07\x1b]9;9;ignored\x07\x1b]777;notify;T;B\x07" +
		"\x1b]52;c;aGk=\x07\x1b]7;file:///x\x07\x1b]7501;state=idle\x07\x1b]133;A\x07\x1b]99999999999;x\x07\x1b]2;cut\x18\x1b[22t\x1b]2;x\x07\x1b[23t\x1b[?1049h\x1b[?1049h\x1b[?1049l"))
	want := []Event{{Kind: Bell}, {TitleSet, "", "one"}, {TitleSet, "", "zwei ä"}, {Notify, "", "done"}, {Progress, "", "1;50"}, {Notify, "T", "B"},
		{Clipboard, "c", "aGk="}, {Directory, "", "file:///x"}, {AgentState, "", "state=idle"}, {TitleSet, "", "x"}, {TitleSet, "", "zwei ä"},
		{Kind: ScreenKind}, {Kind: ScreenKind}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("events\n got %+v\nwant %+v", got, want)
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	s := New(Config{Cols: 80, Rows: 24})
	if got, want := s.Modes(), (Modes{Wrap: true, CursorShown: true}); got != want {
		t.Errorf("at first %+v", got)
	}
	s.Write([]byte("\x1b[?1;66;2004;1004;6;45;1003;1006;1005;1015;2026;2031h\x1b[4;20h\x1b[?7;25l\x1b[5 q\x1b[>5u\x1b[>4;1m"))
	want := Modes{AppCursor: true, AppKeypad: true, BracketedPaste: true, Focus: true, Insert: true, Origin: true, ReverseWrap: true, NewLine: true,
		SyncOutput: true, ColorSchemeReports: true, Mouse: 1003, MouseSGR: true, MouseUTF8: true, MouseUrxvt: true, CursorStyle: 5, KittyFlags: 5, ModifyOtherKeys: 1}
	if got := s.Modes(); got != want {
		t.Errorf("all set\n got %+v\nwant %+v", got, want)
	}
	again := New(Config{Cols: 80, Rows: 24})
	again.Write(s.Snapshot(0))
	if got := again.Modes(); got != want {
		t.Errorf("after a snapshot\n got %+v\nwant %+v", got, want)
	}
	s.Write([]byte("\x1bc"))
	if got, want := s.Modes(), (Modes{Wrap: true, CursorShown: true}); got != want {
		t.Errorf("after a reset %+v", got)
	}
}

func TestLastLines(t *testing.T) {
	t.Parallel()
	s := New(Config{Cols: 10, Rows: 3})
	s.Write([]byte("first\r\n0123456789abcdefghij12\r\n\r\nlast 世 world 世界\r\n\r\n"))
	want := []string{"0123456789abcdefghij12", "", "last 世 world 世界"}
	if got := s.LastLines(3); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := s.LastLines(100); len(got) != 4 || got[0] != "first" {
		t.Errorf("all: %q", got)
	}
	s.Write([]byte("\x1b[?1049h\x1b[Hquestion?\r\nyes"))
	if got := s.LastLines(9); !slices.Equal(got, []string{"question?", "yes"}) {
		t.Errorf("alternate screen: %q", got)
	}
}

func TestScrollbackIsBounded(t *testing.T) {
	t.Parallel()
	s := New(Config{Cols: 20, Rows: 3, Scrollback: 50})
	for i := range 5000 {
		fmt.Fprintf(s, "line %d %s\r\n", i, strings.Repeat("x", i%40))
		if i%100 == 0 {
			mustEqual(t, "after a snapshot", func() dump {
				a := New(Config{Cols: 20, Rows: 3, Scrollback: 50})
				a.Write(s.Snapshot(AllLines))
				return a.dump()
			}(), s.dump())
		}
	}
	if got := s.Scrollback(); got != 50 {
		t.Errorf("%d lines", got)
	}
	if got := s.LastLines(1); got[0] != "line 4999 "+strings.Repeat("x", 39) {
		t.Errorf("last line %q", got)
	}
	some := New(Config{Cols: 20, Rows: 3})
	some.Write(s.Snapshot(7))
	if got := some.Scrollback(); got != 7 {
		t.Errorf("%d lines in a snapshot of 7", got)
	}
	none := New(Config{Cols: 20, Rows: 3, Scrollback: -1})
	none.Write([]byte("1\r\n2\r\n3\r\n4\r\n5"))
	if got := none.Scrollback(); got != 0 {
		t.Errorf("%d lines without scrollback", got)
	}
}

func TestResize(t *testing.T) {
	t.Parallel()
	s := New(Config{Cols: 10, Rows: 3})
	s.Write([]byte("0123456789abcde\r\nx\r\n"))
	s.Resize(20, 3)
	if got := s.LastLines(2); !slices.Equal(got, []string{"0123456789abcde", "x"}) || s.Text().Lines[0] != "0123456789abcde" {
		t.Errorf("wider: %q, %q", got, s.Text().Lines)
	}
	s.Resize(5, 3)
	if got := s.LastLines(2); !slices.Equal(got, []string{"0123456789abcde", "x"}) {
		t.Errorf("narrower: %q", got)
	}
	s.Resize(-5, 1<<30)
	if c, r := s.Size(); c != MinCols || r != MaxRows {
		t.Errorf("size %dx%d", c, r)
	}
}

func TestHeld(t *testing.T) {
	t.Parallel()
	s := New(Config{Cols: 10, Rows: 2})
	for i, c := range []byte("a—b") {
		s.Write([]byte{c})
		if want := []int{0, 1, 2, 0, 0}[i]; s.Held() != want {
			t.Errorf("after byte %d: %d held, want %d", i, s.Held(), want)
		}
	}
	if got := s.Text().Lines[0]; got != "a—b" {
		t.Errorf("%q", got)
	}
}
