package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/parawork/parawork/tools/cli"
	"github.com/parawork/parawork/tools/remote"
)

// subcommand is a command on things of a server, such as sandboxes: its flags, how many words it takes, and what it does.
type subcommand[C any] struct {
	name        string
	least, most int  // words
	rest        bool // what follows the first word is no flag of ours
	flags       func(*C, *flag.FlagSet)
	run         func(context.Context, *C) (exit int, err error)
}

// none is the flags of a subcommand that has none of its own.
func none[C any](*C, *flag.FlagSet) {}

// call is what calls of all subcommands have.
type call struct {
	program
	json bool
	args []string // the words that are no flags
}

// runSubcommand calls the subcommand that args name, and returns the exit code. base is the call in c; connect gives c the API.
func runSubcommand[C any](ctx context.Context, p program, noun, usage string, all []subcommand[C], args []string, c *C, base *call, connect func(*remote.API)) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	base.program = p
	at, args, _ := p.elsewhere(args)
	if len(args) == 0 || args[0] == "help" || args[0] == "--help" || args[0] == "-h" {
		fmt.Fprint(p.stdout, usage)
		return 0
	}
	for _, v := range all {
		if v.name != args[0] {
			continue
		}
		if err := v.parse(c, base, args[1:]); errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(p.stdout, usage)
			return 0
		} else if err != nil {
			fmt.Fprintf(p.stderr, "parawork %s %s: %v. See: parawork %s help\n", noun, v.name, err, noun)
			return cli.Usage
		}
		if err := at.check(); err != nil {
			fmt.Fprintf(p.stderr, "parawork: %v.\n", err)
			return cli.Usage
		}
		if at.insecure() {
			fmt.Fprintln(p.stderr, "parawork: the token crosses the network unencrypted: use https.")
		}
		connect(remote.New(remote.Config{Doer: at.client(), Server: at.server, Team: at.team, Client: "parawork " + version}))
		exit, err := v.run(ctx, c)
		return p.ended(ctx, exit, err, base.json)
	}
	fmt.Fprintf(p.stderr, "parawork %s: there is no command %q. See: parawork %s help\n", noun, args[0], noun)
	return cli.Usage
}

// parse reads a subcommand's flags, which may stand before, between and after its words.
func (v subcommand[C]) parse(c *C, base *call, args []string) (err error) {
	fs := flag.NewFlagSet(v.name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.BoolVar(&base.json, "json", false, "")
	v.flags(c, fs)
	if base.args, err = wordsOf(fs, args, v.rest); err == nil && (len(base.args) < v.least || len(base.args) > v.most) {
		err = errWords
	}
	return err
}

var errWords = errors.New("too many or too few words are given")

// wordsOf reads flags, which may stand before, between and after the words that it returns. With rest, what follows the first word is no flag.
func wordsOf(fs *flag.FlagSet, args []string, rest bool) (words []string, err error) {
	for {
		before := len(args)
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		left := fs.Args()
		whole := len(left) < before && args[before-len(left)-1] == "--" || rest && len(words) > 0
		if len(left) == 0 || whole {
			return append(words, left...), nil
		}
		words, args = append(words, left[0]), left[1:]
	}
}

// ended reports how a command ended, and returns the exit code.
func (p program) ended(ctx context.Context, exit int, err error, asJSON bool) int {
	var wrong *usageError
	switch {
	case ctx.Err() != nil:
		return 130
	case errors.As(err, &wrong):
		fmt.Fprintf(p.stderr, "parawork: %v.\n", err)
		return cli.Usage
	case err == nil:
		return exit
	}
	if local := (*os.PathError)(nil); errors.As(err, &local) {
		fmt.Fprintf(p.stderr, "parawork: %v\n", err)
		return cli.Failed
	}
	var argv []string
	if asJSON {
		argv = []string{"--json"}
	}
	exit, _, text := cli.Refuse(argv, err)
	_, _ = io.WriteString(p.stderr, text)
	return exit
}

// usageError says that a command was called wrongly.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func wrongly(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// repeated is a flag that may be given several times.
type repeated []string

// String implements flag.Value.
func (r *repeated) String() string { return strings.Join(*r, ",") }

// Set implements flag.Value.
func (r *repeated) Set(s string) error { *r = append(*r, s); return nil }
