package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/parawork/parawork/tools/cli"
	"github.com/parawork/parawork/tools/remote"
)

const sandboxUsage = `usage: parawork sandbox <command> [flags]

Sandboxes without a repository: make one, or find it again by its key, and use it. SANDBOX is an id (asb_...), or the key of one of yours.

  create                          make one, or find the one with this key; prints its id
      --key K                     your name for it
      --purpose P                 app, execution (the default) or desktop
      --executor E, --runner ID   where it runs
      --image NAME                what it is made from
      --network MODE              open, allow or none; --allow HOST for each host of mode allow
      --replace                   end yours with this key first if its image or network differs
      --idle TIME                 it ends when nobody used it for so long, such as 30m
      --end-with-session ID       it ends when this session has ended
  list                            list them
  exec SANDBOX [--] COMMAND ...   run a command, and exit with its exit code
      --shell                     COMMAND is one line for /bin/sh
      --stdin                     give it standard input: UTF-8, at most 1 MiB
      --cwd DIR, --env NAME=VALUE, --timeout TIME
  code SANDBOX [FILE]             run the code of a file or of standard input in an interpreter that keeps its variables
      --language L                python (the default), javascript, typescript or shell
      --kernel NAME, --timeout TIME
  put SANDBOX FILE [PATH]         write a file; - is standard input
  get SANDBOX PATH [FILE]         read a file; without FILE to standard output
  ls SANDBOX [PATH]               list a folder
  rm SANDBOX PATH                 remove a file; -r a folder with everything in it
  port SANDBOX PORT               print how to reach a port
  extend SANDBOX TIME             let it live at least so long, such as 2h
  end SANDBOX                     end it, with everything in it

All take --server URL, --token TOKEN, --team SLUG and --json, and have twins: PARAWORK_SERVER, PARAWORK_TOKEN, PARAWORK_TEAM. They exit with 0, with 1
when something was refused or failed, with 2 when the command line is wrong, and with 130 when they were interrupted.
`

// repeated is a flag that may be given several times.
type repeated []string

// String implements flag.Value.
func (r *repeated) String() string { return strings.Join(*r, ",") }

// Set implements flag.Value.
func (r *repeated) Set(s string) error { *r = append(*r, s); return nil }

// sandboxCall is one call of a command on sandboxes.
type sandboxCall struct {
	program
	api  remote.Sandboxes
	json bool
	args []string // the words that are no flags

	key, purpose, executor, runner, image, network, session string
	cwd, language, kernel                                   string
	allow, env                                              repeated
	idle, timeout                                           time.Duration
	replace, shell, stdin, recursive                        bool
}

// sandboxCommand is a command on sandboxes: its flags, how many words it takes, and what it does.
type sandboxCommand struct {
	name        string
	least, most int  // words
	rest        bool // what follows the first word is no flag of ours
	flags       func(*sandboxCall, *flag.FlagSet)
	run         func(context.Context, *sandboxCall) (exit int, err error)
}

func none(*sandboxCall, *flag.FlagSet) {}

var sandboxCommands = []sandboxCommand{
	{name: "create", run: createSandbox, flags: func(c *sandboxCall, fs *flag.FlagSet) {
		for name, to := range map[string]*string{"key": &c.key, "executor": &c.executor, "runner": &c.runner, "image": &c.image, "network": &c.network, "end-with-session": &c.session} {
			fs.StringVar(to, name, "", "")
		}
		fs.StringVar(&c.purpose, "purpose", "execution", "")
		fs.Var(&c.allow, "allow", "")
		fs.DurationVar(&c.idle, "idle", 0, "")
		fs.BoolVar(&c.replace, "replace", false, "")
	}},
	{name: "list", run: listSandboxes, flags: none},
	{name: "exec", least: 2, most: 1 << 20, rest: true, run: execInSandbox, flags: func(c *sandboxCall, fs *flag.FlagSet) {
		fs.StringVar(&c.cwd, "cwd", "", "")
		fs.Var(&c.env, "env", "")
		fs.DurationVar(&c.timeout, "timeout", 0, "")
		fs.BoolVar(&c.shell, "shell", false, "")
		fs.BoolVar(&c.stdin, "stdin", false, "")
	}},
	{name: "code", least: 1, most: 2, run: codeInSandbox, flags: func(c *sandboxCall, fs *flag.FlagSet) {
		fs.StringVar(&c.language, "language", "python", "")
		fs.StringVar(&c.kernel, "kernel", "", "")
		fs.DurationVar(&c.timeout, "timeout", 0, "")
	}},
	{name: "put", least: 2, most: 3, run: putFile, flags: none},
	{name: "get", least: 2, most: 3, run: getFile, flags: none},
	{name: "ls", least: 1, most: 2, run: listFiles, flags: none},
	{name: "rm", least: 2, most: 2, run: removeFile, flags: func(c *sandboxCall, fs *flag.FlagSet) { fs.BoolVar(&c.recursive, "r", false, "") }},
	{name: "port", least: 2, most: 2, run: portOfSandbox, flags: none},
	{name: "extend", least: 2, most: 2, run: extendSandbox, flags: none},
	{name: "end", least: 1, most: 1, run: func(ctx context.Context, c *sandboxCall) (int, error) { return 0, c.api.End(ctx, c.args[0]) }, flags: none},
}

