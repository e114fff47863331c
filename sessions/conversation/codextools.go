package conversation

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

type codexResponse struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Input     string          `json:"input"`
	Output    json.RawMessage `json:"output"`
	Action    json.RawMessage `json:"action"`
	Status    string          `json:"status"`
}

// response takes a part of the model's answer that is a call, or the result of one. Messages come as events.
func (c *codex) response(s *sink, raw json.RawMessage) {
	var r codexResponse
	if json.Unmarshal(raw, &r) != nil {
		return
	}
	id := cmp.Or(r.CallID, r.ID)
	switch r.Type {
	case "function_call":
		c.call(s, id, r.Name, json.RawMessage(r.Arguments), "")
	case "custom_tool_call":
		c.call(s, id, r.Name, nil, r.Input)
	case "local_shell_call":
		c.call(s, id, "shell", r.Action, "")
	case "web_search_call":
		in := fields(r.Action)
		s.put(Item{ID: cmp.Or(id, s.fallback("search")), Kind: Tool, Tool: "web_search", Title: cmp.Or(in.str("query"), in.str("url")), Status: OK})
	case "function_call_output", "custom_tool_call_output":
		c.result(s, r)
	}
}

// call takes a call: args are JSON, text is the input of a tool that takes text.
func (c *codex) call(s *sink, id, name string, args json.RawMessage, text string) {
	if id == "" {
		id = s.fallback("call")
	}
	switch name {
	case "apply_patch":
		patch := cmp.Or(text, fields(args).str("input"), fields(args).str("patch"))
		c.begin(s, id, patched(patch))
		s.says(Using, name)
		return
	case "request_user_input":
		s.begin(Item{ID: id, Kind: Question, Text: questions(args)})
		s.says(Asked, questions(args))
		return
	}
	it := Item{ID: id, Kind: Tool, Tool: name, Input: text}
	if text == "" {
		it.Title, it.Input = headline(s.cfg.Root, fields(args)), shown(args)
	} else {
		it.Title = text
		c.script = append(c.script, id)
	}
	s.begin(it)
	s.says(Using, name)
}

// begin adds the edits of a patch: the first under the call's ID, the others under IDs derived from it.
func (c *codex) begin(s *sink, id string, changes []change) {
	if len(changes) == 0 {
		s.begin(Item{ID: id, Kind: Edit, Tool: "apply_patch"})
		return
	}
	if c.patch == nil || len(c.patch) > maxOpen {
		c.patch = map[string][]string{}
	}
	for i, ch := range changes {
		one := id
		if i > 0 {
			one += "." + relative(s.cfg.Root, ch.path)
		}
		c.patch[id] = append(c.patch[id], one)
		s.begin(edit(s.cfg.Root, one, ch))
	}
}

func edit(root, id string, ch change) Item {
	it := Item{ID: id, Kind: Edit, Tool: "apply_patch", Path: relative(root, ch.path), Diff: ch.diff}
	it.Title = it.Path
	it.Added, it.Removed = counted(ch.diff)
	return it
}

// parent returns the script a tool runs in, when the call is not one of the model itself.
func (c *codex) parent() string {
	if len(c.script) == 0 {
		return ""
	}
	return c.script[len(c.script)-1]
}

// executed takes a command that ended.
func (c *codex) executed(s *sink, id string, it codexItem) {
	status := OK
	if it.Status == "failed" || it.ExitCode != nil && *it.ExitCode != 0 {
		status = Failed
	}
	if it.Status == "declined" {
		status = Denied
	}
	if open := s.open[id]; open != nil { // the model's own call: its result follows, and this event knows better how it ended
		open.Output, open.Status = it.Output, status
		return
	}
	if parent := c.parent(); parent != "" {
		var words []string
		_ = json.Unmarshal(it.Command, &words) // without text the line stays empty
		title := headline("", object{"command": it.Command})
		s.put(Item{ID: id, Kind: Tool, Tool: "exec_command", Parent: parent, Title: title, Input: title, Output: it.Output, Status: status})
	}
}

// edited takes a change of files that succeeded or failed.
func (c *codex) edited(s *sink, id string, it codexItem) {
	status := OK
	switch it.Status {
	case "failed":
		status = Failed
	case "declined":
		status = Denied
	}
	names := make([]string, 0, len(it.Changes))
	for name := range it.Changes {
		names = append(names, name)
	}
	slices.Sort(names)
	known := s.open[id]
	parent := ""
	if known != nil && known.Kind == Tool { // a patch in a shell command
		parent = id
	} else if known == nil {
		parent = c.parent()
	}
	for i, name := range names {
		ch := it.Changes[name]
		done := change{path: name, diff: ch.Diff}
		switch ch.Type {
		case "add":
			done.diff = replaced("", ch.Content)
		case "delete":
			done.diff = replaced(ch.Content, "")
		}
		next := edit(s.cfg.Root, id, done)
		next.Status = status
		if status != OK {
			next.Output = it.Stderr
		}
		if open := c.find(s, id, next.Path); open != nil {
			s.finish(open.ID, status, func(o *Item) {
				o.Diff, o.Added, o.Removed, o.Output = next.Diff, next.Added, next.Removed, next.Output
			})
			continue
		}
		next.Parent = parent
		if parent != "" || i > 0 {
			next.ID = id + "." + next.Path
		}
		s.put(next)
	}
}

