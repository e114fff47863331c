// Command parawork-runner is the slim program for members' own machines: `parawork runner` and nothing else. People download it from their
// server under the name parawork; the server's own program has the same command.
package main

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"strings"

	"golang.org/x/term"

	"github.com/parawork/parawork/executors/runner/cli"
	"github.com/parawork/parawork/sessions/agents"
)

// version is set by the linker.
var version = "dev"

const usage = `usage: parawork runner [flags] | <command>     this machine as a place to work: parawork runner help
       parawork version
`

func main() {
	debug.SetGCPercent(50) // it is at rest most of the time, on somebody's laptop
	args := os.Args[1:]
	switch {
	case len(args) > 0 && (args[0] == "version" || args[0] == "--version" || args[0] == "-v"):
		fmt.Printf("parawork runner %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return
	case len(args) > 0 && args[0] == "runner":
		args = args[1:]
	case len(args) == 0 || !strings.HasPrefix(args[0], "-"):
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	p := cli.Program{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Getenv, Version: version, Agents: agents.Packages(), Carried: flat{assets},
		Terminal: term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd()))}
	os.Exit(p.Run(context.Background(), args))
}

// flat finds parawork-guest-<os>-<arch>.gz in the folder of its system.
type flat struct{ embed.FS }

func (f flat) Open(name string) (fs.File, error) {
	system := strings.TrimSuffix(strings.TrimPrefix(name, "parawork-guest-"), ".gz")
	return f.FS.Open(path.Join("assets", system, name))
}
