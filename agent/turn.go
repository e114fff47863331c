package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/parawork/parawork/agent/permissions"
	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/sessions/usagelimit"
	"github.com/parawork/parawork/tools"
)

// Why a turn's context ends.
var (
	errInterrupted = errors.New("interrupted")
	errLost        = fmt.Errorf("another server continues the turn: %w", question.ErrStays)
	errTime        = errors.New("the turn took too long")
	errSession     = errors.New("the session has ended")
)

// running is a turn under way on this server. Only its own goroutine changes it, except for what mu guards.
type running struct {
	svc    *Service
	thread Thread
	turn   *Turn // its IDs never change
	host   Host  // nil: the session has ended
	ctx    context.Context
	cancel context.CancelCauseFunc
	limit  *usagelimit.Limit // of the provider, which ended the turn
	over   chan struct{}     // closed when nothing of it runs any more

	limits   Limits // of this turn
	model    Model
	effort   string
	caller   tools.Caller
	mode     Mode // for which the rest is made
	specs    map[string]tools.Spec
	offered  []providers.Tool
	system   []providers.System
	messages []*Message         // what the model is sent, and what has come since, in order
	calls    map[string][]*Call // by message
	rules    []permissions.Rule // that apply now
	recent   [][]string         // signatures of the last steps' calls and results
	images   map[string][]byte  // that the last request had, and those of newer results
	streams  map[int]*written   // the parts that are being written

	mu      sync.Mutex
	writing *Message // being written by the model

	folders folders
}

func (s *Service) newRunning(t Thread, turn Turn, host Host) *running {
	r := &running{svc: s, thread: t, turn: &turn, limits: s.cfg.Limits, host: host, over: make(chan struct{}), calls: map[string][]*Call{}, images: map[string][]byte{}}
	r.ctx, r.cancel = context.WithCancelCause(tenant.In(s.life, t.TeamID))
	return r
}

// run goes through the steps of the turn until it ends, or until the server does.
func (r *running) run() {
	limits, limited := r.svc.limitsOf(r.ctx, r.thread)
	r.limits = limits
	ctx, stop := context.WithTimeoutCause(r.ctx, limits.Time, errTime)
	defer stop()
	go func() { // ends with ctx
		select {
		case <-r.host.Done():
			r.cancel(errSession)
		case <-ctx.Done():
		}
	}()
	r.host.Observe(agents.Hint{Source: agents.FromHook, Mood: agents.Busy})
	for again := true; again; {
		err := limited
		if err == nil {
			err = r.work(ctx)
		}
		e, ends := r.endOf(ctx, err)
		if errors.Is(context.Cause(ctx), errInterrupted) {
			r.interruptBelow()
		}
		again = ends && r.conclude(e)
	}
}

