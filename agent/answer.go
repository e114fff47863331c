package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/agents"
)

// errEmpty is why an answer is discarded that has neither a text nor a call.
var errEmpty = errors.New("the model answered nothing")

// ask asks the model and stores its answer. A prompt that comes before the answer begins is part of the request. An empty answer is asked
// for once more.
func (r *running) ask(ctx context.Context) (*Message, error) {
	for empty := false; ; {
		m, err := r.attempt(ctx)
		switch {
		case errors.Is(err, errEmpty) && empty:
			return nil, &stop{ending{TurnFailed, "The model answered nothing, twice. Send a prompt to have it go on, or choose another model.", "model_empty"}}
		case errors.Is(err, errEmpty):
			empty = true
		case fault.CodeOf(err) != "thread_moved":
			return m, err
		}
		if err := r.refresh(ctx); err != nil {
			return nil, err
		}
	}
}

func (r *running) attempt(ctx context.Context) (*Message, error) {
	req, err := r.withImages(ctx, r.request())
	if err != nil {
		return nil, err
	}
	m, err := r.newAnswer(ctx)
	if err != nil {
		return nil, err
	}
	kept := r.svc.cfg.Now()
	var done *providers.Event
	request := "" // that is under way
	for e, err := range r.model.Provider.Stream(ctx, req) {
		if err != nil {
			r.paid(ctx, m, request)
			return nil, r.discard(ctx, m, err)
		}
		switch e.Kind {
		case providers.Begun:
			request = e.Request
		case providers.Retry:
			why := "the model could not be asked"
			if e.Error != nil {
				why = e.Error.Error()
			}
			note := fmt.Sprintf("%s; tried again after %s", safetext.Cut(safetext.Line(r.mask(why)), 300), e.Wait.Round(100*time.Millisecond))
			r.paid(ctx, m, request)
			if err := r.end(m, Discarded, note); err != nil {
				return nil, err
			}
			request = ""
			r.host.Observe(agents.Hint{Source: agents.FromHook, Mood: agents.Busy, Reason: note})
			if m, err = r.newAnswer(ctx); err != nil {
				tasks.Sleep(ctx, e.Wait) // what the provider asked for, where the thread moved and the request is made anew
				return nil, err
			}
		case providers.Done:
			done = &e // whoever counts what it cost has done so when the stream ends
		default:
			r.write(m, e)
			if now := r.svc.cfg.Now(); now.Sub(kept) >= keepAfter(m) { // what a person saw outlives the server
				kept = now
				if err := r.keep(ctx, Change{Messages: []*Message{r.draft(m)}}); err != nil { // followers have it
					return nil, err
				}
			}
		}
	}
	switch {
	case done != nil && saysNothing(m, done.Stop):
		m.Stop, m.Usage = done.Stop, r.priced(context.WithoutCancel(ctx), *done)
		r.host.Record(answerItems(m)) // it was paid for
		return nil, errors.Join(errEmpty, r.end(m, Discarded, errEmpty.Error()))
	case done != nil:
		return m, r.answered(context.WithoutCancel(ctx), m, *done) // it is whole, and paid for, whatever happens to the turn
	}
	r.paid(ctx, m, request)
	return nil, r.discard(ctx, m, &providers.Error{Kind: providers.ErrCut, Message: "The model's answer ended before it was complete."})
}

// keepAfter is how long an answer that is being written is not stored again: a long one, which is stored whole, less often.
func keepAfter(m *Message) time.Duration {
	size := 0
	for _, p := range m.Parts {
		size += len(p.Text) + len(p.RawArgs)
	}
	return time.Second * time.Duration(1+size/keptAtOnce)
}

const keptAtOnce = 64 << 10 // bytes that are stored a second at most

