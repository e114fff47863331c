// Package wire defines the protocol between a server and a runner, a member's own machine.
//
// The machine connects: one outgoing WebSocket, which carries TLS 1.3 in which each end proves its Ed25519 key (the server's was pinned when
// the machine was enrolled, the machine's was registered then), which carries HTTP/2 in which the server sends requests and the machine
// responds. A proxy that terminates the outer TLS can read nothing of it and add nothing. Each pipe to a guest is a stream of its own.
//
// Whatever changes something on the machine is a command: it carries a Command, signed with the server's key, which the machine checks
// against the pinned key, its own id, the body's hash, its clock and the commands it has had before.
package wire

// Version is the protocol's. Either end speaks its own and the one before.
const Version = 1

// Names on the way.
const (
	ConnectPath = "/api/v1/runner/connect" // the WebSocket
	EnrolPath   = "/api/v1/runner/enrol"
	Subprotocol = "parawork-runner"
	// AuthScheme is the scheme of the Authorization header of a connecting machine: "Parawork-Runner <id>.<unix ms>.<base64url signature>",
	// with the machine's key over ConnectText. It only claims an identity; the inner TLS proves it.
	AuthScheme = "Parawork-Runner"
	// CommandHeader carries a Command as base64url JSON, "." and its base64url signature.
	CommandHeader = "Parawork-Command"
)

// ConnectText is what a connecting machine signs.
func ConnectText(id, ms string) string { return "parawork runner connect\n" + id + "\n" + ms }

// Mode is how a machine runs sandboxes.
type Mode string

// Modes of a machine.
const (
	Docker     Mode = "docker"
	Bubblewrap Mode = "bubblewrap"
	Direct     Mode = "direct" // no isolation, requested with --dangerous
)

// Access is how much a machine lets the server do, decided by its owner there.
type Access string

// Accesses.
const (
	Full     Access = "full"
	Ask      Access = "ask"       // its owner is asked for each new sandbox, process and write
	ReadOnly Access = "read_only" // nothing is started or written: what exists can be looked at
)

// Enrol is the body of the enrolment.
type Enrol struct {
	Token     string `json:"token"`
	Name      string `json:"name"`       // "" = the token's, or the host's name
	PublicKey []byte `json:"public_key"` // Ed25519, 32 bytes
	Hello     Hello  `json:"hello"`
}

// Enrolled is the response to Enrol.
type Enrolled struct {
	RunnerID  string `json:"runner_id"`
	Name      string `json:"name"`
	Team      string `json:"team"`       // its slug
	ServerKey []byte `json:"server_key"` // Ed25519, 32 bytes; the token names its fingerprint
}

// Hello is a machine's description of itself: as a response, and in an Event when it changed. The server validates it like everything a
// guest sends: lengths, numbers, enumerations.
type Hello struct {
	Version  int    `json:"version"`
	Build    string `json:"build"` // of its program
	OS       string `json:"os"`    // linux, darwin
	Arch     string `json:"arch"`
	Release  string `json:"release"` // "Debian GNU/Linux 12", "macOS 15.1"
	Hostname string `json:"hostname"`
	Name     string `json:"name"`

	Mode       Mode     `json:"mode"`
	Available  bool     `json:"available"` // sandboxes can be made now
	Reason     string   `json:"reason,omitempty"`
	Cure       string   `json:"hint,omitempty"`
	Isolation  string   `json:"isolation"` // in words
	Boundary   string   `json:"boundary"`  // executors.Boundary
	Warning    string   `json:"warning,omitempty"`
	Image      string   `json:"image,omitempty"`
	Network    string   `json:"network"` // host, open, allow, none
	Allow      []string `json:"allow,omitempty"`
	Pause      bool     `json:"pause"`
	SharedHome bool     `json:"shared_home"` // agents' home belongs to the owner: nothing of it is ever copied

	Programs map[string]bool `json:"programs,omitempty"` // of agents, where sandboxes use the machine's programs: whether they are installed; one that is not listed is unknown

	Access     Access   `json:"access"`
	Share      string   `json:"share"` // who may use it: owner, team
	Folders    []Folder `json:"folders"`
	QuietHours string   `json:"quiet_hours,omitempty"` // for people, "" = none
	Limits     Limits   `json:"limits"`

	CPUs     int   `json:"cpus"`
	MemoryMB int64 `json:"memory_mb"`
	StartMs  int64 `json:"start_ms,omitempty"`
	Load     Load  `json:"load"`
}

// Folder is one the machine's owner allows.
type Folder struct {
	Path   string `json:"path"`
	Name   string `json:"name"`
	Access Access `json:"access"`
	Git    bool   `json:"git"` // a repository's worktree
	Branch string `json:"branch,omitempty"`
}

// Limits are the owner's. 0 = no limit.
type Limits struct {
	Sandboxes int     `json:"sandboxes,omitempty"` // at once
	CPUs      float64 `json:"cpus,omitempty"`      // of each
	MemoryMB  int64   `json:"memory_mb,omitempty"`
	DiskMB    int64   `json:"disk_mb,omitempty"`
	Processes int64   `json:"processes,omitempty"`
}

