package toolcmd

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"slices"
	"time"

	"github.com/parawork/parawork/guest"
)

// ServesLanguage reports whether arguments of `parawork` ask for a language server: `lsp LANGUAGE [--no-diagnostics]`.
func ServesLanguage(args []string) bool {
	return len(args) >= 2 && args[0] == "lsp" && slices.Contains(guest.Languages, args[1])
}

// ServeLanguage joins standard input and output with the shared language server of the workspace, and returns the exit code.
func ServeLanguage(ctx context.Context, args []string, cfg Config) int {
	fail := func(p problem) int {
		_, _ = io.WriteString(cfg.Stderr, "parawork: "+p.Message+"\n")
		return exitFailed
	}
	c := guest.LanguageClient{Language: args[1], Diagnostics: !slices.Contains(args[2:], "--no-diagnostics")}
	sock, token := cfg.Env(guest.EnvTools), cfg.Env(guest.EnvHookToken)
	if sock == "" || token == "" {
		return fail(errNoGuest)
	}
	hello, err := json.Marshal(guest.ToolHello{Token: token, Use: guest.UseLSP})
	if err != nil {
		return exitFailed
	}
	first, err := json.Marshal(c)
	if err != nil {
		return exitFailed
	}
	d := net.Dialer{Timeout: dialIn}
	conn, err := d.DialContext(ctx, "unix", sock)
	if err != nil {
		return fail(errAway)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(acceptIn))
	greeting := make([]byte, len(guest.ToolGreeting))
	if _, err := conn.Write(append(hello, '\n')); err != nil {
		return fail(errAway)
	}
	if _, err := io.ReadFull(conn, greeting); err != nil || string(greeting) != guest.ToolGreeting {
		return fail(errAway)
	}
	_ = conn.SetDeadline(time.Time{})
	if _, err := conn.Write(append(first, '\n')); err != nil {
		return fail(errAway)
	}
	go func() { // ends with its reader; the program does in any case
		_, _ = io.Copy(conn, cfg.In)
		_ = conn.Close()
	}()
	_, _ = io.Copy(cfg.Stdout, conn)
	return 0
}
