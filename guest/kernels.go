package guest

import "encoding/json"

// A kernel runs code and keeps its variables between two runs. It is a process of the guest's own program (`parawork-guest kernel
// LANGUAGE`), which starts the language's interpreter and speaks lines of JSON: KernelRequest on its standard input, KernelMessage on
// its standard output. What it says comes from a process that agents control: the host checks it.

// KernelLanguage is what a kernel runs.
type KernelLanguage string

// The languages. TypeScript runs in a kernel of JavaScript.
const (
	Python     KernelLanguage = "python"
	JavaScript KernelLanguage = "javascript"
	Shell      KernelLanguage = "shell"
)

// KernelLanguages are all languages of kernels.
var KernelLanguages = []KernelLanguage{Python, JavaScript, Shell}

// Limits of kernels.
const (
	MaxCode          = 1 << 20  // bytes of the code of one run
	MaxKernelMessage = 10 << 20 // bytes of one line of JSON of a kernel
	MaxKernelPrinted = 2 << 20  // bytes that one run prints before the rest is left out, but for its end
	KernelTail       = 64 << 10 // bytes of that end
	MaxKernelResults = 200      // results of one run
)

// KernelRequest asks for one thing: a run of code, or the interruption of the present run.
type KernelRequest struct {
	ID         string `json:"id"` // of the run
	Interrupt  bool   `json:"interrupt,omitempty"`
	Code       string `json:"code,omitempty"`
	TypeScript bool   `json:"typescript,omitempty"`
	TimeoutMs  int64  `json:"timeout_ms,omitempty"` // 0 = none
}

// KernelMessageType is what a message tells.
type KernelMessageType string

// The messages of a kernel. Ready is the first, Failed the last one of a kernel that could not start; the others belong to a run, whose
// last one is Done.
const (
	KernelReady   KernelMessageType = "ready"
	KernelFailed  KernelMessageType = "failed"
	KernelStarted KernelMessageType = "started"
	KernelStdout  KernelMessageType = "stdout"
	KernelStderr  KernelMessageType = "stderr"
	KernelResult  KernelMessageType = "result"
	KernelError   KernelMessageType = "error"
	KernelDone    KernelMessageType = "done"
)

// KernelState is how a run ended.
type KernelState string

// The ends of a run. After a death the variables are lost: the next run needs another kernel.
const (
	RunOK          KernelState = "ok"
	RunFailed      KernelState = "failed" // the code raised an error
	RunInterrupted KernelState = "interrupted"
	RunTimedOut    KernelState = "timed_out"
	RunDied        KernelState = "died" // the interpreter ended
)

// Known reports whether the state is one of this build's.
func (s KernelState) Known() bool {
	switch s {
	case RunOK, RunFailed, RunInterrupted, RunTimedOut, RunDied:
		return true
	}
	return false
}

// KernelMessage is one message of a kernel.
type KernelMessage struct {
	ID      string                     `json:"id,omitempty"` // of the run; "" of the kernel itself
	Type    KernelMessageType          `json:"type"`
	Text    string                     `json:"text,omitempty"`    // printed text, or why a kernel failed
	Version string                     `json:"version,omitempty"` // of the interpreter, with Ready
	Data    map[string]json.RawMessage `json:"data,omitempty"`    // a result: contents by MIME type; a string, base64 for binary types, or JSON
	Main    bool                       `json:"main,omitempty"`    // the result is the value of the code, not something displayed on the way
	Error   *KernelErrorInfo           `json:"error,omitempty"`
	State   KernelState                `json:"state,omitempty"`    // with Done
	Exit    *int                       `json:"exit,omitempty"`     // with Done of a shell: the exit code of the last command
	Cause   string                     `json:"cause,omitempty"`    // with Done: why the interpreter ended
	LeftOut int64                      `json:"left_out,omitempty"` // with Done: printed bytes that were left out
	TookMs  int64                      `json:"took_ms,omitempty"`  // with Done
}

// KernelErrorInfo is the error that ended a run.
type KernelErrorInfo struct {
	Name      string `json:"name"`
	Value     string `json:"value"`
	Traceback string `json:"traceback"`
}
