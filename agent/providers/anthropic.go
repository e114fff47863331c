package providers

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Anthropic returns the provider that speaks the Messages API: https://platform.claude.com/docs/en/api/messages.
func Anthropic(cfg Config) Provider { return newClient(cfg, messagesAPI{}) }

type messagesAPI struct{}

const (
	defaultMaxTokens = 16_384 // the API has no default
	mostBreakpoints  = 4      // of the cache, in a request
	leastThinking    = 1024   // tokens, of a fixed budget
)

func (messagesAPI) name() string { return "anthropic" }

func (messagesAPI) headers(h http.Header, req Request, token string) {
	h.Set("Anthropic-Version", "2023-06-01")
	if req.Effort != "" && interleaves(req.Model) {
		h.Set("Anthropic-Beta", "interleaved-thinking-2025-05-14")
	}
	if token != "" {
		h.Set("X-Api-Key", token)
	}
}

type messagesRequest struct {
	Model     string            `json:"model"`
	MaxTokens int               `json:"max_tokens"`
	Stream    bool              `json:"stream"`
	Thinking  *thinking         `json:"thinking,omitempty"`
	Output    *outputConfig     `json:"output_config,omitempty"`
	System    []*block          `json:"system,omitempty"`
	Tools     []messagesTool    `json:"tools,omitempty"`
	Messages  []messagesMessage `json:"messages"`
}

type thinking struct {
	Type    string `json:"type"`
	Budget  int    `json:"budget_tokens,omitempty"`
	Display string `json:"display,omitempty"`
}

type outputConfig struct {
	Effort string `json:"effort"`
}

type messagesTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"input_schema"`
	Cache       *cacheControl   `json:"cache_control,omitempty"`
}

type messagesMessage struct {
	Role    Role     `json:"role"`
	Content []*block `json:"content"`
}

type cacheControl struct {
	Type string `json:"type"`
}

// block is a block of content. One with raw is sent as it came.
type block struct {
	raw json.RawMessage

	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	Source    *imageSource    `json:"source,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   []*block        `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
	Cache     *cacheControl   `json:"cache_control,omitempty"`
}

type imageSource struct {
	Type  string `json:"type"`
	Media string `json:"media_type"`
	Data  []byte `json:"data"`
}

// MarshalJSON implements json.Marshaler.
func (b *block) MarshalJSON() ([]byte, error) {
	if b.raw != nil {
		return b.raw, nil
	}
	type plain block
	return encode((*plain)(b))
}

func (messagesAPI) request(req Request) (path string, body any) {
	out := messagesRequest{Model: req.Model, MaxTokens: cmp.Or(req.MaxOutput, defaultMaxTokens), Stream: true}
	for _, t := range req.Tools {
		out.Tools = append(out.Tools, messagesTool{Name: t.Name, Description: t.Description, Schema: schema(t)})
	}
	for _, m := range req.Messages {
		if m.Role == Assistant && len(out.Messages) == 0 { // the API takes none that begin so
			out.Messages = append(out.Messages, messagesMessage{User, []*block{{Type: "text", Text: "(The conversation before is left out.)"}}})
		}
		out.Messages = append(out.Messages, messagesMessage{m.Role, blocksOf(m.Parts)})
	}
	out.think(req)
	out.cache(req)
	return "/v1/messages", out
}

func blocksOf(parts []Part) (out []*block) {
	for _, p := range parts {
		switch p.Kind {
		case Text:
			out = append(out, &block{Type: "text", Text: p.Text})
		case Image:
			out = append(out, &block{Type: "image", Source: &imageSource{"base64", p.MIME, p.Data}})
		case Reasoning:
			out = append(out, &block{raw: p.Raw})
		case ToolCall:
			out = append(out, &block{Type: "tool_use", ID: wireID(p.CallID), Name: wireName(p.Name), Input: arguments(p)})
		case ToolResult:
			b := &block{Type: "tool_result", ToolUseID: wireID(p.CallID), Content: blocksOf(p.Content), IsError: p.IsError}
			if b.IsError && slices.ContainsFunc(p.Content, func(c Part) bool { return c.Kind == Image }) { // errors have no pictures in this API
				b.IsError, b.Content = false, append([]*block{{Type: "text", Text: "Error:"}}, b.Content...)
			}
			out = append(out, b)
		}
	}
	return out
}