// find returns the open edit of a path among those of a call.
func (c *codex) find(s *sink, id, path string) *Item {
	for _, one := range c.patch[id] {
		if it := s.open[one]; it != nil && it.Path == path {
			return it
		}
	}
	return nil
}

// asked takes a finished call of an MCP server's tool.
func (c *codex) asked(s *sink, id string, it codexItem) {
	status := OK
	if it.Status == "failed" || len(it.Error) > 0 && string(it.Error) != "null" {
		status = Failed
	}
	if open := s.open[id]; open != nil {
		open.Status = status
		return
	}
	s.put(Item{ID: id, Kind: Tool, Tool: strings.Trim(it.Server+"."+it.Tool, "."), Parent: c.parent(), Title: headline(s.cfg.Root, fields(it.Arguments)),
		Input: shown(it.Arguments), Output: outputs(it.Result), Status: status})
}

var (
	codexHead = regexp.MustCompile(`(?s)^(Chunk ID: [^\n]*\n)?(Exit code: (-?\d+)\n)?(Wall time:? [^\n]*\n)?(Process exited with code (-?\d+)\n)?(Original token count: \d+\n)?(Total output lines: \d+\n)?(Output:\n)?`)
	scripted  = regexp.MustCompile(`^Script (completed|failed|running[^\n]*)\n`)
)

// result takes the result of a call.
func (c *codex) result(s *sink, r codexResponse) {
	text := outputs(r.Output)
	status := OK
	if m := scripted.FindStringSubmatch(text); m != nil {
		if m[1] == "failed" {
			status = Failed
		}
		text = text[len(m[0]):]
	}
	if m := codexHead.FindStringSubmatch(text); m != nil {
		for _, code := range []string{m[3], m[6]} {
			if code != "" && code != "0" {
				status = Failed
			}
		}
		text = text[len(m[0]):]
	}
	plain := strings.TrimSpace(text)
	switch {
	case strings.HasPrefix(plain, "unsupported call:"), strings.HasSuffix(plain, "is unavailable in Default mode"),
		strings.HasPrefix(plain, "failed to "), strings.HasPrefix(plain, "apply_patch verification failed"):
		status = Failed
	case plain == "aborted by user", strings.HasPrefix(plain, "aborted"):
		status = Stopped
	case strings.HasPrefix(plain, "exec command rejected by user"), strings.HasPrefix(plain, "rejected by user"), strings.HasPrefix(plain, "patch rejected by user"):
		status = Denied
	}
	id := cmp.Or(r.CallID, r.ID)
	c.script = slices.DeleteFunc(c.script, func(open string) bool { return open == id })
	for _, one := range c.patch[id] { // those the event did not report
		s.finish(one, status, func(it *Item) {
			if status != OK {
				it.Output = plain
			}
		})
	}
	delete(c.patch, id)
	open := s.open[id]
	if open == nil {
		return
	}
	if open.Status != Running { // the event reported it
		status = open.Status
	}
	var answer string
	s.finish(id, status, func(it *Item) {
		switch {
		case it.Kind == Question:
			if answer = answers(json.RawMessage(plain)); answer == "" && status == OK {
				answer = plain
			}
			if status != OK {
				it.Output = plain
			}
		case it.Output == "":
			it.Output = strings.TrimRight(text, "\n")
		}
	})
	if answer != "" {
		s.put(Item{ID: id + ".answer", Kind: Answer, Text: answer})
	}
	s.says(Began, "")
}

// outputs reads an output, which is text, a list of parts, or an object around either.
func outputs(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct {
		Text string `json:"text"`
		Type string `json:"type"`
	}
	if json.Unmarshal(raw, &parts) == nil {
		var all []string
		for _, p := range parts {
			switch {
			case p.Text != "":
				all = append(all, p.Text)
			case strings.Contains(p.Type, "image"):
				all = append(all, "[image]")
			}
		}
		// The first part of a script's output already ends with a line end.
		return strings.Join(all, "")
	}
	var around struct {
		Content json.RawMessage `json:"content"`
		Ok      json.RawMessage `json:"Ok"`
		Err     string          `json:"Err"`
	}
	if json.Unmarshal(raw, &around) == nil {
		switch {
		case around.Err != "":
			return around.Err
		case len(around.Content) > 0:
			return outputs(around.Content)
		case len(around.Ok) > 0:
			return outputs(around.Ok)
		}
	}
	return ""
}
