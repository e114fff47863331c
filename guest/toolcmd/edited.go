package toolcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"
)

// Bounds of a check after an edit. The server answers within less; an agent never waits longer.
const (
	editedWithin = 3 * time.Second
	turnWithin   = 12 * time.Second
	maxEvent     = 32 << 20 // an event may contain whole files
)

// Edited is what Claude Code runs after it edited a file and at the end of a turn: it has the file checked by its language server, and
// prints the new errors as a hook's output. Without an answer it prints nothing, and the agent goes on.
func Edited(ctx context.Context, cfg Config) {
	var event struct {
		Name   string `json:"hook_event_name"`
		Active bool   `json:"stop_hook_active"` // it goes on because of an earlier answer of a hook
		Input  struct {
			Path     string `json:"file_path"`
			Notebook string `json:"notebook_path"`
		} `json:"tool_input"`
	}
	if json.NewDecoder(io.LimitReader(cfg.In, maxEvent)).Decode(&event) != nil {
		return
	}
	argv, within := []string{"lsp", "after", "edit"}, editedWithin
	switch path := event.Input.Path + event.Input.Notebook; {
	case event.Name == "Stop" && !event.Active:
		argv, within = append(argv, "--turn"), turnWithin
	case event.Name == "PostToolUse" && path != "":
		argv = append(argv, "--", path)
	default:
		return
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var text bytes.Buffer
	if Run(ctx, argv, Config{Env: cfg.Env, Dir: cfg.Dir, In: strings.NewReader(""), Stdout: &text, Stderr: io.Discard}) != 0 || len(bytes.TrimSpace(text.Bytes())) == 0 {
		return
	}
	words := "The language server found, after your edit:\n" + strings.TrimSpace(text.String())
	var out any = map[string]any{"hookSpecificOutput": map[string]string{"hookEventName": "PostToolUse", "additionalContext": words}}
	if event.Name == "Stop" {
		out = map[string]string{"decision": "block", "reason": words}
	}
	_ = json.NewEncoder(cfg.Stdout).Encode(out) // an agent that is gone needs none
}
