package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"
)

// step is one answer of the model in a #script.
type step struct {
	Thinking string     `json:"thinking"`
	Text     string     `json:"text"`
	Recall   string     `json:"recall"` // the reply is the line of the system prompt that contains this
	Tools    []toolCall `json:"tools"`
	Error    *struct {  // instead of an answer
		Status  int    `json:"status"`
		Type    string `json:"type"`
		Message string `json:"message"`
		Times   int    `json:"times"` // after so many the answer is given; 0 = always
	} `json:"error"`
	DelayMS int         `json:"delay_ms"` // before the answer
	HoldMS  int         `json:"hold_ms"`  // after the answer has begun
	Usage   scriptUsage `json:"usage"`
}

// toolCall calls a tool of the CLI. Input is an object, or a string for the tools that take plain text.
type toolCall struct {
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// plain returns the input of a tool that takes plain text.
func (c toolCall) plain() (s string, ok bool) {
	err := json.Unmarshal(c.Input, &s)
	return s, err == nil
}

// scriptUsage is what a step bills. In holds neither cache reads nor cache writes.
type scriptUsage struct {
	In         int `json:"in"`
	Out        int `json:"out"`
	CacheRead  int `json:"cache_read"`
	CacheWrite int `json:"cache_write"`
	Reasoning  int `json:"reasoning"`
}

// scriptIn finds the first #script in text: a JSON list of steps.
func scriptIn(text string) ([]step, bool) {
	_, after, ok := strings.Cut(text, "#script ")
	if !ok {
		return nil, false
	}
	var steps []step
	if err := json.NewDecoder(strings.NewReader(after)).Decode(&steps); err != nil {
		return nil, false
	}
	return steps, true
}

// stepAt returns the n-th step; after the last one the model says "Done.".
func stepAt(steps []step, n int) step {
	if n < len(steps) {
		return steps[n]
	}
	return step{Text: "Done."}
}

var failures struct {
	sync.Mutex
	seen map[string]int
}

// recall replies from the system prompt: told are the texts before the conversation.
func (s step) recall(reported ...string) step {
	if s.Recall == "" {
		return s
	}
	s.Text = "I was not told."
	for line := range strings.Lines(strings.Join(reported, "\n")) {
		if strings.Contains(line, s.Recall) {
			s.Text = strings.TrimSpace(line)
			break
		}
	}
	return s
}

// fails answers with the step's error; false when it has none, or was given often enough.
func (s step) fails(w http.ResponseWriter, key string, body func(typ, message string) any) bool {
	if s.Error == nil {
		return false
	}
	if s.Error.Times > 0 {
		failures.Lock()
		if failures.seen == nil {
			failures.seen = map[string]int{}
		}
		failures.seen[key]++
		n := failures.seen[key]
		failures.Unlock()
		if n > s.Error.Times {
			return false
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(s.Error.Status)
	_ = json.NewEncoder(w).Encode(body(s.Error.Type, s.Error.Message))
	return true
}

// wait holds the answer back; false when the caller left.
func (s step) wait(r *http.Request) bool { return pause(r, s.DelayMS) }

// hold stops in an answer that has begun; false when the caller left.
func (s step) hold(r *http.Request) bool { return pause(r, s.HoldMS) }

func pause(r *http.Request, ms int) bool {
	if ms <= 0 {
		return true
	}
	select {
	case <-time.After(time.Duration(ms) * time.Millisecond):
		return true
	case <-r.Context().Done():
		return false
	}
}

// anthropicStep answers a step as a stream of the Messages API.
func anthropicStep(w http.ResponseWriter, r *http.Request, model string, st step, key string) {
	if !st.wait(r) || st.fails(w, key, func(typ, message string) any {
		return map[string]any{"type": "error", "error": map[string]any{"type": typ, "message": message}}
	}) {
		return
	}
	u := st.Usage
	usage := map[string]any{"input_tokens": u.In, "output_tokens": u.Out, "cache_read_input_tokens": u.CacheRead, "cache_creation_input_tokens": u.CacheWrite}
	s := newStream(w)
	s.send("message_start", map[string]any{"message": map[string]any{"id": nextID("msg"), "type": "message", "role": "assistant",
		"model": model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage}})
	if !st.hold(r) {
		return
	}
	index := 0
	block := func(start map[string]any, deltas ...map[string]any) {
		s.send("content_block_start", map[string]any{"index": index, "content_block": start})
		for _, d := range deltas {
			s.send("content_block_delta", map[string]any{"index": index, "delta": d})
		}
		s.send("content_block_stop", map[string]any{"index": index})
		index++
	}
	if st.Thinking != "" {
		block(map[string]any{"type": "thinking", "thinking": "", "signature": ""}, map[string]any{"type": "thinking_delta", "thinking": st.Thinking},
			map[string]any{"type": "signature_delta", "signature": "c2NyaXB0ZWQ="})
	}
	if st.Text != "" {
		block(map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta", "text": st.Text})
	}
	stop := "end_turn"
	for _, c := range st.Tools {
		stop = "tool_use"
		block(map[string]any{"type": "tool_use", "id": nextID("toolu"), "name": c.Name, "input": map[string]any{}},
			map[string]any{"type": "input_json_delta", "partial_json": string(c.Input)})
	}
	s.send("message_delta", map[string]any{"delta": map[string]any{"stop_reason": stop, "stop_sequence": nil}, "usage": usage})
	s.send("message_stop", map[string]any{})
	billed.add(u)
}

// responsesStep answers a step as a stream of the Responses API.
func responsesStep(w http.ResponseWriter, r *http.Request, st step, key string) {
	if !st.wait(r) || st.fails(w, key, func(typ, message string) any {
		return map[string]any{"error": map[string]any{"type": typ, "message": message}}
	}) {
		return
	}
	u := st.Usage
	in := u.In + u.CacheRead + u.CacheWrite
	usage := map[string]any{"input_tokens": in, "input_tokens_details": map[string]any{"cached_tokens": u.CacheRead}, "output_tokens": u.Out,
		"output_tokens_details": map[string]any{"reasoning_tokens": u.Reasoning}, "total_tokens": in + u.Out}
	var items []map[string]any
	if st.Thinking != "" {
		items = append(items, map[string]any{"type": "reasoning", "id": nextID("rs"), "summary": []any{map[string]any{"type": "summary_text", "text": st.Thinking}},
			"encrypted_content": "c2NyaXB0ZWQ="})
	}
	if st.Text != "" {
		items = append(items, map[string]any{"type": "message", "id": nextID("msg"), "role": "assistant",
			"content": []any{map[string]any{"type": "output_text", "text": st.Text, "annotations": []any{}}}})
	}
	for _, c := range st.Tools {
		item := map[string]any{"type": "function_call", "id": nextID("fc"), "call_id": nextID("call"), "name": c.Name, "arguments": string(c.Input)}
		if server, name, ok := strings.Cut(strings.TrimPrefix(c.Name, "mcp__"), "__"); ok && strings.HasPrefix(c.Name, "mcp__") { // a tool of an MCP server
			item["namespace"], item["name"] = "mcp__"+server, name
		}
		if text, ok := c.plain(); ok {
			item = map[string]any{"type": "custom_tool_call", "id": nextID("ctc"), "call_id": nextID("call"), "name": c.Name, "input": text, "status": "completed"}
		}
		items = append(items, item)
	}
	id := nextID("resp")
	s := newStream(w)
	s.send("response.created", map[string]any{"response": map[string]any{"id": id}})
	if !st.hold(r) {
		return
	}
	for i, item := range items {
		s.send("response.output_item.added", map[string]any{"output_index": i, "item": item})
		s.send("response.output_item.done", map[string]any{"output_index": i, "item": item})
	}
	s.send("response.completed", map[string]any{"response": map[string]any{"id": id, "usage": usage, "output": items}})
	billed.add(u)
}

// bill adds up what whole answers used.
type bill struct {
	mu                                  sync.Mutex
	begun                               int // answers, also those that were cut
	answers, in, out, cacheRead, writes int
}

var billed bill //nolint:gochecknoglobals // of the program

func (b *bill) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begun++
}

func (b *bill) add(u scriptUsage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers++
	b.in += u.In
	b.out += u.Out
	b.cacheRead += u.CacheRead
	b.writes += u.CacheWrite
}

func (b *bill) show(w http.ResponseWriter, _ *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	reply(w, map[string]int{"begun": b.begun, "answers": b.answers, "input": b.in, "output": b.out, "cache_read": b.cacheRead, "cache_write": b.writes})
}
