package agents

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// hookCommand is the shell command an agent's hook runs. Without a guest that accepts hooks it does nothing.
func hookCommand(args string) string {
	return `[ ! -x "$PARAWORK_GUEST" ] || exec "$PARAWORK_GUEST" hook ` + args
}

// editedCommand has the language server check what an agent edited. It always succeeds: 2 would keep Claude from ending its turn, and is how
// a program ends that crashed, or a guest that knows no such command.
func editedCommand() string {
	return `[ ! -x "$PARAWORK_GUEST" ] || "$PARAWORK_GUEST" edited 2>/dev/null || :`
}

// HookEvent is an event reported by an agent's hook.
type HookEvent struct {
	At    time.Time
	Waits bool            // the hook waits for an answer
	Raw   json.RawMessage // a JSON object, untrusted
}

// HookReport is the meaning of a HookEvent.
type HookReport struct {
	Hint         Hint   // its Source is FromHook
	Conversation string // the agent's ID of the conversation, "" when the hook gives none
	Asks         []Ask  // its questions, one after the other; the hook is answered when all are
	Key          string // identifies the question, and is the argument of Over
	Coming       *Ask   // the question of a dialog that is about to open
	// Over reports which open questions this event shows to be over, with the answer where it is known; nil: none. With OverSoon
	// a more precise event may still be on its way.
	Over     func(key string) (over bool, answer string)
	OverSoon bool

	Prompt     string // a prompt the agent has just got
	Compacting bool   // the agent is about to compact its conversation
}

// A hooker is an adapter whose agent reports events through hooks.
type hooker interface {
	hook(e HookEvent) HookReport
	// reply is what the hook prints: the answers to all of HookReport.Asks.
	reply(e HookEvent, answers []Answer) (json.RawMessage, error)
}

// A dialoger is an adapter that can read its agent's questions off the screen.
type dialoger interface {
	dialog(lines []string) *Dialog
}

// Hooks reports whether the agent reports events through hooks.
func (r *Registry) Hooks(name string) bool {
	_, ok := r.adapters[name].(hooker)
	return ok
}

// Hook interprets an event of an agent's hook.
func (r *Registry) Hook(name string, e HookEvent) HookReport {
	a, ok := r.adapters[name].(hooker)
	if !ok {
		return HookReport{}
	}
	h := a.hook(e)
	h.Hint.Source, h.Hint.At = FromHook, e.At
	return h
}

// HookReply returns what the hook prints as the answer to its questions.
func (r *Registry) HookReply(name string, e HookEvent, answers []Answer) (json.RawMessage, error) {
	a, ok := r.adapters[name].(hooker)
	if !ok {
		return nil, nil
	}
	return a.reply(e, answers)
}

// ReadsDialogs reports whether the agent's questions can be read off its screen.
func (r *Registry) ReadsDialogs(name string) bool {
	_, ok := r.adapters[name].(dialoger)
	return ok
}

// Dialog reads the question on the screen, nil when there is none.
func (r *Registry) Dialog(name string, lines []string) *Dialog {
	a, ok := r.adapters[name].(dialoger)
	if !ok {
		return nil
	}
	return a.dialog(lines)
}

// fingerprint identifies a value among those of one session.
func fingerprint(parts ...any) string {
	b, err := json.Marshal(parts)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:10])
}
