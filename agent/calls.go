package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/parawork/parawork/agent/media"
	"github.com/parawork/parawork/agent/permissions"
	"github.com/parawork/parawork/agent/plan"
	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/tools"
)

// callAll makes the calls of an answer that have no result yet, in their order. Neighbours that change nothing are made at once.
func (r *running) callAll(ctx context.Context, m *Message) error {
	r.recallFolders()
	calls := r.calls[m.ID]
	if len(calls) > 0 {
		if err := r.loadRules(ctx); err != nil {
			return err
		}
	}
	for i := 0; i < len(calls); {
		n := i + 1
		for n < len(calls) && n-i < r.svc.cfg.Limits.Parallel && r.quiet(calls[i]) && r.quiet(calls[n]) {
			n++
		}
		var all sync.WaitGroup
		errs := make([]error, n-i)
		for at, c := range calls[i:n] {
			if !c.State.Ended() {
				all.Go(func() { errs[at] = r.call(ctx, c) })
			}
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		i = n
	}
	return nil
}

// quiet reports whether a call changes nothing and asks nobody.
func (r *running) quiet(c *Call) bool {
	spec, ok := r.specs[c.Tool]
	return !ok || c.Tool != plan.Tool && !spec.Needs.Writes && spec.Permission == tools.Allow && !permissions.Mentions(r.rules, spec)
}

// call makes one call and stores its result. It fails only when the turn must end.
func (r *running) call(ctx context.Context, c *Call) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if c.Tool == plan.Tool && r.mode == Plan && isObject(c.Args) {
		return r.propose(ctx, c)
	}
	state, words, err := r.admit(ctx, c)
	switch {
	case err != nil:
		return err
	case state != "":
		return r.ended(ctx, c, state, textParts(words), false)
	}
	turn := r.beforeChange(ctx, c)
	c.State, c.StartedAt = CallRunning, r.svc.now()
	if err := r.apply(ctx, Change{Calls: []*Call{c}, Turn: turn}); err != nil {
		return err
	}
	r.host.Record([]item{callItem(c)})
	result, err := r.svc.cfg.Tools.Call(ctx, r.callerOf(c.Tool), c.Tool, c.Args)
	cause := context.Cause(ctx)
	switch {
	case err == nil && !result.IsError:
		state = CallDone
	case errors.Is(cause, errClosing), errors.Is(cause, errLost):
		return cause // it stays as it is: the server that goes on says that nobody knows whether it was done
	case err != nil && errors.Is(cause, errSession):
		return r.ended(ctx, c, CallUnknown, textParts("The session ended during this call. "+unknownOutcome), false)
	case err != nil && cause != nil:
		return r.ended(ctx, c, CallUnknown, textParts("The person interrupted this call. What it did until then stays done."), false)
	case err != nil:
		return r.ended(ctx, c, CallFailed, textParts(refusal(err)), false)
	default:
		state = CallFailed
	}
	c.Details = r.detailsOf(c.Tool, result)
	content, kept, cut := r.content(result)
	r.hold(kept)
	content = append(content, r.near(ctx, c)...)
	return r.ended(ctx, c, state, content, cut || result.Truncated, kept...)
}

// ended stores the result of a call.
func (r *running) ended(ctx context.Context, c *Call, state CallState, content []providers.Part, cut bool, kept ...media.Content) error {
	for i := range content {
		content[i].Text = r.mask(content[i].Text)
	}
	done := *c
	done.State, done.Content, done.Cut, done.EndedAt = state, content, cut, r.svc.now()
	if err := r.apply(context.WithoutCancel(ctx), Change{Calls: []*Call{&done}, Media: kept}); err != nil { // it was done: that is stored whatever happens to the turn
		return err
	}
	*c = done
	r.host.Record([]item{callItem(c)})
	return context.Cause(ctx)
}

func (r *running) toolNames() []string {
	names := make([]string, len(r.offered))
	for i, t := range r.offered {
		names[i] = t.Name
	}
	return names
}

const mostRefusal = 8 << 10 // characters

// refusal is what the model reads of an error of a tool.
func refusal(err error) string {
	words := safetext.Cut(fault.Words(err, "The tool failed unexpectedly. What it did until then stays done."), mostRefusal)
	if code := fault.CodeOf(err); code != "" {
		return code + ": " + words
	}
	return words
}

// ends returns the beginning and the end of a text that is longer than most bytes. All of it can be read on by an ID, unless that is "".
func ends(text string, most int, ref string) string {
	head := most * 2 / 3
	tail := len(text) - (most - head)
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	how := "ask for less, or for a part of it"
	if ref != "" {
		how = fmt.Sprintf("read on with %s, id %s, offset %d", media.ReadTool, ref, head)
	}
	return fmt.Sprintf("%s\n[... %d bytes left out: %s ...]\n%s", text[:head], tail-head, how, text[tail:])
}

// isObject reports whether args are a JSON object.
func isObject(args []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(args), []byte("{")) && json.Valid(args)
}

// quoted makes a JSON string of what a model wrote for arguments.
func quoted(raw string) json.RawMessage {
	out, err := json.Marshal(raw)
	if err != nil {
		return json.RawMessage("null")
	}
	return out
}

// repaired makes a JSON object of what a model wrote for the arguments of a call, when only its end or a wrapping is wrong.
func repaired(call providers.Part) providers.Part {
	if len(call.Args) > 0 {
		return call
	}
	text := strings.TrimSpace(call.RawArgs)
	if inner, ok := strings.CutPrefix(text, "```"); ok {
		inner = strings.TrimPrefix(inner, "json")
		text = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(inner), "```"))
	}
	if text == "" || text == "null" {
		text = "{}"
	}
	if !isObject([]byte(text)) {
		text += closing(text)
	}
	if isObject([]byte(text)) {
		call.Args, call.RawArgs = json.RawMessage(text), ""
	}
	return call
}

// closing is what ends the objects and lists that are open at the end of a JSON text. A cut string stays cut: its end is unknown.
func closing(text string) string {
	var open []byte
	in, escaped := false, false
	for _, b := range []byte(text) {
		switch {
		case in:
			if b == '"' && !escaped {
				in = false
			}
			escaped = b == '\\' && !escaped
		case b == '"':
			in, escaped = true, false
		case b == '{':
			open = append(open, '}')
		case b == '[':
			open = append(open, ']')
		case (b == '}' || b == ']') && len(open) > 0:
			open = open[:len(open)-1]
		}
	}
	slices.Reverse(open)
	return string(open)
}