// paid notes what an answer cost that was cut: it counts as any other.
func (r *running) paid(ctx context.Context, m *Message, request string) {
	if cause := context.Cause(r.ctx); request == "" || errors.Is(cause, errClosing) || errors.Is(cause, errLost) {
		return
	}
	u := r.priced(context.WithoutCancel(ctx), providers.Event{Request: request})
	r.mu.Lock()
	m.Usage = u
	r.mu.Unlock()
	if u.CostNano != nil {
		r.host.Record([]item{spentItem(m)})
	}
}

// newAnswer begins a message of the model. Errors: thread_moved, when there is a prompt that the request does not hold.
func (r *running) newAnswer(ctx context.Context) (*Message, error) {
	m := &Message{ID: id.New("msg"), ThreadID: r.thread.ID, TurnID: r.turn.ID, Role: Assistant, State: Streaming, Model: r.model.Name, CreatedAt: r.svc.now(), Parts: []providers.Part{}}
	if err := r.apply(ctx, Change{Messages: []*Message{m}, LastSeq: r.lastSeq()}); err != nil {
		return nil, err
	}
	r.messages, r.streams = append(r.messages, m), map[int]*written{}
	r.mu.Lock()
	r.writing = m
	r.mu.Unlock()
	r.svc.stirred(r.thread.ID)
	return m, nil
}

// written is what there is of a part that is being written. Each piece is appended: an answer costs by its length, not by its square.
type written struct {
	mask *redact.Masker
	text strings.Builder
}

// write adds a piece of the answer. Followers see it at once.
func (r *running) write(m *Message, e providers.Event) {
	part := r.streams[e.Index]
	if e.Kind == providers.PartDone {
		e.Part = r.masked(e.Part)
	} else if e.Text != "" {
		if part == nil {
			part = &written{mask: r.host.Stream()}
			r.streams[e.Index] = part
		}
		part.text.Write(part.mask.Write([]byte(e.Text)))
	}
	r.mu.Lock()
	for len(m.Parts) <= e.Index {
		m.Parts = append(m.Parts, providers.Part{Kind: providers.Text})
	}
	p := &m.Parts[e.Index]
	switch e.Kind {
	case providers.TextDelta, providers.ReasoningDelta:
		if p.Kind = providers.Text; e.Kind == providers.ReasoningDelta {
			p.Kind = providers.Reasoning
		}
		if part != nil {
			p.Text = part.text.String()
		}
	case providers.CallBegun:
		p.Kind, p.Name, p.CallID = providers.ToolCall, e.Part.Name, e.Part.CallID
	case providers.CallDelta:
		if p.Kind = providers.ToolCall; part != nil {
			p.RawArgs = part.text.String()
		}
	case providers.PartDone:
		*p = e.Part
	}
	r.mu.Unlock()
	r.svc.stirred(r.thread.ID)
}

// saysNothing reports whether an answer has neither a text nor a call, and no reason to end like that.
func saysNothing(m *Message, why providers.Stop) bool {
	if why == providers.StopMaxOutput || why == providers.StopRefusal {
		return false
	}
	return !slices.ContainsFunc(m.Parts, func(p providers.Part) bool {
		return p.Kind == providers.ToolCall || p.Kind == providers.Text && strings.TrimSpace(p.Text) != ""
	})
}

// masked is a part with its secrets hidden. Reasoning with a secret does not go back to its provider, which takes it only as it was.
func (r *running) masked(p providers.Part) providers.Part {
	if _, secret := r.maskJSON(p.Raw); secret {
		p.Raw = nil
	}
	p.Text, p.RawArgs = r.mask(p.Text), r.mask(p.RawArgs)
	p.Args, _ = r.maskJSON(p.Args)
	return p
}

// maskJSON hides secrets in a JSON text, also those that are escaped in it, and leaves it JSON.
func (r *running) maskJSON(raw json.RawMessage) (_ json.RawMessage, secret bool) {
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case string:
			masked := r.mask(v)
			secret = secret || masked != v
			return masked
		case json.Number:
			if masked := r.mask(v.String()); masked != v.String() {
				secret = true
				return masked
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case map[string]any:
			for _, k := range slices.Collect(maps.Keys(v)) {
				in := walk(v[k])
				delete(v, k)
				v[walk(k).(string)] = in
			}
		}
		return v
	}
	in := json.NewDecoder(bytes.NewReader(raw))
	in.UseNumber() // as they are written
	var v any
	if len(raw) == 0 || in.Decode(&v) != nil {
		return raw, false
	}
	if v = walk(v); !secret {
		return raw, false
	}
	out, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("{}"), true
	}
	return out, true
}

