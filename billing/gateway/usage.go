package gateway

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/parawork/parawork/billing/tokens"
)

// tally reads what an answer used while it passes. It is given every byte after that was sent on, and cannot hold it up.
type tally interface {
	// take reads the next bytes of the answer.
	take(b []byte)
	// used tells what was used; whole says that the answer has come to its end by its own word.
	used() (u usage, whole bool)
	// seen is about how many tokens of the answer have passed.
	seen() int64
}

// usage is what an answer says of itself.
type usage struct {
	tokens.Tokens
	model      string
	variant    string
	external   string // the answer's id at the provider
	uses       map[string]int64
	additional []tokens.Additional
	unpriced   bool
	failed     bool // it says in the middle that it failed
}

// Paths that are picked out of a provider's answers.
var (
	anthropicPaths = []string{"type", "message.id", "message.model", "message.usage", "usage", "id", "model", "delta.stop_reason", "delta.text", "delta.thinking", "delta.partial_json"}
	openAIPaths    = []string{"type", "id", "model", "usage", "service_tier", "response.id", "response.model", "response.usage", "response.service_tier", "response.status",
		"item.type", "object", "status", "delta", "choices"}
)

// newTally is the reader of an API's answers, streamed or not.
func newTally(a api, streamed bool, tier string) tally {
	var r reader
	paths := openAIPaths
	switch a {
	case messages:
		r, paths = &anthropic{}, anthropicPaths
	default:
		r = &openAI{chat: a == chat || a == embeddings, inputOnly: a == embeddings, tier: tier}
	}
	if streamed {
		return &stream{picker: newPicker(paths...), reader: r}
	}
	return &single{picker: newPicker(paths...), reader: r}
}

// reader makes sense of one JSON text: an event of a stream, or a whole answer.
type reader interface {
	read(p *picker)
	done() // a stream said that it is at its end
	used() (usage, bool)
	seen() int64
}

// single is an answer in one text.
type single struct {
	*picker
	reader
	read  bool
	bytes int64
	last  []byte // of the bytes so far: a name may come in pieces
}

func (s *single) take(b []byte) {
	s.bytes += int64(len(b))
	s.picker.take(b)
	if o, ok := s.reader.(*openAI); ok && !o.chat {
		had := len(s.last)
		s.last = append(s.last, b...)
		for name, count := range o.paid() {
			for i := 0; ; {
				n := bytes.Index(s.last[i:], []byte(name))
				if n < 0 {
					break
				}
				if i += n + len(name); i > had { // else it was there before
					count()
				}
			}
		}
		s.last = append(s.last[:0], s.last[max(0, len(s.last)-paidName):]...)
	}
}

func (s *single) seen() int64 { return s.bytes / guessBytes }

func (s *single) used() (usage, bool) {
	if s.picker.done && !s.read {
		s.read = true
		s.reader.read(s.picker)
		s.reader.done()
	}
	return s.reader.used()
}

// stream is an answer in server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html.
type stream struct {
	*picker
	reader
	field []byte // the name of the field of this line, while it is read
	state int    // of the line
	some  bool   // the event has data
	first []byte // the first bytes of its data: [DONE] is no JSON
	skip  bool   // a line feed that belongs to the end of the last line
}

const (
	lineStart = iota // reading the field's name
	lineSpace        // one space may come before the value
	lineData         // in the value of data
	lineOther        // in another line
)

func (s *stream) take(b []byte) {
	for len(b) > 0 {
		if s.state == lineData || s.state == lineOther {
			n := bytes.IndexAny(b, "\r\n")
			piece := b
			if n >= 0 {
				piece = b[:n]
			}
			if s.state == lineData {
				s.data(piece)
			}
			if n < 0 {
				return
			}
			b = b[n:]
		}
		c := b[0]
		b = b[1:]
		if s.skip && c == '\n' {
			s.skip = false
			continue
		}
		s.skip = c == '\r'
		switch {
		case c == '\r' || c == '\n':
			if s.state == lineStart && len(s.field) == 0 {
				s.event()
			} else if s.state == lineData || s.state == lineSpace {
				s.data([]byte("\n"))
			}
			s.state, s.field = lineStart, s.field[:0]
		case s.state == lineStart && c == ':':
			s.state = lineOther
			if string(s.field) == "data" {
				s.state = lineSpace
			}
		case s.state == lineStart:
			if s.field = append(s.field, c); len(s.field) > 16 {
				s.state = lineOther
			}
		case s.state == lineSpace:
			s.state = lineData
			if c != ' ' {
				s.data([]byte{c})
			}
		}
	}
}

