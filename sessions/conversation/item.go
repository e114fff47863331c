// Package conversation reads what a coding agent did from the record the agent itself keeps (Claude Code's transcripts, Codex'
// rollouts) and turns it into a timeline of items: prompts, answers, thinking, tool calls with their results, edits, questions,
// errors, tokens.
//
// The record is written by the agent and whoever it works for: hostile. It is opened as a regular file below one folder, read
// a bounded piece at a time, every line and every field is capped, control characters are removed, and what is not understood
// is skipped. A Reader remembers where it was, so that a pass over a record that did not grow costs one stat.
package conversation

// Kind is the kind of an item.
type Kind string

// The kinds of item.
const (
	Prompt   Kind = "prompt"   // what a person asked
	Text     Kind = "text"     // what the agent said
	Thinking Kind = "thinking" // what it thought, as far as it is shown
	Tool     Kind = "tool"     // a tool call with its result
	Edit     Kind = "edit"     // a tool call that changed a file
	Question Kind = "question" // the agent asked
	Answer   Kind = "answer"   // a person answered
	Error    Kind = "error"    // the model's service, or the agent, failed
	Spent    Kind = "usage"    // the tokens of a turn
	Note     Kind = "note"     // an interrupt, a compaction, the output of a command of the agent's own
)

// Kinds are all kinds there are.
var Kinds = []Kind{Prompt, Text, Thinking, Tool, Edit, Question, Answer, Error, Spent, Note}

// Statuses of tools, edits and questions; and of an error that is tried again.
const (
	Running  = "running"
	OK       = "ok"
	Failed   = "failed"
	Denied   = "denied"  // a person said no
	Stopped  = "stopped" // it ended without a result
	Retrying = "retrying"
)

// Topics of notes.
const (
	Interrupt  = "interrupt"
	Compaction = "compaction"
	Output     = "output" // of a command of the agent's own
	Skipped    = "skipped"
)

// Limits of an item's fields in bytes. What is longer is cut, and Cut says so.
const (
	maxText   = 64 << 10
	maxTitle  = 400
	maxInput  = 16 << 10
	maxOutput = 32 << 10
	maxDiff   = 32 << 10
	maxPath   = 1 << 10
	maxName   = 120
)

// Item is one thing that happened. An item that changes, as a tool that ends, comes again under its ID.
type Item struct {
	ID       string `json:"id"`
	At       int64  `json:"at"` // ms UTC, by the clock of who wrote the record
	Kind     Kind   `json:"kind"`
	Parent   string `json:"parent,omitempty"` // ID of the tool call this happened inside of: a sub-agent's work, a command of a script
	Text     string `json:"text,omitempty"`
	Tool     string `json:"tool,omitempty"`  // name of the tool
	Title    string `json:"title,omitempty"` // what the tool does, in a line
	Input    string `json:"input,omitempty"`
	Output   string `json:"output,omitempty"`
	Path     string `json:"path,omitempty"` // of an edit; relative to the worktree where it lies in it
	Diff     string `json:"diff,omitempty"` // unified, without file names
	Added    int    `json:"added,omitempty"`
	Removed  int    `json:"removed,omitempty"`
	Status   string `json:"status,omitempty"`
	Topic    string `json:"topic,omitempty"`    // of a note
	Duration int64  `json:"duration,omitempty"` // ms
	Usage    *Usage `json:"usage,omitempty"`
	Cut      bool   `json:"cut,omitempty"` // a field was too long and is kept in part
}

// Usage counts tokens. Input holds neither what was read from the cache nor what was written to it.
type Usage struct {
	Input      int64  `json:"input"`
	Output     int64  `json:"output"` // reasoning included
	CacheRead  int64  `json:"cache_read"`
	CacheWrite int64  `json:"cache_write"`
	Reasoning  int64  `json:"reasoning"`
	Model      string `json:"model,omitempty"`
}

func (u *Usage) add(o Usage) {
	u.Input += o.Input
	u.Output += o.Output
	u.CacheRead += o.CacheRead
	u.CacheWrite += o.CacheWrite
	u.Reasoning += o.Reasoning
	if o.Model != "" {
		u.Model = o.Model
	}
}

func (u *Usage) sub(o Usage) {
	u.Input -= o.Input
	u.Output -= o.Output
	u.CacheRead -= o.CacheRead
	u.CacheWrite -= o.CacheWrite
	u.Reasoning -= o.Reasoning
}

// empty reports whether nothing was spent.
func (u Usage) empty() bool {
	return u.Input == 0 && u.Output == 0 && u.CacheRead == 0 && u.CacheWrite == 0 && u.Reasoning == 0
}

// Reply is one answer of the model, as the record tells what it used. ID tells it from every other.
type Reply struct {
	ID    string
	Model string
	Usage Usage
	Hour  int64 // of Usage.CacheWrite: kept in the cache for an hour
	At    int64 // ms UTC
}

// Phase is where the turn stands by the record.
type Phase int

// The phases.
const (
	Unknown   Phase = iota
	Began           // a prompt was taken
	Using           // a tool runs, or waits for leave to
	Asked           // a question to a person is open
	Done            // the turn ended
	Halted          // a person interrupted it
	Broken          // an error ended it
	Compacted       // the conversation was made shorter; says nothing of the turn
)

// Moment is the newest thing the record says of the turn.
type Moment struct {
	Phase Phase
	Words string // of the error, the question, or the tool
	At    int64  // ms UTC
}
