package main

import (
	"context"
	"io/fs"
	"os"

	"github.com/parawork/parawork/executors/runner/cli"
	"github.com/parawork/parawork/sessions/agents"
	"golang.org/x/term"
)

// runner is the command of members' own machines, which the slim program people download has as well.
func (p program) runner(ctx context.Context, args []string) int {
	r := cli.Program{Stdin: p.stdin, Stdout: p.stdout, Stderr: p.stderr, Env: p.env, Version: version, Agents: agents.Packages(), Terminal: isTerminal(p.stdin) && isTerminal(p.stdout)}
	if guests, err := fs.Sub(assets, "assets"); err == nil {
		r.Carried = guests
	}
	return r.Run(ctx, args)
}

// isTerminal reports whether somebody sits at the other end.
func isTerminal(end any) bool {
	f, ok := end.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
