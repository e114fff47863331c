package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/tools/cli"
	"github.com/parawork/parawork/tools/remote"
)

const jobUsage = `usage: parawork job <command> [flags]

Work that an agent does without a person. JOB is an id (job_...).

  run PROMPT                      ask for a job, and print its id; - reads the prompt from standard input
      --agent A                   who does it, such as claude-code (required)
      --project P                 in a new workspace of this project: its id or name
      --sandbox ID                in this sandbox of yours; neither: in a sandbox of its own
      --executor E, --runner ID   where it runs
      --base REF, --branch B      with --project: where its branch begins, and its name
      --model M, --account ID     the agent's model and account
      --arg A                     an argument of the agent, or with --agent command a word of its command line; for each one
      --timeout TIME              it may work for so long, such as 10m (default 5m)
      --artifact PATH             a file, or a pattern of files, to save; for each one
      --webhook URL               where its end is reported; PARAWORK_WEBHOOK_SECRET signs that
      --keep                      a sandbox of its own stays
      --confirm-no-boundary       the agent may run where nothing isolates it
      --key K                     a request that is repeated with this key is the same job
      --wait                      wait until it has ended, and print its output
      --follow                    likewise, and print what the agent says meanwhile
      --download DIR              wait, and save its artifacts below DIR
  wait JOB                        wait for a job; --follow and --download DIR as above
  get JOB                         print a job
  list                            list the newest jobs; --status S, --limit N (default 20)
  cancel JOB                      cancel a job
  delete JOB...                   delete jobs with their artifacts; one that has not ended is cancelled first

All take --server URL, --token TOKEN, --team SLUG and --json, and have twins: PARAWORK_SERVER, PARAWORK_TOKEN, PARAWORK_TEAM. They exit with 0; with 1
when something was refused, or the job that was waited for failed or was cancelled; with 124 when its time was over; with 2 when the command line is
wrong; and with 130 when they were interrupted: the job goes on.
`

// jobCall is one call of a command on jobs.
type jobCall struct {
	call
	api remote.Jobs

	agent, project, sandbox, executor, runner, base, branch string
	model, account, webhook, key, download, status          string
	more, artifacts                                         repeated
	timeout                                                 time.Duration
	limit                                                   int
	keep, confirm, wait, follow                             bool
}

func waiting(c *jobCall, fs *flag.FlagSet) {
	fs.BoolVar(&c.follow, "follow", false, "")
	fs.StringVar(&c.download, "download", "", "")
}

var jobCommands = []subcommand[jobCall]{
	{name: "run", least: 1, most: 1, run: runJob, flags: func(c *jobCall, fs *flag.FlagSet) {
		waiting(c, fs)
		for name, to := range map[string]*string{"agent": &c.agent, "project": &c.project, "sandbox": &c.sandbox, "executor": &c.executor, "runner": &c.runner, "base": &c.base, "branch": &c.branch,
			"model": &c.model, "account": &c.account, "webhook": &c.webhook, "key": &c.key} {
			fs.StringVar(to, name, "", "")
		}
		fs.Var(&c.more, "arg", "")
		fs.Var(&c.artifacts, "artifact", "")
		fs.DurationVar(&c.timeout, "timeout", 0, "")
		fs.BoolVar(&c.keep, "keep", false, "")
		fs.BoolVar(&c.confirm, "confirm-no-boundary", false, "")
		fs.BoolVar(&c.wait, "wait", false, "")
	}},
	{name: "wait", least: 1, most: 1, flags: waiting, run: func(ctx context.Context, c *jobCall) (int, error) { return c.await(ctx, c.args[0]) }},
	{name: "get", least: 1, most: 1, flags: none[jobCall], run: func(ctx context.Context, c *jobCall) (int, error) {
		raw, err := c.api.Get(ctx, c.args[0])
		return 0, c.show(raw, err)
	}},
	{name: "list", run: listJobs, flags: func(c *jobCall, fs *flag.FlagSet) {
		fs.StringVar(&c.status, "status", "", "")
		fs.IntVar(&c.limit, "limit", 20, "")
	}},
	{name: "cancel", least: 1, most: 1, flags: none[jobCall], run: func(ctx context.Context, c *jobCall) (int, error) {
		raw, err := c.api.Cancel(ctx, c.args[0])
		if err == nil && !c.json {
			return 0, nil
		}
		return 0, c.show(raw, err)
	}},
	{name: "delete", least: 1, most: 100, flags: none[jobCall], run: func(ctx context.Context, c *jobCall) (int, error) {
		for _, id := range c.args {
			if err := c.api.Delete(ctx, id); err != nil {
				return 0, err
			}
		}
		return 0, nil
	}},
}

// job runs a command on jobs, and returns the exit code.
func (p program) job(ctx context.Context, args []string) int {
	c := &jobCall{}
	return runSubcommand(ctx, p, "job", jobUsage, jobCommands, args, c, &c.call, func(api *remote.API) { c.api = api.Jobs() })
}

// show writes an object of the API with --json, else a job's figures and its output.
func (c *jobCall) show(raw json.RawMessage, err error) error {
	if err != nil {
		return err
	}
	if c.json {
		_, err := fmt.Fprintf(c.stdout, "%s\n", strings.TrimSpace(string(raw)))
		return err
	}
	var j remote.Job
	if err := json.Unmarshal(raw, &j); err != nil {
		return err
	}
	fmt.Fprintf(c.stdout, "%s  %s  %s\n", j.ID, j.Status, printable(j.Agent))
	for _, line := range append([]string{j.Reason, j.Error}, j.Warnings...) {
		if line != "" {
			fmt.Fprintln(c.stdout, safetext.Line(line))
		}
	}
	for _, a := range j.Artifacts {
		fmt.Fprintf(c.stdout, "%s  %s  %d bytes\n", a.ID, printable(a.Name), a.Size)
	}
	if j.Output != "" {
		fmt.Fprintf(c.stdout, "\n%s\n", safetext.Lines(j.Output))
	}
	return nil
}

