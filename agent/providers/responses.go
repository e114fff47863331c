package providers

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// Responses returns the provider that speaks OpenAI's Responses API: https://platform.openai.com/docs/api-reference/responses. The provider
// stores nothing: reasoning goes back with each request, encrypted.
func Responses(cfg Config) Provider { return newClient(cfg, responsesAPI{cfg.ReasoningSummaries}) }

type responsesAPI struct{ summaries bool }

func (responsesAPI) name() string                                   { return "openai" }
func (responsesAPI) headers(h http.Header, _ Request, token string) { bearer(h, token) }

type responsesRequest struct {
	Model        string          `json:"model"`
	Instructions string          `json:"instructions,omitempty"`
	Input        []any           `json:"input"`
	Tools        []responsesTool `json:"tools,omitempty"`
	Parallel     bool            `json:"parallel_tool_calls,omitempty"`
	MaxOutput    int             `json:"max_output_tokens,omitempty"`
	Reasoning    *reasoning      `json:"reasoning,omitempty"`
	Include      []string        `json:"include,omitempty"`
	CacheKey     string          `json:"prompt_cache_key,omitempty"`
	Store        bool            `json:"store"`
	Stream       bool            `json:"stream"`
}

type reasoning struct {
	Effort  string `json:"effort,omitempty"`
	Summary string `json:"summary,omitempty"`
}

type responsesTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"`
}

// Items of the input.
type (
	messageItem struct {
		Type    string  `json:"type"`
		Role    Role    `json:"role"`
		Content []input `json:"content"`
		Phase   string  `json:"phase,omitempty"`
	}
	input struct {
		Type  string `json:"type"`
		Text  string `json:"text,omitempty"`
		Image string `json:"image_url,omitempty"`
	}
	callItem struct {
		Type   string `json:"type"`
		CallID string `json:"call_id"`
		Name   string `json:"name"`
		Args   string `json:"arguments"`
	}
	outputItem struct {
		Type   string `json:"type"`
		CallID string `json:"call_id"`
		Output any    `json:"output"`
	}
)

func (f responsesAPI) request(req Request) (path string, body any) {
	out := responsesRequest{Model: req.Model, Instructions: systemText(req.System), MaxOutput: req.MaxOutput, Stream: true, CacheKey: req.CacheKey, Parallel: len(req.Tools) > 0}
	if len(out.CacheKey) > 64 {
		out.CacheKey = wireID(out.CacheKey)
	}
	for _, t := range req.Tools {
		out.Tools = append(out.Tools, responsesTool{"function", t.Name, t.Description, schema(t), false})
	}
	if reasons(req.Model) {
		out.Include = []string{"reasoning.encrypted_content"}
		if f.summaries {
			out.Reasoning = &reasoning{Summary: "auto"}
		}
	}
	if req.Effort != "" {
		if out.Reasoning == nil {
			out.Reasoning = &reasoning{}
		}
		out.Reasoning.Effort = req.Effort
	}
	for _, m := range req.Messages {
		out.Input = append(out.Input, items(m)...)
	}
	return "/responses", out
}

// reasons reports whether a model may reason. OpenAI refuses requests for reasoning to those that never do.
func reasons(model string) bool {
	return !slices.ContainsFunc([]string{"gpt-4", "gpt-3", "chatgpt-"}, func(old string) bool { return strings.HasPrefix(model, old) })
}

// items are the items that a message consists of, in its order: reasoning comes before what it led to.
func items(m Message) (out []any) {
	var said []input // to one message of the user
	for _, p := range m.Parts {
		switch p.Kind {
		case Text:
			if m.Role == User {
				said = append(said, input{Type: "input_text", Text: p.Text})
				continue
			}
			out = append(out, messageItem{"message", Assistant, []input{{Type: "output_text", Text: p.Text}}, p.Phase})
		case Image:
			said = append(said, input{Type: "input_image", Image: dataURL(p)})
		case Reasoning:
			out = append(out, p.Raw)
		case ToolCall:
			out = append(out, callItem{"function_call", wireID(p.CallID), wireName(p.Name), string(arguments(p))})
		case ToolResult:
			out = append(out, outputItem{"function_call_output", wireID(p.CallID), output(p)})
		}
	}
	if len(said) > 0 {
		out = append(out, messageItem{"message", User, said, ""})
	}
	return out
}

// output is a text, or a list where there are images.
func output(p Part) any {
	list := []input{{Type: "input_text", Text: resultText(p)}}
	for _, c := range p.Content {
		if c.Kind == Image {
			list = append(list, input{Type: "input_image", Image: dataURL(c)})
		}
	}
	if len(list) == 1 {
		return list[0].Text
	}
	return list
}

// responsesReader reads a stream of Responses: https://platform.openai.com/docs/api-reference/responses-streaming.
type responsesReader struct {
	a       *answer
	items   map[int]*responsesItem
	ended   map[string]bool // ids of items: some servers number them otherwise when they repeat them at the end
	refused bool
}

type responsesItem struct {
	*openPart      // nil: of a kind that is not ours
	piece     int  // of the content or the summary that is written
	begun     bool // a piece has
}

func (responsesAPI) reader(a *answer) reader {
	return &responsesReader{a: a, items: map[int]*responsesItem{}, ended: map[string]bool{}}
}