// Load is how busy a machine is.
type Load struct {
	CPU           float64 `json:"cpu"` // 0 to 1, of all cores
	MemoryUsedMB  int64   `json:"memory_used_mb"`
	DiskFreeMB    int64   `json:"disk_free_mb"`
	Sandboxes     int     `json:"sandboxes"`
	WaitingAnswer int     `json:"waiting_answer"` // questions its owner has not answered
}

// Kinds of an Event.
const (
	EventLoad     = "load"     // the heartbeat, each 10 s: Load is set
	EventHello    = "hello"    // Hello is set: something of it changed
	EventSandbox  = "sandbox"  // Sandbox is set: it ended, or was paused by its owner
	EventQuestion = "question" // Question is set: the owner is asked, or has answered
	EventLeaving  = "leaving"  // the machine leaves on purpose: Reason; Remove asks the server to sync and end its sandboxes first
)

// Event is one line of GET /v1/events, newline-delimited JSON.
type Event struct {
	Type     string    `json:"type"`
	Load     *Load     `json:"load,omitempty"`
	Hello    *Hello    `json:"hello,omitempty"`
	Sandbox  *Sandbox  `json:"sandbox,omitempty"`
	Question *Question `json:"question,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Remove   bool      `json:"remove,omitempty"`
}

// Question is a question to the machine's owner, asked in Access Ask. The server can show that it is open, never answer it.
type Question struct {
	ID          string `json:"id"`
	WorkspaceID string `json:"workspace_id"`
	Text        string `json:"text"`
	AskedAt     int64  `json:"asked_at"`         // ms UTC
	Answer      string `json:"answer,omitempty"` // yes, no, late
}

// Command authorizes a request that a machine obeys. Times are ms UTC.
type Command struct {
	ID      string `json:"id"` // random, at least 128 bits: never obeyed twice
	Runner  string `json:"runner"`
	Method  string `json:"method"`
	Path    string `json:"path"` // with the query, as sent
	Body    string `json:"body"` // sha256 hex of the body; of a stream: ""
	At      int64  `json:"at"`
	Until   int64  `json:"until"`             // it may not begin after this
	UserID  string `json:"user_id,omitempty"` // for whom
	User    string `json:"user,omitempty"`    // their name, for the owner's log
	Purpose string `json:"purpose,omitempty"`
}

// Make requests a sandbox: POST /v1/sandboxes. It is idempotent on ID. The response is lines of Progress; the last has Sandbox or Error.
type Make struct {
	ID          string            `json:"id"`
	TeamID      string            `json:"team_id"`
	WorkspaceID string            `json:"workspace_id"`
	Key         string            `json:"key"`              // the workspace's, such as PW-142
	Slug        string            `json:"slug"`             // of the project: its folder's name
	Folder      string            `json:"folder,omitempty"` // an allowed folder whose repository it shares objects with
	Limits      Limits            `json:"limits"`           // the smaller of these and the owner's limits hold
	Env         map[string]string `json:"env,omitempty"`
}

// Progress is one line of the response to Make.
type Progress struct {
	Step    string   `json:"step,omitempty"`
	Title   string   `json:"title,omitempty"`
	Detail  string   `json:"detail,omitempty"`
	Done    int64    `json:"done,omitempty"`
	All     int64    `json:"all,omitempty"`
	Sandbox *Sandbox `json:"sandbox,omitempty"`
	Error   *Error   `json:"error,omitempty"`
}

// States of a Sandbox.
const (
	Running = "running"
	Paused  = "paused"
	Gone    = "gone"
)

// Sandbox is one on the machine.
type Sandbox struct {
	ID          string `json:"id"`
	WorkspaceID string `json:"workspace_id"`
	State       string `json:"state"`
	Reason      string `json:"reason,omitempty"`
	Token       string `json:"token,omitempty"` // the guest's
	Root        string `json:"root"`
	Home        string `json:"home"`
	MadeAt      int64  `json:"made_at"`
	OnePipe     bool   `json:"one_pipe,omitempty"` // pipes to it are expensive: everything should go over one
}

// Figures of a sandbox as the machine measures them.
type Figures struct {
	CPUMs       int64 `json:"cpu_ms"`
	MemoryBytes int64 `json:"memory_bytes"`
	MemoryPeak  int64 `json:"memory_peak"`
	Processes   int64 `json:"processes"`
	OOMKills    int64 `json:"oom_kills"`
	ThrottledMs int64 `json:"throttled_ms"`
}

// Error is a refusal: a fault.Error as JSON, with the machine's own codes.
type Error struct {
	Kind    string         `json:"kind"`
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
}

// Codes of refusals, as in the API.
const (
	CodeForged      = "runner_command_forged"   // signature, machine, body or clock is wrong
	CodeReplayed    = "runner_command_replayed" // it was had before
	CodeOutside     = "runner_outside"          // a path outside the allowed folders
	CodeReadOnly    = "runner_read_only"
	CodeRefused     = "runner_refused" // its owner said no, or did not answer in time
	CodeQuiet       = "runner_quiet"   // quiet hours
	CodeFull        = "runner_full"    // as many sandboxes as its owner allows
	CodeStopped     = "runner_stopped" // the kill switch
	CodeOffline     = "runner_offline" // set by the server: it is not connected
	CodeUnavailable = "place_cannot_serve"
)
