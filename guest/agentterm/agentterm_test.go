package agentterm_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/agentterm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patient = 30 * time.Second

// term is a terminal with its server.
type term struct {
	t     *testing.T
	keys  *io.PipeWriter
	over  chan error
	out   *output
	alone chan time.Time // time has passed after an Escape

	listener net.Listener
	conn     net.Conn
	lines    *bufio.Scanner
}

// output is what was printed.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
	on chan struct{} // something was printed
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.on <- struct{}{}:
	default:
	}
	return o.b.Write(p)
}

func (o *output) has(text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Contains(o.b.String(), text)
}

func start(t *testing.T) *term {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	in, keys := io.Pipe()
	x := &term{t: t, keys: keys, over: make(chan error, 1), out: &output{on: make(chan struct{}, 1)}, alone: make(chan time.Time), listener: listener}
	env := map[string]string{guest.EnvTools: path, guest.EnvHookToken: "token"}
	go func() {
		x.over <- agentterm.Run(t.Context(), agentterm.Config{Env: func(k string) string { return env[k] }, In: in, Out: x.out, Cols: func() int { return 40 }, After: func(d time.Duration) <-chan time.Time {
			if d < 100*time.Millisecond {
				return x.alone
			}
			return time.After(time.Millisecond) // to connect again
		}})
	}()
	t.Cleanup(func() {
		_ = keys.Close()
		if x.conn != nil {
			_ = x.conn.Close()
		}
		_ = listener.Close()
		if err := <-x.over; err != nil {
			t.Error(err)
		}
	})
	return x
}

// connects waits for the terminal, and returns until which version it has printed all.
func (x *term) connects() int64 {
	x.t.Helper()
	conn, err := x.listener.Accept()
	if err != nil {
		x.t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(patient))
	x.conn, x.lines = conn, bufio.NewScanner(conn)
	x.lines.Buffer(nil, guest.MaxAgentLine)
	var hello guest.ToolHello
	if !x.lines.Scan() || json.Unmarshal(x.lines.Bytes(), &hello) != nil || hello.Token != "token" || hello.Use != guest.UseAgent {
		x.t.Fatalf("hello: %s", x.lines.Bytes())
	}
	if _, err := io.WriteString(conn, guest.ToolGreeting); err != nil {
		x.t.Fatal(err)
	}
	open := x.gets()
	if open.Type != guest.AgentOpen {
		x.t.Fatalf("%+v", open)
	}
	return open.Version
}

func (x *term) gets() (in guest.AgentInput) {
	x.t.Helper()
	if !x.lines.Scan() {
		x.t.Fatalf("the terminal said nothing: %v", x.lines.Err())
	}
	if err := json.Unmarshal(x.lines.Bytes(), &in); err != nil {
		x.t.Fatal(err)
	}
	return in
}

func (x *term) types(s string) {
	x.t.Helper()
	if _, err := io.WriteString(x.keys, s); err != nil {
		x.t.Fatal(err)
	}
}

func (x *term) sends(out guest.AgentOutput) {
	x.t.Helper()
	b, err := json.Marshal(out)
	if err != nil {
		x.t.Fatal(err)
	}
	if _, err := x.conn.Write(append(b, '\n')); err != nil {
		x.t.Fatal(err)
	}
}

func (x *term) prints(text string) {
	x.t.Helper()
	late := time.After(patient)
	for !x.out.has(text) {
		select {
		case <-x.out.on:
		case <-late:
			x.t.Fatalf("%q was not printed: %q", text, x.out.b.String())
		}
	}
}

// A line is what was typed, edited and pasted, wherever the input is cut in two.
func TestLines(t *testing.T) {
	x := start(t)
	x.connects()
	for typed, want := range map[string]string{
		"hello\r":                                 "hello",
		"helo\x1b[Dl\x1b[F!\r":                    "hello!",
		"world\x01hello \x05!\r":                  "hello world!",
		"ab\x1bOD\x1bODx\x1b[4~y\x1b[1~z\r":       "zxaby",
		"one two\x17three\r":                      "one three",
		"wrong\x15right\x7f\x7f\b\x7fead\r":       "read",
		"grüße €🎉\x7f!\r":                         "grüße €!",
		"a\x1b[5~\x1b[1;5Cb\x1b[Z\tc\x0cd\r":      "abcd", // keys that do nothing
		"<\x1b[200~a\rb\r\nc\td\x03e\x1b[201~>\r": "<a\nb\nc\tde>",
		"\x1b[200~\x1b[20\x1b[201~\r":             "[20",
		"\x1b[200~\xff é\u009b€\x1b[201~.\r":      "\uFFFD é€.",
	} {
		for cut := range len(typed) {
			x.types(typed[:cut])
			x.types(typed[cut:])
			if got := x.gets(); got.Type != guest.AgentPrompt || got.Text != want {
				t.Errorf("%q, cut at %d: %q, not %q", typed, cut, got.Text, want)
			}
		}
		for _, b := range []byte(typed) {
			x.types(string([]byte{b}))
		}
		if got := x.gets(); got.Text != want {
			t.Errorf("%q, byte by byte: %q, not %q", typed, got.Text, want)
		}
	}
}

