package providers

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Chat returns the provider that speaks OpenAI's Chat Completions API, as many other servers do in ways of their own: Ollama, vLLM,
// OpenRouter and others: https://platform.openai.com/docs/api-reference/chat.
func Chat(cfg Config) Provider { return newClient(cfg, chatAPI{}) }

type chatAPI struct{}

func (chatAPI) name() string                                   { return "openai-chat" }
func (chatAPI) headers(h http.Header, _ Request, token string) { bearer(h, token) }

type chatRequest struct {
	Model         string           `json:"model"`
	Messages      []map[string]any `json:"messages"`
	Tools         []chatTool       `json:"tools,omitempty"`
	MaxTokens     int              `json:"max_tokens,omitempty"`
	MaxCompletion int              `json:"max_completion_tokens,omitempty"`
	Effort        string           `json:"reasoning_effort,omitempty"`
	Stream        bool             `json:"stream"`
	StreamOptions struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
}

type chatTool struct {
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

type chatCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name string `json:"name"`
		Args string `json:"arguments"`
	} `json:"function"`
}

type chatPart struct {
	Type  string     `json:"type"`
	Text  string     `json:"text,omitempty"`
	Image *chatImage `json:"image_url,omitempty"`
}

type chatImage struct {
	URL string `json:"url"`
}

// newer are OpenAI's models that take only the new name of the bound. Other servers may know only the old one.
var newer = regexp.MustCompile(`^(?:openai/)?(?:o\d|gpt-[5-9])`)

func (chatAPI) request(req Request) (path string, body any) {
	out := chatRequest{Model: req.Model, Effort: req.Effort, Stream: true}
	out.StreamOptions.Usage = true
	if newer.MatchString(req.Model) {
		out.MaxCompletion = req.MaxOutput
	} else {
		out.MaxTokens = req.MaxOutput
	}
	for _, t := range req.Tools {
		out.Tools = append(out.Tools, chatTool{"function", chatFunction{t.Name, t.Description, schema(t)}})
	}
	if text := systemText(req.System); text != "" {
		out.Messages = append(out.Messages, map[string]any{"role": "system", "content": text})
	}
	turn := turnBegin(req.Messages)
	for i, m := range req.Messages {
		if m.Role == Assistant {
			out.Messages = append(out.Messages, chatAssistant(m, i > turn))
		} else {
			out.Messages = append(out.Messages, chatUser(m)...)
		}
	}
	return "/chat/completions", out
}

// turnBegin is the last message in which the user says something, other than results.
func turnBegin(messages []Message) int {
	for i, m := range slices.Backward(messages) {
		if m.Role == User && !slices.ContainsFunc(m.Parts, func(p Part) bool { return p.Kind == ToolResult }) {
			return i
		}
	}
	return -1
}

// chatAssistant writes a message of the model. Reasoning goes along while its turn lasts, in the fields it came in: some servers require
// that, and others refuse it later.
func chatAssistant(m Message, current bool) map[string]any {
	out := map[string]any{"role": "assistant"}
	var texts []string
	var calls []chatCall
	for _, p := range m.Parts {
		switch p.Kind {
		case Text:
			texts = append(texts, p.Text)
		case ToolCall:
			c := chatCall{ID: wireID(p.CallID), Type: "function"}
			c.Function.Name, c.Function.Args = wireName(p.Name), string(arguments(p))
			calls = append(calls, c)
		case Reasoning:
			var fields map[string]json.RawMessage
			if current && json.Unmarshal(p.Raw, &fields) == nil {
				for name, value := range fields {
					if slices.Contains(reasoningFields, name) {
						out[name] = value
					}
				}
			}
		}
	}
	out["content"] = strings.Join(texts, "\n\n")
	if len(calls) > 0 {
		out["tool_calls"] = calls
		if len(texts) == 0 {
			out["content"] = nil
		}
	}
	return out
}

// chatUser writes a message of the user: the results first, each in a message of its own, then the rest. Results are texts in this API:
// their images follow in the user's name.
func chatUser(m Message) (out []map[string]any) {
	var parts []chatPart
	images := false
	add := func(p Part) {
		switch p.Kind {
		case Text:
			parts = append(parts, chatPart{Type: "text", Text: p.Text})
		case Image:
			parts, images = append(parts, chatPart{Type: "image_url", Image: &chatImage{dataURL(p)}}), true
		}
	}
	for _, p := range m.Parts {
		if p.Kind != ToolResult {
			add(p)
			continue
		}
		out = append(out, map[string]any{"role": "tool", "tool_call_id": wireID(p.CallID), "content": resultText(p)})
		pictures := slices.DeleteFunc(slices.Clone(p.Content), func(c Part) bool { return c.Kind != Image })
		if len(pictures) > 0 {
			add(Part{Kind: Text, Text: "Images of the result of " + wireID(p.CallID) + ":"})
		}
		for _, c := range pictures {
			add(c)
		}
	}
	switch {
	case len(parts) == 0:
	case images:
		out = append(out, map[string]any{"role": "user", "content": parts})
	default: // a plain text, which every server takes
		var texts []string
		for _, p := range parts {
			texts = append(texts, p.Text)
		}
		out = append(out, map[string]any{"role": "user", "content": strings.Join(texts, "\n\n")})
	}
	return out
}
