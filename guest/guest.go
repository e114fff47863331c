// Package guest is the protocol between the server (the host) and the small program inside every sandbox (the guest), and the
// host-side client that speaks it.
//
// The guest owns the PTYs and processes of one sandbox, stores their output by absolute offset, and serves files and git. It runs
// next to a hostile agent: whatever it sends is checked, never trusted. The client checks all lengths, offsets and paths it
// receives.
//
// The protocol is HTTP/2 with prior knowledge over any byte pipe, so that every stream has its own flow control and the flood of
// one terminal cannot delay another's keystroke. One pipe carries everything.
package guest

// Version is the protocol version this build speaks. A host speaks its own version and the one before.
const Version = 1

// Limits of the protocol. Both ends enforce them.
const (
	MaxPath      = 4096    // bytes of a path
	MaxInput     = 1 << 20 // bytes of one input frame
	MaxArgv      = 1 << 20 // bytes of all arguments together
	MaxEnv       = 1 << 20 // bytes of all environment strings together
	MaxJSON      = 4 << 20 // bytes of one JSON answer or stream record
	MaxProcesses = 512     // live processes of one sandbox
	MaxPiece     = 1 << 20 // bytes of one piece of a file in the home
)

// Size is the size of a terminal in character cells.
type Size struct {
	Cols uint16 `json:"cols"`
	Rows uint16 `json:"rows"`
}

// Hello is the guest's description of itself on connecting.
type Hello struct {
	Version   int    `json:"version"`
	Build     string `json:"build"`
	SandboxID string `json:"sandbox_id"`
	Root      string `json:"root"`           // absolute path of the worktree inside the sandbox
	Home      string `json:"home,omitempty"` // absolute path of the agents' home inside the sandbox; "" = it is on the host
	OS        string `json:"os"`
	Arch      string `json:"arch"`
	Pid       int    `json:"pid"`
	StartedAt int64  `json:"started_at"` // ms UTC
	Hooks     bool   `json:"hooks"`      // it receives the hooks of agents
	Gateway   int    `json:"gateway"`    // port of the sandbox's loopback at which programs find the model gateway; 0 = none
	Tools     bool   `json:"tools"`      // it offers its programs the tools
	Degraded  string `json:"degraded"`   // "" or why the log lives in memory only (disk full)
}

// ProcessSpec requests a process. The caller chooses the ID; starting the same ID twice returns the first process.
type ProcessSpec struct {
	ID        string            `json:"id"`
	Argv      []string          `json:"argv"`
	Cwd       string            `json:"cwd,omitempty"` // relative to the root, or absolute
	Env       map[string]string `json:"env,omitempty"` // on top of the guest's own allow-list
	Tty       bool              `json:"tty,omitempty"`
	Size      Size              `json:"size"`                 // with Tty; set before exec
	Stdin     bool              `json:"stdin,omitempty"`      // without Tty: keep stdin open for input
	TimeoutMs int64             `json:"timeout_ms,omitempty"` // 0 = none; then stopped with reason "timeout"
	MaxLog    int64             `json:"max_log,omitempty"`    // bytes of unacknowledged output retained; 0 = the guest's default
	SettleMs  int64             `json:"settle_ms,omitempty"`  // how long the answer waits for the process's end, at most MaxSettle
	Helper    bool              `json:"helper,omitempty"`     // it only serves others: a sandbox in which nothing else runs is idle
}

// MaxSettle is the longest an answer to a start may wait, ms.
const MaxSettle = 1000

// MaxEarly bounds the output that comes with the answer to a start, bytes of each stream.
const MaxEarly = 64 << 10

// ProcessState is running or exited.
type ProcessState string

// States of a process.
const (
	Running ProcessState = "running"
	Exited  ProcessState = "exited"
)

// Process describes a process. Offsets are absolute, per stream.
type Process struct {
	ID        string           `json:"id"`
	State     ProcessState     `json:"state"`
	Pid       int              `json:"pid"`
	StartedAt int64            `json:"started_at"` // ms UTC
	EndedAt   int64            `json:"ended_at,omitempty"`
	ExitCode  *int             `json:"exit_code,omitempty"` // nil while running or when ended by a signal
	Signal    string           `json:"signal,omitempty"`    // "SIGKILL" ... when ended by one
	Reason    string           `json:"reason,omitempty"`    // "exit", "signal", "timeout", "stopped", "start_failed: ...", "lost"
	Ends      map[Stream]int64 `json:"ends"`                // bytes written so far, per stream
	Size      Size             `json:"size"`

	// Early is the whole output of a process that ended before its start was answered, see ProcessSpec.SettleMs; nil when it is
	// too long or incomplete: then request it as for any other process.
	Early map[Stream][]byte `json:"early,omitempty"`
}

