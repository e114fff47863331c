package providers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/parawork/parawork/internal/id"
)

// Bounds of an answer.
const (
	mostAnswer = 8 << 20 // bytes of all texts, arguments and reasoning
	mostParts  = 512
)

// answer makes events of what a stream says.
type answer struct {
	yield   func(Event, error) bool
	left    bool // the consumer has left
	origin  string
	model   string
	parts   int // that have begun
	bytes   int
	written int             // characters of what the model wrote, for an estimate
	calls   int             // that are finished
	broken  bool            // one of them has no JSON object as its arguments
	sent    map[string]bool // the finished calls with the server's own ids, to know one that comes twice
	ids     map[string]bool // of calls, in the whole conversation
	open    []*openPart     // in the order in which they began
	usage   Usage
	request string // what it is called where its cost is recorded
	err     *Error // a bound was passed
}

// openPart is a part of which more may come.
type openPart struct {
	Part
	a     *answer
	id    string // of a call, as the server named it
	index int
	text  strings.Builder // or arguments
	raw   bytes.Buffer
	done  bool
}

func newAnswer(req Request, origin string, yield func(Event, error) bool) *answer {
	a := &answer{yield: yield, origin: origin, model: req.Model, ids: map[string]bool{}, sent: map[string]bool{}}
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			if p.Kind == ToolCall {
				a.ids[p.CallID] = true
			}
		}
	}
	return a
}

func (a *answer) emit(e Event) {
	if !a.left && a.err == nil {
		a.left = !a.yield(e, nil)
	}
}

// grow counts bytes of the answer, and reports whether they fit into its bound.
func (a *answer) grow(n int) bool {
	if a.bytes += n; a.bytes > mostAnswer && a.err == nil {
		a.err = &Error{Kind: ErrCut, Code: "answer_too_large", Message: fmt.Sprintf("The model's answer is larger than %d MiB.", mostAnswer>>20), final: true}
	}
	return a.err == nil
}

// begin begins a part.
func (a *answer) begin(kind PartKind) *openPart {
	p := &openPart{Part: Part{Kind: kind}, a: a, index: a.parts}
	if a.parts++; a.parts > mostParts && a.err == nil {
		a.err = &Error{Kind: ErrCut, Code: "answer_too_large", Message: fmt.Sprintf("The model's answer has more than %d parts.", mostParts), final: true}
	}
	if a.err == nil {
		a.open = append(a.open, p)
	}
	return p
}

// beginCall begins a call of a tool. Its id becomes one of our own where the server gave none, or one that another call has.
func (a *answer) beginCall(callID, name string) *openPart {
	p := a.begin(ToolCall)
	p.id = callID
	if callID == "" || a.ids[callID] {
		callID = id.New("call")
	}
	a.ids[callID] = true
	p.CallID, p.Name = callID, name
	a.written += len(name)
	a.grow(len(callID) + len(name))
	a.emit(Event{Kind: CallBegun, Index: p.index, Part: p.Part})
	return p
}

// add appends to the text of a part, or to the arguments of a call.
func (p *openPart) add(s string) {
	if s == "" || p.done || !p.a.grow(len(s)) {
		return
	}
	p.text.WriteString(s)
	p.a.written += len(s)
	kind := TextDelta
	switch p.Kind {
	case Reasoning:
		kind = ReasoningDelta
	case ToolCall:
		kind = CallDelta
	}
	p.a.emit(Event{Kind: kind, Index: p.index, Text: s})
}

// complete says what the whole text is, where the provider repeats it: what is missing is added.
func (p *openPart) complete(whole string) {
	if had := p.text.String(); whole != "" && whole != had {
		if rest, ok := strings.CutPrefix(whole, had); ok {
			p.add(rest)
		} else if p.a.grow(len(whole)) {
			p.text.Reset()
			p.text.WriteString(whole)
		}
	}
}

// finish ends a part. Raw is what reasoning is sent back as.
func (p *openPart) finish(raw json.RawMessage) {
	if p.done || !p.a.grow(len(raw)) {
		return
	}
	p.done = true
	text := p.text.String()
	switch p.Kind {
	case ToolCall:
		p.Args, p.RawArgs = object(text)
		p.a.finished(p)
	case Reasoning:
		p.Text, p.Raw, p.Provider, p.Model = text, raw, p.a.origin, p.a.model
	default:
		if p.Text = text; text == "" {
			return
		}
	}
	p.a.emit(Event{Kind: PartDone, Index: p.index, Part: p.Part})
}

// finished counts a call. One that the server sent twice becomes an empty text: it is made once.
func (a *answer) finished(p *openPart) {
	same := p.id + "\x00" + p.Name + "\x00" + p.text.String()
	if p.id != "" && a.sent[same] {
		p.Part = Part{Kind: Text}
		return
	}
	a.sent[same] = true
	a.calls++
	a.broken = a.broken || p.RawArgs != ""
}

// object reads arguments: a JSON object, or what stands for an empty one. Anything else is returned as it is.
func object(s string) (args json.RawMessage, raw string) {
	s = strings.TrimSpace(s)
	var inner string
	if json.Unmarshal([]byte(s), &inner) == nil && s != "null" { // some servers encode the object twice
		s = strings.TrimSpace(inner)
	}
	switch {
	case s == "" || s == "null":
		return json.RawMessage("{}"), ""
	case s[0] == '{' && json.Valid([]byte(s)):
		return json.RawMessage(s), ""
	}
	return nil, s
}

// done ends the answer. What the provider did not count is estimated.
func (a *answer) done(req Request, stop Stop) {
	if u := &a.usage; u.Input+u.CacheRead+u.CacheWrite == 0 {
		u.Input, u.Estimated = Estimate(req), true
	}
	if u := &a.usage; u.Output == 0 && a.written > 0 {
		u.Output, u.Estimated = int64(a.written+charsPerToken-1)/charsPerToken, true
	}
	switch {
	case stop == StopUnknown && a.calls > 0 && a.broken: // the answer may have been cut in a call
		stop = StopMaxOutput
	case stop == StopEndTurn && a.calls > 0, stop == StopUnknown && a.calls > 0: // some servers do not say that calls are why they stop
		stop = StopToolCalls
	case stop == StopToolCalls && a.calls == 0:
		stop = StopEndTurn
	}
	a.emit(Event{Kind: Done, Stop: stop, Usage: a.usage, Request: a.request})
}
