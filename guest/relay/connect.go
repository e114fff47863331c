package relay

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/guest"
)

// askIn bounds the gate's answer to one request: it may have to reach a distant host.
const askIn = 60 * time.Second

// Ask makes the gate connect to target, "host:port". It returns what the other end has already sent.
func Ask(gate net.Conn, target string) (early []byte, err error) {
	_ = gate.SetDeadline(time.Now().Add(askIn))
	if _, err := fmt.Fprintf(gate, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target); err != nil {
		return nil, fmt.Errorf("asking the gate: %w", err)
	}
	resp, r, err := readHead(gate, http.MethodConnect)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		words, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // as much as can be read
		if text := strings.TrimSpace(strings.ToValidUTF8(string(words), "?")); text != "" {
			return nil, errors.New(text)
		}
		return nil, errors.New(resp.Status)
	}
	_ = gate.SetDeadline(time.Time{})
	early, err = r.Peek(r.Buffered())
	return early, err
}

// readHead reads an answer of the gate; its header is bounded.
func readHead(conn io.Reader, method string) (*http.Response, *bufio.Reader, error) {
	head := &io.LimitedReader{R: conn, N: maxHead}
	r := bufio.NewReader(head)
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		return nil, nil, fmt.Errorf("reading the gate's answer: %w", err)
	}
	return resp, r, nil
}

// Connect is the program `parawork-guest connect HOST PORT`: standard input and output become a connection to an outside host.
// ssh runs it as its ProxyCommand.
func Connect(ctx context.Context, args []string, env func(string) string, in io.Reader, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("usage: parawork-guest connect HOST PORT")
	}
	port, err := strconv.ParseUint(args[1], 10, 16)
	if err != nil || port == 0 || strings.ContainsAny(args[0], " \t\r\n/@") || args[0] == "" {
		return fmt.Errorf("%q and %q are not the name of a host and a port", args[0], args[1])
	}
	socket := cmp.Or(env(guest.EnvGate), guest.GateSocket)
	gate, err := dial(ctx, socket, dialIn)
	if err != nil {
		return fmt.Errorf("the sandbox's way out cannot be reached: %w", err)
	}
	defer gate.Close()
	defer context.AfterFunc(ctx, func() { _ = gate.Close() })()
	early, err := Ask(gate, net.JoinHostPort(strings.Trim(args[0], "[]"), args[1]))
	if err != nil {
		return err
	}
	if _, err := out.Write(early); err != nil {
		return err
	}
	go func() { // ends when the input does, or with the program
		if _, err := io.Copy(gate, in); err == nil {
			_ = gate.CloseWrite()
		}
	}()
	if _, err = io.Copy(out, gate); ctx.Err() != nil {
		return nil
	}
	return err
}
