// Package bd reads command lines of beads (`bd ready --json`) as calls of the task tools and answers as beads does, so that agents which
// know that program can plan here. It knows the verbs that agents use, their options and the names in their JSON; all else is
// refused by name. It starts no goroutine and holds nothing.
package bd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/tasks"
)

// Call calls a tool by its name.
type Call func(ctx context.Context, name string, args json.RawMessage) (tools.Result, error)

// Invocation is the call of a tool that a command line stands for.
type Invocation struct {
	Tool  string
	Args  map[string]any
	Claim bool // then claim the first of the tasks that it answers with
	JSON  bool
	List  bool // its answer in JSON is a list
}

// Run runs one command line without the program's name. It exits with 0; 1: refused or failed; 2: wrong usage.
func Run(ctx context.Context, argv []string, stdin []byte, call Call) (exit int, stdout, stderr string) {
	calls, err := Parse(argv, stdin)
	if err != nil {
		return 2, "", "bd: " + err.Error() + "\n"
	}
	var found []tasks.Detail
	var texts []string
	for _, c := range calls {
		list, text, err := c.run(ctx, call)
		if err != nil {
			words := fault.Words(err, "The call failed. Try again.")
			if f, ok := errors.AsType[failure](err); ok {
				words = string(f)
			}
			return 1, "", "bd: " + words + "\n"
		}
		found, texts = append(found, list...), append(texts, text)
	}
	if first := calls[0]; first.JSON && first.Tool != "task_prime" && first.Tool != "remember" {
		out, err := format(found, first.List || len(calls) > 1)
		if err != nil {
			return 1, "", "bd: the answer could not be written\n"
		}
		return 0, out, ""
	}
	return 0, strings.Join(texts, "\n") + "\n", ""
}

func (c Invocation) run(ctx context.Context, call Call) ([]tasks.Detail, string, error) {
	args, err := json.Marshal(c.Args)
	if err != nil {
		return nil, "", err
	}
	r, err := call(ctx, c.Tool, args)
	if err != nil {
		return nil, "", err
	}
	text := ""
	for _, part := range r.Content {
		text += part.Text
	}
	if r.IsError {
		return nil, "", failure(text)
	}
	var answer struct {
		tasks.Detail
		Tasks []tasks.Detail `json:"items"`
	}
	if err := json.Unmarshal(r.Structured, &answer); err != nil {
		return nil, text, nil // a tool whose answer is no task
	}
	list := answer.Tasks
	if list == nil {
		list = []tasks.Detail{answer.Detail}
	}
	if c.Claim && answer.Tasks != nil {
		if len(list) == 0 {
			return nil, text, nil
		}
		return Invocation{Tool: "task_claim", Args: map[string]any{"task": list[0].ID}}.run(ctx, call)
	}
	return list, text, nil
}

// issue is a task with what beads adds to it in its answers.
type issue struct {
	tasks.Issue
	Parent          string   `json:"parent,omitempty"`
	DependencyCount int      `json:"dependency_count"`
	DependentCount  int      `json:"dependent_count"`
	CommentCount    int      `json:"comment_count"`
	Depends         []linked `json:"dependencies,omitempty"`
	Dependents      []linked `json:"dependents,omitempty"`
}

// linked is the other end of a dependency.
type linked struct {
	ID       string `json:"id"`
	Title    string `json:"title"`
	Status   string `json:"status"`
	Priority int    `json:"priority"`
	Type     string `json:"dependency_type"`
}