// sandbox runs a command on sandboxes without a repository, and returns the exit code.
func (p program) sandbox(ctx context.Context, args []string) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	at, args, _ := p.elsewhere(args)
	if len(args) == 0 || args[0] == "help" || args[0] == "--help" || args[0] == "-h" {
		fmt.Fprint(p.stdout, sandboxUsage)
		return 0
	}
	c := &sandboxCall{program: p}
	for _, cmd := range sandboxCommands {
		if cmd.name != args[0] {
			continue
		}
		if err := c.parse(cmd, args[1:]); errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(p.stdout, sandboxUsage)
			return 0
		} else if err != nil {
			fmt.Fprintf(p.stderr, "parawork sandbox %s: %v. See: parawork sandbox help\n", cmd.name, err)
			return cli.Usage
		}
		if err := at.check(); err != nil {
			fmt.Fprintf(p.stderr, "parawork: %v.\n", err)
			return cli.Usage
		}
		if at.insecure() {
			fmt.Fprintln(p.stderr, "parawork: the token crosses the network unencrypted: use https.")
		}
		c.api = remote.New(remote.Config{Doer: at.client(), Server: at.server, Team: at.team, Client: "parawork " + version}).Sandboxes()
		exit, err := cmd.run(ctx, c)
		return p.ended(ctx, exit, err, c.json)
	}
	fmt.Fprintf(p.stderr, "parawork sandbox: there is no command %q. See: parawork sandbox help\n", args[0])
	return cli.Usage
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

// parse reads a command's flags, which may stand before, between and after its words.
func (c *sandboxCall) parse(cmd sandboxCommand, args []string) error {
	fs := flag.NewFlagSet(cmd.name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.BoolVar(&c.json, "json", false, "")
	cmd.flags(c, fs)
	var err error
	if c.args, err = wordsOf(fs, args, cmd.rest); err == nil && (len(c.args) < cmd.least || len(c.args) > cmd.most) {
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

// print writes an object of the API with --json, else its text.
func (c *sandboxCall) print(raw json.RawMessage, text func() error) error {
	if !c.json {
		return text()
	}
	_, err := fmt.Fprintf(c.stdout, "%s\n", strings.TrimSpace(string(raw)))
	return err
}

func createSandbox(ctx context.Context, c *sandboxCall) (int, error) {
	ask := map[string]any{"purpose": c.purpose}
	for name, value := range map[string]string{"key": c.key, "executor": c.executor, "runner_id": c.runner, "image": c.image, "end_with_session": c.session} {
		if value != "" {
			ask[name] = value
		}
	}
	if c.idle != 0 {
		ask["idle_seconds"] = int64(math.Ceil(c.idle.Seconds()))
	}
	if c.replace {
		ask["replace"] = true
	}
	switch {
	case c.network == "" && len(c.allow) > 0:
		return 0, wrongly("--allow belongs to --network allow")
	case c.network != "":
		ask["network"] = map[string]any{"mode": c.network, "allow": append([]string{}, c.allow...)}
	}
	raw, err := c.api.Create(ctx, ask)
	if err != nil {
		return 0, err
	}
	return 0, c.print(raw, func() error {
		var sb remote.Sandbox
		err := json.Unmarshal(raw, &sb)
		fmt.Fprintln(c.stdout, sb.ID)
		return err
	})
}

func listSandboxes(ctx context.Context, c *sandboxCall) (int, error) {
	all, err := c.api.List(ctx)
	if err != nil {
		return 0, err
	}
	raw, err := json.Marshal(map[string]any{"items": all})
	if err != nil {
		return 0, err
	}
	return 0, c.print(raw, func() error {
		w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "ID\tKEY\tPURPOSE\tSTATE\tEXECUTOR\tENDS")
		for _, raw := range all {
			var sb remote.Sandbox
			if err := json.Unmarshal(raw, &sb); err != nil {
				return err
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", sb.ID, printable(sb.Key), sb.Purpose, sb.State, sb.Executor, time.UnixMilli(sb.EndsAt).Format(time.DateTime))
		}
		return w.Flush()
	})
}

func portOfSandbox(ctx context.Context, c *sandboxCall) (int, error) {
	raw, err := c.api.Port(ctx, c.args[0], c.args[1])
	if err != nil {
		return 0, err
	}
	return 0, c.print(raw, func() error {
		var port struct {
			URL     string
			Headers map[string]string
		}
		if err := json.Unmarshal(raw, &port); err != nil {
			return err
		}
		fmt.Fprintln(c.stdout, port.URL)
		for name, value := range port.Headers {
			fmt.Fprintf(c.stdout, "%s: %s\n", name, value)
		}
		return nil
	})
}

func extendSandbox(ctx context.Context, c *sandboxCall) (int, error) {
	by, err := time.ParseDuration(c.args[1])
	if err != nil {
		return 0, wrongly("%q is no time such as 90s, 30m or 2h", c.args[1])
	}
	raw, err := c.api.Extend(ctx, c.args[0], by)
	if err != nil {
		return 0, err
	}
	return 0, c.print(raw, func() error { return nil })
}