// cache sets the points up to which the provider keeps what it read: the last two turns of the user, so that the next request finds the
// one before it, the parts of the system prompt that stay, and the tools, which come first.
func (r *messagesRequest) cache(req Request) {
	mark, left := &cacheControl{"ephemeral"}, mostBreakpoints
	for i, turns := len(r.Messages)-1, 2; i >= 0 && turns > 0; i-- {
		if m := r.Messages[i]; m.Role == User && len(m.Content) > 0 {
			m.Content[len(m.Content)-1].Cache = mark
			left--
			turns--
		}
	}
	for _, s := range req.System {
		if s.Text != "" {
			r.System = append(r.System, &block{Type: "text", Text: s.Text})
			if s.Cache {
				r.System[len(r.System)-1].Cache = mark
			}
		}
	}
	for _, b := range slices.Backward(r.System) {
		if left == 0 {
			b.Cache = nil
		} else if b.Cache != nil {
			left--
		}
	}
	if left > 0 && len(r.Tools) > 0 {
		r.Tools[len(r.Tools)-1].Cache = mark
	}
}

var budgets = map[string]int{"low": 4096, "medium": 10_240, "high": 24_576} //nolint:gochecknoglobals // a table

// think asks for reasoning. Claude takes an effort since 4.6; older ones and other vendors' models that speak this API take a budget.
func (r *messagesRequest) think(req Request) {
	budget, ok := budgets[req.Effort]
	if !ok {
		return
	}
	if adaptive(req.Model) {
		r.Thinking, r.Output = &thinking{Type: "adaptive", Display: "summarized"}, &outputConfig{req.Effort}
		return
	}
	if budget = min(budget, r.MaxTokens/2); budget >= leastThinking && !r.thoughtless() {
		r.Thinking = &thinking{Type: "enabled", Budget: budget}
	}
}

var claude = regexp.MustCompile(`claude-(?:[a-z]+-)*(\d{1,2})(?:[-.](\d{1,2}))?(?:\D|$)`)

// interleaves reports whether a model thinks between calls of tools when a header asks it to: Claude 4 before 4.6. Newer ones do so
// anyway, older ones cannot, and servers of other vendors may refuse the header.
func interleaves(model string) bool {
	m := claude.FindStringSubmatch(model)
	return m != nil && m[1] == "4" && !adaptive(model)
}

