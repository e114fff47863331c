package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
)

var serial atomic.Int64

func nextID(prefix string) string { return fmt.Sprintf("%s_%06d", prefix, serial.Add(1)) }

type anthropicBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
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

// messages answers POST /v1/messages: https://docs.anthropic.com/en/api/messages-streaming.
func messages(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Model    string          `json:"model"`
		System   json.RawMessage `json:"system"`
		Stream   bool            `json:"stream"`
		Tools    []any           `json:"tools"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var prompt string
	var script []step
	answered, said := false, 0
	for _, m := range req.Messages {
		if m.Role == "assistant" {
			said++
		}
		if m.Role != "user" {
			continue
		}
		for _, b := range blocks(m.Content) {
			switch b.Type {
			case "text":
				if _, ok := taskIn(b.Text); ok {
					prompt, answered, script = b.Text, false, nil
				}
				if steps, ok := scriptIn(b.Text); ok {
					prompt, script, said = b.Text, steps, 0
				}
			case "tool_result":
				answered = true
			}
		}
	}
	if script != nil && len(req.Tools) > 0 && req.Stream {
		var reported []string
		for _, b := range blocks(req.System) {
			reported = append(reported, b.Text)
		}
		anthropicStep(w, r, req.Model, stepAt(script, said).recall(reported...), fmt.Sprint(prompt, said))
		return
	}
	t, ok := taskIn(prompt)
	text := "Understood."
	if answered {
		text = "Done."
	}
	callTool := ok && !answered && len(req.Tools) > 0
	if len(req.Tools) == 0 {
		text = `{"title":"Scripted task"}`
	}
	usage := map[string]any{"input_tokens": 100, "output_tokens": 10, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
	id := nextID("msg")
	if !req.Stream {
		billed.add(scriptUsage{In: 100, Out: 10})
		reply(w, map[string]any{"id": id, "type": "message", "role": "assistant", "model": req.Model, "stop_reason": "end_turn",
			"content": []any{map[string]any{"type": "text", "text": text}}, "usage": usage})
		return
	}
	s := newStream(w)
	s.send("message_start", map[string]any{"message": map[string]any{"id": id, "type": "message", "role": "assistant",
		"model": req.Model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage}})
	stop := "end_turn"
	if callTool {
		stop = "tool_use"
		args, err := json.Marshal(map[string]string{"file_path": t.Path, "content": t.Text})
		if err != nil {
			return
		}
		s.send("content_block_start", map[string]any{"index": 0, "content_block": map[string]any{"type": "tool_use", "id": nextID("toolu"), "name": "Write", "input": map[string]any{}}})
		s.send("content_block_delta", map[string]any{"index": 0, "delta": map[string]any{"type": "input_json_delta", "partial_json": string(args)}})
	} else {
		s.send("content_block_start", map[string]any{"index": 0, "content_block": map[string]any{"type": "text", "text": ""}})
		s.send("content_block_delta", map[string]any{"index": 0, "delta": map[string]any{"type": "text_delta", "text": text}})
	}
	s.send("content_block_stop", map[string]any{"index": 0})
	s.send("message_delta", map[string]any{"delta": map[string]any{"stop_reason": stop, "stop_sequence": nil}, "usage": usage})
	s.send("message_stop", map[string]any{})
	billed.add(scriptUsage{In: 100, Out: 10})
}
