package providers

import (
	"slices"
	"strings"
)

// unknownResult is the result of a call whose own was lost, for example when the server stopped in it.
const unknownResult = "Error: it is unknown whether this call was done, because its result was lost. Find out before you repeat it."

// Repair returns messages that every provider takes: neighbours have different roles, parts have the role and the content they need, ids of
// calls are unique, and the results of all calls of a message, each one once, begin the next one. It changes nothing in what it is given, and
// nothing in messages that are as they should be.
func Repair(messages []Message) []Message {
	results := map[string]Part{}
	calls := map[string]bool{}
	var out []Message
	for _, m := range messages {
		kept := Message{Role: m.Role}
		for _, p := range m.Parts {
			p, ok := usable(m.Role, p)
			switch {
			case !ok || p.Kind == ToolCall && calls[p.CallID]:
				continue
			case p.Kind == ToolCall:
				calls[p.CallID] = true
			case p.Kind == ToolResult:
				if _, ok := results[p.CallID]; ok || !calls[p.CallID] {
					continue
				}
				results[p.CallID] = p
			}
			kept.Parts = append(kept.Parts, p)
		}
		out = join(out, kept)
	}
	messages, out = out, nil
	for _, m := range messages {
		if m.Role == User {
			m.Parts = slices.DeleteFunc(m.Parts, func(p Part) bool { return p.Kind == ToolResult })
			out = join(out, m)
			continue
		}
		for n := len(m.Parts); n > 0 && m.Parts[n-1].Kind == Reasoning; n-- { // what it led to is missing: providers refuse it alone
			m.Parts = m.Parts[:n-1]
		}
		answers := Message{Role: User}
		for _, p := range m.Parts {
			if p.Kind != ToolCall {
				continue
			}
			r, ok := results[p.CallID]
			if !ok {
				r = Part{Kind: ToolResult, CallID: p.CallID, IsError: true, Content: []Part{{Kind: Text, Text: unknownResult}}}
			}
			answers.Parts = append(answers.Parts, r)
		}
		out = join(join(out, m), answers)
	}
	return out
}

// join appends a message, to the last one if that has the same role. A message without parts vanishes.
func join(messages []Message, m Message) []Message {
	if len(m.Parts) == 0 {
		return messages
	}
	if n := len(messages); n > 0 && messages[n-1].Role == m.Role {
		messages[n-1].Parts = append(messages[n-1].Parts, m.Parts...)
		return messages
	}
	return append(messages, Message{m.Role, slices.Clone(m.Parts)})
}

// usable reports whether a message of a role can have a part, and returns it without what it cannot have.
func usable(role Role, p Part) (Part, bool) {
	switch p.Kind {
	case Text:
		return p, strings.TrimSpace(p.Text) != ""
	case Image:
		if len(p.Data) == 0 || role != User {
			return p, false
		}
		if !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, p.MIME) { // what models see
			return Part{Kind: Text, Text: "(An image of the type " + p.MIME + ", which models cannot see, is left out.)"}, true
		}
		return p, true
	case Reasoning:
		return p, role == Assistant && (len(p.Raw) > 0 || p.Text != "")
	case ToolCall:
		return p, role == Assistant && p.CallID != ""
	case ToolResult:
		var content []Part
		for _, c := range p.Content {
			if c, ok := usable(User, c); ok && (c.Kind == Text || c.Kind == Image) {
				content = append(content, c)
			}
		}
		p.Content = content
		return p, role == User && p.CallID != ""
	}
	return p, false
}