// Characters of Chinese, Japanese and Korean and emoji take two columns, whatever they consist of: the cursor stands behind them, the keys
// move over them and remove them as one, and a line never wraps.
func TestWideCharacters(t *testing.T) {
	x := start(t)
	x.connects()
	for _, test := range []struct{ text, shown, cursor string }{
		{"日本語", "日本語", "8"},
		{"한국어", "한국어", "8"},
		{"\u1112\u1161\u11ab", "\u1112\u1161\u11ab", "4"}, // a syllable in its letters
		{"Ａb", "Ａb", "5"},
		{"a🎉", "a🎉", "5"},
		{"👩‍👩‍👧", "👩‍👩‍👧", "4"},
		{"👍🏽", "👍🏽", "4"},
		{"🇩🇪🇫🇷", "🇩🇪🇫🇷", "6"},
		{"❤️", "❤️", "4"},
		{"❤", "❤", "3"},
		{"e\u0301a\u0308", "e\u0301a\u0308", "4"},
		{strings.Repeat("語", 30), strings.Repeat("語", 17), "36"}, // 36 columns of 40
		{"x" + strings.Repeat("語", 30), strings.Repeat("語", 17), "36"},
		{"one\ntwo", "one⏎two", "9"},
	} {
		x.types("\x1b[200~" + test.text + "\x1b[201~")
		x.prints("\x1b[36m›\x1b[0m " + test.shown + "\r\x1b[" + test.cursor + "C")
		x.types("\x01\x05!\x1b[D\x7f\r") // the last character is removed
		got, cells := x.gets().Text, []rune(test.text)
		if rest, ok := strings.CutSuffix(got, "!"); !ok || !strings.HasPrefix(test.text, rest) || len([]rune(rest)) == len(cells) {
			t.Errorf("%q without its last character: %q", test.text, got)
		}
	}
	for text, want := range map[string]string{"a👩‍👩‍👧": "a!", "👍🏽": "!", "🇩🇪🇫🇷": "🇩🇪!", "e\u0301": "!", "日本": "日!"} {
		x.types(text + "!\x1b[D\x7f\r")
		if got := x.gets(); got.Text != want {
			t.Errorf("%q: %q, not %q", text, got.Text, want)
		}
	}
	x.sends(guest.AgentOutput{State: strings.Repeat("語", 30)})
	x.prints("\x1b[2m" + strings.Repeat("語", 18) + "\x1b[0m")
}

// Escape and Ctrl+C empty the line first, then interrupt the agent. Ctrl+D leaves when the line is empty.
func TestKeysThatEnd(t *testing.T) {
	x := start(t)
	x.connects()
	for _, press := range []func(){func() { x.types("\x03") }, func() {
		x.types("\x1b")
		x.alone <- time.Time{} // nothing follows
	}} {
		x.types("text")
		press()
		press()
		if got := x.gets(); got.Type != guest.AgentInterrupt {
			t.Errorf("%+v", got)
		}
	}
	x.types("a\x04b\r")
	if got := x.gets(); got.Text != "ab" {
		t.Errorf("%+v", got)
	}
	x.types("  \r\x04")
	select {
	case err := <-x.over:
		x.over <- err
	case <-time.After(patient):
		t.Error("the terminal goes on")
	}
}

// What the server sends stands above the line, and the agent's state in an empty one.
func TestTheConversation(t *testing.T) {
	x := start(t)
	x.connects()
	x.prints("\x1b[?2004h") // pastes are marked
	x.sends(guest.AgentOutput{State: "write a prompt"})
	x.prints("\x1b[2mwrite a prompt\x1b[0m")
	x.types("typed")
	x.prints("typed")
	x.sends(guest.AgentOutput{Text: "one\ntwo\n"})
	x.prints("\r\x1b[Kone\r\ntwo\r\n\x1b[36m›\x1b[0m typed\r\x1b[7C")
	x.types(strings.Repeat("x", 100)) // the end of a long line, in 40 columns
	x.prints("› \x1b[0m"[:3] + "\x1b[0m " + strings.Repeat("x", 35) + "\r\x1b[37C")
}

// A terminal outlives its server: it connects again, says what it has printed, and sends what was entered meanwhile once.
func TestTheServerRestarts(t *testing.T) {
	x := start(t)
	if v := x.connects(); v != 0 {
		t.Errorf("version %d", v)
	}
	x.sends(guest.AgentOutput{Text: "before\n", Version: 7})
	x.sends(guest.AgentOutput{Text: "a part\n"})
	x.prints("a part")
	_ = x.conn.Close()
	x.prints("connecting to the server")
	x.types("meanwhile\r")
	if v := x.connects(); v != 7 {
		t.Errorf("version %d, not 7", v)
	}
	if got := x.gets(); got.Text != "meanwhile" {
		t.Errorf("%+v", got)
	}
	x.types("then\r")
	if got := x.gets(); got.Text != "then" {
		t.Errorf("%+v", got)
	}
}

// Outside a session there is nothing to connect to.
func TestOutsideASession(t *testing.T) {
	err := agentterm.Run(context.Background(), agentterm.Config{Env: func(string) string { return "" }})
	if err == nil || !strings.Contains(err.Error(), "only in a session") {
		t.Error(err)
	}
}
