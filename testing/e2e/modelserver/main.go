// Command modelserver is a scripted model on loopback for tests of the real agents' CLIs: it speaks just enough of the
// Anthropic Messages, the OpenAI Responses and the Gemini streams that Claude Code, Codex and Gemini CLI do a task with it.
//
// The script is in the prompt. A user message holding
//
//	#write {"path":"notes.txt","text":"hello\n"}
//
// makes the model call the CLI's own tools to write that file, and say "Done." when the tool has answered. One holding
//
//	#script [{"thinking":"Hm.","text":"I look.","tools":[{"name":"Bash","input":{"command":"ls"}}],"usage":{"in":100,"out":7}},{"text":"Seen."}]
//
// makes it answer step by step; a step may also be an error ({"error":{"status":400,"type":"invalid_request_error","message":"No."}})
// and may wait first ("delay_ms") or in the middle ("hold_ms"). GET /billed tells what all whole answers used. Any other message is answered with "Understood.". The bound address is printed as one line.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "loopback address to listen on")
	token := flag.String("token", "", "the key every request must bring; empty: any")
	flag.Parse()
	ln, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", ln.Addr())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /billed", billed.show)
	mux.HandleFunc("POST /v1/messages", messages)
	mux.HandleFunc("POST /v1/messages/count_tokens", func(w http.ResponseWriter, _ *http.Request) { reply(w, map[string]any{"input_tokens": 100}) })
	mux.HandleFunc("POST /v1/responses", responses)
	mux.HandleFunc("POST /v1beta/models/{call}", generate)
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]any{"data": []any{}, "models": []any{}})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodHead {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	var served http.Handler = mux
	if *token != "" {
		served = guarded(served, *token)
	}
	if os.Getenv("MODELSERVER_LOG") != "" {
		served = logged(served)
	}
	log.Fatal(http.Serve(ln, served))
}

// guarded lets through what brings the key, in whichever header the CLIs use.
func guarded(h http.Handler, token string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains([]string{r.Header.Get("X-Api-Key"), r.Header.Get("X-Goog-Api-Key"), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")}, token) {
			h.ServeHTTP(w, r)
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
		reply(w, map[string]any{"type": "error", "error": map[string]any{"type": "authentication_error", "message": "another key is needed"}})
	})
}

func logged(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log.Printf("%s %s", r.Method, r.URL)
		h.ServeHTTP(w, r)
	})
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// task is what #write asks for.
type task struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

// taskIn finds the last #write in text.
func taskIn(text string) (task, bool) {
	i := strings.LastIndex(text, "#write ")
	if i < 0 {
		return task{}, false
	}
	var t task
	if err := json.NewDecoder(strings.NewReader(text[i+len("#write "):])).Decode(&t); err != nil || t.Path == "" {
		return task{}, false
	}
	return t, true
}

// stream writes server-sent events.
type stream struct {
	w http.ResponseWriter
}

func newStream(w http.ResponseWriter) stream {
	billed.begin()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	return stream{w}
}

func (s stream) send(event string, data map[string]any) {
	data["type"] = event
	b, err := json.Marshal(data)
	if err != nil {
		log.Printf("encode %s: %v", event, err)
		return
	}
	fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", event, b)
	if f, ok := s.w.(http.Flusher); ok {
		f.Flush()
	}
}
