package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parawork/parawork/agent/media"
	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions/conversation"
)

// item is an entry of a session's conversation, which is searched, exported and reported like that of any agent.
type item = conversation.Item

// answerItems are those of a complete answer, except for its calls.
func answerItems(m *Message) []item {
	var out []item
	for i, p := range m.Parts {
		it := item{ID: fmt.Sprintf("%s/%d", m.ID, i), At: m.DoneAt, Text: p.Text}
		switch {
		case p.Kind == providers.Text && p.Text != "":
			it.Kind = conversation.Text
		case p.Kind == providers.Reasoning && p.Text != "":
			it.Kind = conversation.Thinking
		default:
			continue
		}
		out = append(out, it)
	}
	return append(out, spentItem(m))
}

// spentItem is what an answer or a summary of the model used and cost.
func spentItem(m *Message) item {
	u := m.Usage
	return item{ID: m.ID + "/usage", At: m.DoneAt, Kind: conversation.Spent, Usage: &conversation.Usage{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite,
		Reasoning: u.Reasoning, Model: m.Model, CostNano: u.CostNano, Estimated: u.Estimated}}
}

// items are those of the turn so far, and of what was undone in this session.
func (r *running) items() (out []item) {
	since := r.host.Row().StartedAt
	for _, m := range r.messages {
		if m.TurnID == r.turn.ID || m.State == Undone && m.CreatedAt >= since {
			out = append(out, messageItems(m, r.calls[m.ID])...)
		}
	}
	return out
}

// messageItems are those of a message that counts or did, with its calls.
func messageItems(m *Message, calls []*Call) (out []item) {
	switch {
	case m.State != Complete && m.State != Undone:
	case m.Role == User:
		out = append(out, promptItem(m))
	case m.Role == Summary:
		out = append(out, noteItem(m), spentItem(m))
	case m.Role == Assistant:
		out = append(out, answerItems(m)...)
		for _, c := range calls {
			if c.StartedAt+c.EndedAt > 0 {
				out = append(out, callItem(c))
			}
		}
	}
	for i := range out {
		out[i].Undone = m.State == Undone
	}
	return out
}

// promptItem is that of a person's message.
func promptItem(m *Message) item {
	return item{ID: m.ID, At: m.CreatedAt, Kind: conversation.Prompt, Text: promptOf(m), Media: mediaOf(m.ThreadID, m.Parts)}
}

// promptOf is a person's message as text.
func promptOf(m *Message) string {
	text := textOf(m.Parts)
	for _, p := range m.Parts {
		if p.Name != "" {
			text += "\n[Attached: " + p.Name + "]"
		}
	}
	return strings.TrimPrefix(text, "\n")
}

// mediaOf are what parts show besides text.
func mediaOf(threadID string, parts []providers.Part) (out []conversation.Media) {
	for _, p := range parts {
		if p.Ref != "" {
			out = append(out, conversation.Media{ID: p.Ref, Thread: threadID, Name: p.Name, MIME: cmp.Or(p.MIME, media.Text), Size: p.Size, Width: p.Width, Height: p.Height})
		}
	}
	return out
}

// callItem is that of a call in its present state.
func callItem(c *Call) item {
	it := item{ID: c.ID, At: c.StartedAt, Kind: conversation.Tool, Tool: c.Tool, Title: c.Title(), Input: detail(c), Output: textOf(c.Content), Media: mediaOf(c.ThreadID, c.Content)}
	if it.At == 0 {
		it.At = c.EndedAt
	}
	switch d := c.Details; {
	case d.Path != "":
		it.Kind, it.Path, it.Diff, it.Added, it.Removed, it.Cut = conversation.Edit, d.Path, d.Diff, d.Added, d.Removed, d.DiffCut
		it.Input, it.Output = "", "" // the diff says it all
	case slices.Contains(editTools, c.Tool) && c.State != CallDone: // it is about to change a file, or failed to; one that found nothing to change is no edit
		it.Kind, it.Path = conversation.Edit, argument(c, "path")
	}
	switch c.State {
	case CallDone:
		it.Status = conversation.OK
	case CallFailed:
		it.Status = conversation.Failed
	case CallDenied:
		it.Status = conversation.Denied
	case CallUnknown, CallSkipped:
		it.Status = conversation.Stopped
	default:
		it.Status = conversation.Running
	}
	if c.EndedAt > 0 && c.StartedAt > 0 {
		it.Duration = c.EndedAt - c.StartedAt
	}
	return it
}

func noteItem(m *Message) item {
	return item{ID: m.ID, At: m.DoneAt, Kind: conversation.Note, Topic: conversation.Compaction, Text: textOf(m.Parts)}
}

func failureItem(t *Turn, now int64) item {
	return item{ID: t.ID + "/end", At: now, Kind: conversation.Error, Text: t.Reason}
}

// Title says in one line what the call is about: its command, its file or the like. It may be empty.
func (c *Call) Title() string {
	for _, name := range []string{"command", "path", "pattern", "url", "title", "query", "code", "name", "task", "ref"} {
		if v := argument(c, name); v != "" {
			return safetext.Cut(safetext.Line(v), 200)
		}
	}
	var a struct{ Argv []string }
	if json.Unmarshal(c.Args, &a) == nil && len(a.Argv) > 0 {
		return safetext.Cut(safetext.Line(strings.Join(a.Argv, " ")), 200)
	}
	return ""
}

// detail is a call's arguments, for people: a command as it is, a change of a file as its lines, and others one a line.
func detail(c *Call) string {
	if cmd := argument(c, "command"); cmd != "" && len(members(c.Args)) == 1 {
		return cmd
	}
	var a struct {
		Path, Content, Old, New string
		Edits                   []struct{ Old, New string }
	}
	if path := argument(c, "path"); path != "" && slices.Contains(editTools, c.Tool) && json.Unmarshal(c.Args, &a) == nil {
		var b strings.Builder
		b.WriteString(path + "\n" + lines("-", a.Old) + lines("+", a.New) + lines("+", a.Content))
		for _, e := range a.Edits {
			b.WriteString(lines("-", e.Old) + lines("+", e.New) + "\n")
		}
		return strings.TrimRight(b.String(), "\n")
	}
	all := members(c.Args)
	if all == nil {
		return string(c.Args)
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var s string
		if json.Unmarshal(all[name], &s) != nil {
			s = string(all[name])
		}
		if strings.Contains(s, "\n") {
			s = "\n" + strings.TrimRight(s, "\n")
		}
		out = append(out, strings.TrimRight(safetext.Line(name)+": "+s, " "))
	}
	return strings.Join(out, "\n")
}

// lines puts a mark before each line, as in a diff.
func lines(mark, text string) string {
	if text == "" {
		return ""
	}
	return mark + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+mark) + "\n"
}

// members are those of a JSON object; nil when it is none.
func members(args json.RawMessage) (all map[string]json.RawMessage) {
	_ = json.Unmarshal(args, &all)
	return all
}

func argument(c *Call, name string) string {
	var s string
	if json.Unmarshal(members(c.Args)[name], &s) != nil {
		return ""
	}
	return s
}
