// Package scripted is a model that says what the prompt tells it to say. It speaks as much of Anthropic Messages, OpenAI Responses, OpenAI
// Chat Completions and Gemini as agents use, and refuses what the real APIs refuse: calls without results, and results without calls.
//
// The script is in the prompt. A user message holding
//
//	#write {"path":"notes.txt","text":"hello\n"}
//
// makes the model call the CLI's own tools to write that file, and say "Done." when the tool has answered. One holding
//
//	#script [{"thinking":"Hm.","text":"I look.","tools":[{"name":"Bash","input":{"command":"ls"}}],"usage":{"in":100,"out":7}},{"text":"Seen."}]
//
// makes it answer step by step: see step for what a step can be. GET /billed tells what all whole answers used. Any other message is
// answered with "Understood.".
package scripted

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Server is a scripted model.
type Server struct {
	mux    http.ServeMux
	token  string
	serial atomic.Int64

	mu     sync.Mutex
	failed map[string]int // how often the error of a step was given
	billed bill
}

// New returns a model. Every request must bring the token, unless that is empty.
func New(token string) *Server {
	s := &Server{token: token, failed: map[string]int{}}
	s.mux.HandleFunc("GET /billed", s.showBilled)
	s.mux.HandleFunc("POST /v1/messages", s.messages)
	s.mux.HandleFunc("POST /v1/messages/count_tokens", func(w http.ResponseWriter, _ *http.Request) { reply(w, map[string]any{"input_tokens": 100}) })
	s.mux.HandleFunc("POST /v1/responses", s.responses)
	s.mux.HandleFunc("POST /v1/chat/completions", s.chat)
	s.mux.HandleFunc("POST /v1beta/models/{call}", s.generate)
	s.mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]any{"data": []any{}, "models": []any{}})
	})
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodHead {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	return s
}

// ServeHTTP implements http.Handler. It lets through what brings the token, in whichever header the CLIs use.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	brought := []string{r.Header.Get("X-Api-Key"), r.Header.Get("X-Goog-Api-Key"), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")}
	if s.token != "" && !slices.Contains(brought, s.token) {
		w.WriteHeader(http.StatusUnauthorized)
		reply(w, map[string]any{"type": "error", "error": map[string]any{"type": "authentication_error", "message": "another key is needed"}})
		return
	}
	s.mux.ServeHTTP(w, r)
}

func (s *Server) nextID(prefix string) string { return fmt.Sprintf("%s_%06d", prefix, s.serial.Add(1)) }

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// event is one of a stream. One without a name has none in the stream either.
type event struct {
	name string
	data map[string]any
}

// write sends an event. Data without anything is the end of a stream of Chat Completions.
func (e event) write(w http.ResponseWriter) {
	text := []byte("[DONE]")
	if e.data != nil {
		if e.name != "" {
			e.data["type"] = e.name
			fmt.Fprintf(w, "event: %s\n", e.name)
		}
		text, _ = json.Marshal(e.data)
	}
	fmt.Fprintf(w, "data: %s\n\n", text)
	_ = http.NewResponseController(w).Flush()
}

// play streams the events of a step: with its pauses, and its error where that comes in the middle.
func (s *Server) play(w http.ResponseWriter, r *http.Request, st step, events []event, failure event) {
	s.bill(func(b *bill) { b.Begun++ })
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	for i, e := range events {
		if st.fault != nil && i == len(events)/2 {
			if st.fault.Where == "cut" {
				panic(http.ErrAbortHandler) // the connection ends
			}
			failure.write(w)
			return
		}
		e.write(w)
		wait := st.PieceMS
		if i == 0 {
			wait = st.HoldMS
		}
		if !pause(r, wait) {
			return
		}
	}
	s.bill(func(b *bill) { b.add(st.Usage) })
}

// pause waits; false when the caller left.
func pause(r *http.Request, ms int) bool {
	if ms <= 0 {
		return true
	}
	select {
	case <-time.After(time.Duration(ms) * time.Millisecond):
		return true
	case <-r.Context().Done():
		return false
	}
}

// bill adds up what whole answers used.
type bill struct {
	Begun      int `json:"begun"` // answers, also those that were cut
	Answers    int `json:"answers"`
	Input      int `json:"input"`
	Output     int `json:"output"`
	CacheRead  int `json:"cache_read"`
	CacheWrite int `json:"cache_write"`
}

func (b *bill) add(u usage) {
	b.Answers++
	b.Input += u.In
	b.Output += u.Out
	b.CacheRead += u.CacheRead
	b.CacheWrite += u.CacheWrite
}

func (s *Server) bill(change func(*bill)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.billed)
}

func (s *Server) showBilled(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply(w, s.billed)
}
