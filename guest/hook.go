package guest

import "encoding/json"

// What the guest puts into the environment of every program with a terminal, so that the hooks of an agent can reach it.
const (
	EnvGuest     = "PARAWORK_GUEST"      // path of the guest's program, as seen inside
	EnvHooks     = "PARAWORK_HOOKS"      // path of the socket hooks are told on
	EnvHookToken = "PARAWORK_HOOK_TOKEN" // says which process a hook belongs to
)

// EnvGive begins the names of what the guest gives, without it, to every program: what a sandbox sets beside the allow-list of its own
// environment.
const EnvGive = "PARAWORK_GIVE_"

// Limits of hooks.
const (
	MaxHookEvent  = 256 << 10 // bytes of what a hook says
	MaxHookAnswer = 64 << 10  // bytes of what is answered
	MaxHooksOpen  = 64        // hooks of one sandbox that wait for an answer
)

// HookRequest is what a hook's program says to its guest: one JSON value, then the end of its half of the connection.
type HookRequest struct {
	Token string          `json:"token"`
	Agent string          `json:"agent"`
	Waits bool            `json:"waits"` // for an answer
	At    int64           `json:"at"`    // ms UTC
	Event json.RawMessage `json:"event"`
}

// HookCall is one hook of an agent, as its host hears of it.
type HookCall struct {
	Seq     uint64          `json:"seq"`
	ID      string          `json:"id"`
	Process string          `json:"process"` // whose hook it is
	Agent   string          `json:"agent"`
	Waits   bool            `json:"waits"` // until it is answered or gone
	At      int64           `json:"at"`    // ms UTC
	Event   json.RawMessage `json:"event"`
}

// HookRecord is one record of the stream of hooks: a call, the end of one that waited, or the word that every call that still
// waits has been named.
type HookRecord struct {
	Call   *HookCall `json:"call,omitempty"`
	Ended  string    `json:"ended,omitempty"` // the call's id
	Synced bool      `json:"synced,omitempty"`
}

// HookAnswer answers a call that waits. Without Output the hook has no opinion and the agent goes on by itself.
type HookAnswer struct {
	Output json.RawMessage `json:"output,omitempty"`
}
