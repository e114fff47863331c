package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/parawork/parawork/billing/tokens"
)

// asked is what the gateway looks at in a request.
type asked struct {
	model      string
	additional []string // other models that it may lead to: those of tools, and those that answer where the first one does not
	stream     bool
	background bool
	tier       string           // service_tier
	special    bool             // to be served otherwise than usual: first, or fast
	limits     map[string]int64 // what it names of deciding that bounds the answer: its tokens, and how many answers
	outside    bool             // its prompt holds what is not in its body: earlier answers, files, what the provider's own tools find
	options    span             // of stream_options
	usage      bool             // the client asks for usage itself
	streamed   bool             // stream is named
	start      int              // behind the first brace
	empty      bool             // the object has no members
}

// span is where a value lies in a body; end 0 = nowhere.
type span struct{ from, end int }

var (
	errNotJSON = errors.New("the request is not a JSON object")
	errTwice   = errors.New("the request names a field twice that decides what it is")
	errLetters = errors.New("the request names a field in other letters than its provider that decides what it is")
	errBoolean = errors.New("stream and background are true or false")
)

// deciding are the members that decide what a request is.
var deciding = []string{"model", "stream", "stream_options", "background", "service_tier", "tools", "models", "fallbacks", "fallback", "fallback_model", "fallback_models",
	"max_tokens", "max_completion_tokens", "max_output_tokens", "n", "speed", "previous_response_id", "conversation", "prompt"}

// look reads the members of a request that decide what it is. Such a member named twice, or in other letters, could be read in another way by
// the provider than here: it is refused.
func look(body []byte) (a asked, err error) {
	if !json.Valid(body) {
		return a, errNotJSON
	}
	i := blank(body, 0)
	if i >= len(body) || body[i] != '{' {
		return a, errNotJSON
	}
	i++
	a.start = i
	seen := map[string]bool{}
	for i = blank(body, i); body[i] != '}'; i = blank(body, i) {
		if body[i] == ',' {
			i = blank(body, i+1)
		}
		end := value(body, i)
		var key string
		if err := json.Unmarshal(body[i:end], &key); err != nil {
			return a, errNotJSON
		}
		i = blank(body, blank(body, end)+1) // behind the colon
		end = value(body, i)
		raw := body[i:end]
		for _, name := range deciding {
			if key != name && strings.EqualFold(key, name) {
				return a, errLetters
			}
			if key != name {
				continue
			}
			if seen[key] {
				return a, errTwice
			}
			seen[key] = true
		}
		switch key {
		case "model":
			_ = json.Unmarshal(raw, &a.model)
		case "stream":
			a.streamed = true
			if a.stream, err = boolean(raw); err != nil {
				return a, err
			}
		case "background":
			if a.background, err = boolean(raw); err != nil {
				return a, err
			}
		case "service_tier":
			_ = json.Unmarshal(raw, &a.tier)
			a.special = a.special || a.tier != "" && !slices.Contains([]string{"auto", "default", "standard_only", "flex"}, a.tier)
		case "speed":
			a.special = a.special || string(raw) != "null" && string(raw) != `"standard"`
		case "max_tokens", "max_completion_tokens", "max_output_tokens", "n":
			var n float64 // some take 1e3 for a number of tokens, too
			if json.Unmarshal(raw, &n) == nil && n > 0 {
				if a.limits == nil {
					a.limits = map[string]int64{}
				}
				a.limits[key] = int64(min(math.Ceil(n), tokens.MostTokens))
			}
		case "previous_response_id", "conversation", "prompt":
			a.outside = a.outside || string(raw) != "null"
		case "stream_options":
			a.options = span{i, end}
			var o map[string]json.RawMessage // a struct would take other letters for it
			_ = json.Unmarshal(raw, &o)
			a.usage = string(o["include_usage"]) == "true" && bytes.Count(raw, []byte("include_usage")) == 1 // twice, it is written anew
		case "tools", "models", "fallbacks", "fallback", "fallback_model", "fallback_models":
			a.additional = append(a.additional, named(raw)...)
			a.outside = a.outside || key == "tools" && ownTools(raw)
		}
		i = end
	}
	a.outside = a.outside || bytes.Contains(body, []byte(`"file_id"`)) || bytes.Contains(body, []byte(`"file_url"`)) || bytes.Contains(body, []byte(`"mcp_servers"`))
	a.empty = len(seen) == 0 && body[blank(body, a.start)] == '}'
	return a, nil
}

