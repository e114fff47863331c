// Command parawork is the server, and the tools an operator needs beside it: its verbs and their flags. The system is put together in app, its
// data folder and keys are opened in instance, and doctor looks at what it needs.
package main

import (
	"github.com/parawork/parawork/cmd/parawork/fromconfig"

	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/parawork/parawork/internal/tenant"
)

const usage = `Parawork runs many coding agents in parallel and keeps you in control.

usage: parawork <command> [flags]

  serve     start the server
              --config FILE
  admin     work on the instance from the command line
              create-user --email E --name N [--operator] [--team SLUG [--role R]] --password-stdin
              create-token --email E [--name N]
              reset-password --email E [--keep-tokens] --password-stdin
              list-users, list-teams, suspend-user, restore-user, suspend-team, restore-team, make-operator, add-member,
              reset-factors, reset-link: see parawork admin help
  docker    images for workspaces in containers
              build [--tag NAME] [--base IMAGE] [--no-cache] [--pull] [--print], --config FILE
  e2b       templates for workspaces in sandboxes of E2B
              template build [--size CPUSxMIB|all] [--name NAME] [--image IMAGE] [--packages LIST] [--force], --config FILE
              template list, --config FILE
  billing   payment by Stripe
              setup [--dry-run] [--public-url URL] [--secrets-file FILE] [--new-webhook], status; --config FILE
  runner    connect a machine of your own to a server, as a place to work: parawork runner help
  doctor    look at everything Parawork needs, and say what to do about what is missing
              --config FILE, --print-config
  version   print the version

Every flag has a twin in the environment: --config is PARAWORK_CONFIG. Keys of config.json have theirs too: docs/config.md.
`

func main() {
	p := program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: os.Getenv}
	if filepath.Base(os.Args[0]) == fromconfig.ConnectorName {
		os.Exit(p.connect(os.Args[1:]))
	}
	os.Exit(p.run(context.Background(), os.Args[1:]))
}

// program is one run of a command, with its surroundings.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            func(string) string
}

// errUsage says that a command was called wrongly; the reason has been printed.
var errUsage = errors.New("usage")

// errReported says that a command failed and has said why.
var errReported = errors.New("reported")

// run runs a command and returns the exit code: 0, 1 when it failed, 2 when it was called wrongly.
func (p program) run(ctx context.Context, args []string) int {
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	var err error
	if name == "runner" { // minds its signals itself, and has exit codes of its own
		return p.runner(ctx, args)
	}
	switch name {
	case "serve":
		err = serve(args, p.stdout, p.stderr, p.env) // minds its signals itself
	case "admin":
		err = p.interruptible(ctx, args, p.admin)
	case "docker":
		err = p.interruptible(ctx, args, p.docker)
	case "e2b":
		err = p.interruptible(ctx, args, p.e2b)
	case "billing":
		err = p.interruptible(ctx, args, p.billing)
	case "doctor":
		err = p.interruptible(ctx, args, p.doctor)
	case "version", "--version", "-v":
		err = p.version(args)
	case "help", "--help", "-h":
		fmt.Fprint(p.stdout, usage)
	case "":
		fmt.Fprint(p.stderr, usage)
		err = errUsage
	default:
		fmt.Fprintf(p.stderr, "parawork: there is no command %q.\n\n%s", name, usage)
		err = errUsage
	}
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return 2
	case !errors.Is(err, errReported):
		fmt.Fprintf(p.stderr, "parawork: %v\n", err)
	}
	return 1
}

// interruptible runs a command with a context that ends with the first signal; the second ends the program at once.
func (p program) interruptible(ctx context.Context, args []string, command func(context.Context, []string) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return command(tenant.All(ctx, "the command line is the operator's"), args)
}

// parse reads a command's flags; those not given come from their twins in the environment. The error has been printed.
func (p program) parse(fs *flag.FlagSet, args []string) error {
	fs.SetOutput(p.stderr)
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return err
	} else if err != nil {
		return errUsage
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	var bad error
	fs.VisitAll(func(f *flag.Flag) {
		twin := "PARAWORK_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if v := p.env(twin); v != "" && !given[f.Name] {
			if err := f.Value.Set(v); err != nil {
				fmt.Fprintf(p.stderr, "parawork: %s=%q: %v\n", twin, v, err)
				bad = errUsage
			}
		}
	})
	if bad == nil && fs.NArg() > 0 {
		fmt.Fprintf(p.stderr, "parawork: %q is one word too many.\n", fs.Arg(0))
		fs.Usage()
		bad = errUsage
	}
	return bad
}
