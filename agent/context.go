package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/tools"
)

// coreGroups are on for this agent unless the project has switched them off: it has no other hands.
var coreGroups = []string{"files", "commands", "web", "skills"}

// equip prepares the tools and the system prompt.
func (r *running) equip(ctx context.Context) error {
	caller, err := r.svc.cfg.Caller(ctx, r.host.Row())
	if err != nil {
		return err
	}
	r.caller = caller
	all := tools.On(r.svc.cfg.Tools.Specs(), caller.Groups)
	r.specs = make(map[string]tools.Spec, len(all))
	var core, others []tools.Spec
	for _, s := range all {
		r.specs[s.Name] = s // those that are not offered can be called, too: skills and instructions may name them
		if isCore(s.Group) || r.thread.Mode == Review && s.Group == reviewGroup {
			core = append(core, s)
		} else {
			others = append(others, s)
		}
	}
	r.offered = nil
	for _, s := range slices.Concat(core, tools.Listed(others, caller.Groups)) {
		if r.thread.Mode.offers(s) {
			r.offered = append(r.offered, providers.Tool{Name: s.Name, Description: s.Description, Schema: s.Arguments})
		}
	}
	r.offerPlan()
	r.mode = r.thread.Mode
	return r.instruct(ctx)
}

// CoreGroups are the groups of tools that are on for this agent by default.
func CoreGroups() []string { return slices.Clone(coreGroups) }

func isCore(group string) bool { return slices.Contains(coreGroups, group) }

// request is what the model is asked next.
func (r *running) request() providers.Request {
	return providers.Request{Model: r.model.Name, System: r.system, Messages: r.conversation(), Tools: r.offered, MaxOutput: r.model.Output, Effort: r.effort, CacheKey: r.thread.ID}
}

// conversation is the thread as the model is sent it: from the newest summary on, each call followed by its result.
func (r *running) conversation() []providers.Message {
	var out []providers.Message
	for _, m := range r.messages {
		switch {
		case m.State != Complete:
		case m.Role == Clear:
			out = nil
		case m.Role == Summary:
			out = []providers.Message{{Role: providers.User, Parts: textParts(summaryIntro + textOf(m.Parts) + r.worksOn(m))}}
		case m.Role == User, m.Role == Note:
			out = append(out, providers.Message{Role: providers.User, Parts: said(m.Parts)})
		case m.Role == Assistant:
			out = append(out, providers.Message{Role: providers.Assistant, Parts: m.Parts})
			if calls := r.calls[m.ID]; len(calls) > 0 {
				results := make([]providers.Part, 0, len(calls))
				for _, c := range calls {
					results = append(results, providers.Part{Kind: providers.ToolResult, CallID: c.CallID, Name: c.Tool, Content: c.Content, IsError: c.State != CallDone})
				}
				out = append(out, providers.Message{Role: providers.User, Parts: results})
			}
		}
	}
	return out
}

const mostPrompt = 16 << 10 // bytes of a prompt beside a summary

// worksOn is, after a summary in the middle of a turn, what the person asked for: in their words, which the summary may not have.
func (r *running) worksOn(summary *Message) string {
	most := mostPrompt
	if r.model.Window > 0 {
		most = min(most, int(r.model.Window/2)) // an eighth of the window
	}
	var b strings.Builder
	for _, m := range r.messages {
		if m.Role != User || m.State != Complete || m.TurnID != summary.TurnID || m.Seq > summary.Seq {
			continue
		}
		text := textOf(m.Parts)
		if len(text) > most {
			text = ends(text, most, "")
		}
		if b.Len()+len(text) > 2*most {
			break
		}
		b.WriteString(promptIntro + text)
	}
	return b.String()
}