// work does what is left of the turn.
func (r *running) work(ctx context.Context) error {
	if err := r.prepare(ctx); err != nil {
		return err
	}
	if r.turn.Reason == compactOnly && r.turn.Compactions == 0 && len(r.conversation()) > 1 {
		if err := r.compact(ctx); err != nil {
			return err
		}
	}
	for more := r.turn.Reason != compactOnly || r.joined(); more; {
		var err error
		if more, err = r.step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// joined reports whether a person wrote in this turn.
func (r *running) joined() bool {
	return slices.ContainsFunc(r.messages, func(m *Message) bool { return m.Role == User && m.TurnID == r.turn.ID })
}

// apply stores a change of the turn's thread, and notifies those who follow it.
func (r *running) apply(ctx context.Context, c Change) error {
	if err := r.keep(ctx, c); err != nil {
		return err
	}
	r.svc.changed(ctx, r.thread)
	return nil
}

// keep stores a change of the turn's thread.
func (r *running) keep(ctx context.Context, c Change) error {
	if c.TurnID == "" {
		c.TurnID, c.Owner = r.turn.ID, r.svc.cfg.Owner
	}
	if c.At == 0 {
		c.At = r.svc.now()
	}
	_, err := r.svc.cfg.Store.Apply(ctx, r.thread.ID, c)
	return err
}

// refresh reads what is new in the thread: what the model is sent, the first time.
func (r *running) refresh(ctx context.Context) error {
	w := Window{Live: true}
	if len(r.messages) > 0 {
		w = Window{Since: r.thread.Version}
	}
	v, err := r.svc.cfg.Store.View(ctx, r.thread.ID, w)
	if err != nil {
		return err
	}
	r.thread = v.Thread
	for i := range v.Messages {
		m := &v.Messages[i]
		if at := slices.IndexFunc(r.messages, func(o *Message) bool { return o.ID == m.ID }); at >= 0 {
			*r.messages[at] = *m
		} else {
			r.messages = append(r.messages, m)
		}
	}
	slices.SortFunc(r.messages, func(a, b *Message) int { return int(a.Seq - b.Seq) })
	for i := range v.Calls {
		c := &v.Calls[i]
		all := r.calls[c.MessageID]
		if at := slices.IndexFunc(all, func(o *Call) bool { return o.ID == c.ID }); at >= 0 {
			*all[at] = *c
		} else {
			r.calls[c.MessageID] = append(all, c)
		}
	}
	return nil
}

// prepare makes ready what all steps use, and ends what a server that was killed left half done.
func (r *running) prepare(ctx context.Context) (err error) {
	if err := r.refresh(ctx); err != nil {
		return err
	}
	row := r.host.Row()
	o := optionsOf(row.Argv)
	o.Model, r.effort = r.thread.Model, o.Effort
	if r.model, err = r.svc.cfg.Model(ctx, row, o); err != nil {
		return err
	}
	if err := r.equip(ctx); err != nil {
		return err
	}
	now := r.svc.now()
	var c Change
	for _, m := range r.messages {
		if m.State == Streaming {
			m.State, m.Note, m.DoneAt = Discarded, "the server was restarted while the model answered", now
			c.Messages = append(c.Messages, m)
		}
		for _, call := range r.calls[m.ID] {
			if spec, known := r.specs[call.Tool]; call.State == CallRunning && (spec.Needs.Writes || !known) {
				call.State, call.Content, call.EndedAt = CallUnknown, textParts(unknownWords), now
				c.Calls = append(c.Calls, call)
			} else if call.State == CallRunning {
				call.State = CallPending // it changes nothing: it is done again
			}
		}
	}
	if len(c.Messages)+len(c.Calls) > 0 {
		if err := r.apply(ctx, c); err != nil {
			return err
		}
	}
	r.remember()
	r.host.Record(r.items()) // a server that was killed may have stored the rows alone; what is there is not added again
	return nil
}

const (
	unknownOutcome = "It is unknown whether it was done. Look at what it would have changed before you repeat it."
	unknownWords   = "The server was restarted during this call. " + unknownOutcome
)

// step asks the model once and makes the calls it wants; false when the turn is complete.
func (r *running) step(ctx context.Context) (more bool, err error) {
	if m := r.lastAnswer(); m != nil && r.hasOpen(m) {
		if err := r.callAll(ctx, m); err != nil {
			return false, err
		}
		if err := r.repeats(m); err != nil {
			return false, err
		}
	}
	if err := r.takeResults(ctx); err != nil {
		return false, err
	}
	if err := r.refresh(ctx); err != nil {
		return false, err
	}
	if m := r.lastAnswer(); m != nil && m.TurnID == r.turn.ID && len(r.calls[m.ID]) == 0 && !r.promptedSince(m) && m.Stop != providers.StopPause {
		return false, cut(m)
	}
	if r.turn.Steps >= r.limits.Steps {
		return false, &stop{ending{TurnFailed, fmt.Sprintf("The turn took %d steps, which is the most. Send a prompt to go on.", r.turn.Steps), "turn_steps"}}
	}
	if err := r.withinCost(); err != nil {
		return false, err
	}
	if r.mode != r.thread.Mode {
		if err := r.equip(ctx); err != nil {
			return false, err
		}
	}
	if r.caller, err = r.svc.cfg.Caller(ctx, r.host.Row()); err != nil { // asked at each step: the person's rights may have ended
		return false, err
	}
	if err := r.makeRoom(ctx); err != nil {
		return false, err
	}
	m, err := r.ask(ctx)
	if p, ok := errors.AsType[*providers.Error](err); ok && p.Kind == providers.ErrContextTooLong {
		if err = r.compact(ctx); err == nil {
			m, err = r.ask(ctx)
		}
	}
	if err != nil {
		return false, err
	}
	if err := r.callAll(ctx, m); err != nil {
		return false, err
	}
	return true, r.repeats(m)
}

// lastAnswer is the newest message of the model that counts.
func (r *running) lastAnswer() *Message {
	for _, m := range slices.Backward(r.messages) {
		switch {
		case m.State != Complete:
		case m.Role == Assistant:
			return m
		case m.Role == Summary, m.Role == Clear:
			return nil
		}
	}
	return nil
}

func (r *running) hasOpen(m *Message) bool {
	return slices.ContainsFunc(r.calls[m.ID], func(c *Call) bool { return !c.State.Ended() })
}

// promptedSince reports whether a person wrote after an answer.
func (r *running) promptedSince(m *Message) bool {
	return slices.ContainsFunc(r.messages, func(o *Message) bool { return o.Role == User && o.State == Complete && o.Seq > m.Seq })
}

// cut is why a turn fails whose last answer the model or its provider broke off.
func cut(m *Message) error {
	switch m.Stop {
	case providers.StopMaxOutput:
		return &stop{ending{TurnFailed, "The answer was cut: it was longer than the model may write at once. Send a prompt to have it go on.", "model_output_cut"}}
	case providers.StopRefusal:
		return &stop{ending{TurnFailed, "The model refused to go on. Ask for something else, or in other words.", "model_refused"}}
	}
	return nil
}

func (r *running) mask(text string) string {
	if r.host == nil {
		return text
	}
	return r.host.Mask(text)
}

func textParts(text string) []providers.Part {
	return []providers.Part{{Kind: providers.Text, Text: text}}
}