// draft is a copy of a message that is being written.
func (r *running) draft(m *Message) *Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := *m
	c.Parts = slices.Clone(m.Parts)
	return &c
}

const cutWords = "The call was not made: your answer was longer than you may write at once, and was cut in it. Write less in one answer: make the call in smaller pieces."

// answered stores a complete answer, with its calls.
func (r *running) answered(ctx context.Context, m *Message, e providers.Event) error {
	done := r.draft(m)
	done.State, done.Stop, done.Usage, done.DoneAt = Complete, e.Stop, r.priced(ctx, e), r.svc.now()
	turn := *r.turn
	turn.Steps++
	c := Change{Messages: []*Message{done}, Turn: &turn}
	for i, p := range done.Parts {
		if p = r.masked(p); p.Kind == providers.ToolCall {
			cut := e.Stop == providers.StopMaxOutput && (len(p.Args) == 0 || string(p.Args) == "{}" && i == len(done.Parts)-1)
			if e.Stop != providers.StopMaxOutput { // of what was cut, nobody knows the end
				p = repaired(p)
			}
			call := &Call{ID: id.New("cll"), ThreadID: r.thread.ID, TurnID: r.turn.ID, MessageID: m.ID, Ordinal: int64(i), CallID: p.CallID, Tool: p.Name, Args: p.Args, State: CallPending}
			if call.Args == nil {
				call.Args = quoted(p.RawArgs)
			}
			if cut {
				call.State, call.Content, call.EndedAt = CallFailed, textParts(cutWords), done.DoneAt
			}
			c.Calls = append(c.Calls, call)
		}
		done.Parts[i] = p // the model reads what was called
	}
	if err := r.apply(ctx, c); err != nil {
		return err
	}
	r.mu.Lock()
	*m, r.writing = *done, nil
	r.mu.Unlock()
	r.turn.Steps, r.calls[m.ID] = turn.Steps, c.Calls
	r.host.Record(answerItems(m))
	return nil
}

// discard ends an attempt. What a person had the model stop in the middle of stays part of the conversation.
func (r *running) discard(ctx context.Context, m *Message, err error) error {
	note := "the model's answer was cut"
	if p, ok := errors.AsType[*providers.Error](err); ok {
		note = safetext.Cut(safetext.Line(r.mask(p.Error())), 300)
	}
	if cause := context.Cause(ctx); errors.Is(cause, errInterrupted) || errors.Is(cause, errSession) {
		r.mu.Lock()
		said := false
		for i, p := range m.Parts { // calls are not made, and reasoning without its end means nothing
			if p.Kind != providers.Text {
				m.Parts[i] = providers.Part{Kind: providers.Text}
			}
			said = said || m.Parts[i].Text != ""
		}
		r.mu.Unlock()
		if note = "interrupted"; said {
			return errors.Join(err, r.end(m, Complete, note))
		}
	}
	return errors.Join(err, r.end(m, Discarded, note))
}

// end stores how a message of the model ended.
func (r *running) end(m *Message, state MessageState, note string) error {
	if errors.Is(context.Cause(r.ctx), errClosing) || errors.Is(context.Cause(r.ctx), errLost) {
		return nil // the server that goes on ends it
	}
	r.mu.Lock()
	m.State, m.Note, m.DoneAt = state, note, r.svc.now()
	if r.writing == m {
		r.writing = nil
	}
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), 10*time.Second)
	defer cancel()
	return r.apply(ctx, Change{Messages: []*Message{r.draft(m)}})
}
