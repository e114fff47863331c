package agents

import (
	"path/filepath"

	"github.com/parawork/parawork/sessions/conversation"
)

// A keeper is an adapter whose agent keeps a record of its conversations that can be read.
type keeper interface {
	record(id string) conversation.Record
}

// Records reports whether the agent keeps a record of its conversations that can be read.
func (r *Registry) Records(name string) bool {
	_, ok := r.adapters[name].(keeper)
	return ok
}

// Record says where below a home the agent keeps its record of a conversation. ok is false when it keeps none, and for an id that
// names no file.
func (r *Registry) Record(name, id string) (rec conversation.Record, ok bool) {
	k, keeps := r.adapters[name].(keeper)
	if !keeps || !uuidLike(id) || len(id) > 64 {
		return rec, false
	}
	return k.record(id), true
}

// HomeHere is the home of a user on this machine.
func (r *Registry) HomeHere(userID string) (dir string, ok bool) {
	return filepath.Join(r.cfg.HomesDir, userID), plainName(userID)
}

// HostHome is where the home of a workspace's place lies on this machine, "" where none can.
func (r *Registry) HostHome(workspaceID string) string {
	if r.cfg.SandboxesDir == "" || !plainName(workspaceID) {
		return ""
	}
	return filepath.Join(r.cfg.SandboxesDir, workspaceID, "home")
}

// record: a file a conversation in a folder named after the working directory; sub-agents have files of their own beside it.
func (claudeCode) record(id string) conversation.Record {
	return conversation.Record{Format: conversation.Claude, Name: ".claude/projects/*/" + id + ".jsonl",
		Subs: ".claude/projects/*/" + id + "/subagents/agent-*.jsonl"}
}

// record: a file a conversation in a folder a day.
func (codex) record(id string) conversation.Record {
	return conversation.Record{Format: conversation.Codex, Name: ".codex/sessions/*/*/*/rollout-*-" + id + ".jsonl"}
}
