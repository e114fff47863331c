package mcprelay

import (
	"encoding/json"
	"slices"

	"github.com/parawork/parawork/guest"
)

// problem is an error that the relay itself answers.
type problem struct {
	number  int // JSON-RPC's
	code    string
	message string
	maybe   bool // the call may have been done
}

var (
	faultCut = problem{-32000, "call_cut", "The connection to the Parawork server was cut before it answered. The call may have been done; look before you repeat it.", true}
	// The others say of calls that nothing was done.
	faultAway       = problem{-32000, "server_away", "The Parawork server does not answer. The call was not sent, so nothing was done. Try again later.", false}
	faultMany       = problem{-32000, "too_many_calls", "Too many calls wait for an answer of the Parawork server. This one was not sent. Wait until some have ended.", false}
	faultLong       = problem{-32600, "message_too_large", "A message may have at most 4 MiB. This one was not sent.", false}
	faultUnreadable = problem{-32700, "message_invalid", "The line is not a JSON-RPC message.", false}
	faultNoGuest    = problem{-32000, "no_tools", "The tools of Parawork can be reached only by an agent in a workspace: " + guest.EnvTools + " and " + guest.EnvHookToken + " are not set.", false}
	// This call was done.
	faultLongAnswer = problem{-32000, "answer_too_large", "The call was done, but its answer has more than 4 MiB and was left out.", true}
)

// answer answers a request with an error. id is nil where it is not known.
func (r *relay) answer(id json.RawMessage, p problem) {
	if id == nil {
		id = json.RawMessage("null")
	}
	type data struct {
		Code      string `json:"code"`
		MayBeDone bool   `json:"may_be_done"`
	}
	type rpcError struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    data   `json:"data"`
	}
	b, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   rpcError        `json:"error"`
	}{"2.0", id, rpcError{p.number, p.message, data{p.code, p.maybe}}})
	if err == nil {
		r.write(b)
	}
}

// reject answers each request among messages, and reports whether there was one.
func (r *relay) reject(messages []message, p problem) (any bool) {
	for _, m := range messages {
		if m.request() {
			r.answer(m.ID, p)
			any = true
		}
	}
	return any
}

// write writes one message to the agent. An agent that is gone is noticed by its input or as the parent.
func (r *relay) write(data []byte) {
	r.out.Lock()
	defer r.out.Unlock()
	_, _ = r.cfg.Out.Write(append(data[:len(data):len(data)], '\n'))
}

// cut answers the calls that were under way on a connection that has ended, or keeps those that change nothing for the next one.
func (r *relay) cut() {
	r.mu.Lock()
	calls := make([]call, 0, len(r.flying))
	for _, c := range r.flying {
		calls = append(calls, c)
	}
	clear(r.flying)
	r.mu.Unlock()
	slices.SortFunc(calls, func(a, b call) int { return int(a.number) - int(b.number) })
	var again []held
	for _, c := range calls {
		if c.again == nil {
			r.answer(c.id, faultCut)
			continue
		}
		again = append(again, held{c.again, parse(c.again)})
	}
	r.held = append(again, r.held...)
}