// ownTools reports whether tools are among a request's that the provider runs itself, and whose results it reads.
func ownTools(raw []byte) bool {
	var tools []struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(raw, &tools) != nil {
		return false
	}
	for _, t := range tools {
		switch name, _, _ := strings.Cut(t.Type, "_20"); name { // Anthropic's have a date behind
		case "", "function", "custom", "bash", "text_editor", "computer", "memory", "local_shell", "shell", "apply_patch":
		default:
			return true
		}
	}
	return false
}

// most is how many tokens may come out of a request of an API: what it allows itself, or max where it does not say.
func (a asked) most(of api, max int64) int64 {
	if of == embeddings {
		return 0 // vectors are no tokens
	}
	name := []string{"max_tokens"}
	switch of {
	case responses:
		name = []string{"max_output_tokens"}
	case chat:
		name = []string{"max_completion_tokens", "max_tokens"}
	}
	out := int64(0)
	for _, n := range name {
		if out < a.limits[n] {
			out = a.limits[n]
		}
	}
	out = cmp.Or(out, max)
	if n := a.limits["n"]; of == chat && n > 1 {
		out *= min(n, mostAnswers)
	}
	return out
}

// mostAnswers is how many answers a question may ask for that are believed; providers allow fewer.
const mostAnswers = 1000

// boolean reads one. What is taken for true elsewhere, such as 1, could be read in another way by the provider than here.
func boolean(raw []byte) (bool, error) {
	switch string(raw) {
	case "true":
		return true, nil
	case "false", "null":
		return false, nil
	}
	return false, errBoolean
}

// named are the models a value names: itself, its elements, or their model.
func named(raw []byte) (out []string) {
	name := func(raw []byte) {
		var s string
		if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
			out = append(out, s)
		}
	}
	switch raw[0] {
	case '"':
		name(raw)
	case '{':
		for i := blank(raw, 1); raw[i] != '}'; i = blank(raw, i) {
			if raw[i] == ',' {
				i = blank(raw, i+1)
			}
			var key string
			end := value(raw, i)
			_ = json.Unmarshal(raw[i:end], &key)
			i = blank(raw, blank(raw, end)+1)
			end = value(raw, i)
			if strings.EqualFold(key, "model") { // each, where there are several
				name(raw[i:end])
			}
			i = end
		}
	case '[':
		for i := blank(raw, 1); raw[i] != ']'; i = blank(raw, i) {
			if raw[i] == ',' {
				i = blank(raw, i+1)
			}
			end := value(raw, i)
			if raw[i] != '[' {
				out = append(out, named(raw[i:end])...)
			}
			i = end
		}
	}
	return out
}

// blank returns the first place from i on that is no white space.
func blank(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// value returns the end of the value that begins at i, in valid JSON.
func value(b []byte, i int) int {
	switch b[i] {
	case '"':
		return text(b, i)
	case '{', '[':
		for depth := 0; i < len(b); {
			switch b[i] {
			case '"':
				i = text(b, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return i
	}
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] != ' ' && b[i] != '\n' && b[i] != '\r' && b[i] != '\t' {
		i++
	}
	return i
}

// text returns the end of the string that begins at i.
func text(b []byte, i int) int {
	for i++; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b)
		}
		back := 0
		for j := i + n - 1; j >= i && b[j] == '\\'; j-- {
			back++
		}
		i += n + 1
		if back%2 == 0 {
			return i
		}
	}
}

// withUsage is the body of a chat completion that asks for the usage of its stream. What else stream_options say stays.
func (a asked) withUsage(body []byte) []byte {
	options := map[string]json.RawMessage{}
	if a.options.end > 0 {
		if json.Unmarshal(body[a.options.from:a.options.end], &options) != nil || options == nil {
			options = map[string]json.RawMessage{}
		}
	}
	options["include_usage"] = json.RawMessage("true")
	with, err := json.Marshal(options)
	if err != nil {
		return body
	}
	out := make([]byte, 0, len(body)+len(with)+24)
	if a.options.end > 0 {
		return append(append(append(out, body[:a.options.from]...), with...), body[a.options.end:]...)
	}
	out = append(append(append(out, body[:a.start]...), `"stream_options":`...), with...)
	if !a.empty {
		out = append(out, ',')
	}
	return append(out, body[a.start:]...)
}
