package scripted

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

type geminiPart struct {
	Text     string          `json:"text,omitempty"`
	Call     map[string]any  `json:"functionCall,omitempty"`
	Response json.RawMessage `json:"functionResponse,omitempty"`
}

// generate answers POST /v1beta/models/{model}:generateContent and :streamGenerateContent:
// https://ai.google.dev/api/generate-content.
func (s *Server) generate(w http.ResponseWriter, r *http.Request) {
	model, action, _ := strings.Cut(r.PathValue("call"), ":")
	if action == "countTokens" {
		reply(w, map[string]any{"totalTokens": 100})
		return
	}
	var req struct {
		Contents []struct {
			Role  string       `json:"role"`
			Parts []geminiPart `json:"parts"`
		} `json:"contents"`
		Tools  []json.RawMessage `json:"tools"`
		Config struct {
			MIME string `json:"responseMimeType"`
		} `json:"generationConfig"`
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var prompt string
	answered := false
	for _, c := range req.Contents {
		for _, p := range c.Parts {
			if len(p.Response) > 0 {
				answered = true
			} else if _, ok := taskIn(p.Text); ok && c.Role == "user" {
				prompt, answered = p.Text, false
			}
		}
	}
	t, ok := taskIn(prompt)
	part := geminiPart{Text: "Understood."}
	switch {
	case answered:
		part.Text = "Done."
	case strings.Contains(req.Config.MIME, "json"): // a question of the CLI's own, such as who speaks next
		part.Text = `{"reasoning":"Scripted.","next_speaker":"user","model_choice":"flash"}`
	case ok && len(req.Tools) > 0:
		part = geminiPart{Call: map[string]any{"name": "write_file", "args": map[string]any{"file_path": t.Path, "content": t.Text}}}
	}
	answer := map[string]any{"modelVersion": model, "responseId": s.nextID("resp"),
		"candidates":    []any{map[string]any{"index": 0, "finishReason": "STOP", "content": map[string]any{"role": "model", "parts": []geminiPart{part}}}},
		"usageMetadata": map[string]any{"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}}
	if action != "streamGenerateContent" {
		reply(w, answer)
		return
	}
	s.bill(func(b *bill) { b.Begun++ })
	w.Header().Set("Content-Type", "text/event-stream")
	b, err := json.Marshal(answer)
	if err != nil {
		return
	}
	fmt.Fprintf(w, "data: %s\n\n", b)
}
