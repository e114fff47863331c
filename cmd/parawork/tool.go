package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/cli"
	"github.com/parawork/parawork/tools/remote"
)

// maxStdin bounds what a command reads from standard input.
const maxStdin = tools.MaxArguments

// elsewhere takes the options about the server out of a command line; the rest is the tool's. given says whether one was there.
func (p program) elsewhere(args []string) (at elsewhere, rest []string, given bool) {
	options := map[string]*string{"--server": &at.server, "--token": &at.token, "--team": &at.team, "--workspace": &at.workspace}
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			rest = append(rest, args[i:]...)
			break
		}
		name, value, inline := strings.Cut(args[i], "=")
		to := options[name]
		switch {
		case to == nil:
			rest = append(rest, args[i])
			continue
		case !inline && i+1 < len(args):
			i++
			value = args[i]
		}
		*to, given = value, true
	}
	for name, to := range map[string]*string{"PARAWORK_SERVER": &at.server, "PARAWORK_TOKEN": &at.token, "PARAWORK_TEAM": &at.team, "PARAWORK_WORKSPACE": &at.workspace} {
		if *to == "" {
			*to = p.env(name)
		}
	}
	return at, rest, given
}

// tool calls a tool of a workspace on a server somewhere else, as the same command does in a sandbox, and returns the exit code.
func (p program) tool(ctx context.Context, args []string) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	at, argv, _ := p.elsewhere(args)
	if err := at.check(); err != nil {
		fmt.Fprintf(p.stderr, "parawork: %v.\n", err)
		return cli.Usage
	}
	if at.insecure() {
		fmt.Fprintln(p.stderr, "parawork: the token crosses the network unencrypted: use https.")
	}
	api := remote.New(remote.Config{Doer: at.client(), Server: at.server, Team: at.team, Client: "parawork " + version})
	specs, err := api.Toolbox(ctx)
	if err != nil {
		fmt.Fprintf(p.stderr, "parawork: %s\n", fault.Words(err, err.Error()))
		return cli.Failed
	}
	in := cli.Input{Argv: argv} // paths are of the workspace's folder, as they are given
	if slices.Contains(argv, "-") {
		if in.Stdin, err = io.ReadAll(io.LimitReader(p.stdin, maxStdin+1)); err != nil || len(in.Stdin) > maxStdin {
			fmt.Fprintf(p.stderr, "parawork: standard input could not be read, or has more than %d bytes.\n", maxStdin)
			return cli.Usage
		}
	}
	exit, stdout, stderr := cli.Run(ctx, in, specs, func(ctx context.Context, name string, args json.RawMessage) (tools.Result, error) {
		if at.workspace == "" {
			return tools.Result{}, errNoWorkspace
		}
		return api.CallIn(ctx, at.workspace, name, args)
	})
	_, _ = io.WriteString(p.stdout, stdout)
	_, _ = io.WriteString(p.stderr, stderr)
	if ctx.Err() != nil {
		return 130 // as a shell reports an interrupt, and as the command in a sandbox does
	}
	return exit
}

var errNoWorkspace = fault.New(fault.Invalid, "tool_needs_workspace", "No workspace is named: give --workspace PW-12 or set PARAWORK_WORKSPACE.")
