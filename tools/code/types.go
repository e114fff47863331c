package code

import (
	"context"
	"encoding/json"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/page"
)

// Language is what code is written in.
type Language string

// The languages. TypeScript and JavaScript share their kernels.
const (
	Python     Language = "python"
	JavaScript Language = "javascript"
	TypeScript Language = "typescript"
	Shell      Language = "shell"
)

// Languages are all languages.
var Languages = []Language{Python, JavaScript, TypeScript, Shell}

// kernel is the language of the kernel that runs code of this language.
func (l Language) kernel() guest.KernelLanguage {
	if l == TypeScript {
		return guest.JavaScript
	}
	return guest.KernelLanguage(l)
}

// State is where a run is.
type State string

// The states. Died means that the interpreter ended and its variables are lost; Lost, that nobody knows how the run ended.
const (
	Running     State = "running"
	OK          State = "ok"
	Failed      State = "failed"
	Interrupted State = "interrupted"
	TimedOut    State = "timed_out"
	Died        State = "died"
	Lost        State = "lost"
)

// Limits.
const (
	MaxCode       = guest.MaxCode
	MaxOutputs    = 256 << 10 // bytes of the outputs of a run that are kept; larger results become artifacts
	MaxInline     = 64 << 10  // bytes of one content of a result; a larger one becomes an artifact
	MaxKernels    = 8         // kernels of a workspace
	MaxRuns       = 500       // runs of a workspace that are kept
	maxStoredCode = 64 << 10  // bytes of code that are kept of a run
	maxAtOnce     = 32        // runs of a workspace that run or wait
	kernelBytes   = 2 << 30   // of memory that a kernel may use with what it starts
)

// Output is one thing that a run printed or displayed, in order. Type is stdout, stderr or result.
type Output struct {
	Type      string                     `json:"type"`
	Text      string                     `json:"text,omitempty"`
	Data      map[string]json.RawMessage `json:"data,omitempty"`      // contents by MIME type: text, base64 for pictures, or JSON
	Artifacts map[string]string          `json:"artifacts,omitempty"` // ids by MIME type, of contents that are too large for Data
	Main      bool                       `json:"main,omitempty"`      // the value of the code itself
}

// Error is the error that ended a run.
type Error struct {
	Name      string `json:"name"`
	Value     string `json:"value"`
	Traceback string `json:"traceback"`
}

// Run is code that runs or ran.
type Run struct {
	ID          string
	TeamID      string
	WorkspaceID string
	SessionID   string // of the agent that asked; "" when a person or a script did
	UserID      string
	Agent       string
	Language    Language
	Kernel      string // its name
	Code        string
	State       State
	Fresh       bool   // the kernel was started for this run: there were no variables
	Cause       string // why it was not OK, in words
	Exit        *int   // of a shell
	Outputs     []Output
	Error       *Error
	Truncated   bool // something was left out of Outputs
	ProcessID   string
	SandboxID   string
	CreatedAt   int64 // ms UTC
	TookMs      int64
}

// Ended reports whether the run is over.
func (r Run) Ended() bool { return r.State != Running }

// Request asks to run code.
type Request struct {
	TeamID      string
	WorkspaceID string
	SessionID   string
	UserID      string
	Agent       string
	Language    Language
	Kernel      string // "" = "default"
	Code        string
	TimeoutMs   int64 // 0 = 300,000
}

// Kernel is an interpreter that is there, and keeps its variables.
type Kernel struct {
	Language  guest.KernelLanguage
	Name      string
	Version   string // of the interpreter; "" = not known yet
	StartedAt int64  // ms UTC
	Busy      bool
}

// Store stores runs.
type Store interface {
	// CreateRun stores a run, and deletes the workspace's oldest ended ones beyond most.
	CreateRun(ctx context.Context, r Run, most int) error
	UpdateRun(ctx context.Context, r Run) error
	Run(ctx context.Context, id string) (Run, error)
	// Runs lists a workspace's runs, newest first.
	Runs(ctx context.Context, workspaceID string, pg page.Page) ([]Run, string, error)
	// RunningRuns returns the runs of all teams that have not ended.
	RunningRuns(ctx context.Context) ([]Run, error)
}
