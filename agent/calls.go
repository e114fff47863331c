package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/tools"
)

// callAll makes the calls of an answer that have no result yet, in their order. Neighbours that change nothing are made at once.
func (r *running) callAll(ctx context.Context, m *Message) error {
	calls := r.calls[m.ID]
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
	return !ok || !spec.Needs.Writes && spec.Permission == tools.Allow
}

// call makes one call and stores its result. It fails only when the turn must end.
func (r *running) call(ctx context.Context, c *Call) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	state, words, err := r.admit(ctx, c)
	switch {
	case err != nil:
		return err
	case state != "":
		return r.ended(ctx, c, state, textParts(words), false)
	}
	c.State, c.StartedAt = CallRunning, r.svc.now()
	if err := r.apply(ctx, Change{Calls: []*Call{c}}); err != nil {
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
	case err != nil && cause != nil:
		return r.ended(ctx, c, CallUnknown, textParts("The person interrupted this call. What it did until then stays done."), false)
	case err != nil:
		return r.ended(ctx, c, CallFailed, textParts(refusal(err)), false)
	default:
		state = CallFailed
	}
	c.Details = r.detailsOf(c.Tool, result)
	content, cut := r.content(result)
	return r.ended(ctx, c, state, content, cut || result.Truncated)
}

// ended stores the result of a call.
func (r *running) ended(ctx context.Context, c *Call, state CallState, content []providers.Part, cut bool) error {
	for i := range content {
		content[i].Text = r.mask(content[i].Text)
	}
	done := *c
	done.State, done.Content, done.Cut, done.EndedAt = state, content, cut, r.svc.now()
	if err := r.apply(context.WithoutCancel(ctx), Change{Calls: []*Call{&done}}); err != nil { // it was done: that is stored whatever happens to the turn
		return err
	}
	*c = done
	r.host.Record([]item{callItem(c)})
	return context.Cause(ctx)
}

// admit decides about a call before it is made: the state it ends in when it is not made, with the words for the model.
func (r *running) admit(ctx context.Context, c *Call) (state CallState, words string, err error) {
	spec, known := r.specs[c.Tool]
	switch {
	case !known:
		return CallFailed, fmt.Sprintf("There is no tool %q. The tools are: %s.", safetext.Cut(safetext.Line(c.Tool), 64), strings.Join(r.toolNames(), ", ")), nil
	case !isObject(c.Args):
		return CallFailed, "The arguments are not a JSON object. Nothing was done. Call the tool again with valid JSON.", nil
	case !r.thread.Mode.allows(spec):
		return CallDenied, fmt.Sprintf("%s is not available in %s mode, in which you change nothing. Say what you would do instead.", c.Tool, r.thread.Mode), nil
	case spec.Permission == tools.Allow || r.host.Row().Permissions == agents.AllPermissions:
		return "", "", nil
	}
	return r.askPermission(ctx, c, spec)
}

// askPermission asks a person, unless one has allowed the like for the session.
func (r *running) askPermission(ctx context.Context, c *Call, spec tools.Spec) (state CallState, words string, err error) {
	like := likeness(c)
	if r.allowed[like] {
		return "", "", nil
	}
	c.State = CallAsked
	if err := r.apply(ctx, Change{Calls: []*Call{c}, Thread: &ThreadChange{State: Waiting, Reason: spec.Title}}); err != nil {
		return "", "", err
	}
	session := "For this session"
	if _, word, ok := strings.Cut(like, " "); ok {
		session = fmt.Sprintf("For this session: commands that begin with %s", word)
	}
	answer, err := r.host.Ask(ctx, "call/"+c.ID, agents.Ask{Kind: agents.Permission, Title: spec.Title + ": " + safetext.Cut(safetext.Line(c.Title()), 200), Detail: detail(c), FreeText: true,
		Options: []agents.Option{{ID: "allow", Label: "Allow", Role: agents.Allow}, {ID: "session", Label: session, Role: agents.AllowSession}, {ID: "deny", Label: "Deny", Role: agents.Deny}}})
	gone := fault.CodeOf(err) == "question_gone"
	if err != nil && !gone {
		return "", "", err
	}
	if err := r.apply(ctx, Change{Thread: &ThreadChange{State: Working}}); err != nil {
		return "", "", err
	}
	if gone {
		return CallDenied, "The question whether this call is allowed was withdrawn: nobody answered it.", nil
	}
	if len(answer.Options) == 0 || answer.Options[0].ID == "deny" {
		words = "A person did not allow this call."
		if answer.Text != "" {
			words += " Their reason: " + answer.Text
		}
		return CallDenied, words, nil
	}
	if answer.Options[0].ID == "session" {
		r.allowed[like] = true
	}
	return "", "", nil
}