func runJob(ctx context.Context, c *jobCall) (int, error) {
	prompt := c.args[0]
	if prompt == "-" {
		in, err := io.ReadAll(io.LimitReader(c.stdin, maxStdin+1))
		if err != nil || len(in) > maxStdin {
			return 0, wrongly("the prompt could not be read, or has more than %d bytes", maxStdin)
		}
		prompt = string(in)
	}
	if c.agent == "" {
		return 0, wrongly("name the agent with --agent")
	}
	ask := map[string]any{"prompt": prompt, "agent": c.agent}
	if c.project != "" {
		id, err := c.api.Project(ctx, c.project)
		if err != nil {
			return 0, err
		}
		ask["project_id"] = id
	}
	for name, value := range map[string]string{"sandbox_id": c.sandbox, "executor": c.executor, "runner_id": c.runner, "base": c.base, "branch": c.branch, "model": c.model, "account": c.account} {
		if value != "" {
			ask[name] = value
		}
	}
	for name, list := range map[string]repeated{"argv": c.more, "artifacts": c.artifacts} {
		if len(list) > 0 {
			ask[name] = list
		}
	}
	for name, set := range map[string]bool{"keep": c.keep, "confirm_no_boundary": c.confirm} {
		if set {
			ask[name] = true
		}
	}
	if c.timeout != 0 {
		ask["timeout_ms"] = c.timeout.Milliseconds()
	}
	if c.webhook != "" {
		ask["webhook"] = map[string]string{"url": c.webhook, "secret": c.env("PARAWORK_WEBHOOK_SECRET")}
	}
	if c.key == "" {
		c.key = rand.Text() // for a connection that breaks
	}
	raw, err := c.api.Create(ctx, ask, c.key)
	if err != nil {
		return 0, err
	}
	var j remote.Job
	if err := json.Unmarshal(raw, &j); err != nil {
		return 0, err
	}
	if c.wait || c.follow || c.download != "" {
		return c.await(ctx, j.ID)
	}
	if c.json {
		return 0, c.show(raw, nil)
	}
	_, err = fmt.Fprintln(c.stdout, j.ID)
	return 0, err
}

// await waits until a job has ended, shows it, and exits as it ended.
func (c *jobCall) await(ctx context.Context, id string) (int, error) {
	said := ""
	raw, err := c.api.Follow(ctx, id, func(name string, data json.RawMessage) error {
		var e struct{ Text, Status, Reason string }
		if !c.follow || c.json || json.Unmarshal(data, &e) != nil {
			return nil
		}
		switch {
		case name == "text":
			fmt.Fprintln(c.stdout, safetext.Lines(e.Text))
			said = e.Text
		case name == "status" && e.Reason != "":
			fmt.Fprintln(c.stderr, "parawork: "+safetext.Line(e.Reason))
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	var j remote.Job
	if err := json.Unmarshal(raw, &j); err != nil {
		return 0, err
	}
	if c.download != "" {
		if err := c.save(ctx, j); err != nil {
			return 0, err
		}
	}
	if c.json {
		err = c.show(raw, nil)
	} else {
		for _, w := range j.Warnings {
			fmt.Fprintln(c.stderr, "parawork: "+safetext.Line(w))
		}
		if said == "" && j.Output != "" {
			fmt.Fprintln(c.stdout, safetext.Lines(j.Output))
		}
		if j.Status != "completed" {
			fmt.Fprintf(c.stderr, "parawork: the job is %s (%s): %s\n", j.Status, j.Code, safetext.Line(j.Error))
		}
	}
	switch j.Status {
	case "completed":
		return 0, err
	case "timeout":
		return ranOut, err
	}
	return cli.Failed, err
}

// save writes a job's artifacts below a folder. Their names are what the job chose: none leads out of it.
func (c *jobCall) save(ctx context.Context, j remote.Job) error {
	if err := os.MkdirAll(c.download, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(c.download)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, a := range j.Artifacts {
		name := filepath.FromSlash(guest.DecodePath(a.Name))
		if dir := filepath.Dir(name); dir != "." {
			if err := root.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		f, err := root.Create(name)
		if err != nil {
			return err
		}
		if err := errors.Join(c.api.Artifact(ctx, a.ID, f), f.Close()); err != nil {
			return err
		}
		if !c.json {
			fmt.Fprintln(c.stderr, "parawork: saved "+printable(filepath.Join(c.download, name)))
		}
	}
	return nil
}

func listJobs(ctx context.Context, c *jobCall) (int, error) {
	raw, err := c.api.List(ctx, c.status, c.limit)
	if err != nil || c.json {
		return 0, c.show(raw, err)
	}
	var list struct{ Items []remote.Job }
	if err := json.Unmarshal(raw, &list); err != nil {
		return 0, err
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATUS\tAGENT\tASKED\tPROMPT")
	for _, j := range list.Items {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", j.ID, j.Status, printable(j.Agent), time.UnixMilli(j.CreatedAt).Format(time.DateTime), printable(safetext.Cut(safetext.OneLine(j.Prompt), 60)))
	}
	return 0, w.Flush()
}
