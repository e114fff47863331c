package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
)

// asked is what the gateway looks at in a request.
type asked struct {
	model      string
	stream     bool
	background bool
	tier       string // service_tier
	options    span   // of stream_options
	usage      bool   // the client asks for usage itself
	streamed   bool   // stream is named
	start      int    // behind the first brace
	empty      bool   // the object has no members
}

// span is where a value lies in a body; end 0 = nowhere.
type span struct{ from, end int }

var (
	errNotJSON = errors.New("the request is not a JSON object")
	errTwice   = errors.New("the request names a field twice that decides what it is")
)

// look reads the members of a request that decide what it is. Such a member named twice could be read in another way by the provider than
// here: it is refused.
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
		switch key {
		case "model", "stream", "stream_options", "background", "service_tier":
			if seen[key] {
				return a, errTwice
			}
			seen[key] = true
		}
		switch key {
		case "model":
			_ = json.Unmarshal(raw, &a.model)
		case "stream":
			a.streamed, a.stream = true, bytes.Equal(raw, []byte("true"))
		case "background":
			a.background = bytes.Equal(raw, []byte("true"))
		case "service_tier":
			_ = json.Unmarshal(raw, &a.tier)
		case "stream_options":
			a.options = span{i, end}
			var o struct {
				IncludeUsage bool `json:"include_usage"`
			}
			_ = json.Unmarshal(raw, &o)
			a.usage = o.IncludeUsage
		}
		i = end
	}
	a.empty = len(seen) == 0 && body[blank(body, a.start)] == '}'
	return a, nil
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