// likeness is what "for this session" allows: a tool, or for a command line its program.
func likeness(c *Call) string {
	var a struct {
		Command string
		Argv    []string
	}
	if c.Tool != "run_command" || json.Unmarshal(c.Args, &a) != nil {
		return c.Tool
	}
	words := a.Argv
	if len(words) == 0 && !strings.ContainsAny(a.Command, "&|;<>`$()\n") {
		words = strings.Fields(a.Command)
	}
	if len(words) > 0 && !slices.Contains(runners, path.Base(words[0])) && !strings.Contains(words[0], "=") {
		return c.Tool + " " + words[0]
	}
	sum := sha256.Sum256(c.Args) // several programs, or any: allowed only as it stands
	return c.Tool + "/" + hex.EncodeToString(sum[:])
}

// runners are programs that run what their arguments say.
var runners = []string{"sh", "bash", "dash", "zsh", "fish", "env", "eval", "exec", "xargs", "sudo", "doas", "nohup", "time", "timeout", "nice", "ssh", "python", "python3", "node", "perl", "ruby"}

// allows reports whether a tool may be used in a mode.
func (m Mode) allows(s tools.Spec) bool {
	switch {
	case m == Build || m == "" || !s.Needs.Writes:
		return true
	case m == Plan:
		return s.Group == "tasks"
	case m == Review:
		return s.Group == "verification"
	}
	return false
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

// Bounds of what a model is sent of a result, beside Limits.ResultBytes.
const (
	mostImage  = 4 << 20 // bytes of an image
	mostImages = 8 << 20 // bytes of all images of a result
	mostParts  = 64
)

// content is what the model is sent of a result: texts, and images it may be able to see.
func (r *running) content(result tools.Result) (parts []providers.Part, cut bool) {
	left, images := r.svc.cfg.Limits.ResultBytes, mostImages
	for i, c := range result.Content {
		switch {
		case i == mostParts:
			return append(parts, providers.Part{Kind: providers.Text, Text: fmt.Sprintf("[%d more parts left out]", len(result.Content)-i)}), true
		case c.MIME == "":
			text := r.mask(strings.ToValidUTF8(c.Text, "\uFFFD")) // before it is cut: no half of a secret remains
			if len(text) > left {
				text, cut = ends(text, left), true
			}
			left = max(left-len(text), 0)
			parts = append(parts, providers.Part{Kind: providers.Text, Text: text})
		case strings.HasPrefix(c.MIME, "image/") && len(c.Data) <= min(mostImage, images) && slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, c.MIME):
			images -= len(c.Data)
			parts = append(parts, providers.Part{Kind: providers.Image, MIME: c.MIME, Data: c.Data})
		default:
			parts = append(parts, providers.Part{Kind: providers.Text, Text: fmt.Sprintf("[%d bytes of %s left out]", len(c.Data), c.MIME)})
		}
	}
	if len(parts) == 0 {
		parts = textParts("The tool answered nothing.")
	}
	return parts, cut
}

// ends returns the beginning and the end of a text that is longer than most bytes.
func ends(text string, most int) string {
	head := most * 2 / 3
	tail := len(text) - (most - head)
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return fmt.Sprintf("%s\n[... %d bytes left out; ask for less, or for a part of it ...]\n%s", text[:head], tail-head, text[tail:])
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
