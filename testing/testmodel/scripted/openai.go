package scripted

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// item is one of the input of Responses.
type item struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	CallID  string          `json:"call_id"`
	Content json.RawMessage `json:"content"`
	Output  json.RawMessage `json:"output"`
}

func openAIError(typ, message string) any {
	return map[string]any{"error": map[string]any{"type": typ, "code": nil, "param": nil, "message": message}}
}

// responses answers POST /v1/responses: https://platform.openai.com/docs/api-reference/responses-streaming.
func (s *Server) responses(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Model        string            `json:"model"`
		Instructions string            `json:"instructions"`
		Tools        []json.RawMessage `json:"tools"`
		Input        json.RawMessage   `json:"input"`
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var items []item
	_ = json.Unmarshal(req.Input, &items) // a plain string has no items and so no task
	if why := responsesPairs(items); why != "" {
		refuse(w, openAIError("invalid_request_error", why))
		return
	}
	var c conversation
	reported := []string{req.Instructions}
	speaking, hasTools := false, len(req.Tools) > 0
	for _, it := range items {
		// What the model made in one answer lies together.
		made := it.Role == "assistant" || it.Type == "reasoning" || strings.HasSuffix(it.Type, "_call")
		if made && !speaking {
			c.answer()
		}
		speaking = made
		hasTools = hasTools || it.Type == "additional_tools" // code mode names its tools here
		switch {
		case it.Role == "developer" || it.Role == "system":
			for _, b := range blocks(it.Content) {
				reported = append(reported, b.Text)
			}
		case it.Role == "user":
			for _, b := range blocks(it.Content) {
				c.user(b.Text)
			}
		case strings.HasSuffix(it.Type, "_output"):
			c.result(string(it.Output))
		}
	}
	if c.steps != nil && hasTools {
		st := stepAt(c.steps, c.said).recall(reported...)
		if s.begin(w, r, &st, fmt.Sprint(c.prompt, c.said), openAIError) {
			s.playResponses(w, r, st)
		}
		return
	}
	s.playResponses(w, r, c.plain(func(t task) (toolCall, bool) {
		args, err := json.Marshal(map[string]any{"cmd": "printf %s " + shellQuote(t.Text) + " > " + shellQuote(t.Path)})
		return toolCall{Name: "exec_command", Input: args}, err == nil && hasTool(req.Tools, "exec_command")
	}))
}

// responsesPairs tells what is wrong with the calls and outputs of an input; "" = nothing.
func responsesPairs(items []item) string {
	called, given := map[string]bool{}, map[string]bool{}
	for _, it := range items {
		switch it.Type {
		case "function_call", "custom_tool_call":
			called[it.CallID] = true
		case "function_call_output", "custom_tool_call_output":
			if !called[it.CallID] {
				return "No tool call found for function call output with call_id " + it.CallID + "."
			}
			given[it.CallID] = true
		}
	}
	for id := range called {
		if !given[id] {
			return "No tool output found for function call " + id + "."
		}
	}
	return ""
}

// playResponses answers with a step as a stream of Responses.
func (s *Server) playResponses(w http.ResponseWriter, r *http.Request, st step) {
	id := s.nextID("resp")
	var events []event
	send := func(name string, data map[string]any) {
		data["sequence_number"] = len(events)
		events = append(events, event{name, data})
	}
	send("response.created", map[string]any{"response": map[string]any{"id": id, "status": "in_progress", "output": []any{}}})
	var output []map[string]any
	// add streams an item: as it begins, in pieces, and as it is at its end.
	add := func(begun, done map[string]any, delta, text string, more map[string]any) {
		i := len(output)
		begun["id"], begun["type"], begun["status"] = done["id"], done["type"], "in_progress"
		send("response.output_item.added", map[string]any{"output_index": i, "item": begun})
		for _, p := range pieces(text) {
			d := map[string]any{"output_index": i, "item_id": done["id"], "delta": p}
			for name, value := range more {
				d[name] = value
			}
			send(delta, d)
		}
		send("response.output_item.done", map[string]any{"output_index": i, "item": done})
		output = append(output, done)
	}
	if st.Thinking != "" {
		add(map[string]any{"summary": []any{}}, map[string]any{"type": "reasoning", "id": s.nextID("rs"), "summary": []any{map[string]any{"type": "summary_text", "text": st.Thinking}}, "encrypted_content": "c2NyaXB0ZWQ="},
			"response.reasoning_summary_text.delta", st.Thinking, map[string]any{"summary_index": 0})
	}
	if st.Text != "" {
		add(map[string]any{"role": "assistant", "content": []any{}}, map[string]any{"type": "message", "id": s.nextID("msg"), "role": "assistant", "status": "completed",
			"content": []any{map[string]any{"type": "output_text", "text": st.Text, "annotations": []any{}}}}, "response.output_text.delta", st.Text, map[string]any{"content_index": 0})
	}
	for _, c := range st.Tools {
		if text, ok := c.plain(); ok {
			callID := s.nextID("call")
			add(map[string]any{"call_id": callID, "name": c.Name, "input": ""}, map[string]any{"type": "custom_tool_call", "id": s.nextID("ctc"), "call_id": callID, "name": c.Name, "input": text, "status": "completed"},
				"response.custom_tool_call_input.delta", text, nil)
			continue
		}
		done := map[string]any{"type": "function_call", "id": s.nextID("fc"), "call_id": s.nextID("call"), "name": c.Name, "arguments": c.arguments(), "status": "completed"}
		begun := map[string]any{"call_id": done["call_id"], "arguments": ""}
		if server, name, ok := strings.Cut(strings.TrimPrefix(c.Name, "mcp__"), "__"); ok && strings.HasPrefix(c.Name, "mcp__") { // a tool of an MCP server
			done["namespace"], done["name"] = "mcp__"+server, name
			begun["namespace"] = done["namespace"]
		}
		begun["name"] = done["name"]
		add(begun, done, "response.function_call_arguments.delta", c.arguments(), nil)
	}
	end, answer := "response.completed", map[string]any{"id": id, "status": "completed", "usage": openAIUsage(st.Usage, "input_tokens", "output_tokens"), "output": output}
	switch st.Stop {
	case "max_tokens":
		end, answer["status"], answer["incomplete_details"] = "response.incomplete", "incomplete", map[string]any{"reason": "max_output_tokens"}
	case "refusal":
		end, answer["status"], answer["incomplete_details"] = "response.incomplete", "incomplete", map[string]any{"reason": "content_filter"}
	}
	send(end, map[string]any{"response": answer})
	var failure event
	if f := st.fault; f != nil {
		failure = event{"response.failed", map[string]any{"response": map[string]any{"id": id, "status": "failed", "error": map[string]any{"code": f.Type, "message": f.Message}}}}
	}
	s.play(w, r, st, events, failure)
}

// openAIUsage is what OpenAI's APIs say of tokens: their input holds what the cache gave and took.
func openAIUsage(u usage, input, output string) map[string]any {
	in := u.In + u.CacheRead + u.CacheWrite
	return map[string]any{input: in, input + "_details": map[string]any{"cached_tokens": u.CacheRead, "cache_write_tokens": u.CacheWrite}, output: u.Out,
		output + "_details": map[string]any{"reasoning_tokens": u.Reasoning}, "total_tokens": in + u.Out}
}

func hasTool(tools []json.RawMessage, name string) bool {
	for _, raw := range tools {
		var t struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(raw, &t) == nil && t.Name == name {
			return true
		}
	}
	return false
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
