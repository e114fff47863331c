package executors

// Purpose says what a sandbox is used for. It decides how long the sandbox may be idle; the strongest use so far counts.
type Purpose string

// Purposes, as in the API. A sandbox without a stated purpose counts as an agent's.
const (
	ForAgent     Purpose = "agent"     // sessions: agents, terminals
	ForApp       Purpose = "app"       // a program that people look at in a browser
	ForExecution Purpose = "execution" // single commands
	ForDesktop   Purpose = "desktop"   // a screen that people and agents look at

	ForPool Purpose = "pool"    // only counted and charged: it waits for a workspace
	Unknown Purpose = "unknown" // only counted: no record says what it was for
)

// Rank orders purposes, the strongest last.
func (p Purpose) Rank() int {
	switch p {
	case ForExecution:
		return 1
	case ForDesktop:
		return 2
	case ForApp:
		return 3
	case ForAgent:
		return 4
	}
	return 0
}

// PausedFor says why a sandbox is suspended.
type PausedFor string

// Reasons, as in the API. A sandbox suspended by a person or a limit waits until somebody wakes it; the others wake when their guest is
// needed.
const (
	ByPerson  PausedFor = "person"
	ByIdle    PausedFor = "idle"    // nobody used it for a while
	ByLimit   PausedFor = "limit"   // it reached what it may use
	ByCeiling PausedFor = "ceiling" // its executor limits the length of a run
	ByLease   PausedFor = "lease"   // its executor paused it because nobody extended the lease: this server was away
)

// Wakes reports whether a sandbox suspended for this reason wakes when its guest is needed.
func (f PausedFor) Wakes() bool { return f == ByIdle || f == ByCeiling || f == ByLease }

// StepState is the progress of a step.
type StepState string

// States of a step, as in the API.
const (
	StepPending   StepState = "pending"
	StepRunning   StepState = "running"
	StepDone      StepState = "done"
	StepFailed    StepState = "failed"
	StepCancelled StepState = "cancelled"
)

// Step is one step of making a sandbox. Times are ms UTC, 0 = not yet.
type Step struct {
	Name      string    `json:"name"`
	Title     string    `json:"title"`
	State     StepState `json:"state"`
	Detail    string    `json:"detail,omitempty"`
	Done      int64     `json:"done,omitempty"` // bytes, or whatever the step counts
	All       int64     `json:"all,omitempty"`  // 0 = not known
	StartedAt int64     `json:"started_at,omitempty"`
	EndedAt   int64     `json:"ended_at,omitempty"`
}
