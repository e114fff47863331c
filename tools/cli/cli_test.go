package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/cli"
)

var (
	create = tools.Spec{Name: "task_create", Title: "Create a task", Description: "Creates a task. It answers with its id.", Group: "tasks", Permission: tools.Allow,
		Arguments: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["title"],"properties":{
			"title":{"type":"string","description":"What is to be done."},
			"description":{"type":"string","description":"More about it."},
			"type":{"enum":["task","bug"],"type":"string","default":"task","description":"Its kind."},
			"priority":{"type":"integer","minimum":0,"maximum":4,"default":2,"description":"0 is the most urgent."},
			"blocked_by":{"type":"array","items":{"type":"string"},"description":"Ids of tasks that come first."},
			"lines":{"type":"array","items":{"type":"integer"},"description":"Lines."},
			"env":{"type":"object","additionalProperties":{"type":"string"},"description":"Variables."},
			"notify":{"type":"boolean","default":true,"description":"Tell people."},
			"weight":{"type":"number","description":"A number."},
			"meta":{"type":"object","description":"Anything."}}}`),
		Command: tools.Command{Positional: []string{"title"}, Stdin: "description"}}
	createMany = tools.Spec{Name: "task_create_many", Title: "Create tasks", Description: "Creates tasks.", Group: "tasks", Permission: tools.Allow,
		Arguments: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{}}`)}
	save = tools.Spec{Name: "artifact_save", Title: "Save files", Description: "Saves files.", Group: "artifacts", Permission: tools.Allow,
		Arguments: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["paths"],"properties":{
			"paths":{"type":"array","items":{"type":"string"},"description":"The files."},"name":{"type":["string","null"],"description":"A name."}}}`),
		Command: tools.Command{Positional: []string{"paths"}, Paths: []string{"paths"}}}
	code = tools.Spec{Name: "run_code", Title: "Run code", Description: "Runs code.", Group: "commands", Permission: tools.Ask,
		Arguments: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["code"],"properties":{"code":{"type":"string","description":"The code."}}}`),
		Command:   tools.Command{Positional: []string{"code"}, Stdin: "code"}}
)

// run runs a command line with a tool that records its call.
func run(in cli.Input, result tools.Result, err error) (exit int, stdout, stderr, called string) {
	exit, stdout, stderr = cli.Run(context.Background(), in, []tools.Spec{create, createMany, save, code}, func(_ context.Context, name string, args json.RawMessage) (tools.Result, error) {
		called = name + " " + string(args)
		return result, err
	})
	return exit, stdout, stderr, called
}

// The words become the tool's arguments, of the types its schema has.
func TestWhatIsCalled(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`task create|Fix it`:                                     `task_create {"title":"Fix it"}`,
		`task create|--title=Fix it`:                             `task_create {"title":"Fix it"}`,
		`task-create|Fix it`:                                     `task_create {"title":"Fix it"}`,
		`task create many`:                                       `task_create_many {}`,
		`--json task create x`:                                   `task_create {"title":"x"}`,
		`task create x --priority 0`:                             `task_create {"priority":0,"title":"x"}`,
		`task create x --type bug`:                               `task_create {"title":"x","type":"bug"}`,
		`task create x --notify`:                                 `task_create {"notify":true,"title":"x"}`,
		`task create x --no-notify`:                              `task_create {"notify":false,"title":"x"}`,
		`task create x --notify=false`:                           `task_create {"notify":false,"title":"x"}`,
		`task create x --weight 1.5e3`:                           `task_create {"title":"x","weight":1.5e3}`,
		`task create x --weight -2`:                              `task_create {"title":"x","weight":-2}`,
		`task create x --meta {"a":[]}`:                          `task_create {"meta":{"a":[]},"title":"x"}`,
		`task create x --lines 1,2 --lines 3`:                    `task_create {"lines":[1,2,3],"title":"x"}`,
		`task create x --blocked-by PW-T1,PW-T2 --blocked_by T3`: `task_create {"blocked_by":["PW-T1","PW-T2","T3"],"title":"x"}`,
		`task create x --env A=1=2 --env B=`:                     `task_create {"env":{"A":"1=2","B":""},"title":"x"}`,
		`task create x --description -`:                          `task_create {"description":"from stdin\n","title":"x"}`,
		`task create -`:                                          `task_create {"title":"-"}`,
		`task create -- --odd`:                                   `task_create {"title":"--odd"}`,
		`run code -`:                                             `run_code {"code":"from stdin\n"}`,
		`run code -- -`:                                          `run_code {"code":"-"}`,
		`artifact save a ../b /c --name n`:                       `artifact_save {"name":"n","paths":["/work/sub/a","/work/b","/c"]}`,
		`artifact save a,b`:                                      `artifact_save {"paths":["/work/sub/a,b"]}`,
		`artifact save --paths a,b c`:                            `artifact_save {"paths":["/work/sub/a","/work/sub/b","/work/sub/c"]}`,
	} {
		in := cli.Input{Argv: words(line), Dir: "/work/sub", Stdin: []byte("from stdin\n")}
		exit, _, stderr, called := run(in, tools.Result{Content: tools.Text("ok")}, nil)
		if exit != cli.Done || stderr != "" || called != want {
			t.Errorf("%s: exit %d, %q\n got %s\nwant %s", line, exit, stderr, called, want)
		}
	}
}

