package scripted

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

type anthropicBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

// blocks reads a message's content, which is a string or a list of blocks.
func blocks(raw json.RawMessage) []anthropicBlock {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return []anthropicBlock{{Type: "text", Text: s}}
	}
	var list []anthropicBlock
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}

type anthropicMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

func anthropicError(typ, message string) any {
	return map[string]any{"type": "error", "error": map[string]any{"type": typ, "message": message}}
}

// messages answers POST /v1/messages: https://docs.anthropic.com/en/api/messages-streaming.
func (s *Server) messages(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Model    string             `json:"model"`
		System   json.RawMessage    `json:"system"`
		Stream   bool               `json:"stream"`
		Tools    []any              `json:"tools"`
		Messages []anthropicMessage `json:"messages"`
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if why := anthropicPairs(req.Messages); why != "" {
		refuse(w, anthropicError("invalid_request_error", why))
		return
	}
	var c conversation
	for _, m := range req.Messages {
		if m.Role == "assistant" {
			c.answer()
			continue
		}
		for _, b := range blocks(m.Content) {
			switch b.Type {
			case "text":
				c.user(b.Text)
			case "tool_result":
				c.result(string(b.Content))
			}
		}
	}
	if c.steps != nil && len(req.Tools) > 0 && req.Stream {
		var reported []string
		for _, b := range blocks(req.System) {
			reported = append(reported, b.Text)
		}
		st := stepAt(c.steps, c.said).recall(reported...)
		if s.begin(w, r, &st, fmt.Sprint(c.prompt, c.said), anthropicError) {
			s.playMessages(w, r, req.Model, st)
		}
		return
	}
	st := c.plain(func(t task) (toolCall, bool) {
		args, err := json.Marshal(map[string]string{"file_path": t.Path, "content": t.Text})
		return toolCall{Name: "Write", Input: args}, err == nil && len(req.Tools) > 0
	})
	if len(req.Tools) == 0 {
		st.Text = `{"title":"Scripted task"}`
	}
	if req.Stream {
		s.playMessages(w, r, req.Model, st)
		return
	}
	s.bill(func(b *bill) { b.add(st.Usage) })
	if len(st.Tools) > 0 {
		st.Text = "Understood."
	}
	reply(w, map[string]any{"id": s.nextID("msg"), "type": "message", "role": "assistant", "model": req.Model, "stop_reason": "end_turn",
		"content": []any{map[string]any{"type": "text", "text": st.Text}}, "usage": anthropicUsage(st.Usage, st.Usage.Out)})
}

// anthropicPairs tells what is wrong with the calls and results of a conversation; "" = nothing.
func anthropicPairs(messages []anthropicMessage) string {
	var open []string // calls of the message before
	for i, m := range messages {
		given := map[string]bool{}
		var calls []string
		for n, b := range blocks(m.Content) {
			switch {
			case b.Type == "text" && b.Text == "":
				return fmt.Sprintf("messages.%d: text content blocks must be non-empty", i)
			case b.Type == "tool_use":
				calls = append(calls, b.ID)
			case b.Type == "tool_result":
				if given[b.ToolUseID] {
					return fmt.Sprintf("messages.%d.content.%d: each tool_use must have a single result", i, n)
				}
				given[b.ToolUseID] = true
			}
		}
		for _, id := range open {
			if !given[id] {
				return fmt.Sprintf("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s", i-1, id)
			}
			delete(given, id)
		}
		for id := range given {
			return fmt.Sprintf("messages.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s", i, id)
		}
		open = calls
	}
	if len(open) > 0 {
		return fmt.Sprintf("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s", len(messages)-1, strings.Join(open, ", "))
	}
	return ""
}

func anthropicUsage(u usage, out int) map[string]any {
	return map[string]any{"input_tokens": u.In, "output_tokens": out, "cache_read_input_tokens": u.CacheRead, "cache_creation_input_tokens": u.CacheWrite}
}

// playMessages answers with a step as a stream of the Messages API.
func (s *Server) playMessages(w http.ResponseWriter, r *http.Request, model string, st step) {
	events := []event{{"message_start", map[string]any{"message": map[string]any{"id": s.nextID("msg"), "type": "message", "role": "assistant",
		"model": model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": anthropicUsage(st.Usage, min(1, st.Usage.Out))}}}}
	send := func(name string, data map[string]any) { events = append(events, event{name, data}) }
	index := 0
	block := func(start map[string]any, typ, member, text string, more ...map[string]any) {
		send("content_block_start", map[string]any{"index": index, "content_block": start})
		if index == 0 {
			send("ping", map[string]any{})
		}
		for _, p := range pieces(text) {
			send("content_block_delta", map[string]any{"index": index, "delta": map[string]any{"type": typ, member: p}})
		}
		for _, d := range more {
			send("content_block_delta", map[string]any{"index": index, "delta": d})
		}
		send("content_block_stop", map[string]any{"index": index})
		index++
	}
	if st.Thinking != "" {
		block(map[string]any{"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta", "thinking", st.Thinking, map[string]any{"type": "signature_delta", "signature": "c2NyaXB0ZWQ="})
	}
	if st.Text != "" {
		block(map[string]any{"type": "text", "text": ""}, "text_delta", "text", st.Text)
	}
	stop := "end_turn"
	for _, c := range st.Tools {
		stop = "tool_use"
		block(map[string]any{"type": "tool_use", "id": s.nextID("toolu"), "name": c.Name, "input": map[string]any{}}, "input_json_delta", "partial_json", c.arguments())
	}
	if st.Stop != "" {
		stop = st.Stop
	}
	send("message_delta", map[string]any{"delta": map[string]any{"stop_reason": stop, "stop_sequence": nil}, "usage": anthropicUsage(st.Usage, st.Usage.Out)})
	send("message_stop", map[string]any{})
	var failure event
	if f := st.fault; f != nil {
		failure = event{"error", map[string]any{"error": map[string]any{"type": f.Type, "message": f.Message}}}
	}
	s.play(w, r, st, events, failure)
}
