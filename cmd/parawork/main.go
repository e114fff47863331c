// Command parawork is the server, and the tools an operator needs beside it: its verbs and their flags. The system is put together in app, its
// data folder and keys are opened in instance, and doctor looks at what it needs.
package main

import (
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

	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/kinds"
	"github.com/parawork/parawork/internal/tenant"
)

const usageText = `Parawork runs many coding agents in parallel and keeps you in control.

usage: parawork <command> [flags]

  serve     start the server
              --config FILE
  admin     work on the instance from the command line
              create-user --email E --name N [--operator] [--team SLUG [--role R]] --password-stdin
              create-token --email E [--name N]
              reset-password --email E [--keep-tokens] --password-stdin
              list-users, list-teams, suspend-user, restore-user, suspend-team, restore-team, make-operator, add-member,
              reset-factors, reset-link: see parawork admin help
%s  image     print the Dockerfile of the image that sandboxes are made from
              [--with LIST] parts for tools, [--host] the command that installs them on this machine
  billing   payment by Stripe
              setup [--dry-run] [--public-url URL] [--secrets-file FILE] [--new-webhook], status; --config FILE
  runner    connect a machine of your own to a server, as a place to work: parawork runner help
  mcp       offer Parawork to an agent on this computer, by the Model Context Protocol
              --server URL --token TOKEN [--team SLUG]
  <tool>    call a tool in a workspace, such as parawork task list; parawork tools lists them
              --server URL --token TOKEN [--team SLUG] --workspace PW-12 [--json]
  sandbox   make and use sandboxes without a repository: parawork sandbox help
              --server URL --token TOKEN [--team SLUG] [--json]
  job       have an agent do work without a person: parawork job help
              --server URL --token TOKEN [--team SLUG] [--json]
  doctor    look at everything Parawork needs, and say what to do about what is missing
              --config FILE, --print-config
  version   print the version

Every flag has a twin in the environment: --config is PARAWORK_CONFIG. Keys of config.json have theirs too: docs/config.md.
`

func main() {
	p := program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: os.Getenv, kinds: kinds.All()}
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
	kinds          executors.Descriptors // of places
}

// usage says which commands there are.
func (p program) usage() string {
	var verbs strings.Builder
	for _, d := range p.kinds {
		for i, v := range d.Verbs {
			if i == 0 {
				fmt.Fprintf(&verbs, "  %-9s what places of this kind need: %s, %s\n", d.Kind, d.Label, d.Docs)
			}
			fmt.Fprintf(&verbs, "              %s %s\n", v.Name, v.Flags)
		}
	}
	return fmt.Sprintf(usageText, verbs.String())
}

// config reads config.json; file "" = the usual one.
func (p program) config(file string) (*config.Config, error) {
	return fromconfig.Load(file, p.env, p.kinds)
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
	switch name {
	case "runner": // minds its signals itself, and has exit codes of its own
		return p.runner(ctx, args)
	case "sandbox": // the same
		return p.sandbox(ctx, args)
	case "job": // too
		return p.job(ctx, args)
	}
	switch name {
	case "serve":
		err = p.serve(args) // minds its signals itself
	case "admin":
		err = p.interruptible(ctx, args, p.admin)
	case "billing":
		err = p.interruptible(ctx, args, p.billing)
	case "doctor":
		err = p.interruptible(ctx, args, p.doctor)
	case "image":
		err = p.image(args)
	case "mcp":
		err = p.interruptible(ctx, args, p.mcp)
	case "version", "--version", "-v":
		err = p.version(args)
	case "help", "--help", "-h":
		fmt.Fprint(p.stdout, p.usage())
	case "":
		fmt.Fprint(p.stderr, p.usage())
		err = errUsage
	case "tools":
		return p.tool(ctx, append([]string{"help"}, args...))
	default:
		if d, ok := p.kinds.Find(executors.Kind(name)); ok && len(d.Verbs) > 0 {
			err = p.interruptible(ctx, args, func(ctx context.Context, args []string) error { return p.verb(ctx, d, args) })
			break
		}
		if at, _, given := p.elsewhere(args); given || at.server != "" {
			return p.tool(ctx, append([]string{name}, args...))
		}
		fmt.Fprintf(p.stderr, "parawork: there is no command %q.\n\n%s", name, p.usage())
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
		fmt.Fprintf(p.stderr, "parawork: unexpected argument %q.\n", fs.Arg(0))
		fs.Usage()
		bad = errUsage
	}
	return bad
}