func textOf(parts []providers.Part) string {
	var b strings.Builder
	for _, p := range parts {
		if p.Kind == providers.Text {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// fullAt is the part of the model's window, in hundredths, from which on the conversation is summarized.
const fullAt = 80

// makeRoom summarizes the conversation when the next request may not fit. What the model reports counts; where it reports nothing, an
// estimate does.
func (r *running) makeRoom(ctx context.Context) error {
	if r.model.Window <= 0 {
		return nil
	}
	room := r.model.Window*fullAt/100 - int64(r.model.Output)
	if room < r.model.Window/4 {
		room = r.model.Window / 4
	}
	if r.filled() < room {
		return nil
	}
	return r.compact(ctx)
}

// filled is how many tokens the next request has: what the model reported for the last answer, also in a turn or a server before this one,
// with an estimate of what came since. Where that is more, or nothing was reported, it is an estimate of everything.
func (r *running) filled() int64 {
	req := r.request()
	estimated := providers.Estimate(req)
	m := r.lastAnswer()
	if m == nil || m.Usage == (providers.Usage{}) {
		return estimated
	}
	since := req.Messages
	for i, o := range slices.Backward(since) {
		if o.Role == providers.Assistant {
			since = since[i+1:]
			break
		}
	}
	u := m.Usage
	return max(estimated, u.Input+u.CacheRead+u.CacheWrite+u.Output+providers.Estimate(providers.Request{Messages: since}))
}

// compact replaces what the model is sent by a summary that it writes itself. A turn may do so only so often: a conversation that does not
// get shorter would go on for ever.
func (r *running) compact(ctx context.Context) error {
	if r.turn.Compactions >= r.svc.cfg.Limits.Compactions {
		return &stop{ending{TurnFailed, fmt.Sprintf("The conversation was summarized %d times in this turn, which is the most. Send a prompt to go on, with less at once.", r.turn.Compactions), "turn_compactions"}}
	}
	if c := r.svc.cfg.Checkpoints; c != nil {
		c.Compacting(r.host.Row())
	}
	m, messages, err := r.newSummary(ctx)
	if err != nil {
		return err
	}
	text, usage, err := r.summary(ctx, messages)
	if err != nil {
		return errors.Join(err, r.end(m, Discarded, "the conversation could not be summarized"))
	}
	done, turn := *m, *r.turn
	done.State, done.Parts, done.Usage, done.DoneAt = Complete, textParts(r.mask(text)), usage, r.svc.now()
	turn.Compactions++
	if err := r.apply(ctx, Change{Messages: []*Message{&done}, Turn: &turn}); err != nil {
		return err
	}
	*m, r.turn.Compactions = done, turn.Compactions
	r.host.Record([]item{noteItem(m), spentItem(m)})
	r.unload(m)
	return nil
}

// newSummary begins a summary and returns what it is of. It has its place: a prompt that comes from here on stays.
func (r *running) newSummary(ctx context.Context) (*Message, []providers.Message, error) {
	for {
		messages := r.conversation()
		if len(messages) < 2 {
			return nil, nil, &stop{ending{TurnFailed, "The prompt alone is longer than the model's context. Send a shorter one, or choose another model.", "context_too_long"}}
		}
		m := &Message{ID: id.New("msg"), ThreadID: r.thread.ID, TurnID: r.turn.ID, Role: Summary, State: Streaming, Parts: textParts(""), Model: r.model.Name, CreatedAt: r.svc.now()}
		err := r.apply(ctx, Change{Messages: []*Message{m}, LastSeq: r.lastSeq()})
		if err == nil {
			r.messages = append(r.messages, m)
			return m, messages, nil
		}
		if fault.CodeOf(err) != "thread_moved" {
			return nil, nil, err
		}
		if err := r.refresh(ctx); err != nil {
			return nil, nil, err
		}
	}
}

// unload drops what the model is no longer sent, as Window.Live does.
func (r *running) unload(summary *Message) {
	r.messages = slices.DeleteFunc(r.messages, func(m *Message) bool {
		old := m.Seq < summary.Seq && (m.Role != User || m.TurnID != summary.TurnID)
		if old {
			delete(r.calls, m.ID)
		}
		return old
	})
}

// summary asks the model for one. Where even that is too long, the older half of the messages is left out.
func (r *running) summary(ctx context.Context, messages []providers.Message) (text string, usage providers.Usage, err error) {
	for range 4 {
		req := providers.Request{Model: r.model.Name, System: r.system, Tools: r.offered, MaxOutput: min(r.model.Output, 8192), CacheKey: r.thread.ID,
			Messages: shortened(append(slices.Clone(messages), providers.Message{Role: providers.User, Parts: textParts(summaryPrompt)}), r.model.Window)}
		text, usage, err = r.written(ctx, req)
		if p, ok := errors.AsType[*providers.Error](err); !ok || p.Kind != providers.ErrContextTooLong || len(messages) < 2 {
			break
		}
		messages = append([]providers.Message{{Role: providers.User, Parts: textParts("[The beginning of the conversation is left out.]")}}, messages[(len(messages)+1)/2:]...)
	}
	if err == nil && strings.TrimSpace(text) == "" {
		err = &stop{ending{TurnFailed, "The model wrote no summary of the conversation, which is too long to go on with. Enter /clear to go on without it, or choose a model with a longer context.", "no_summary"}}
	}
	return text, usage, err
}

// written is the text of the answer to a request.
func (r *running) written(ctx context.Context, req providers.Request) (string, providers.Usage, error) {
	req, err := r.withImages(ctx, req)
	if err != nil {
		return "", providers.Usage{}, err
	}
	var text strings.Builder
	var done *providers.Event
	for e, err := range r.model.Provider.Stream(ctx, req) {
		if err != nil {
			return "", providers.Usage{}, err
		}
		switch e.Kind {
		case providers.TextDelta:
			text.WriteString(e.Text)
		case providers.Retry:
			text.Reset()
		case providers.Done:
			done = &e
		}
	}
	if done != nil {
		return text.String(), r.priced(ctx, *done), nil
	}
	return "", providers.Usage{}, &providers.Error{Kind: providers.ErrCut, Message: "The model's answer ended before it was complete."}
}

// shortened cuts the longest results of tools until messages fit into a window, as far as that is possible.
func shortened(messages []providers.Message, window int64) []providers.Message {
	for most := 16 << 10; most >= 512; most /= 2 {
		if window <= 0 || providers.Estimate(providers.Request{Messages: messages}) < window*9/10 {
			break
		}
		out := make([]providers.Message, len(messages))
		for i, m := range messages {
			out[i] = providers.Message{Role: m.Role, Parts: make([]providers.Part, len(m.Parts))}
			copy(out[i].Parts, m.Parts)
			for j, p := range out[i].Parts {
				if p.Kind != providers.ToolResult {
					continue
				}
				content := make([]providers.Part, 0, len(p.Content))
				for _, c := range p.Content {
					if c.Kind == providers.Image {
						c = providers.Part{Kind: providers.Text, Text: "[an image]"}
					}
					if len(c.Text) > most {
						c.Text = ends(c.Text, most, c.Ref)
					}
					content = append(content, c)
				}
				out[i].Parts[j].Content = content
			}
		}
		messages = out
	}
	return messages
}
