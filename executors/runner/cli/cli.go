// Package cli is the command `parawork runner`, which offers a member's own machine for workspaces. It wires the machine's side together for
// both programs that have the command: the server's and the small one people download.
//
// The running program holds a lock and a control socket in the machine's own folder; the other sub-commands talk to it there. Sandboxes
// survive it: it finds them again at its next start.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/executors/runner/identity"
)

const usage = `Work on this machine, from the browser, through a Parawork server.

usage: parawork runner [flags]            connect this machine and stay connected; Ctrl-C goes offline and leaves the work for the next start
       parawork runner <command> [flags]

The first time, run the line that the server's Machines page shows:
  parawork runner --server https://parawork.example.com --token pw_runner_... --name "Work Laptop"

  --server URL        the server; PARAWORK_SERVER does the same
  --token TOKEN       connects this machine the first time; better in the environment: PARAWORK_RUNNER_TOKEN
  --name NAME         what the machine is called; this host's name unless given
  --mode MODE         docker or bubblewrap; what is there unless given
  --image IMAGE       what Docker containers are made from; DOCKER_IMAGE does the same
  --packages LIST     packages that are installed in the image, such as nmap,wget,python3-pip
  --root              agents are root in containers, which have a disk of their own
  --capabilities LIST what root there may do as well, such as NET_RAW for nmap
  --dangerous         without any isolation: agents can do whatever you can do here
  --network WHAT      what sandboxes reach: open (public addresses), host (this machine's own network too), none, or a list of names
  --folder DIR        a folder whose repositories may be worked on; may be given several times
  --access WHAT       full, ask (you are asked for each step) or read_only
  --share WHO         owner (you alone) or team
  --quiet FROM-TO     begin nothing new at that time, such as 22:00-07:00
  --policy FILE       the file that says all this; without it one is made in this machine's folder from the flags
  --proxy URL         goes to the server through a proxy; HTTPS_PROXY does the same
  --ca FILE           trusts these authorities, too (PEM); SSL_CERT_FILE does the same
  --remove            with the end of the program, bring the work home and remove this machine's sandboxes

commands:
  status              what this machine is connected to, what runs on it, and which questions wait for you
  allow ID [--always] say yes to a question; --always: to whatever that workspace wants until the program ends
  deny ID             say no to it
  log [--follow]      what the server asked for, and how it was decided
  stop                end the program as Ctrl-C does; sandboxes go on
      --now           the kill switch: end every sandbox at once and run nothing until you start it again
  install             start it with this machine, as a service of yours (systemd, launchd); uninstall takes that back
  update              replace this program by the one the server offers
  check               look at everything it needs, and say what to do about what is missing
  remove              take the work home, remove this machine's sandboxes, and forget the server

Where a machine is connected more than once, --server and --name say which one is meant.
`

// Program is one run of the command, with its surroundings. All but Carried, Version and Exec are required.
type Program struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Env            func(string) string
	Version        string
	Agents         []recipe.Package                                                       // what containers get, and where this program looks for other programs
	Carried        fs.FS                                                                  // the guest programs it embeds: parawork-guest-<os>-<arch>.gz
	Terminal       bool                                                                   // a person at the terminal can answer questions
	Signals        <-chan os.Signal                                                       // nil = the process's own
	Self           func() (string, error)                                                 // this program's file
	Exec           func(ctx context.Context, name string, args ...string) (string, error) // runs another program; nil = with os/exec
}

// errUsage says that the command line was wrong; the reason has been printed.
var errUsage = errors.New("usage")

// errReported says that the command failed and has said why.
var errReported = errors.New("reported")

// Run runs the command and returns the exit code: 0, 1 when it failed, 2 when it was called wrongly.
func (p *Program) Run(ctx context.Context, args []string) int {
	if p.Exec == nil {
		p.Exec = run
	}
	if p.Self == nil {
		p.Self = os.Executable
	}
	name := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	var err error
	switch name {
	case "", "run":
		err = p.connect(ctx, args)
	case "status":
		err = p.interruptible(ctx, args, p.status)
	case "stop":
		err = p.interruptible(ctx, args, p.stop)
	case "allow":
		err = p.interruptible(ctx, args, p.allow)
	case "deny":
		err = p.interruptible(ctx, args, p.deny)
	case "log":
		err = p.interruptible(ctx, args, p.log)
	case "install":
		err = p.interruptible(ctx, args, p.install)
	case "uninstall":
		err = p.interruptible(ctx, args, p.uninstall)
	case "update":
		err = p.interruptible(ctx, args, p.update)
	case "check":
		err = p.interruptible(ctx, args, p.check)
	case "remove":
		err = p.interruptible(ctx, args, p.remove)
	case "help":
		fmt.Fprint(p.Stdout, usage)
	default:
		fmt.Fprintf(p.Stderr, "parawork runner: there is no command %q.\n\n%s", name, usage)
		err = errUsage
	}
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return 2
	case !errors.Is(err, errReported):
		fmt.Fprintf(p.Stderr, "parawork runner: %v\n", err)
	}
	return 1
}

// interruptible runs a command with a context that ends with the first signal; the second ends the program at once.
func (p *Program) interruptible(ctx context.Context, args []string, command func(context.Context, []string) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return command(ctx, args)
}

// parse parses a command's flags. Arguments may stand anywhere and are returned. The error has been printed.
func (p *Program) parse(fs *flag.FlagSet, args []string, words int) ([]string, error) {
	fs.SetOutput(p.Stderr)
	fs.Usage = func() { fmt.Fprint(p.Stderr, usage) }
	var rest []string
	for {
		if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
			return nil, err
		} else if err != nil {
			return nil, errUsage
		}
		if fs.NArg() == 0 {
			break
		}
		rest, args = append(rest, fs.Arg(0)), fs.Args()[1:]
	}
	if len(rest) > words {
		fmt.Fprintf(p.Stderr, "parawork runner: unexpected argument %q.\n", rest[words])
		return nil, errUsage
	}
	return rest, nil
}

// which are the flags that select a machine.
type which struct{ server, name string }

func (w *which) flags(fs *flag.FlagSet) {
	fs.StringVar(&w.server, "server", "", "the server")
	fs.StringVar(&w.name, "name", "", "the machine's name")
}

// find returns the selected machine.
func (p *Program) find(w which) (*identity.Identity, error) {
	root, err := identity.Root(p.Env)
	if err != nil {
		return nil, err
	}
	if w.server != "" {
		if w.server, err = identity.Address(w.server); err != nil {
			return nil, err
		}
	}
	return identity.Load(root, w.server, w.name)
}

// run runs another program and returns its output.
func run(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// short shortens a path as people write it.
func (p *Program) short(path string) string {
	home := p.Env("HOME")
	if rel, err := filepath.Rel(home, path); home != "" && err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
		return filepath.Join("~", rel)
	}
	return path
}

func (p *Program) say(format string, args ...any) { fmt.Fprintf(p.Stdout, format+"\n", args...) }
