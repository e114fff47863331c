// Package toolcmd is the command line of the tools in a sandbox: `parawork ...`. It passes the arguments to the server, which
// parses them, and prints what the server answers. So both always fit each other.
package toolcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/parawork/parawork/guest"
)

// Exit codes of its own.
const (
	exitFailed    = 1
	exitCancelled = 130 // as a shell reports an interrupt
)

// maxArgv bounds the arguments, in bytes.
const maxArgv = 1 << 20

const (
	dialIn   = 2 * time.Second
	acceptIn = 3 * time.Minute // the guest gives up earlier: it waits for a server that restarts
	writeIn  = time.Minute
)

// Config is what a command works with.
type Config struct {
	Env            func(string) string
	Dir            string // where it was started
	In             io.Reader
	Stdout, Stderr io.Writer
}

// problem is an error of the command line itself.
type problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (p problem) Error() string { return p.Message }

var (
	errNoGuest  = problem{"no_tools", "The tools of Parawork can be reached only in a workspace's terminal: " + guest.EnvTools + " and " + guest.EnvHookToken + " are not set."}
	errAway     = problem{"server_away", "The Parawork server does not answer, so nothing was done. Try again in a moment."}
	errCut      = problem{"command_cut", "The connection to the Parawork server was cut before it answered. The command may have been done; look before you repeat it."}
	errInput    = problem{"input_too_large", fmt.Sprintf("The standard input has more than %d bytes. Nothing was done.", guest.MaxToolInput)}
	errArgv     = problem{"arguments_too_large", fmt.Sprintf("The arguments have more than %d bytes. Nothing was done. Pass long text on standard input, with - in its place.", maxArgv)}
	errAnswer   = problem{"answer_invalid", "The Parawork server's answer cannot be read. The command may have been done; look before you repeat it."}
	errTooLarge = problem{"answer_too_large", fmt.Sprintf("The answer has more than %d bytes. The command was done.", guest.MaxToolOutput)}
)

// Run runs a command line, without the program's own name, and returns the exit code. It ends when ctx does, and the server then
// stops what it does for the command.
func Run(ctx context.Context, argv []string, cfg Config) int {
	a, err := run(ctx, argv, cfg)
	if ctx.Err() != nil {
		return exitCancelled
	}
	if err != nil {
		var p problem
		if !errors.As(err, &p) {
			p = problem{"command_failed", err.Error()}
		}
		if b, err := json.Marshal(p); err == nil && slices.Contains(argv, "--json") {
			_, _ = fmt.Fprintf(cfg.Stderr, "%s\n", b)
		} else {
			_, _ = fmt.Fprintf(cfg.Stderr, "parawork: %s\n", p.Message)
		}
		return exitFailed
	}
	_, _ = io.WriteString(cfg.Stderr, a.Stderr)
	if _, err := io.WriteString(cfg.Stdout, a.Stdout); err != nil && a.Exit == 0 {
		return exitFailed
	}
	return a.Exit & 0xff
}

func run(ctx context.Context, argv []string, cfg Config) (a guest.ToolAnswer, err error) {
	sock, token := cfg.Env(guest.EnvTools), cfg.Env(guest.EnvHookToken)
	if sock == "" || token == "" {
		return a, errNoGuest
	}
	size := 0
	for _, arg := range argv {
		if size += len(arg) + 1; size > maxArgv {
			return a, errArgv
		}
	}
	c := guest.ToolCommand{Argv: argv, Dir: cfg.Dir}
	if slices.Contains(argv, "-") {
		if c.Stdin, err = input(ctx, cfg.In); err != nil {
			return a, err
		}
	}
	hello, err := json.Marshal(guest.ToolHello{Token: token, Use: guest.UseCommand})
	if err != nil {
		return a, err
	}
	command, err := json.Marshal(c)
	if err != nil {
		return a, err
	}
	d := net.Dialer{Timeout: dialIn}
	conn, err := d.DialContext(ctx, "unix", sock)
	if err != nil {
		return a, errAway
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(acceptIn))
	greeting := make([]byte, len(guest.ToolGreeting))
	if _, err := conn.Write(append(hello, '\n')); err != nil {
		return a, errAway
	}
	if _, err := io.ReadFull(conn, greeting); err != nil || string(greeting) != guest.ToolGreeting {
		return a, errAway
	}
	_ = conn.SetDeadline(time.Now().Add(writeIn))
	if n, err := conn.Write(append(command, '\n')); err != nil && n <= len(command) {
		return a, errAway // the server has not received its end
	}
	_ = conn.SetDeadline(time.Time{}) // a tool takes as long as it takes
	return answer(conn)
}

// answer reads the server's answer.
func answer(conn io.Reader) (a guest.ToolAnswer, err error) {
	limited := &io.LimitedReader{R: conn, N: guest.MaxToolOutput + 1}
	err = json.NewDecoder(limited).Decode(&a)
	switch {
	case err == nil:
		return a, nil
	case limited.N <= 0:
		return guest.ToolAnswer{}, errTooLarge
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return guest.ToolAnswer{}, errCut
	}
	if _, is := errors.AsType[net.Error](err); is {
		return guest.ToolAnswer{}, errCut
	}
	return guest.ToolAnswer{}, errAnswer
}

// input reads the standard input. A terminal's user ends it with ctrl-D, or the command with ctrl-C.
func input(ctx context.Context, in io.Reader) ([]byte, error) {
	type read struct {
		b   []byte
		err error
	}
	got := make(chan read, 1)
	go func() { // ends with its reader; the program does in any case
		b, err := io.ReadAll(io.LimitReader(in, guest.MaxToolInput+1))
		got <- read{b, err}
	}()
	select {
	case r := <-got:
		if r.err != nil {
			return nil, problem{"input_failed", "The standard input cannot be read: " + r.err.Error() + ". Nothing was done."}
		}
		if len(r.b) > guest.MaxToolInput {
			return nil, errInput
		}
		return r.b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
