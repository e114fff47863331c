package agents

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// hookCommand is what an agent's hook runs, by a shell. Without a guest that hears hooks it says and does nothing.
func hookCommand(args string) string {
	return `[ ! -x "$PARAWORK_GUEST" ] || exec "$PARAWORK_GUEST" hook ` + args
}

// HookEvent is what a hook of an agent says.
type HookEvent struct {
	At    time.Time
	Waits bool            // it waits for an answer
	Raw   json.RawMessage // a JSON object, hostile
}

// HookReport is what a hook's word means.
type HookReport struct {
	Hint         Hint   // its Source is FromHook
	Conversation string // the agent's own id of the conversation, "" when it says none
	Asks         []Ask  // what it asks, one after the other; the hook is answered when all are
	Key          string // names the question, and is what Over is asked with
	Coming       *Ask   // what a dialog that is about to open asks
	// Over tells which open questions this shows to be over, with the answer where it is known; nil: none. With OverSoon a word
	// that knows more may still be under way.
	Over     func(key string) (over bool, answer string)
	OverSoon bool
}

// A hooker is an adapter whose agent tells of itself through hooks.
type hooker interface {
	hook(e HookEvent) HookReport
	// reply is what the hook prints: the answers to all of Heard.Asks.
	reply(e HookEvent, answers []Answer) (json.RawMessage, error)
}

// A dialoger is an adapter that can read what its agent asks off the screen.
type dialoger interface {
	dialog(lines []string) *Dialog
}

// Hooks reports whether the agent tells of itself through hooks.
func (r *Registry) Hooks(name string) bool {
	_, ok := r.adapters[name].(hooker)
	return ok
}

// Hook reads what a hook of the agent says.
func (r *Registry) Hook(name string, e HookEvent) HookReport {
	a, ok := r.adapters[name].(hooker)
	if !ok {
		return HookReport{}
	}
	h := a.hook(e)
	h.Hint.Source, h.Hint.At = FromHook, e.At
	return h
}

// HookReply returns what the hook prints as the answer to what it asks.
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

// Dialog reads the question the screen shows, nil when there is none.
func (r *Registry) Dialog(name string, lines []string) *Dialog {
	a, ok := r.adapters[name].(dialoger)
	if !ok {
		return nil
	}
	return a.dialog(lines)
}

// fingerprint names a value among those of one session.
func fingerprint(parts ...any) string {
	b, err := json.Marshal(parts)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:10])
}