func (s *stream) data(b []byte) {
	if len(b) == 0 {
		return
	}
	if len(s.first) < 6 {
		s.first = append(s.first, b[:min(len(b), 6-len(s.first))]...)
	}
	s.some = true
	s.picker.take(b)
}

// event is the end of one.
func (s *stream) event() {
	if !s.some {
		return
	}
	switch {
	case string(s.first) == "[DONE]":
		s.reader.done()
	case s.picker.done && !s.picker.broken:
		s.reader.read(s.picker)
	}
	s.picker.reset()
	s.some, s.first = false, s.first[:0]
}

func (s *stream) used() (usage, bool) {
	return s.reader.used()
}

func (s *stream) seen() int64 { return s.reader.seen() }

// anthropic reads answers of the Messages API: https://platform.claude.com/docs/en/build-with-claude/streaming. The event
// message_start reports the input, message_delta the output; each reports the total so far.
type anthropic struct {
	u       usage
	begun   bool
	stopped bool // a message_delta said why it stopped: its counts are the last
	ended   bool
	came    int64 // tokens that passed, about
}

func (a *anthropic) seen() int64 { return a.came }

// anthropicUsage is what an answer tells. Its own counts hold neither summaries made on the way nor what an advisor used; its iterations do:
// https://platform.claude.com/docs/en/build-with-claude/compaction, .../agents-and-tools/tool-use/advisor-tool.
type anthropicUsage struct {
	anthropicCounts
	OutputDetails *struct {
		Thinking *int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
	ServerTools map[string]json.RawMessage `json:"server_tool_use"`
	Tier        string                     `json:"service_tier"`
	Speed       string                     `json:"speed"`
	Geo         string                     `json:"inference_geo"`
	Iterations  []anthropicIteration       `json:"iterations"`
}

type anthropicIteration struct {
	Type  string `json:"type"`
	Model string `json:"model"`
	anthropicCounts
}

func (a *anthropic) read(p *picker) {
	switch p.str("type") {
	case "message_start":
		a.begun = true
		a.u.model, a.u.external = p.str("message.model"), p.str("message.id")
		a.count(p.got["message.usage"], false)
	case "message_delta":
		a.count(p.got["usage"], true)
		if reason := p.got["delta.stop_reason"]; len(reason) > 0 && string(reason) != "null" {
			a.stopped = true
		}
	case "content_block_delta":
		for _, path := range [...]string{"delta.text", "delta.thinking", "delta.partial_json"} {
			if raw := p.got[path]; len(raw) > 0 {
				a.came += textTokens(raw)
			}
		}
	case "message_stop":
		a.ended = true
	case "error":
		a.u.failed = true
	case "message": // not streamed
		a.begun, a.stopped, a.ended = true, true, true
		a.u.model, a.u.external = p.str("model"), p.str("id")
		a.count(p.got["usage"], true)
	}
}

// anthropicCounts are those of an answer, or of a part of it.
type anthropicCounts struct {
	Input         *int64 `json:"input_tokens"`
	Output        *int64 `json:"output_tokens"`
	CacheRead     *int64 `json:"cache_read_input_tokens"`
	CacheCreation *int64 `json:"cache_creation_input_tokens"`
	Creation      *struct {
		Hour *int64 `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
}

// over takes over the values that are reported; the others stay.
func (c anthropicCounts) over(t *tokens.Tokens) {
	set(&t.Input, c.Input)
	set(&t.CacheRead, c.CacheRead)
	if c.CacheCreation == nil || *c.CacheCreation < 0 || *c.CacheCreation > tokens.MostTokens {
		return
	}
	hour := int64(0)
	if c.Creation != nil && c.Creation.Hour != nil {
		hour = *c.Creation.Hour
	} else if c.Creation == nil && t.CacheWriteHour != nil {
		hour = *t.CacheWriteHour // a delta tells the sum alone
	}
	hour = min(max(hour, 0), *c.CacheCreation)
	t.CacheWrite, t.CacheWriteHour = new(*c.CacheCreation-hour), new(hour)
}

// count takes over the values that are reported; the others stay. The output count at a message's start is not a total.
func (a *anthropic) count(raw []byte, output bool) {
	var c anthropicUsage
	if len(raw) == 0 || json.Unmarshal(raw, &c) != nil {
		return
	}
	t := &a.u.Tokens
	c.over(t)
	if output {
		set(&t.Output, c.Output)
		if c.OutputDetails != nil {
			set(&t.Reasoning, c.OutputDetails.Thinking)
		}
	}
	if c.Iterations != nil {
		a.u.additional = nil // each tells all so far
	}
	for _, i := range c.Iterations {
		switch {
		case i.Type == "message": // in the counts of the answer
		case i.Type == "compaction" || i.Model != "":
			b := tokens.Additional{Model: i.Model}
			i.over(&b.Tokens)
			set(&b.Output, i.Output)
			a.u.additional = append(a.u.additional, b)
		default:
			a.u.unpriced = true
		}
	}
	for name, raw := range c.ServerTools {
		var n int64
		switch err := json.Unmarshal(raw, &n); {
		case err != nil || n < 0:
			a.u.unpriced = true
		case n == 0 || name == "web_fetch_requests": // fetching costs its tokens alone
		case name == "web_search_requests":
			a.u.use("web_search@anthropic", n)
		default:
			a.u.use(strings.TrimSuffix(name, "_requests")+"@anthropic", n)
		}
	}
	var how []string
	if c.Speed != "" && c.Speed != "standard" {
		how = append(how, c.Speed)
	}
	if c.Tier != "" && c.Tier != "standard" {
		how = append(how, c.Tier)
	}
	if c.Geo == "us" || c.Geo == "us-only" {
		how = append(how, "us")
	}
	if len(how) > 0 {
		slices.Sort(how)
		a.u.variant = strings.Join(how, "+")
	}
}

func (a *anthropic) done() {}

func (a *anthropic) used() (usage, bool) {
	whole := a.stopped
	u := a.u
	if !whole {
		u.Output, u.Reasoning = nil, nil
	}
	return u, whole && !u.failed
}

func (u *usage) use(name string, n int64) {
	if u.uses == nil {
		u.uses = map[string]int64{}
	}
	u.uses[name] = n
}

func set(to **int64, v *int64) {
	if v != nil && *v >= 0 && *v <= tokens.MostTokens {
		*to = v
	}
}

// openAI reads answers of Responses, Chat Completions and Embeddings: https://developers.openai.com/api/reference. Their input counts hold what was
// read from the cache and written to it; their output counts hold the reasoning.
type openAI struct {
	u         usage
	chat      bool   // its members are named as those of Chat Completions
	inputOnly bool   // nothing comes out that counts as tokens
	tier      string // as it was asked for
	searches  int64
	ended     bool
	counted   bool
	came      int64 // tokens that passed, about
}

func (o *openAI) seen() int64 { return o.came }

// choiceBytes is about how much of a chunk's choices is not the answer.
const choiceBytes = 60

type openAIUsage struct {
	Input         *int64         `json:"input_tokens"`
	Output        *int64         `json:"output_tokens"`
	InputDetails  *openAIDetails `json:"input_tokens_details"`
	OutputDetails *openAIDetails `json:"output_tokens_details"`

	Prompt            *int64         `json:"prompt_tokens"`
	Completion        *int64         `json:"completion_tokens"`
	PromptDetails     *openAIDetails `json:"prompt_tokens_details"`
	CompletionDetails *openAIDetails `json:"completion_tokens_details"`
}

type openAIDetails struct {
	Cached    *int64 `json:"cached_tokens"`
	Written   *int64 `json:"cache_write_tokens"`
	Reasoning *int64 `json:"reasoning_tokens"`
	Audio     *int64 `json:"audio_tokens"`
}

func (o *openAI) read(p *picker) {
	if o.chat {
		if raw := p.got["choices"]; len(raw) > 2 {
			o.came += textTokens(raw[min(choiceBytes, len(raw)-1):])
		}
		o.about(p.str("id"), p.str("model"), p.str("service_tier"))
		o.count(p.got["usage"])
		return
	}
	if raw := p.got["delta"]; len(raw) > 0 {
		o.came += textTokens(raw)
	}
	switch kind := p.str("type"); kind {
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled", "response.done":
		o.ended = true
		o.u.failed = kind == "response.failed" || kind == "response.cancelled"
		o.about(p.str("response.id"), p.str("response.model"), p.str("response.service_tier"))
		o.count(p.got["response.usage"])
	case "response.created", "response.in_progress", "response.queued":
		o.about(p.str("response.id"), p.str("response.model"), "")
	case "response.output_item.done":
		if count, ok := o.paid()[`"`+p.str("item.type")+`"`]; ok {
			count()
		}
	case "error":
		o.u.failed = true
	case "": // not streamed
		o.ended = true
		o.about(p.str("id"), p.str("model"), p.str("service_tier"))
		o.count(p.got["usage"])
	}
}

// paidName is the longest of what paid names.
const paidName = len(`"code_interpreter_call"`)

// paid are the parts of an answer that are paid for besides the tokens, as they stand in it: quotes in a text are escaped.
func (o *openAI) paid() map[string]func() {
	unpriced := func() { o.u.unpriced = true } // at prices the table does not have
	return map[string]func(){`"web_search_call"`: func() { o.searches++ }, `"file_search_call"`: unpriced, `"code_interpreter_call"`: unpriced, `"image_generation_call"`: unpriced}
}

func (o *openAI) about(id, model, tier string) {
	if id != "" {
		o.u.external = id
	}
	if model != "" {
		o.u.model = model
	}
	if tier != "" {
		o.tier = tier
	}
}

func (o *openAI) count(raw []byte) {
	var c openAIUsage
	if len(raw) == 0 || json.Unmarshal(raw, &c) != nil {
		return
	}
	in, out, id, od := c.Input, c.Output, c.InputDetails, c.OutputDetails
	if in == nil && c.Prompt != nil {
		in, out, id, od = c.Prompt, c.Completion, c.PromptDetails, c.CompletionDetails
	}
	if o.inputOnly {
		out = new(int64)
	}
	if in == nil || out == nil || *in < 0 || *out < 0 || *in > tokens.MostTokens || *out > tokens.MostTokens {
		return
	}
	o.counted = true
	t := &o.u.Tokens
	cached, written := int64(0), int64(0)
	if id != nil {
		if id.Cached != nil {
			cached = min(max(*id.Cached, 0), *in)
		}
		if id.Written != nil {
			written = min(max(*id.Written, 0), *in-cached)
		}
		if id.Audio != nil && *id.Audio > 0 {
			o.u.unpriced = true // sound costs otherwise
		}
	}
	t.Input, t.Output, t.CacheRead, t.CacheWrite, t.CacheWriteHour = new(*in-cached-written), out, new(cached), new(written), new(int64)
	if od != nil {
		set(&t.Reasoning, od.Reasoning)
		if od.Audio != nil && *od.Audio > 0 {
			o.u.unpriced = true
		}
	}
}

func (o *openAI) done() { o.ended = true }

func (o *openAI) used() (usage, bool) {
	u := o.u
	switch o.tier {
	case "", "auto", "default", "standard":
	default:
		u.variant = o.tier
	}
	if o.searches > 0 {
		u.use("web_search@openai", o.searches)
	}
	return u, o.ended && !u.failed
}
