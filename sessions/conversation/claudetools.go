package conversation

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// call takes a tool call.
func (c *claude) call(s *sink, b claudeBlock) {
	id := b.ID
	if id == "" {
		id = s.fallback("call")
	}
	it := Item{ID: id, Kind: Tool, Tool: b.Name}
	in := fields(b.Input)
	switch b.Name {
	case "Edit", "MultiEdit", "Write", "NotebookEdit":
		it.Kind = Edit
		it.Path = relative(s.cfg.Root, cmp.Or(in.str("file_path"), in.str("notebook_path"), in.str("path")))
		it.Diff = claudeDiff(b.Name, b.Input)
		it.Added, it.Removed = counted(it.Diff)
		it.Title = it.Path
	case "AskUserQuestion":
		it.Kind, it.Tool = Question, ""
		it.Text = questions(b.Input)
	case "ExitPlanMode", "exit_plan_mode":
		it.Kind, it.Tool = Question, ""
		it.Text = in.str("plan")
		it.Title = "Go ahead with this plan?"
	default:
		it.Title = headline(s.cfg.Root, in)
		it.Input = shown(b.Input)
	}
	s.begin(it)
	if it.Kind == Question {
		s.says(Asked, cmp.Or(it.Title, it.Text))
	} else {
		s.says(Using, b.Name)
	}
	if r, ok := c.ahead[id]; ok {
		delete(c.ahead, id)
		c.result(s, r.line, r.block)
	}
}

// result takes the result of a tool call. Lines are not always in the order in which things happened: a result may precede its
// call.
func (c *claude) result(s *sink, l *claudeLine, b claudeBlock) {
	if !s.calls[b.CallID] && s.open[b.CallID] == nil {
		if c.ahead == nil {
			c.ahead = map[string]ahead{}
		}
		if len(c.ahead) < maxAhead {
			c.ahead[b.CallID] = ahead{l, b}
		}
		return
	}
	text := strings.TrimSpace(joined(claudeBlocks(b.Content)))
	text = strings.TrimSuffix(strings.TrimPrefix(text, "<tool_use_error>"), "</tool_use_error>")
	status := OK
	if b.IsError {
		status = Failed
		var said string
		if json.Unmarshal(l.Result, &said) == nil && (said == "User rejected tool use" || strings.HasPrefix(said, "Error: The user doesn't want")) {
			status, text = Denied, ""
		}
	}
	var answer string
	done := s.finish(b.CallID, status, func(it *Item) {
		switch it.Kind {
		case Edit:
			if status != OK {
				it.Output = text
			}
			var r struct {
				Patch []hunk `json:"structuredPatch"`
			}
			if json.Unmarshal(l.Result, &r) == nil && len(r.Patch) > 0 {
				it.Diff = unified(r.Patch)
				it.Added, it.Removed = 0, 0
				for _, h := range r.Patch {
					added, removed := counted(strings.Join(h.Lines, "\n"))
					it.Added, it.Removed = it.Added+added, it.Removed+removed
				}
			}
		case Question:
			if answer = answers(l.Result); answer == "" && status == OK {
				answer = text
			}
		default:
			it.Output = text
		}
	})
	if done && answer != "" {
		s.put(Item{ID: b.CallID + ".answer", Kind: Answer, Text: answer})
	}
	if done {
		s.says(Began, "")
	}
}

// claudeDiff shows an edit that has no result yet.
func claudeDiff(tool string, raw json.RawMessage) string {
	var in struct {
		Old     string `json:"old_string"`
		New     string `json:"new_string"`
		Content string `json:"content"`
		Source  string `json:"new_source"`
		Edits   []struct {
			Old string `json:"old_string"`
			New string `json:"new_string"`
		} `json:"edits"`
	}
	if json.Unmarshal(raw, &in) != nil {
		return ""
	}
	switch tool {
	case "Write":
		return replaced("", in.Content)
	case "NotebookEdit":
		return replaced("", in.Source)
	case "MultiEdit":
		var parts []string
		for _, e := range in.Edits {
			parts = append(parts, replaced(e.Old, e.New))
		}
		return strings.Join(parts, "@@\n")
	}
	return replaced(in.Old, in.New)
}

// questions formats questions with their choices as text.
func questions(raw json.RawMessage) string {
	var in struct {
		Questions []struct {
			Question string `json:"question"`
			Options  []struct {
				Label       string `json:"label"`
				Description string `json:"description"`
			} `json:"options"`
		} `json:"questions"`
	}
	if json.Unmarshal(raw, &in) != nil || len(in.Questions) == 0 {
		return shown(raw)
	}
	var b strings.Builder
	for i, q := range in.Questions {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(q.Question + "\n")
		for _, o := range q.Options {
			b.WriteString("- " + o.Label)
			if o.Description != "" {
				b.WriteString(": " + o.Description)
			}
			b.WriteByte('\n')
		}
	}
	return strings.TrimSpace(b.String())
}

// answers reads what a person chose.
func answers(raw json.RawMessage) string {
	var r struct {
		Answers map[string]json.RawMessage `json:"answers"`
	}
	if json.Unmarshal(raw, &r) != nil || len(r.Answers) == 0 {
		return ""
	}
	var out []string
	for q, a := range r.Answers {
		var one struct {
			Answers []string `json:"answers"`
		}
		var text string
		switch {
		case json.Unmarshal(a, &text) == nil:
		case json.Unmarshal(a, &one) == nil:
			text = strings.Join(one.Answers, ", ")
		}
		if len(r.Answers) == 1 {
			out = append(out, text)
		} else {
			out = append(out, q+" "+text)
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// object is the input of a tool.
type object map[string]json.RawMessage

func fields(raw json.RawMessage) object {
	var o object
	if json.Unmarshal(raw, &o) != nil {
		return nil
	}
	return o
}

// str returns a text field, "" when there is none.
func (o object) str(key string) string {
	var s string
	if json.Unmarshal(o[key], &s) != nil {
		return ""
	}
	return s
}

// headline describes in a line what a tool does.
func headline(root string, in object) string {
	for _, key := range []string{"command", "cmd"} {
		if s := in.str(key); s != "" {
			return s
		}
		var words []string
		if json.Unmarshal(in[key], &words) == nil && len(words) > 0 {
			if len(words) == 3 && (words[1] == "-lc" || words[1] == "-c") {
				return words[2]
			}
			return strings.Join(words, " ")
		}
	}
	if p := cmp.Or(in.str("file_path"), in.str("notebook_path"), in.str("path")); p != "" {
		if q := in.str("pattern"); q != "" {
			return q + " in " + relative(root, p)
		}
		return relative(root, p)
	}
	return cmp.Or(in.str("pattern"), in.str("query"), in.str("url"), in.str("description"), in.str("subject"), in.str("skill"),
		in.str("prompt"), in.str("message"), in.str("text"))
}

// shown returns the input of a tool as text: a command unchanged, anything else as indented JSON.
func shown(raw json.RawMessage) string {
	in := fields(raw)
	if len(in) <= 2 && in.str("command") != "" && (len(in) == 1 || in.str("description") != "") {
		return in.str("command")
	}
	if len(in) == 1 && in.str("cmd") != "" {
		return in.str("cmd")
	}
	if len(in) == 0 && len(raw) <= 4 {
		return ""
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}
