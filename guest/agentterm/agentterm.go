// Package agentterm is the terminal of Parawork's own agent: it prints the conversation that the server sends, and sends it what is typed.
// The agent itself works in the server: the terminal outlives a restart of the server and connects again.
package agentterm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

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