// adaptive reports whether a model decides itself how much to think. Names are such as claude-opus-4-8, claude-3-7-sonnet-20250219, and
// claude-mythos-preview, which are newer than numbers.
func adaptive(model string) bool {
	if !strings.Contains(model, "claude-") {
		return false
	}
	m := claude.FindStringSubmatch(model)
	if m == nil {
		return true
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	return major > 4 || major == 4 && minor >= 6
}

// thoughtless reports whether the model's turn goes on that began without thinking, for example with another model: models with a fixed
// budget take no such request.
func (r *messagesRequest) thoughtless() bool {
	for _, m := range slices.Backward(r.Messages) {
		if m.Role == Assistant {
			return slices.ContainsFunc(m.Content, func(b *block) bool { return b.Type == "tool_use" }) && m.Content[0].raw == nil
		}
		if !slices.ContainsFunc(m.Content, func(b *block) bool { return b.Type == "tool_result" }) {
			return false
		}
	}
	return false
}

// messagesReader reads a stream of the Messages API: https://platform.claude.com/docs/en/build-with-claude/streaming.
type messagesReader struct {
	a      *answer
	blocks map[int]*messagesBlock
	stop   Stop
}

type messagesBlock struct {
	part  *openPart // nil: of a kind that is not ours
	start json.RawMessage
	sign  strings.Builder
}

func (messagesAPI) reader(a *answer) reader {
	return &messagesReader{a: a, blocks: map[int]*messagesBlock{}}
}

type messagesUsage struct {
	Input      *int64 `json:"input_tokens"`
	Output     *int64 `json:"output_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
	Details    struct {
		Thinking *int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

func (u messagesUsage) over(to *Usage) {
	set(&to.Input, u.Input)
	set(&to.Output, u.Output)
	set(&to.CacheRead, u.CacheRead)
	set(&to.CacheWrite, u.CacheWrite)
	set(&to.Reasoning, u.Details.Thinking)
}

func set(to *int64, v *int64) {
	if v != nil && *v > 0 { // some servers report 0 at one end of the stream
		*to = *v
	}
}

func (r *messagesReader) read(data []byte) (Stop, error) {
	var e struct {
		Type    string `json:"type"`
		Index   int    `json:"index"`
		Message struct {
			Usage messagesUsage `json:"usage"`
		} `json:"message"`
		Block json.RawMessage `json:"content_block"`
		Delta struct {
			Type      string `json:"type"`
			Text      string `json:"text"`
			Thinking  string `json:"thinking"`
			Signature string `json:"signature"`
			JSON      string `json:"partial_json"`
			Stop      string `json:"stop_reason"`
		} `json:"delta"`
		Usage messagesUsage   `json:"usage"`
		Error json.RawMessage `json:"error"`
	}
	if err := parse(data, &e); err != nil {
		return "", err
	}
	switch e.Type {
	case "message_start":
		e.Message.Usage.over(&r.a.usage)
		r.a.usage.Output = 0 // what it says of the output is no total
	case "content_block_start":
		return "", r.begin(e.Index, e.Block)
	case "content_block_delta":
		b := r.blocks[e.Index]
		if b == nil || b.part == nil {
			return "", nil
		}
		b.part.add(e.Delta.Text + e.Delta.Thinking + e.Delta.JSON)
		if r.a.grow(len(e.Delta.Signature)) {
			b.sign.WriteString(e.Delta.Signature)
		}
	case "content_block_stop":
		if b := r.blocks[e.Index]; b != nil {
			delete(r.blocks, e.Index)
			b.end()
		}
	case "message_delta":
		e.Usage.over(&r.a.usage)
		r.stop = messagesStop(e.Delta.Stop, r.stop)
	case "message_stop":
		for _, index := range slices.Sorted(maps.Keys(r.blocks)) { // that the server did not end
			r.blocks[index].end()
		}
		return cmp.Or(r.stop, StopUnknown), nil
	case "error":
		f, _ := failureIn(data)
		return "", f.failed(0)
	}
	return "", nil
}

// begin begins a block.
func (r *messagesReader) begin(index int, start json.RawMessage) error {
	var b struct {
		Type, ID, Name, Text, Thinking, Signature string
		Input                                     json.RawMessage
	}
	if err := parse(start, &b); err != nil {
		return err
	}
	block := &messagesBlock{start: slices.Clone(start)}
	switch b.Type {
	case "text":
		block.part = r.a.begin(Text)
		block.part.add(b.Text)
	case "thinking":
		block.part = r.a.begin(Reasoning)
		block.part.add(b.Thinking)
		block.sign.WriteString(b.Signature)
	case "redacted_thinking":
		block.part = r.a.begin(Reasoning)
	case "tool_use":
		block.part = r.a.beginCall(b.ID, b.Name)
		if len(b.Input) > 0 && string(b.Input) != "{}" && string(b.Input) != "null" { // of servers that send it in one piece
			block.part.add(string(b.Input))
		}
	}
	r.blocks[index] = block
	return nil
}

// end ends a block.
func (b *messagesBlock) end() {
	if b.part == nil {
		return
	}
	if b.part.Kind != Reasoning {
		b.part.finish(nil)
		return
	}
	var fields map[string]json.RawMessage // those that we do not know stay as they came
	if json.Unmarshal(b.start, &fields) != nil {
		return
	}
	if string(fields["type"]) == `"thinking"` {
		fields["thinking"], _ = json.Marshal(b.part.text.String())
		fields["signature"], _ = json.Marshal(b.sign.String())
		b.start, _ = json.Marshal(fields)
	}
	b.part.finish(b.start)
}

// messagesStop translates a reason to stop; an empty one leaves what was said before.
func messagesStop(reason string, before Stop) Stop {
	switch reason {
	case "":
		return before
	case "end_turn", "stop_sequence":
		return StopEndTurn
	case "tool_use":
		return StopToolCalls
	case "max_tokens", "model_context_window_exceeded":
		return StopMaxOutput
	case "refusal":
		return StopRefusal
	case "pause_turn":
		return StopPause
	}
	return StopUnknown
}

func (r *messagesReader) end() Stop { return "" }
