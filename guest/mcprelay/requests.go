package mcprelay

import (
	"encoding/json"
	"time"
)

// held is a message that waits for a connection.
type held struct {
	data     []byte
	messages []message
}

// call is a request that was sent.
type call struct {
	id     json.RawMessage
	number uint64
	first  bool   // an initialize
	again  []byte // the message, where repeating it changes nothing
}

// repeatable are the methods that change nothing: after a cut they are sent again.
var repeatable = map[string]bool{"initialize": true, "ping": true, "server/discover": true, "tools/list": true}

// accept checks a line of the agent; false for one that needs no server any more.
func (r *relay) accept(l line) (held, bool) {
	if l.long != nil {
		if l.long.method || l.long.id == nil { // no answer to a server's request
			r.answer(l.long.id, faultLong)
		}
		return held{}, false
	}
	h := held{l.data, parse(l.data)}
	if h.messages == nil {
		r.answer(nil, faultUnreadable)
		return held{}, false
	}
	r.mu.Lock()
	calls := len(r.flying)
	for _, m := range h.messages {
		switch {
		case m.request():
			calls++
		case m.Method == "notifications/initialized":
			r.initialized = l.data
		}
	}
	r.mu.Unlock()
	for _, waiting := range r.held {
		calls += len(waiting.messages)
	}
	if calls > maxCalls {
		r.reject(h.messages, faultMany)
		return held{}, false
	}
	return h, true
}

// keep handles a line of the agent while there is no server: requests wait for one. What belongs to calls of an earlier connection
// is of no use to the next one.
func (r *relay) keep(l line) {
	h, ok := r.accept(l)
	if !ok {
		return
	}
	if r.away {
		r.reject(h.messages, faultAway)
		return
	}
	size, request := len(h.data), false
	for _, m := range h.messages {
		if m.Method == "notifications/cancelled" {
			r.withdraw(m)
		}
		request = request || m.request()
	}
	for _, waiting := range r.held {
		size += len(waiting.data)
	}
	switch {
	case !request:
	case size > maxHeld:
		r.reject(h.messages, faultMany)
	default:
		r.held = append(r.held, h)
	}
}

// withdraw removes a call that the agent cancels before it was sent. Such a call gets no answer.
func (r *relay) withdraw(cancelled message) {
	var p struct {
		ID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(cancelled.Params, &p) != nil {
		return
	}
	for i, h := range r.held {
		if len(h.messages) == 1 && string(h.messages[0].ID) == string(p.ID) {
			r.held = append(r.held[:i:i], r.held[i+1:]...)
			return
		}
	}
}

// send sends a message, whose requests are then under way. After false the stream is of no use; a message of which the server has
// not received the end is kept for the next one.
func (r *relay) send(s *stream, h held) bool {
	r.mu.Lock()
	for _, m := range h.messages {
		if !m.request() {
			continue
		}
		r.sent++
		c := call{id: m.ID, number: r.sent, first: m.Method == "initialize"}
		if repeatable[m.Method] && len(h.messages) == 1 {
			c.again = h.data
		}
		r.flying[string(m.ID)] = c
	}
	r.mu.Unlock()
	_ = s.conn.SetWriteDeadline(time.Now().Add(writeIn))
	data := append(h.data[:len(h.data):len(h.data)], '\n')
	n, err := s.conn.Write(data)
	if err == nil {
		return true
	}
	if n < len(data) {
		request := false
		r.mu.Lock()
		for _, m := range h.messages {
			if m.request() {
				request = true
				delete(r.flying, string(m.ID))
			}
		}
		r.mu.Unlock()
		if request {
			r.held = append([]held{h}, r.held...)
		}
	}
	return false
}

// fromServer passes a message of the server on.
func (r *relay) fromServer(l line) {
	if l.long != nil {
		if l.long.id != nil && !l.long.method {
			r.mu.Lock()
			delete(r.flying, string(l.long.id))
			r.mu.Unlock()
			r.answer(l.long.id, faultLongAnswer)
		}
		return
	}
	messages := parse(l.data)
	if messages == nil {
		return
	}
	r.mu.Lock()
	for _, m := range messages {
		c, ok := r.flying[string(m.ID)]
		if !ok || !m.response() {
			continue
		}
		delete(r.flying, string(m.ID))
		if c.first && m.Result != nil {
			r.initialize, r.initialized = c.again, nil
		}
	}
	r.mu.Unlock()
	r.write(l.data)
}