// words splits at spaces; with a "|" all behind it is one word.
func words(line string) []string {
	if head, tail, ok := strings.Cut(line, "|"); ok {
		return append(strings.Fields(head), tail)
	}
	return strings.Fields(line)
}

// A wrong command line calls nothing, exits 2, and names the wrong word and where help is.
func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`task create`:                                   "TITLE is missing. See: parawork task create --help",
		`task create x y`:                               `"y" is one word too many`,
		`task create many x`:                            `"x" is one word too many`,
		`task create x --colour red`:                    "no option --colour",
		`task create x -v`:                              "no option -v",
		`task create x --priority`:                      "--priority needs a value",
		`task create x --priority high`:                 `--priority takes a whole number, and not "high"`,
		`task create x --priority 99999999999999999999`: "whole number",
		`task create x --lines 1,two`:                   `not "two"`,
		`task create x --type story`:                    `--type takes one of task, bug, and not "story"`,
		`task create x --notify=perhaps`:                "true or false",
		`task create x --env A`:                         "--env takes NAME=VALUE",
		`task create x --meta {`:                        "--meta takes JSON",
		`task create x --title y`:                       "TITLE is given twice",
		`task`:                                          `"task" is not a whole command. There are:`,
		`task destroy`:                                  "Of task there are:\n  task create",
		`nonsense`:                                      `There is no command "nonsense". See: parawork --help`,
		`memory search x`:                               "memory search is switched off: the project's settings do not include the group memory",
		`--colour task`:                                 "--colour comes before a command",
	} {
		in := cli.Input{Argv: words(line), Off: []tools.Spec{{Name: "memory_search", Group: "memory"}}}
		exit, stdout, stderr, called := run(in, tools.Result{}, nil)
		if exit != cli.Usage || stdout != "" || called != "" || !strings.HasPrefix(stderr, "command_usage: ") || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %q, called %q, want %q", line, exit, stderr, called, want)
		}
		in.Argv = append(in.Argv, "--json")
		if _, _, stderr, _ = run(in, tools.Result{}, nil); !strings.Contains(stderr, `"code":"command_usage"`) || !json.Valid([]byte(stderr)) {
			t.Errorf("%s --json: %q", line, stderr)
		}
	}
	for _, argv := range [][]string{{"task", "create", "\xff"}, {"task\x00"}} {
		if exit, _, stderr, called := run(cli.Input{Argv: argv}, tools.Result{}, nil); exit != cli.Usage || called != "" || !strings.Contains(stderr, "UTF-8") {
			t.Errorf("%q: exit %d, %q", argv, exit, stderr)
		}
	}
	if exit, _, stderr, called := run(cli.Input{Argv: words("run code -"), Stdin: []byte{0xff}}, tools.Result{}, nil); exit != cli.Usage || called != "" || !strings.Contains(stderr, "Standard input") {
		t.Errorf("exit %d, %q", exit, stderr)
	}
}