// item is an item of the output.
type item struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Phase   string `json:"phase"`
	CallID  string `json:"call_id"`
	Name    string `json:"name"`
	Args    string `json:"arguments"`
	Content []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
	Summary []struct {
		Text string `json:"text"`
	} `json:"summary"`
}

// text is what people read of an item.
func (i item) text() string {
	var texts []string
	for _, s := range i.Summary {
		texts = append(texts, s.Text)
	}
	for _, c := range i.Content {
		if i.Type != "reasoning" || len(i.Summary) == 0 {
			texts = append(texts, c.Text+c.Refusal)
		}
	}
	return strings.Join(texts, "\n\n")
}

func (r *responsesReader) read(data []byte) (Stop, error) {
	if string(data) == "[DONE]" { // of servers that end every stream so
		return "", nil
	}
	var e struct {
		Type    string          `json:"type"`
		Index   int             `json:"output_index"`
		Content int             `json:"content_index"`
		Summary int             `json:"summary_index"`
		Delta   json.RawMessage `json:"delta"`
		Item    json.RawMessage `json:"item"`
		Answer  struct {
			Output     []json.RawMessage `json:"output"`
			Usage      *openAIUsage      `json:"usage"`
			Error      *failure          `json:"error"`
			Incomplete struct {
				Reason string `json:"reason"`
			} `json:"incomplete_details"`
		} `json:"response"`
	}
	if err := parse(data, &e); err != nil {
		return "", err
	}
	switch e.Type {
	case "response.output_item.added":
		_, err := r.item(e.Index, e.Item)
		return "", err
	case "response.output_text.delta", "response.refusal.delta":
		return "", r.delta(e.Index, e.Content, Text, e.Delta)
	case "response.reasoning_summary_text.delta":
		return "", r.delta(e.Index, e.Summary, Reasoning, e.Delta)
	case "response.reasoning_text.delta":
		return "", r.delta(e.Index, e.Content, Reasoning, e.Delta)
	case "response.function_call_arguments.delta":
		return "", r.delta(e.Index, 0, ToolCall, e.Delta)
	case "response.output_item.done":
		return "", r.finish(e.Index, e.Item)
	case "response.completed", "response.incomplete", "response.done":
		for i, raw := range e.Answer.Output { // those that were not streamed
			if err := r.finish(i, raw); err != nil {
				return "", err
			}
		}
		for _, p := range r.a.open {
			if p.Kind != Reasoning { // of servers that do not end their items
				p.finish(nil)
			}
		}
		r.a.usage = e.Answer.Usage.usage()
		return r.stop(e.Type, e.Answer.Incomplete.Reason), nil
	case "response.failed", "response.cancelled":
		f := failure{Code: "server_error", Message: "The provider failed to answer and did not say why."}
		if e.Answer.Error != nil {
			f = *e.Answer.Error
		}
		return "", f.failed(0)
	case "error", "":
		if f, ok := failureIn(data); ok {
			return "", f.failed(0)
		}
	}
	return "", nil
}

func (r *responsesReader) stop(event, reason string) Stop {
	switch {
	case r.refused || reason == "content_filter":
		return StopRefusal
	case event == "response.incomplete" && reason == "max_output_tokens":
		return StopMaxOutput
	case event == "response.incomplete":
		return StopUnknown
	}
	return StopEndTurn
}

// item returns the open part of an item, and begins it when it is new.
func (r *responsesReader) item(index int, raw json.RawMessage) (*responsesItem, error) {
	if i := r.items[index]; i != nil {
		return i, nil
	}
	var it item
	if err := parse(raw, &it); err != nil {
		return nil, err
	}
	i := &responsesItem{}
	switch it.Type {
	case "message":
		i.openPart = r.a.begin(Text)
	case "reasoning":
		i.openPart = r.a.begin(Reasoning)
	case "function_call":
		i.openPart = r.a.beginCall(it.CallID, it.Name)
	}
	r.items[index] = i
	return i, nil
}

// delta adds to an item. A new piece of its text begins with an empty line, as text has it.
func (r *responsesReader) delta(index, piece int, kind PartKind, raw json.RawMessage) error {
	var text string
	if err := parse(raw, &text); err != nil {
		return err
	}
	i := r.items[index]
	if i == nil && kind != ToolCall { // a server that does not announce its items
		i = &responsesItem{openPart: r.a.begin(kind)}
		r.items[index] = i
	}
	if i == nil || i.openPart == nil {
		return nil
	}
	if i.begun && piece != i.piece {
		i.add("\n\n")
	}
	i.begun, i.piece = true, piece
	i.add(text)
	return nil
}

// finish ends an item with what it is at its end.
func (r *responsesReader) finish(index int, raw json.RawMessage) error {
	var it item
	if err := parse(raw, &it); err != nil || it.ID != "" && r.ended[it.ID] {
		return err
	}
	i, err := r.item(index, raw)
	if err != nil || i.openPart == nil || i.done {
		return err
	}
	r.ended[it.ID] = true
	for _, c := range it.Content {
		r.refused = r.refused || c.Type == "refusal"
	}
	switch i.Kind {
	case ToolCall:
		i.Name = cmp.Or(it.Name, i.Name)
		i.complete(it.Args)
		i.openPart.finish(nil)
	case Reasoning:
		i.complete(it.text())
		i.openPart.finish(slices.Clone(raw))
	default:
		i.Phase = it.Phase
		i.complete(it.text())
		i.openPart.finish(nil)
	}
	return nil
}

func (r *responsesReader) end() Stop { return "" }
