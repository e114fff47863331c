// Package conversation reads what a coding agent did from the record the agent itself writes (Claude Code's transcripts, Codex'
// rollouts) and turns it into a timeline of items: prompts, answers, thinking, tool calls with their results, edits, questions,
// errors, tokens.
//
// The record is written by the agent and whatever influences it, so it is untrusted. The package opens it as a regular file below
// one folder, reads a bounded piece at a time, caps every line and every field, removes control characters, and skips what it
// does not understand. A Reader remembers its position, so a pass over a record that did not grow costs one stat.
package conversation

import "github.com/parawork/parawork/sessions/usagelimit"

// Kind is the kind of an item.
type Kind string

// The kinds of item.
const (
	Prompt   Kind = "prompt"   // a person's request
	Text     Kind = "text"     // the agent's message
	Thinking Kind = "thinking" // its thinking, as far as it is shown
	Tool     Kind = "tool"     // a tool call with its result
	Edit     Kind = "edit"     // a tool call that changed a file
	Question Kind = "question" // a question of the agent
	Answer   Kind = "answer"   // a person's answer
	Error    Kind = "error"    // the model's service, or the agent, failed
	Spent    Kind = "usage"    // the tokens of a turn
	Note     Kind = "note"     // an interrupt, a compaction, the output of one of the agent's own commands
)

// Kinds lists all kinds.
var Kinds = []Kind{Prompt, Text, Thinking, Tool, Edit, Question, Answer, Error, Spent, Note}

// Statuses of tools, edits and questions, and of an error that is retried.
const (
	Running  = "running"
	OK       = "ok"
	Failed   = "failed"
	Denied   = "denied"  // a person refused
	Stopped  = "stopped" // it ended without a result
	Retrying = "retrying"
)

// Topics of notes.
const (
	Interrupt  = "interrupt"
	Compaction = "compaction"
	Output     = "output" // of one of the agent's own commands
	Skipped    = "skipped"
)

// Limits of an item's fields in bytes. Longer values are cut, and Cut is set.
const (
	maxText   = 64 << 10
	maxTitle  = 400
	maxInput  = 16 << 10
	maxOutput = 32 << 10
	maxDiff   = 32 << 10
	maxPath   = 1 << 10
	maxName   = 120
)

// Item is one event. An item that changes, such as a tool call that ends, comes again under its ID.
type Item struct {
	ID       string `json:"id"`
	At       int64  `json:"at"` // ms UTC, by the clock of the record's writer
	Kind     Kind   `json:"kind"`
	Parent   string `json:"parent,omitempty"` // ID of the tool call during which this happened: a sub-agent's work, a command of a script
	Text     string `json:"text,omitempty"`
	Tool     string `json:"tool,omitempty"`  // name of the tool
	Title    string `json:"title,omitempty"` // what the tool does, in one line
	Input    string `json:"input,omitempty"`
	Output   string `json:"output,omitempty"`
	Path     string `json:"path,omitempty"` // of an edit; relative to the worktree where it is inside it
	Diff     string `json:"diff,omitempty"` // unified, without file names
	Added    int    `json:"added,omitempty"`
	Removed  int    `json:"removed,omitempty"`
	Status   string `json:"status,omitempty"`
	Topic    string `json:"topic,omitempty"`    // of a note
	Duration int64  `json:"duration,omitempty"` // ms
	Usage    *Usage `json:"usage,omitempty"`
	Cut      bool   `json:"cut,omitempty"`    // a field was too long and is stored in part
	Undone   bool   `json:"undone,omitempty"` // a person took it back: the agent does not know of it
	// Media are the pictures and files of a prompt or a result, and the whole of a result of which Output has the ends. Only Parawork's own
	// agent has them.
	Media []Media `json:"media,omitempty"`
}

// Media is a picture, a file or a long text that a thread of Parawork's own agent has.
type Media struct {
	ID     string `json:"id"`
	Thread string `json:"thread"`
	Name   string `json:"name,omitempty"`
	MIME   string `json:"mime"`
	Size   int    `json:"size"`
	Width  int    `json:"width,omitempty"` // of a picture, in pixels
	Height int    `json:"height,omitempty"`
}

// Usage counts tokens. Input includes neither cache reads nor cache writes.
type Usage struct {
	Input      int64  `json:"input"`
	Output     int64  `json:"output"` // including reasoning
	CacheRead  int64  `json:"cache_read"`
	CacheWrite int64  `json:"cache_write"`
	Reasoning  int64  `json:"reasoning"`
	Model      string `json:"model,omitempty"`
	// CostNano is what it cost as the server recorded it, nano-USD; nil = the record of the agent does not say.
	CostNano  *int64 `json:"cost_nano,omitempty"`
	Estimated bool   `json:"estimated,omitempty"` // some of the numbers
}

func (u *Usage) add(o Usage) {
	if o.CostNano != nil {
		u.CostNano = new(or0(u.CostNano) + *o.CostNano)
	}
	u.Estimated = u.Estimated || o.Estimated
	u.Input += o.Input
	u.Output += o.Output
	u.CacheRead += o.CacheRead
	u.CacheWrite += o.CacheWrite
	u.Reasoning += o.Reasoning
	if o.Model != "" {
		u.Model = o.Model
	}
}

func or0(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

func (u *Usage) sub(o Usage) {
	u.Input -= o.Input
	u.Output -= o.Output
	u.CacheRead -= o.CacheRead
	u.CacheWrite -= o.CacheWrite
	u.Reasoning -= o.Reasoning
}

// empty reports whether no tokens were used.
func (u Usage) empty() bool {
	return u.Input == 0 && u.Output == 0 && u.CacheRead == 0 && u.CacheWrite == 0 && u.Reasoning == 0
}

// Reply is one answer of the model and its usage, as recorded. ID is unique.
type Reply struct {
	ID    string
	Model string
	Usage Usage
	Hour  int64 // the part of Usage.CacheWrite cached for an hour
	At    int64 // ms UTC
}

// Phase is the state of the turn according to the record.
type Phase int

// The phases.
const (
	Unknown   Phase = iota
	Began           // a prompt was accepted
	Using           // a tool runs, or waits for permission
	Asked           // a question to a person is open
	Done            // the turn ended
	Halted          // a person interrupted it
	Broken          // an error ended it
	Compacted       // the conversation was compacted; says nothing about the turn
)

// Moment is the newest thing the record says about the turn.
type Moment struct {
	Phase Phase
	Words string            // text of the error, the question, or the tool
	Limit *usagelimit.Limit // with Broken: the limit of its provider that ended the turn; nil = something else did
	At    int64             // ms UTC
}
