package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/tools/cli"
)

// ranOut is the exit code of a command that did not end in time, as that of timeout(1).
const ranOut = 124

func execInSandbox(ctx context.Context, c *sandboxCall) (int, error) {
	ask := map[string]any{"command": c.args[1:]}
	if c.shell {
		ask["command"] = strings.Join(c.args[1:], " ")
	}
	if c.cwd != "" {
		ask["cwd"] = c.cwd
	}
	if len(c.env) > 0 {
		env := map[string]string{}
		for _, e := range c.env {
			name, value, ok := strings.Cut(e, "=")
			if !ok {
				return 0, wrongly("--env is written as NAME=VALUE")
			}
			env[name] = value
		}
		ask["env"] = env
	}
	if c.timeout != 0 {
		ask["timeout_ms"] = c.timeout.Milliseconds()
	}
	if c.sudo {
		ask["sudo"] = true
	}
	if c.stdin {
		in, err := c.read(maxStdin)
		if err != nil {
			return 0, err
		}
		ask["stdin"] = string(in)
	}
	raw, err := c.api.Exec(ctx, c.args[0], ask, c.printed())
	if err != nil {
		return 0, err
	}
	var ran struct {
		ExitCode *int `json:"exit_code"`
		State    string
		Reason   string `json:"state_reason"`
	}
	if err := json.Unmarshal(raw, &ran); err != nil {
		return 0, err
	}
	if err := c.print(raw, func() error { return nil }); err != nil {
		return 0, err
	}
	switch {
	case ran.State == "timed_out":
		fmt.Fprintln(c.stderr, "parawork: the command did not end in time.")
		return ranOut, nil
	case ran.ExitCode == nil:
		fmt.Fprintf(c.stderr, "parawork: the command has no exit code: it is %s. %s\n", ran.State, ran.Reason)
		return cli.Failed, nil
	}
	return *ran.ExitCode, nil
}

// printed returns what shows a command's output while it runs; nil with --json, which shows it at the end.
func (c *sandboxCall) printed() func(string, json.RawMessage) error {
	if c.json {
		return nil
	}
	return func(name string, data json.RawMessage) error {
		var part struct {
			Data []byte // of commands
			Text string // of code
		}
		to := map[string]io.Writer{"stdout": c.stdout, "stderr": c.stderr}[name]
		if to == nil {
			return nil
		}
		if err := json.Unmarshal(data, &part); err != nil {
			return err
		}
		_, err := to.Write(append(part.Data, part.Text...))
		return err
	}
}

// read reads standard input, which travels as text.
func (c *sandboxCall) read(most int64) ([]byte, error) {
	in, err := io.ReadAll(io.LimitReader(c.program.stdin, most+1))
	if err == nil && int64(len(in)) > most {
		err = wrongly("standard input has more than %d bytes", most)
	} else if err == nil && !utf8.Valid(in) {
		err = wrongly("standard input is not UTF-8: write it to a file of the sandbox with put")
	}
	return in, err
}

func codeInSandbox(ctx context.Context, c *sandboxCall) (int, error) {
	var code []byte
	var err error
	if len(c.args) > 1 && c.args[1] != "-" {
		code, err = os.ReadFile(c.args[1])
	} else {
		code, err = c.read(maxStdin)
	}
	if err != nil {
		return 0, err
	}
	ask := map[string]any{"language": c.language, "code": string(code)}
	if c.kernel != "" {
		ask["kernel"] = c.kernel
	}
	if c.timeout != 0 {
		ask["timeout_ms"] = c.timeout.Milliseconds()
	}
	raw, err := c.api.Code(ctx, c.args[0], ask, c.printed())
	if err != nil {
		return 0, err
	}
	var run struct {
		State, Cause string
		Results      []struct {
			MIME string
			Data json.RawMessage
			Main bool
		}
		Error *struct{ Traceback string }
	}
	if err := json.Unmarshal(raw, &run); err != nil {
		return 0, err
	}
	err = c.print(raw, func() error {
		for _, r := range run.Results {
			var text string
			if r.Main && r.MIME == "text/plain" && json.Unmarshal(r.Data, &text) == nil {
				fmt.Fprintln(c.stdout, text)
			}
		}
		if run.Error != nil {
			fmt.Fprintln(c.stderr, strings.TrimRight(run.Error.Traceback, "\n"))
		} else if run.State != "ok" {
			fmt.Fprintf(c.stderr, "parawork: the code is %s. %s\n", run.State, run.Cause)
		}
		return nil
	})
	if run.State != "ok" {
		return cli.Failed, err
	}
	return 0, err
}