// Work reports what a process and its descendants do now. Programs are the descendants started last, the newest first.
type Work struct {
	CPUMs      int64     `json:"cpu_ms"`     // CPU time used by all of them, including ended ones that were waited for
	Processes  int       `json:"processes"`  // live ones, including the first program
	RSSBytes   int64     `json:"rss_bytes"`  // resident memory of all of them
	Foreground string    `json:"foreground"` // name of the program that currently owns its terminal; "" = the first program, or unknown
	Programs   []Program `json:"programs"`
}

// Program is one descendant of a process.
type Program struct {
	Pid   int    `json:"pid"`
	Name  string `json:"name"` // its own name
	AgeMs int64  `json:"age_ms"`
	CPUMs int64  `json:"cpu_ms"`
}

// Beginnings of the reason of a process whose program was not found: either none of the folders that follow has it, or there is
// one that cannot be run for the reason that follows.
const (
	NotInPath = "was not found in PATH"
	NotUsable = "cannot be run"
)

// MaxPrograms bounds the programs in a Work.
const MaxPrograms = 16

// Stream names one of a process's outputs.
type Stream string

// The streams: a TTY process has only Terminal, the others Stdout and Stderr.
const (
	Terminal Stream = "terminal"
	Stdout   Stream = "stdout"
	Stderr   Stream = "stderr"
)

// FileInfo describes a file inside the root. Path and Name are in the wire form of EncodePath. Hash is the sha256 of the bytes in hex, for regular files that were read.
type FileInfo struct {
	Path  string `json:"path"`
	Name  string `json:"name"`
	Type  string `json:"type"` // file, dir, symlink, other
	Mode  uint32 `json:"mode"`
	Size  int64  `json:"size"`
	Mtime int64  `json:"mtime"` // ms UTC
	Link  string `json:"link,omitempty"`
	Hash  string `json:"hash,omitempty"`
	// Ignored says that git ignores it. Only lists that were asked for it say so.
	Ignored bool   `json:"ignored,omitempty"`
	ID      string `json:"id,omitempty"` // of a file in the home: distinguishes it from another one that replaces it
}

// Change is a file that differs from the workspace's base. Paths are in the wire form of EncodePath.
type Change struct {
	Path      string `json:"path"`
	OldPath   string `json:"old_path,omitempty"`
	Status    string `json:"status"` // added, modified, deleted, renamed, untracked, type_changed, conflicted
	Mode      string `json:"mode"`   // git's octal mode now ("100644", "120000" a link, "040000" a nested repository); "" when deleted
	OldMode   string `json:"old_mode,omitempty"`
	Size      int64  `json:"size"`
	Binary    bool   `json:"binary"`
	Additions int    `json:"additions"`
	Deletions int    `json:"deletions"`
	Hash      string `json:"hash"`            // sha256 hex of the bytes; "" when deleted, a directory, or over the size cap
	Stamp     string `json:"stamp,omitempty"` // of a file without hash: changes with each write to the file
	Staged    bool   `json:"staged"`
	Committed bool   `json:"committed"` // equal to HEAD: the difference from base is committed
}

// ChangeSet is one answer of the poller. With Reset, Upserts is the complete set; otherwise only the differences from Since.
type ChangeSet struct {
	Since    uint64   `json:"since"`
	Version  uint64   `json:"version"`
	Reset    bool     `json:"reset"`
	More     bool     `json:"more"` // the set continues in the next record
	Base     string   `json:"base"`
	Head     string   `json:"head"`   // commit id of HEAD
	Branch   string   `json:"branch"` // "" when detached
	Upserts  []Change `json:"upserts,omitempty"`
	Removes  []string `json:"removes,omitempty"`
	Error    string   `json:"error,omitempty"` // git's own message when the poll failed
	PolledAt int64    `json:"polled_at"`       // ms UTC
}

// Dirty names what may differ from the workspace's base, each path once, in the wire form of EncodePath: everything else equals
// the base.
type Dirty struct {
	Base  string   `json:"base"`
	Paths []string `json:"paths,omitempty"`
}

// DiffRequest requests the unified diff of one path against the base. Paths are in the wire form of EncodePath.
type DiffRequest struct {
	Base    string `json:"base"`
	Path    string `json:"path"`
	OldPath string `json:"old_path,omitempty"`
	Context int    `json:"context"` // lines around a hunk
}

// Stats are the sandbox's current statistics.
type Stats struct {
	CPUMs      int64 `json:"cpu_ms"`      // CPU time used by the guest and all its descendants since start
	RSSBytes   int64 `json:"rss_bytes"`   // resident memory of the same
	Processes  int   `json:"processes"`   // live descendants, without helpers
	Ports      []int `json:"ports"`       // TCP ports descendants listen on
	LastOutput int64 `json:"last_output"` // ms UTC of the last byte any process wrote
	LogBytes   int64 `json:"log_bytes"`
}
