// Package agentterm is the terminal of Parawork's own agent: it prints the conversation that the server sends, and sends it what is typed.
// The agent itself works in the server: the terminal outlives a restart of the server and connects again.
package agentterm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/parawork/parawork/guest"
)

// Config is what a terminal works with.
type Config struct {
	Env  func(string) string
	In   io.Reader // in raw mode
	Out  io.Writer
	Cols func() int // of the terminal
	// After waits; nil: time.After.
	After func(time.Duration) <-chan time.Time
}

const (
	dialIn     = 2 * time.Second
	acceptIn   = 3 * time.Minute // the guest gives up earlier: it waits for a server that restarts
	writeIn    = 30 * time.Second
	retryFirst = 100 * time.Millisecond
	retryMost  = 2 * time.Second
	escapeIn   = 50 * time.Millisecond // a sequence that begins with Escape goes on earlier
	maxUnsent  = 64                    // inputs that wait for a server
)

// Run shows the conversation until ctx ends, or its user ends it with Ctrl+D.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Env(guest.EnvTools) == "" || cfg.Env(guest.EnvHookToken) == "" {
		return errors.New("the agent can be used only in a session of Parawork: " + guest.EnvTools + " and " + guest.EnvHookToken + " are not set")
	}
	if cfg.After == nil {
		cfg.After = time.After
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &terminal{cfg: cfg, unsent: make(chan guest.AgentInput, maxUnsent), screen: &screen{out: cfg.Out, cols: cfg.Cols}}
	t.screen.enable()
	defer t.screen.disable()
	typed := make(chan []byte)
	go t.read(ctx, typed) // until the program ends: a read of a terminal cannot be cut short
	edited := make(chan struct{})
	go func() {
		defer close(edited)
		defer cancel()
		t.edit(ctx, typed)
	}()
	defer func() {
		cancel()
		<-edited
	}()
	wait := retryFirst
	for ctx.Err() == nil {
		began := time.Now()
		if err := t.serve(ctx); err != nil && ctx.Err() == nil {
			t.screen.state("connecting to the server …")
		}
		if time.Since(began) > retryMost {
			wait = retryFirst
		}
		select {
		case <-cfg.After(wait):
		case <-ctx.Done():
		}
		wait = min(2*wait, retryMost)
	}
	return nil
}

// terminal is one run of the program.
type terminal struct {
	cfg     Config
	screen  *screen
	unsent  chan guest.AgentInput
	kept    *guest.AgentInput // was not sent before a connection ended; used by serve alone
	version int64             // printed so far; used by serve alone
}

// serve holds one connection to the server until it ends.
func (t *terminal) serve(ctx context.Context) error {
	hello, err := json.Marshal(guest.ToolHello{Token: t.cfg.Env(guest.EnvHookToken), Use: guest.UseAgent})
	if err != nil {
		return err
	}
	d := net.Dialer{Timeout: dialIn}
	conn, err := d.DialContext(ctx, "unix", t.cfg.Env(guest.EnvTools))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(acceptIn))
	if _, err := conn.Write(append(hello, '\n')); err != nil {
		return err
	}
	greeting := make([]byte, len(guest.ToolGreeting))
	if _, err := io.ReadFull(conn, greeting); err != nil {
		return err
	}
	_ = conn.SetDeadline(time.Time{})
	if err := send(conn, guest.AgentInput{Type: guest.AgentOpen, Version: t.version}); err != nil {
		return err
	}
	gone := make(chan error, 1)
	go func() { gone <- t.print(conn) }()
	for {
		if t.kept == nil {
			select {
			case in := <-t.unsent:
				t.kept = &in
			case err := <-gone:
				return err
			}
		}
		if err := send(conn, *t.kept); err != nil {
			_ = conn.Close()
			<-gone
			return err
		}
		t.kept = nil
	}
}

