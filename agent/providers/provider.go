// Package providers asks models. One small interface stands for the wire formats that models are served in: Anthropic Messages, OpenAI
// Responses, and OpenAI Chat Completions, which many other servers speak as well. A provider makes one request and streams its answer;
// Retrying adds further tries. The package knows neither threads nor tools: callers give it messages and get parts of messages back.
package providers

import (
	"context"
	"encoding/json"
	"iter"
	"time"
)

// Provider asks a model.
type Provider interface {
	// Stream makes one request and yields its answer as it comes. The last event is Done; an error ends the sequence instead. It is an
	// *Error, or that of ctx. Requests must have a model and messages; Stream repairs the messages before it sends them.
	Stream(ctx context.Context, req Request) iter.Seq2[Event, error]
}

// Request is what a model is asked.
type Request struct {
	Model     string
	System    []System
	Messages  []Message
	Tools     []Tool
	MaxOutput int    // tokens of the answer, reasoning included; 0: the provider's own bound
	Effort    string // of reasoning: low, medium, high; "": the model's own
	CacheKey  string // the same for requests that begin alike, for providers that ask for one
}

// System is a part of the system prompt. Cache says that the next requests begin with the same text up to here.
type System struct {
	Text  string
	Cache bool
}

// Tool is a tool the model may call. Schema is the JSON schema of its arguments, which is an object.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage
}

// Role says who wrote a message.
type Role string

// Roles. Results of tools are in messages of the user.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is one message of a conversation.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// PartKind says what a part is.
type PartKind string

// Kinds of parts.
const (
	Text       PartKind = "text"
	Image      PartKind = "image"
	Reasoning  PartKind = "reasoning"
	ToolCall   PartKind = "tool_call"
	ToolResult PartKind = "tool_result"
	File       PartKind = "file" // attached: callers make texts of files before they send them
)

// Part is a part of a message. Its JSON form is stored.
type Part struct {
	Kind PartKind `json:"kind"`

	Text  string `json:"text,omitempty"`  // of a text, or of reasoning as far as the provider shows it
	Phase string `json:"phase,omitempty"` // of a text: what the provider says it is, sent back as it came

	MIME   string `json:"mime,omitempty"` // of an image or a file
	Data   []byte `json:"data,omitempty"`
	Ref    string `json:"ref,omitempty"`  // where its content is stored, of an image, a file, or a text that is only the ends of a longer one
	Size   int    `json:"size,omitempty"` // bytes of that
	Width  int    `json:"width,omitempty"`
	Height int    `json:"height,omitempty"`

	Raw      json.RawMessage `json:"raw,omitempty"`      // reasoning as the provider wants it back
	Provider string          `json:"provider,omitempty"` // who made the reasoning: nobody else can read it
	Model    string          `json:"model,omitempty"`

	CallID  string          `json:"call_id,omitempty"`  // of a call and its result
	Name    string          `json:"name,omitempty"`     // of the tool that is called, or of an attached file
	Args    json.RawMessage `json:"args,omitempty"`     // the arguments, a JSON object
	RawArgs string          `json:"raw_args,omitempty"` // what the model wrote instead of a JSON object, or the start of one

	Content []Part `json:"content,omitempty"` // of a result: texts and images
	IsError bool   `json:"is_error,omitempty"`
}

// EventKind says what an event is.
type EventKind string

// Kinds of events.
const (
	Begun          EventKind = "begun" // the provider answers: Request names what may have to be paid, however it ends
	TextDelta      EventKind = "text_delta"
	ReasoningDelta EventKind = "reasoning_delta"
	CallBegun      EventKind = "call_begun" // the model begins to write a call: Part has its id and name
	CallDelta      EventKind = "call_delta" // Text is a piece of the arguments
	PartDone       EventKind = "part"       // Part is finished
	Retry          EventKind = "retry"      // all before this event is void: another try follows after Wait, because of Error
	Done           EventKind = "done"       // the answer is complete: Stop and Usage
)

// Event is a piece of an answer.
type Event struct {
	Kind  EventKind
	Index int    // which part of the answer it belongs to
	Text  string // what came, of a delta
	Part  Part
	Stop  Stop
	Usage Usage
	// Request is, when the answer begins and when it is complete, what it is called where its cost is recorded.
	Request string
	Wait    time.Duration
	Error   *Error
}

// Stop says why an answer ended.
type Stop string

// Reasons to stop.
const (
	StopEndTurn   Stop = "end_turn"
	StopToolCalls Stop = "tool_calls" // the model waits for results
	StopMaxOutput Stop = "max_output" // the answer was cut at its bound; a call in it may be incomplete
	StopRefusal   Stop = "refusal"    // the model or its provider refuses to go on
	StopPause     Stop = "pause"      // ask again with the answer to let the model go on
	StopUnknown   Stop = "unknown"
)

// Usage counts the tokens of a request. Input holds neither what a cache gave nor what went into one; Output holds the reasoning.
type Usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
	Reasoning  int64 `json:"reasoning"`
	Estimated  bool  `json:"estimated,omitempty"` // the provider reported none, or its cost is not known exactly
	// CostNano is what it cost, nano-USD; nil = unknown. The provider does not set it.
	CostNano *int64 `json:"cost_nano,omitempty"`
}