func format(found []tasks.Detail, list bool) (string, error) {
	out := make([]issue, 0, len(found))
	for _, t := range found {
		i := issue{Issue: tasks.IssueOf(t.Task), Parent: t.Parent, DependencyCount: max(len(t.Dependencies), len(t.BlockedBy)), DependentCount: len(t.Dependents) + len(t.Children)}
		i.Depends, i.Dependents = links(t.Dependencies, tasks.Blocks), append(links(t.Dependents, tasks.Blocks), links(t.Children, tasks.ParentChild)...)
		out = append(out, i)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	var err error
	if !list && len(out) == 1 {
		err = e.Encode(out[0])
	} else {
		err = e.Encode(out)
	}
	return b.String(), err
}

func links(list []tasks.Brief, otherwise tasks.Relation) (out []linked) {
	for _, b := range list {
		as := b.Type
		if as == "" {
			as = otherwise
		}
		out = append(out, linked{b.ID, b.Title, string(b.Status), b.Priority, string(as)})
	}
	return out
}

// option is one of beads' options: the argument of the tool that it sets.
type option struct {
	to    string // "" = known, and without meaning here
	kind  byte   // s: text; l: list, also with commas; n: number; p: priority, also as P1; b: switch
	short string
}

var (
	common = map[string]option{"json": {"-json", 'b', ""}, "actor": {"", 's', ""}, "quiet": {"", 'b', "q"}, "no-daemon": {"", 'b', ""}, "sandbox": {"", 'b', ""}}
	fields = map[string]option{"title": {"title", 's', ""}, "description": {"description", 's', "d"}, "body": {"description", 's', ""}, "message": {"description", 's', "m"},
		"stdin": {"-stdin", 'b', ""}, "design": {"-design", 's', ""}, "acceptance": {"-acceptance", 's', ""}, "notes": {"-notes", 's', ""}, "type": {"type", 's', "t"},
		"priority": {"priority", 'p', "p"}, "assignee": {"assignee", 's', "a"}, "external-ref": {"external_ref", 's', ""}, "parent": {"parent", 's', ""}}
	verbs = map[string]map[string]option{
		"ready": {"limit": {"limit", 'n', "n"}, "type": {"type", 's', "t"}, "label": {"label", 's', "l"}, "claim": {"-claim", 'b', ""}, "sort": {"", 's', "s"}, "unassigned": {"", 'b', "u"},
			"plain": {"", 'b', ""}, "pretty": {"", 'b', ""}},
		"list": {"limit": {"limit", 'n', "n"}, "type": {"type", 's', "t"}, "label": {"label", 's', "l"}, "status": {"status", 'l', "s"}, "priority": {"priority", 'p', "p"},
			"assignee": {"assignee", 's', "a"}, "parent": {"parent", 's', ""}, "title": {"query", 's', ""}, "title-contains": {"query", 's', ""}, "all": {"-all", 'b', ""}, "long": {"", 'b', ""}},
		"create":   {"labels": {"label", 'l', "l"}, "label": {"label", 'l', ""}, "deps": {"-deps", 'l', ""}, "silent": {"", 'b', ""}, "force": {"", 'b', ""}},
		"update":   {"status": {"status", 's', "s"}, "claim": {"claim", 'b', ""}, "add-label": {"add_label", 'l', ""}, "remove-label": {"remove_label", 'l', ""}, "set-labels": {"label", 'l', ""}},
		"close":    {"reason": {"reason", 's', "r"}, "message": {"reason", 's', "m"}, "force": {"", 'b', "f"}},
		"dep":      {"type": {"type", 's', "t"}},
		"show":     {"short": {"", 'b', ""}, "long": {"", 'b', ""}, "id": {"-id", 's', ""}},
		"prime":    {"full": {"", 'b', ""}, "mcp": {"", 'b', ""}},
		"remember": {"key": {"key", 's', ""}},
	}
)

// Verbs are the commands of beads that are understood.
func Verbs() []string {
	return []string{"ready", "list", "show", "create", "update", "close", "dep", "prime", "remember"}
}

// failure is what a tool answered that did its work and failed.
type failure string

func (f failure) Error() string { return string(f) }

func wrong(format string, args ...any) error { return fmt.Errorf(format, args...) }

// Parse reads a command line as calls of tools: one, or one for each task that it names.
func Parse(argv []string, stdin []byte) ([]Invocation, error) {
	var verb string
	var words []string
	args := map[string]any{}
	for i := 0; i < len(argv); i++ {
		word := argv[i]
		if word == "--" {
			words = append(words, argv[i+1:]...)
			break
		}
		if len(word) < 2 || word[0] != '-' {
			if verb == "" {
				verb = word
				if verbs[verb] == nil {
					return nil, wrong("%.40q is not understood here. Use one of %s.", verb, strings.Join(Verbs(), ", "))
				}
				continue
			}
			words = append(words, word)
			continue
		}
		name, value, has := strings.Cut(strings.TrimLeft(word, "-"), "=")
		o, ok := find(verb, name, strings.HasPrefix(word, "--"))
		if !ok {
			return nil, wrong("the option %.40q is not understood here", word)
		}
		if o.kind != 'b' && !has {
			if i++; i == len(argv) {
				return nil, wrong("the option %.40q needs a value", word)
			}
			value = argv[i]
		}
		if err := put(args, o, value); err != nil {
			return nil, err
		}
	}
	if verb == "" {
		return nil, wrong("name a command: %s", strings.Join(Verbs(), ", "))
	}
	return invocations(verb, words, args, stdin)
}

func find(verb, name string, long bool) (option, bool) {
	sets := []map[string]option{verbs[verb], common}
	if verb == "create" || verb == "update" {
		sets = append(sets, fields)
	}
	for _, set := range sets {
		for n, o := range set {
			if long && n == name || !long && o.short == name && name != "" {
				return o, true
			}
		}
	}
	return option{}, false
}

func put(args map[string]any, o option, value string) error {
	switch {
	case o.to == "":
	case o.kind == 'b':
		args[o.to] = value != "false"
	case o.kind == 'l':
		list, _ := args[o.to].([]string)
		for _, one := range strings.Split(value, ",") {
			if one = strings.TrimSpace(one); one != "" {
				list = append(list, one)
			}
		}
		args[o.to] = list
	case o.kind == 's':
		args[o.to] = value
	default:
		if o.kind == 'p' {
			value = strings.TrimPrefix(strings.ToUpper(value), "P")
		}
		n, err := strconv.Atoi(value)
		if err != nil {
			return wrong("%.40q is no number", value)
		}
		args[o.to] = n
	}
	return nil
}

// take removes an argument that has a meaning of its own.
func take[T any](args map[string]any, name string) T {
	v, _ := args[name].(T)
	delete(args, name)
	return v
}

func invocations(verb string, words []string, args map[string]any, stdin []byte) ([]Invocation, error) {
	base := Invocation{Args: args, JSON: take[bool](args, "-json")}
	if verb == "create" || verb == "update" {
		texts(args, stdin)
	}
	switch verb {
	case "ready":
		base.Tool, base.List, base.Claim = "task_ready", true, take[bool](args, "-claim")
		if args["limit"] == 0 {
			args["limit"] = 200
		}
	case "list":
		base.Tool, base.List = "task_list", true
		if take[bool](args, "-all") {
			args["status"] = []string{"open", "in_progress", "blocked", "closed"}
		}
		if n, ok := args["limit"].(int); ok && (n <= 0 || n > 200) {
			args["limit"] = 200
		}
	case "create":
		base.Tool = "task_create"
		if len(words) == 1 && args["title"] == nil {
			args["title"] = words[0]
		}
		if args["title"] == nil || len(words) > 1 {
			return nil, wrong("create needs one title")
		}
		if t, ok := args["type"].(string); ok && (t == "feat" || t == "enhancement") {
			args["type"] = "feature"
		}
		if err := deps(args); err != nil {
			return nil, err
		}
	case "dep":
		return dependency(base, words)
	case "prime":
		base.Tool = "task_prime"
	case "remember":
		if len(words) != 1 {
			return nil, wrong("remember needs one text")
		}
		base.Tool, args["text"] = "remember", words[0]
	default:
		base.Tool, base.List = map[string]string{"update": "task_update", "close": "task_close", "show": "task_show"}[verb], true
		if id := take[string](args, "-id"); id != "" {
			words = append(words, id)
		}
		return each(base, verb, words)
	}
	return []Invocation{base}, nil
}

// each makes a call for each task that is named.
func each(base Invocation, verb string, ids []string) (out []Invocation, err error) {
	if len(ids) == 0 {
		return nil, wrong("%s needs the id of a task", verb)
	}
	for _, id := range ids {
		one := base
		one.Args = map[string]any{"task": id}
		for k, v := range base.Args {
			one.Args[k] = v
		}
		out = append(out, one)
	}
	return out, nil
}

// texts joins the texts that beads keeps apart.
func texts(args map[string]any, stdin []byte) {
	description, has := args["description"].(string)
	if take[bool](args, "-stdin") || description == "-" {
		description, has = string(stdin), true
	}
	design, acceptance, notes := take[string](args, "-design"), take[string](args, "-acceptance"), take[string](args, "-notes")
	if has || design != "" || acceptance != "" || notes != "" {
		args["description"] = tasks.Describe(description, design, acceptance, notes)
	}
}

// deps reads --deps type:id,id of create.
func deps(args map[string]any) error {
	var blockers []string
	for _, d := range take[[]string](args, "-deps") {
		as, id, typed := strings.Cut(d, ":")
		switch {
		case !typed:
			blockers = append(blockers, d)
		case as == "blocks":
			blockers = append(blockers, id)
		case as == "discovered-from":
			args["discovered_from"] = id
		case as == "parent-child":
			args["parent"] = id
		default:
			return wrong("--deps %.60q: create it first, then use dep add --type %.30s", d, as)
		}
	}
	if len(blockers) > 0 {
		args["blocked_by"] = blockers
	}
	return nil
}

func dependency(base Invocation, words []string) ([]Invocation, error) {
	base.Tool = "task_dep"
	switch {
	case len(words) == 3 && slices.Contains([]string{"add", "remove"}, words[0]):
		base.Args["action"], base.Args["task"], base.Args["depends_on"] = words[0], words[1], words[2]
	case len(words) == 2 && words[0] == "list":
		base.Args["action"], base.Args["task"] = "list", words[1]
	default:
		return nil, wrong("use dep add TASK OTHER, dep remove TASK OTHER or dep list TASK")
	}
	return []Invocation{base}, nil
}
