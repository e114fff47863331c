package guest

import "encoding/json"

// Variables that the guest adds to the environment of every program with a terminal, so that an agent's hooks can reach it.
const (
	EnvGuest     = "PARAWORK_GUEST"      // path of the guest's program, as seen inside
	EnvHooks     = "PARAWORK_HOOKS"      // path of the socket that hooks connect to
	EnvHookToken = "PARAWORK_HOOK_TOKEN" // identifies the process a hook belongs to
)

// EnvGive is the prefix of variables that the guest passes, without the prefix, to every program: what a sandbox sets in addition
// to the allow-list of its own environment.
const EnvGive = "PARAWORK_GIVE_"

// Limits of hooks.
const (
	MaxHookEvent  = 256 << 10 // bytes of a hook's event
	MaxHookAnswer = 64 << 10  // bytes of an answer
	MaxHooksOpen  = 64        // hooks of one sandbox that wait for an answer
)

// HookRequest is what a hook's program sends to its guest: one JSON value, then the end of its half of the connection.
type HookRequest struct {
	Token string          `json:"token"`
	Agent string          `json:"agent"`
	Waits bool            `json:"waits"` // for an answer
	At    int64           `json:"at"`    // ms UTC
	Event json.RawMessage `json:"event"`
}

// HookCall is one hook of an agent, as reported to its host.
type HookCall struct {
	Seq     uint64          `json:"seq"`
	ID      string          `json:"id"`
	Process string          `json:"process"` // the process it belongs to
	Agent   string          `json:"agent"`
	Waits   bool            `json:"waits"` // until it is answered or gone
	At      int64           `json:"at"`    // ms UTC
	Event   json.RawMessage `json:"event"`
}

// HookRecord is one record of the stream of hooks: a call, the end of one that waited, or the mark that all waiting calls have
// been sent.
type HookRecord struct {
	Call   *HookCall `json:"call,omitempty"`
	Ended  string    `json:"ended,omitempty"` // the call's ID
	Synced bool      `json:"synced,omitempty"`
}

// HookAnswer answers a waiting call. Without Output the hook makes no decision and the agent decides itself.
type HookAnswer struct {
	Output json.RawMessage `json:"output,omitempty"`
}
