package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// responses answers POST /v1/responses: https://platform.openai.com/docs/api-reference/responses-streaming.
func responses(w http.ResponseWriter, r *http.Request) {
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
	var items []struct {
		Type    string          `json:"type"`
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	_ = json.Unmarshal(req.Input, &items) // a plain string has no items and so no task
	var prompt string
	var script []step
	reported := []string{req.Instructions}
	answered, said, speaking := false, 0, false
	hasTools := len(req.Tools) > 0
	for _, it := range items {
		// What the model made in one answer lies together.
		made := it.Role == "assistant" || it.Type == "reasoning" || strings.HasSuffix(it.Type, "_call")
		if made && !speaking {
			said++
		}
		speaking = made
		hasTools = hasTools || it.Type == "additional_tools" // code mode names its tools here
		switch {
		case it.Role == "developer" || it.Role == "system":
			for _, b := range blocks(it.Content) {
				reported = append(reported, b.Text)
			}
		case it.Role == "user":
			var parts []struct {
				Text string `json:"text"`
			}
			if json.Unmarshal(it.Content, &parts) != nil {
				continue
			}
			for _, p := range parts {
				if _, ok := taskIn(p.Text); ok {
					prompt, answered, script = p.Text, false, nil
				}
				if steps, ok := scriptIn(p.Text); ok {
					prompt, script, said = p.Text, steps, 0
				}
			}
		case strings.HasSuffix(it.Type, "_output"):
			answered = true
		}
	}
	if script != nil && hasTools {
		responsesStep(w, r, stepAt(script, said).recall(reported...), fmt.Sprint(prompt, said))
		return
	}
	t, ok := taskIn(prompt)
	text := "Understood."
	if answered {
		text = "Done."
	}
	usage := map[string]any{"input_tokens": 100, "input_tokens_details": map[string]any{"cached_tokens": 0}, "output_tokens": 10,
		"output_tokens_details": map[string]any{"reasoning_tokens": 0}, "total_tokens": 110}
	id := nextID("resp")
	s := newStream(w)
	s.send("response.created", map[string]any{"response": map[string]any{"id": id}})
	var item map[string]any
	if ok && !answered && hasTool(req.Tools, "exec_command") {
		args, err := json.Marshal(map[string]any{"cmd": "printf %s " + shellQuote(t.Text) + " > " + shellQuote(t.Path)})
		if err != nil {
			return
		}
		item = map[string]any{"type": "function_call", "id": nextID("fc"), "call_id": nextID("call"), "name": "exec_command", "arguments": string(args)}
	} else {
		item = map[string]any{"type": "message", "id": nextID("msg"), "role": "assistant",
			"content": []any{map[string]any{"type": "output_text", "text": text, "annotations": []any{}}}}
	}
	s.send("response.output_item.added", map[string]any{"output_index": 0, "item": item})
	s.send("response.output_item.done", map[string]any{"output_index": 0, "item": item})
	s.send("response.completed", map[string]any{"response": map[string]any{"id": id, "usage": usage, "output": []any{item}}})
	billed.add(scriptUsage{In: 100, Out: 10})
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