// print prints what the server sends until the connection ends.
func (t *terminal) print(conn net.Conn) error {
	lines := bufio.NewScanner(conn)
	lines.Buffer(make([]byte, 0, 64<<10), guest.MaxAgentLine)
	for lines.Scan() {
		var out guest.AgentOutput
		if err := json.Unmarshal(lines.Bytes(), &out); err != nil {
			return fmt.Errorf("the server's answer cannot be read: %w", err)
		}
		t.screen.print(out.Text)
		t.screen.state(out.State)
		t.version = max(t.version, out.Version)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.EOF
}

func send(conn net.Conn, in guest.AgentInput) error {
	b, err := json.Marshal(in)
	if err != nil {
		return err
	}
	_ = conn.SetWriteDeadline(time.Now().Add(writeIn))
	_, err = conn.Write(append(b, '\n'))
	return err
}

// input keeps what was typed until it is sent.
func (t *terminal) input(ctx context.Context, in guest.AgentInput) {
	select {
	case t.unsent <- in:
	case <-ctx.Done():
	default:
		t.screen.state("too much waits for the server; this was not sent")
	}
}

// read passes on what is typed until the input ends.
func (t *terminal) read(ctx context.Context, typed chan<- []byte) {
	defer close(typed)
	for {
		buf := make([]byte, 4096)
		n, err := t.cfg.In.Read(buf)
		if n > 0 {
			select {
			case typed <- buf[:n]:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// edit does what is typed until the input or ctx ends.
func (t *terminal) edit(ctx context.Context, typed <-chan []byte) {
	keys := keyReader{}
	var alone <-chan time.Time
	for {
		var pressed []key
		select {
		case p, ok := <-typed:
			if !ok {
				return
			}
			pressed = keys.feed(p)
		case <-alone:
			pressed = keys.settle()
		case <-ctx.Done():
			return
		}
		for _, k := range pressed {
			if !t.press(ctx, k) {
				return
			}
		}
		if alone = nil; keys.open() {
			alone = t.cfg.After(escapeIn)
		}
	}
}

// press does what a key stands for; false: the user leaves.
func (t *terminal) press(ctx context.Context, k key) bool {
	switch {
	case k.text != "":
		t.screen.typed(k.text)
	case k.act == enter:
		if line := t.screen.take(); strings.TrimSpace(line) != "" {
			t.input(ctx, guest.AgentInput{Type: guest.AgentPrompt, Text: line})
		}
	case k.act == interrupt:
		if !t.screen.clear() { // first the line, then the agent
			t.input(ctx, guest.AgentInput{Type: guest.AgentInterrupt})
		}
	case k.act == end:
		return !t.screen.empty()
	default:
		t.screen.edit(k.act)
	}
	return true
}

// action is a key that is no text.
type action int

const (
	enter action = iota + 1
	interrupt
	end
	backspace
	deleteWord
	deleteLine
	left
	right
	home
	last
)

// key is text, or an action.
type key struct {
	text string
	act  action
}

// keyReader turns bytes into keys. What is pasted is text, whatever it contains.
type keyReader struct {
	pending []byte
	pasting bool
}

const (
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

var sequences = map[string]action{"\x1b[D": left, "\x1bOD": left, "\x1b[C": right, "\x1bOC": right, "\x1b[H": home, "\x1bOH": home, "\x1b[1~": home, "\x1b[F": last, "\x1bOF": last, "\x1b[4~": last}

var controls = map[byte]action{'\r': enter, '\n': enter, 0x03: interrupt, 0x04: end, 0x7f: backspace, 0x08: backspace, 0x17: deleteWord, 0x15: deleteLine, 0x01: home, 0x05: last}

// open reports whether what was read last may be the beginning of a sequence.
func (r *keyReader) open() bool { return !r.pasting && len(r.pending) > 0 && r.pending[0] == 0x1b }

// settle takes that as it is, because nothing followed: a lone Escape interrupts.
func (r *keyReader) settle() (keys []key) {
	if len(r.pending) == 1 {
		keys = []key{{act: interrupt}}
	}
	r.pending = nil
	return keys
}

func (r *keyReader) feed(p []byte) (keys []key) {
	r.pending = append(r.pending, p...)
	for len(r.pending) > 0 {
		b := r.pending
		switch {
		case r.pasting:
			text, rest, ended := bytes.Cut(b, []byte(pasteEnd))
			if !ended {
				// Its end, a line end or a character may be cut in two.
				text = b[:len(b)-max(partOf(b, pasteEnd), partOf(b, "\r\n"), cutRune(b))]
				rest = b[len(text):]
			}
			if len(text) > 0 {
				keys = append(keys, key{text: clean(text)})
			}
			r.pending, r.pasting = rest, !ended
			if !ended {
				return keys
			}
		case bytes.HasPrefix(b, []byte(pasteBegin)):
			r.pending, r.pasting = b[len(pasteBegin):], true
		case b[0] == 0x1b:
			n, act, whole := escape(b)
			if !whole {
				return keys
			}
			if act != 0 {
				keys = append(keys, key{act: act})
			}
			r.pending = b[n:]
		case b[0] < ' ' || b[0] == 0x7f:
			if act := controls[b[0]]; act != 0 {
				keys = append(keys, key{act: act})
			}
			r.pending = b[1:]
		default:
			n := 0
			for n < len(b) && b[n] >= ' ' && b[n] != 0x7f {
				n++
			}
			whole := n
			if n == len(b) {
				whole -= cutRune(b)
			}
			if whole > 0 {
				keys = append(keys, key{text: clean(b[:whole])})
			}
			if r.pending = b[whole:]; whole < n {
				return keys
			}
		}
	}
	return keys
}

// cutRune is how many bytes at the end of b begin a character whose rest has not come yet.
func cutRune(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if utf8.RuneStart(b[len(b)-n]) {
			if utf8.FullRune(b[len(b)-n:]) {
				return 0
			}
			return n
		}
	}
	return 0
}

// escape reads a sequence, as far as it has come; an Escape that begins none interrupts.
func escape(b []byte) (n int, act action, whole bool) {
	if len(b) == 1 {
		return 0, 0, false
	}
	if b[1] != '[' && b[1] != 'O' {
		return 1, interrupt, true
	}
	for n = 2; n < len(b); n++ {
		if b[n] >= '@' && b[n] <= '~' {
			return n + 1, sequences[string(b[:n+1])], true
		}
	}
	if len(b) > 64 {
		return len(b), 0, true
	}
	return 0, 0, false
}

// partOf is how many bytes at the end of b may be the beginning of mark.
func partOf(b []byte, mark string) int {
	for n := min(len(mark)-1, len(b)); n > 0; n-- {
		if bytes.HasSuffix(b, []byte(mark[:n])) {
			return n
		}
	}
	return 0
}

// clean removes control characters from text, except for line feeds and tabs.
func clean(b []byte) string {
	s := strings.ReplaceAll(strings.ReplaceAll(string(b), "\r\n", "\n"), "\r", "\n")
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// screen is the conversation with a line to type in below it.
type screen struct {
	mu     sync.Mutex
	out    io.Writer
	cols   func() int
	line   []rune
	at     int    // the cursor in line
	status string // shown in place of an empty line
}

func (s *screen) enable()  { s.with(func() { s.write("\x1b[?2004h"); s.draw() }) }
func (s *screen) disable() { s.with(func() { s.erase(); s.write("\x1b[?2004l") }) }

func (s *screen) with(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

func (s *screen) write(text string) { _, _ = io.WriteString(s.out, text) }
func (s *screen) erase()            { s.write("\r\x1b[K") }

// draw shows as much of the line as fits, around the cursor.
func (s *screen) draw() {
	width := max(s.cols()-4, 10)
	if len(s.line) == 0 {
		text := []rune(s.status)
		s.write("\x1b[36m›\x1b[0m \x1b[2m" + string(text[:min(len(text), width)]) + "\x1b[0m\r\x1b[2C")
		return
	}
	from := max(0, s.at-width+1)
	shown := s.line[from:min(len(s.line), from+width)]
	text := strings.NewReplacer("\n", "⏎", "\t", " ").Replace(string(shown))
	s.write("\x1b[36m›\x1b[0m " + text + fmt.Sprintf("\r\x1b[%dC", 2+s.at-from))
}

// print prints lines above the line.
func (s *screen) print(text string) {
	if text == "" {
		return
	}
	s.with(func() {
		s.erase()
		s.write(strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\r\n") + "\r\n")
		s.draw()
	})
}

func (s *screen) state(text string) {
	if text == "" {
		return
	}
	s.with(func() {
		s.status = text
		s.erase()
		s.draw()
	})
}

func (s *screen) typed(text string) {
	s.with(func() {
		if len(s.line)+len(text) > 1<<20 {
			return
		}
		in := []rune(text)
		s.line = append(s.line[:s.at:s.at], append(in, s.line[s.at:]...)...)
		s.at += len(in)
		s.erase()
		s.draw()
	})
}

// take returns the line and empties it.
func (s *screen) take() (line string) {
	s.with(func() {
		line, s.line, s.at = string(s.line), nil, 0
		s.erase()
		s.draw()
	})
	return line
}

// clear empties the line; false when it was empty.
func (s *screen) clear() bool { return s.take() != "" }

func (s *screen) empty() (empty bool) {
	s.with(func() { empty = len(s.line) == 0 })
	return empty
}

func (s *screen) edit(a action) {
	s.with(func() {
		switch a {
		case left:
			s.at = max(s.at-1, 0)
		case right:
			s.at = min(s.at+1, len(s.line))
		case home:
			s.at = 0
		case last:
			s.at = len(s.line)
		case backspace:
			s.cut(s.at - 1)
		case deleteLine:
			s.cut(0)
		case deleteWord:
			from := s.at
			for from > 0 && s.line[from-1] == ' ' {
				from--
			}
			for from > 0 && s.line[from-1] != ' ' {
				from--
			}
			s.cut(from)
		}
		s.erase()
		s.draw()
	})
}

// cut removes what is between from and the cursor.
func (s *screen) cut(from int) {
	if from = max(from, 0); from < s.at {
		s.line = append(s.line[:from:from], s.line[s.at:]...)
		s.at = from
	}
}