// What a tool answers is printed as text, or with --json as one document.
func TestAnswers(t *testing.T) {
	t.Parallel()
	structured := tools.Result{Content: tools.Text("Created PW-T1."), Structured: json.RawMessage(`{"id":"PW-T1"}`)}
	picture := tools.Result{Content: []tools.Content{{Text: "A picture:"}, {MIME: "image/png", Data: []byte("png")}}}
	broke := tools.Result{Content: tools.Text("Two checks failed."), Structured: json.RawMessage(`{"success":false}`), IsError: true}
	busy := fault.New(fault.Conflict, "task_busy", "The task is taken.").With("by", "PW-1")
	for name, c := range map[string]struct {
		json           bool
		result         tools.Result
		err            error
		exit           int
		stdout, stderr string
	}{
		"text":            {false, structured, nil, 0, "Created PW-T1.\n", ""},
		"json":            {true, structured, nil, 0, "{\"id\":\"PW-T1\"}\n", ""},
		"structured only": {false, tools.Result{Structured: structured.Structured}, nil, 0, "{\"id\":\"PW-T1\"}\n", ""},
		"data":            {false, picture, nil, 0, "A picture:\n[image/png, 3 bytes: --json has them]\n", ""},
		"data as json": {true, picture, nil, 0,
			`{"content":[{"type":"text","text":"A picture:"},{"type":"data","mime_type":"image/png","data":"cG5n"}],"is_error":false,"truncated":false}` + "\n", ""},
		"failed":          {false, broke, nil, 1, "Two checks failed.\n", ""},
		"failed as json":  {true, broke, nil, 1, "{\"success\":false}\n", `{"code":"tool_work_failed","message":"Two checks failed."}` + "\n"},
		"refused":         {false, tools.Result{}, busy, 1, "", "task_busy: The task is taken.\ndetails: {\"by\":\"PW-1\"}\n"},
		"refused as json": {true, tools.Result{}, busy, 1, "", `{"code":"task_busy","message":"The task is taken.","details":{"by":"PW-1"}}` + "\n"},
		"broken":          {false, tools.Result{}, errors.New("dial 10.0.0.1"), 1, "", "internal: Something went wrong on the server. Its log has the details.\n"},
		"arguments": {false, tools.Result{}, fault.New(fault.Invalid, "tool_arguments_invalid", "Too long."), 2, "",
			"tool_arguments_invalid: Too long. See: parawork task create --help\n"},
	} {
		argv := words("task create x")
		if c.json {
			argv = append(argv, "--json")
		}
		exit, stdout, stderr, _ := run(cli.Input{Argv: argv}, c.result, c.err)
		if exit != c.exit || stdout != c.stdout || stderr != c.stderr {
			t.Errorf("%s: exit %d\nstdout %q\nstderr %q", name, exit, stdout, stderr)
		}
	}
}

// Help is there at every level, and says all that a schema says.
func TestHelp(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		``:                 {"Tasks: Plan work", "  task create            Create a task\n", "run code", "Exit codes: 0 done"},
		`--help`:           {"Usage: parawork COMMAND"},
		`help`:             {"Usage: parawork COMMAND"},
		`task --help`:      {"task create", "task create many"},
		`help task create`: {"Usage: parawork task create TITLE [OPTIONS]"},
		`task create -h`:   {"Usage: parawork task create"},
		`task create x --help`: {"Creates a task. It answers with its id.", "  TITLE                    What is to be done. Required.\n", "--blocked-by A,B,...", "One of: task, bug. Default: task.",
			"Default: 2.", "--no-notify", `"-" reads it from standard input.`, "--env NAME=VALUE", "--meta JSON"},
		`artifact save --help`: {"Usage: parawork artifact save PATHS... [OPTIONS]"},
		`skill`:                {"---\nname: parawork\ndescription: ", "(tasks, artifacts, commands)", "## Tasks", "- `parawork task create TITLE [OPTIONS]`: Creates a task.\n"},
	} {
		exit, stdout, stderr, called := run(cli.Input{Argv: words(line)}, tools.Result{}, nil)
		if exit != cli.Done || stderr != "" || called != "" {
			t.Errorf("%q: exit %d, %q, called %q", line, exit, stderr, called)
		}
		for _, w := range want {
			if !strings.Contains(stdout, w) {
				t.Errorf("%q lacks %q:\n%s", line, w, stdout)
			}
		}
	}
	if _, out, _, called := run(cli.Input{Argv: words("task create -- --help")}, tools.Result{Content: tools.Text("ok")}, nil); out != "ok\n" || called == "" {
		t.Errorf("behind -- nothing is an option: %q", out)
	}
}

func FuzzRun(f *testing.F) {
	f.Add("task create x --env A=1", "in")
	f.Add("artifact save -- --", "")
	f.Add("--json help task", "\xff")
	f.Fuzz(func(t *testing.T, line, stdin string) {
		exit, _, stderr, called := run(cli.Input{Argv: strings.Split(line, " "), Dir: "/w", Stdin: []byte(stdin)}, tools.Result{Content: tools.Text("ok")}, nil)
		if exit < 0 || exit > 2 || (exit == cli.Usage) != (stderr != "") {
			t.Errorf("exit %d, %q", exit, stderr)
		}
		if _, args, ok := strings.Cut(called, " "); ok && !json.Valid([]byte(args)) {
			t.Errorf("called with %q", args)
		}
	})
}
