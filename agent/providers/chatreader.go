package providers

import (
	"cmp"
	"encoding/json"
	"slices"
)

// reasoningFields are where servers put reasoning, which OpenAI's own API does not show: DeepSeek and vLLM; Ollama and OpenRouter; and
// OpenRouter's list of what the model's own provider wants back.
var reasoningFields = []string{"reasoning_content", "reasoning", "reasoning_details"} //nolint:gochecknoglobals // a table

// chatReader reads a stream of Chat Completions.
type chatReader struct {
	a         *answer
	text      *openPart
	reasoning *openPart
	inline    thinkTags
	field     string           // of reasoningFields that the text of the reasoning came in
	details   []map[string]any // of the reasoning
	calls     []*chatOpen
	stop      Stop
}

// chatOpen is a call that is written.
type chatOpen struct {
	*openPart
	index *int   // as the server numbers it
	id    string // as the server names it
}

func (chatAPI) reader(a *answer) reader { return &chatReader{a: a} }

type chatDelta struct {
	Content          chatText         `json:"content"`
	Refusal          string           `json:"refusal"`
	ReasoningContent string           `json:"reasoning_content"`
	Reasoning        string           `json:"reasoning"`
	Details          []map[string]any `json:"reasoning_details"`
	Calls            []struct {
		Index    *int   `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name string          `json:"name"`
			Args json.RawMessage `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// chatText is a text, or a list of texts and other pieces.
type chatText string

// UnmarshalJSON implements json.Unmarshaler.
func (t *chatText) UnmarshalJSON(b []byte) error {
	var text string
	var pieces []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(b, &text) != nil && json.Unmarshal(b, &pieces) == nil {
		for _, p := range pieces {
			text += p.Text
		}
	}
	*t = chatText(text)
	return nil
}

func (r *chatReader) read(data []byte) (Stop, error) {
	if string(data) == "[DONE]" {
		if r.stop == "" && len(r.a.open) > 0 {
			r.stop = StopUnknown
		}
		return r.end(), nil
	}
	var e struct {
		Choices []struct {
			Index  int       `json:"index"`
			Delta  chatDelta `json:"delta"`
			Finish string    `json:"finish_reason"`
		} `json:"choices"`
		Usage *openAIUsage    `json:"usage"`
		Error json.RawMessage `json:"error"`
	}
	if err := parse(data, &e); err != nil {
		return "", err
	}
	if len(e.Error) > 0 && string(e.Error) != "null" || len(e.Choices) == 0 && e.Usage == nil {
		if f, ok := failureIn(data); ok {
			return "", f.failed(0)
		}
	}
	if e.Usage != nil {
		r.a.usage = e.Usage.usage()
	}
	for _, c := range e.Choices {
		if c.Index != 0 {
			continue
		}
		r.delta(c.Delta)
		switch c.Finish {
		case "":
		case "error":
			return "", failure{Code: "server_error", Message: "The provider failed in the middle of its answer."}.failed(0)
		default: // some servers say it with each piece: the answer ends with the stream
			r.stop = chatStop(c.Finish)
		}
	}
	return "", nil
}

func chatStop(reason string) Stop {
	switch reason {
	case "stop", "end_turn", "eos":
		return StopEndTurn
	case "tool_calls", "function_call":
		return StopToolCalls
	case "length":
		return StopMaxOutput
	case "content_filter":
		return StopRefusal
	}
	return StopUnknown
}

func (r *chatReader) delta(d chatDelta) {
	if thought := cmp.Or(d.ReasoningContent, d.Reasoning); thought != "" || len(d.Details) > 0 {
		r.think(thought)
		if d.ReasoningContent != "" {
			r.field = reasoningFields[0]
		} else if thought != "" {
			r.field = reasoningFields[1]
		}
		r.detail(d.Details)
	}
	r.say(r.inline.split(string(d.Content)))
	r.say("", d.Refusal)
	for _, c := range d.Calls {
		args := string(c.Function.Args)
		var text string
		if json.Unmarshal(c.Function.Args, &text) == nil { // a string by the specification, an object by some servers
			args = text
		}
		if call := r.call(c.Index, c.ID, c.Function.Name, args); call != nil {
			call.Name = cmp.Or(call.Name, c.Function.Name)
			call.add(args)
		}
	}
}

func (r *chatReader) think(thought string) {
	if r.reasoning == nil {
		r.reasoning = r.a.begin(Reasoning)
	}
	r.reasoning.add(thought)
}

// say adds to the reasoning that came in the text, and to the text.
func (r *chatReader) say(thought, text string) {
	if thought != "" {
		r.think(thought)
	}
	if text == "" {
		return
	}
	if r.text == nil {
		r.text = r.a.begin(Text)
	}
	r.text.add(text)
}

// call finds the call that a piece belongs to, or begins it. Servers number calls and name them, do one of both, neither, or give all calls
// the same number: a piece is of a new call when its number or id is new, or when the call it seems to be of is complete. It returns nil for
// a call that is sent twice.
func (r *chatReader) call(index *int, id, name, args string) *chatOpen {
	var of *chatOpen
	for _, c := range slices.Backward(r.calls) {
		if index != nil && c.index != nil && *index == *c.index || index == nil && id != "" && id == c.id {
			of = c
			break
		}
	}
	if of == nil && id == "" && name == "" && len(r.calls) > 0 { // nothing says that it is a new one
		of = r.calls[len(r.calls)-1]
	}
	if of != nil {
		whole := of.text.String()
		complete := whole != "" && json.Valid([]byte(whole)) && whole[0] == '{'
		switch {
		case id != "" && of.id != "" && id != of.id: // the number repeats
			of = nil
		case complete && name != "" && args == whole && id == of.id: // the call does
			return nil
		case complete && name != "" && args != "": // the id does, or there is none
			of = nil
		}
	}
	if of == nil {
		if id == "" && name == "" {
			return nil
		}
		of = &chatOpen{r.a.beginCall(id, name), index, id}
		if len(r.calls) < mostParts {
			r.calls = append(r.calls, of)
		}
	}
	of.id = cmp.Or(of.id, id)
	return of
}

// detail adds to the list of what goes back. Pieces of one text follow each other.
func (r *chatReader) detail(more []map[string]any) {
	for _, d := range more {
		text, _ := json.Marshal(d)
		if !r.a.grow(len(text)) {
			return
		}
		if n := len(r.details); n > 0 && r.details[n-1]["type"] == d["type"] && r.details[n-1]["index"] == d["index"] && d["type"] != "reasoning.encrypted" {
			last := r.details[n-1]
			for name, value := range d {
				piece, ok := value.(string)
				if had, before := last[name].(string); ok && before && (name == "text" || name == "summary") {
					last[name] = had + piece
				} else if value != nil {
					last[name] = value
				}
			}
			continue
		}
		r.details = append(r.details, d)
	}
}

// end ends all parts, in the order in which they began. After the reason to stop only the usage comes, which may be missing.
func (r *chatReader) end() Stop {
	if r.stop == "" {
		return ""
	}
	r.say(r.inline.rest())
	for _, p := range r.a.open {
		var raw json.RawMessage
		if p == r.reasoning && (r.field != "" || len(r.details) > 0) {
			fields := map[string]any{}
			if r.field != "" {
				fields[r.field] = p.text.String()
			}
			if len(r.details) > 0 {
				fields[reasoningFields[2]] = r.details
			}
			raw, _ = encode(fields)
		}
		p.finish(raw)
	}
	return r.stop
}
