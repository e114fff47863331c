// Command testpg starts a PostgreSQL of its own, runs a command with PARAWORK_TEST_PG set to its URL, stops it, and ends with
// the command's exit code:
//
//	go run ./testing/testpg -- go test ./...
//
// The server is Debian's, on a free loopback port, with a data folder that is removed afterwards. It refuses to run as root, so
// as root it runs as the user postgres. When PARAWORK_TEST_PG is set already, that one is used. When PostgreSQL is not
// installed the command runs without it, and a line says that its tests are skipped.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"

	"github.com/parawork/parawork/testing/testpg/postgres"
)

const env = "PARAWORK_TEST_PG"

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: testpg -- command [arguments]")
		return 2
	}
	// Interrupts reach the command too (same process group); stay to stop the server after it.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	environ := os.Environ()
	if os.Getenv(env) == "" {
		server, err := postgres.Start(ctx)
		switch {
		case errors.Is(err, postgres.ErrNotInstalled):
			fmt.Fprintln(os.Stderr, "testpg: PostgreSQL is not installed (Debian: apt-get install postgresql): its tests are skipped")
		case err != nil:
			fmt.Fprintf(os.Stderr, "testpg: %v\n", err)
			return 1
		default:
			defer server.Remove()
			environ = append(slices.Clone(environ), env+"="+server.URL)
		}
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = os.Stdin, os.Stdout, os.Stderr, environ
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if exit.ExitCode() < 0 { // ended by a signal
			return 1
		}
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "testpg: %v\n", err)
		return 1
	}
	return 0
}
