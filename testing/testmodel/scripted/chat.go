package scripted

import (
	"encoding/json"
	"fmt"
	"net/http"
)

type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	CallID  string          `json:"tool_call_id"`
	Calls   []struct {
		ID string `json:"id"`
	} `json:"tool_calls"`
}

// chat answers POST /v1/chat/completions: https://platform.openai.com/docs/api-reference/chat-streaming. Reasoning comes as from DeepSeek.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Model         string        `json:"model"`
		Stream        bool          `json:"stream"`
		Tools         []any         `json:"tools"`
		Messages      []chatMessage `json:"messages"`
		StreamOptions struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if why := chatPairs(req.Messages); why != "" {
		refuse(w, openAIError("invalid_request_error", why))
		return
	}
	var c conversation
	var reported []string
	for _, m := range req.Messages {
		switch m.Role {
		case "assistant":
			c.answer()
		case "tool":
			c.result(string(m.Content))
		case "user":
			for _, b := range blocks(m.Content) {
				c.user(b.Text)
			}
		default:
			for _, b := range blocks(m.Content) {
				reported = append(reported, b.Text)
			}
		}
	}
	st := c.plain(nil)
	if c.steps != nil && len(req.Tools) > 0 {
		st = stepAt(c.steps, c.said).recall(reported...)
		if !s.begin(w, r, &st, fmt.Sprint(c.prompt, c.said), openAIError) {
			return
		}
	}
	if !req.Stream {
		s.bill(func(b *bill) { b.add(st.Usage) })
		reply(w, map[string]any{"id": s.nextID("chatcmpl"), "object": "chat.completion", "model": req.Model, "usage": openAIUsage(st.Usage, "prompt_tokens", "completion_tokens"),
			"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": st.Text}}}})
		return
	}
	s.playChat(w, r, req.Model, st, req.StreamOptions.Usage && !st.NoUsage)
}

// chatPairs tells what is wrong with the calls and results of a conversation; "" = nothing.
func chatPairs(messages []chatMessage) string {
	open := map[string]bool{}
	for i, m := range messages {
		if m.Role == "tool" {
			if !open[m.CallID] {
				return fmt.Sprintf("Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls' (messages.%d).", i)
			}
			delete(open, m.CallID)
			continue
		}
		if len(open) > 0 {
			break
		}
		for _, c := range m.Calls {
			open[c.ID] = true
		}
	}
	for id := range open {
		return "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id': " + id + "."
	}
	return ""
}

// playChat answers with a step as a stream of Chat Completions.
func (s *Server) playChat(w http.ResponseWriter, r *http.Request, model string, st step, counted bool) {
	id := s.nextID("chatcmpl")
	var events []event
	chunk := func(delta map[string]any, finish any) {
		events = append(events, event{data: map[string]any{"id": id, "object": "chat.completion.chunk", "created": 1, "model": model,
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}}})
	}
	chunk(map[string]any{"role": "assistant", "content": ""}, nil)
	if st.Thinking != "" {
		for _, p := range pieces(st.Thinking) {
			chunk(map[string]any{"reasoning_content": p}, nil)
		}
	}
	if st.Text != "" {
		for _, p := range pieces(st.Text) {
			chunk(map[string]any{"content": p}, nil)
		}
	}
	finish := "stop"
	for i, c := range st.Tools {
		finish = "tool_calls"
		call := func(more map[string]any) {
			more["index"] = i
			chunk(map[string]any{"tool_calls": []any{more}}, nil)
		}
		call(map[string]any{"id": s.nextID("call"), "type": "function", "function": map[string]any{"name": c.Name, "arguments": ""}})
		for _, p := range pieces(c.arguments()) {
			call(map[string]any{"function": map[string]any{"arguments": p}})
		}
	}
	switch st.Stop {
	case "max_tokens":
		finish = "length"
	case "refusal":
		finish = "content_filter"
	}
	chunk(map[string]any{}, finish)
	if counted {
		events = append(events, event{data: map[string]any{"id": id, "object": "chat.completion.chunk", "model": model, "choices": []any{}, "usage": openAIUsage(st.Usage, "prompt_tokens", "completion_tokens")}})
	}
	events = append(events, event{})
	var failure event
	if f := st.fault; f != nil {
		failure = event{data: map[string]any{"error": map[string]any{"type": f.Type, "code": f.Status, "message": f.Message}}}
	}
	s.play(w, r, st, events, failure)
}
