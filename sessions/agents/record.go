package agents

import (
	"path/filepath"

	"github.com/parawork/parawork/sessions/conversation"
)

// A keeper is an adapter whose agent writes a readable record of its conversations.
type keeper interface {
	record(id string) conversation.Record
}

// Records reports whether the agent writes a readable record of its conversations.
func (r *Registry) Records(name string) bool {
	_, ok := r.adapters[name].(keeper)
	return ok
}

// Record returns where below a home the agent writes its record of a conversation. ok is false when it writes none, and for an ID
// that names no file.
func (r *Registry) Record(name, id string) (rec conversation.Record, ok bool) {
	k, keeps := r.adapters[name].(keeper)
	if !keeps || !uuidLike(id) || len(id) > 64 {
		return rec, false
	}
	return k.record(id), true
}

// HomeHere is the home of a user on this server.
func (r *Registry) HomeHere(userID string) (dir string, ok bool) {
	return filepath.Join(r.cfg.HomesDir, userID), plainName(userID)
}

// HostHome is where the home of a workspace's sandbox is on this server, "" where there is none.
func (r *Registry) HostHome(workspaceID string) string {
	if r.cfg.SandboxesDir == "" || !plainName(workspaceID) {
		return ""
	}
	return filepath.Join(r.cfg.SandboxesDir, workspaceID, "home")
}

// record: one file per conversation in a folder named after the working directory; sub-agents have their own files next to it.
func (claudeCode) record(id string) conversation.Record {
	return conversation.Record{Format: conversation.Claude, Name: ".claude/projects/*/" + id + ".jsonl",
		Subs: ".claude/projects/*/" + id + "/subagents/agent-*.jsonl"}
}

// record: one file per conversation in a folder per day.
func (codex) record(id string) conversation.Record {
	return conversation.Record{Format: conversation.Codex, Name: ".codex/sessions/*/*/*/rollout-*-" + id + ".jsonl"}
}
