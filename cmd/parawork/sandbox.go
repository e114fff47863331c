package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
	"time"

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
      --sudo                      run it as root, where the place isolates and its image has sudo
      --cwd DIR, --env NAME=VALUE, --timeout TIME
  code SANDBOX [FILE]             run the code of a file or of standard input in an interpreter that keeps its variables
      --language L                python (the default), javascript, typescript or shell
      --kernel NAME, --timeout TIME
  put SANDBOX FILE [PATH]         write a file; - is standard input
  get SANDBOX PATH [FILE]         read a file; without FILE to standard output
  ls SANDBOX [PATH]               list a folder
  rm SANDBOX PATH                 remove a file; -r a folder with everything in it; -r . everything there is
  port SANDBOX PORT               print how to reach a port
  extend SANDBOX TIME             let it live at least so long, such as 2h
  end SANDBOX                     end it, with everything in it

All take --server URL, --token TOKEN, --team SLUG and --json, and have twins: PARAWORK_SERVER, PARAWORK_TOKEN, PARAWORK_TEAM. They exit with 0, with 1
when something was refused or failed, with 2 when the command line is wrong, and with 130 when they were interrupted.
`

// sandboxCall is one call of a command on sandboxes.
type sandboxCall struct {
	call
	api remote.Sandboxes

	key, purpose, executor, runner, image, network, session string
	cwd, language, kernel                                   string
	allow, env                                              repeated
	idle, timeout                                           time.Duration
	replace, shell, stdin, recursive, sudo                  bool
}

var sandboxCommands = []subcommand[sandboxCall]{
	{name: "create", run: createSandbox, flags: func(c *sandboxCall, fs *flag.FlagSet) {
		for name, to := range map[string]*string{"key": &c.key, "executor": &c.executor, "runner": &c.runner, "image": &c.image, "network": &c.network, "end-with-session": &c.session} {
			fs.StringVar(to, name, "", "")
		}
		fs.StringVar(&c.purpose, "purpose", "execution", "")
		fs.Var(&c.allow, "allow", "")
		fs.DurationVar(&c.idle, "idle", 0, "")
		fs.BoolVar(&c.replace, "replace", false, "")
	}},
	{name: "list", run: listSandboxes, flags: none[sandboxCall]},
	{name: "exec", least: 2, most: 1 << 20, rest: true, run: execInSandbox, flags: func(c *sandboxCall, fs *flag.FlagSet) {
		fs.StringVar(&c.cwd, "cwd", "", "")
		fs.Var(&c.env, "env", "")
		fs.DurationVar(&c.timeout, "timeout", 0, "")
		fs.BoolVar(&c.shell, "shell", false, "")
		fs.BoolVar(&c.stdin, "stdin", false, "")
		fs.BoolVar(&c.sudo, "sudo", false, "")
	}},
	{name: "code", least: 1, most: 2, run: codeInSandbox, flags: func(c *sandboxCall, fs *flag.FlagSet) {
		fs.StringVar(&c.language, "language", "python", "")
		fs.StringVar(&c.kernel, "kernel", "", "")
		fs.DurationVar(&c.timeout, "timeout", 0, "")
	}},
	{name: "put", least: 2, most: 3, run: putFile, flags: none[sandboxCall]},
	{name: "get", least: 2, most: 3, run: getFile, flags: none[sandboxCall]},
	{name: "ls", least: 1, most: 2, run: listFiles, flags: none[sandboxCall]},
	{name: "rm", least: 2, most: 2, run: removeFile, flags: func(c *sandboxCall, fs *flag.FlagSet) { fs.BoolVar(&c.recursive, "r", false, "") }},
	{name: "port", least: 2, most: 2, run: portOfSandbox, flags: none[sandboxCall]},
	{name: "extend", least: 2, most: 2, run: extendSandbox, flags: none[sandboxCall]},
	{name: "end", least: 1, most: 1, run: func(ctx context.Context, c *sandboxCall) (int, error) { return 0, c.api.End(ctx, c.args[0]) }, flags: none[sandboxCall]},
}

// sandbox runs a command on sandboxes without a repository, and returns the exit code.
func (p program) sandbox(ctx context.Context, args []string) int {
	c := &sandboxCall{}
	return runSubcommand(ctx, p, "sandbox", sandboxUsage, sandboxCommands, args, c, &c.call, func(api *remote.API) { c.api = api.Sandboxes() })
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
