package teststripe

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// call is a request while it is answered.
type call struct {
	s      *Stripe
	r      *http.Request
	form   url.Values
	params obj // form as a tree
}

func (c *call) id() string { return c.r.PathValue("id") }

// str is a parameter at the top.
func (c *call) str(name string) string { return c.form.Get(name) }

func (c *call) has(name string) bool { _, ok := c.form[name]; return ok }

func (c *call) num(name string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(c.form.Get(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

type handler func(c *call) (obj, *fail)

// route answers a method and path. spec names the parameters it takes; see check.
func (s *Stripe) route(pattern, spec string, h handler) {
	allowed := parseSpec(spec)
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, allowed, h) })
}

// answer is what happens to every request of the API.
func (s *Stripe) answer(w http.ResponseWriter, r *http.Request, spec []param, h handler) {
	w.Header().Set("Request-Id", "req_"+random(7))
	if bad := s.admit(r); bad != nil {
		writeJSON(w, bad.status, bad.body())
		return
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		return // nobody is there to be answered
	}
	text := r.URL.RawQuery
	if r.Method == http.MethodPost {
		text = string(raw)
	}
	form, err := url.ParseQuery(text)
	if err != nil {
		writeJSON(w, http.StatusBadRequest, problem(http.StatusBadRequest, "", "", "Invalid form encoding").body())
		return
	}
	key := r.Header.Get("Idempotency-Key")
	s.mu.Lock()
	n := len(s.calls)
	s.calls = append(s.calls, Call{Method: r.Method, Path: r.URL.Path, Key: key, Form: form})
	fault := s.faulty(r.Method + " " + r.URL.Path)
	s.mu.Unlock()
	say := func(status int, body []byte, replay bool) {
		s.mu.Lock()
		s.calls[n].Status, s.calls[n].Replay = status, replay
		s.mu.Unlock()
		if replay {
			w.Header().Set("Idempotent-Replayed", "true")
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		w.Write(body)
	}
	if fault != nil && fault.When == Before {
		s.misbehave(w, r, fault, nil, say)
		return
	}
	params, bad := check(form, spec)
	if bad != nil {
		say(bad.status, bad.body(), false)
		return
	}
	c := &call{s: s, r: r, form: form, params: params}
	asked := r.Method + " " + r.URL.Path + "\n" + form.Encode()
	if r.Method == http.MethodPost && key != "" {
		if status, body, done := s.replay(key, asked); done {
			if fault != nil && (fault.Cut || fault.Hang || fault.Half) { // Go's transport repeats requests with such a key by itself
				s.misbehave(w, r, fault, body, say)
				return
			}
			say(status, body, status != http.StatusConflict && !bytes.Contains(body, []byte("idempotency_error")))
			return
		}
	}
	release, bad := s.meterTurn(c)
	if bad != nil {
		s.forget(key)
		say(bad.status, bad.body(), false)
		return
	}
	if fault != nil && fault.wait != nil { // it is slow: others find this one under way
		select {
		case <-fault.wait:
		case <-r.Context().Done():
		}
	}
	status, body := s.do(c, h, fault)
	release()
	if key != "" && r.Method == http.MethodPost {
		s.mu.Lock()
		s.keys[key] = &stored{request: asked, status: status, body: body, at: s.now()}
		s.mu.Unlock()
	}
	if fault != nil && (fault.Cut || fault.Hang || fault.Half) {
		s.misbehave(w, r, fault, body, say)
		return
	}
	say(status, body, false)
}

// do runs a handler, or says the error of a fault in its place or after it.
func (s *Stripe) do(c *call, h handler, fault *Fault) (int, []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	status, body := http.StatusOK, []byte(nil)
	if fault == nil || fault.When == After {
		out, bad := h(c)
		if bad != nil {
			return bad.status, bad.body()
		}
		shown := plain(out)
		for _, way := range texts(c.params, "expand") {
			s.expand(shown, strings.Split(way, "."))
		}
		var err error
		if body, err = json.Marshal(shown); err != nil {
			panic(err) // an object of ours that is no JSON
		}
	}
	if fault != nil && fault.Status != 0 {
		return fault.Status, fault.body()
	}
	return status, body
}

// admit refuses strangers, and versions whose shapes are others.
func (s *Stripe) admit(r *http.Request) *fail {
	shown, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if user, _, ok := r.BasicAuth(); ok {
		shown = user
	}
	if shown != s.opts.Key {
		return problem(http.StatusUnauthorized, "", "", "Invalid API Key provided: "+redacted(shown))
	}
	if v := r.Header.Get("Stripe-Version"); v != "" && v != Version {
		return problem(http.StatusBadRequest, "", "", "This Stripe speaks "+Version+" only, not "+v)
	}
	if len(r.Header.Get("Idempotency-Key")) > 255 {
		return problem(http.StatusBadRequest, "", "", "Idempotency keys have at most 255 characters")
	}
	return nil
}

// replay looks up what a key was answered before. Keys are kept for a day.
func (s *Stripe) replay(key, asked string) (int, []byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keys[key]
	switch {
	case k == nil || !k.busy && s.now()-k.at > 24*3600:
		s.keys[key] = &stored{request: asked, busy: true}
		return 0, nil, false
	case k.request != asked:
		return http.StatusBadRequest, (&fail{status: http.StatusBadRequest, kind: "idempotency_error",
			message: "Keys for idempotent requests can only be used with the same parameters they were first used with. Try using a key other than '" + key + "' if you meant to execute a different request."}).body(), true
	case k.busy:
		return http.StatusConflict, (&fail{status: http.StatusConflict, kind: "idempotency_error", code: "idempotency_key_in_use",
			message: "There is currently another in-progress request using this Idempotent Key."}).body(), true
	}
	return k.status, k.body, true
}

func (s *Stripe) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, key)
}
