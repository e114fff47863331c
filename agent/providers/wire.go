package providers

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
)

// What the formats have in common.

var (
	validID   = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	otherSign = regexp.MustCompile(`[^a-zA-Z0-9_-]`)
)

// wireID makes an id of a call one that all providers take: another provider, from which a conversation may come, can have given it.
func wireID(id string) string {
	if validID.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}

// wireName makes a name of a tool one that all providers take: a model may have called one that cannot exist.
func wireName(name string) string {
	name = otherSign.ReplaceAllString(name, "_")
	return cmp.Or(name[:min(len(name), 64)], "unnamed")
}

var escaped = regexp.MustCompile(`\\(?:u003[ce]|u0026|.)`)

// arguments are those of a call, as an object. What a model wrote instead of one is kept in it, so that the model sees its mistake. They are
// the same before and after they were stored, which removes spaces and escapes what is special in HTML: caches of prompts compare letters.
func arguments(p Part) json.RawMessage {
	if args, _ := object(string(p.Args)); args != nil && p.RawArgs == "" {
		var out bytes.Buffer
		if json.Compact(&out, args) == nil {
			return escaped.ReplaceAllFunc(out.Bytes(), func(sign []byte) []byte {
				switch string(sign) {
				case `\u003c`:
					return []byte("<")
				case `\u003e`:
					return []byte(">")
				case `\u0026`:
					return []byte("&")
				}
				return sign
			})
		}
	}
	args, _ := encode(map[string]string{"invalid_json": cmp.Or(p.RawArgs, string(p.Args))})
	return args
}

// schema is that of a tool's arguments: providers take no tool without one.
func schema(t Tool) json.RawMessage {
	if len(t.Schema) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return t.Schema
}

// dataURL is an image as an address.
func dataURL(p Part) string {
	return "data:" + p.MIME + ";base64," + base64.StdEncoding.EncodeToString(p.Data)
}

// systemText is the system prompt in one text.
func systemText(system []System) string {
	var texts []string
	for _, s := range system {
		if s.Text != "" {
			texts = append(texts, s.Text)
		}
	}
	return strings.Join(texts, "\n\n")
}

// resultText is the text of a result, for APIs that do not know errors.
func resultText(p Part) string {
	var texts []string
	for _, c := range p.Content {
		if c.Kind == Text {
			texts = append(texts, c.Text)
		}
	}
	text := cmp.Or(strings.Join(texts, "\n"), "(no text)")
	if p.IsError && !strings.HasPrefix(strings.ToLower(text), "error") {
		text = "Error: " + text
	}
	return text
}

// bearer sets the token as OpenAI takes it.
func bearer(h http.Header, token string) {
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
}

// openAIUsage is what OpenAI's APIs say of tokens: Responses by the first names, Chat Completions by the last. Their input holds what the
// cache gave and took.
type openAIUsage struct {
	Input         int64        `json:"input_tokens"`
	Output        int64        `json:"output_tokens"`
	InputDetails  tokenDetails `json:"input_tokens_details"`
	OutputDetails tokenDetails `json:"output_tokens_details"`

	Prompt            int64        `json:"prompt_tokens"`
	Completion        int64        `json:"completion_tokens"`
	PromptDetails     tokenDetails `json:"prompt_tokens_details"`
	CompletionDetails tokenDetails `json:"completion_tokens_details"`
}

type tokenDetails struct {
	Cached    int64 `json:"cached_tokens"`
	Written   int64 `json:"cache_write_tokens"`
	Reasoning int64 `json:"reasoning_tokens"`
}

func (u *openAIUsage) usage() Usage {
	if u == nil {
		return Usage{}
	}
	in, out := max(0, u.Input, u.Prompt), max(0, u.Output, u.Completion)
	read := min(in, max(0, u.InputDetails.Cached, u.PromptDetails.Cached))
	written := min(in-read, max(0, u.InputDetails.Written, u.PromptDetails.Written))
	return Usage{Input: in - read - written, Output: out, CacheRead: read, CacheWrite: written,
		Reasoning: min(out, max(0, u.OutputDetails.Reasoning, u.CompletionDetails.Reasoning))}
}
