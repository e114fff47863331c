package agents

import "strings"

// AskKind is the kind of a question.
type AskKind string

// The kinds of question.
const (
	Permission AskKind = "permission" // asks whether it may do something
	Choice     AskKind = "choice"     // one or more of the options
	Text       AskKind = "text"       // text only
	PlanReview AskKind = "plan"       // asks whether a plan is approved; Detail is Markdown
)

// Role is the meaning of an option, so that it can be drawn and answered without knowing the agent.
type Role string

// The values of Role.
const (
	Allow        Role = "allow"
	AllowSession Role = "allow_session"
	Deny         Role = "deny"
	Plain        Role = "option"
)

// Option is one answer of a question.
type Option struct {
	ID          string `json:"id"`
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
	Role        Role   `json:"role"`
}

// Ask is a question of an agent to a person. All texts are the agent's: show them only as plain text.
type Ask struct {
	Kind     AskKind
	Title    string // one line
	Detail   string // several lines
	Options  []Option
	Multi    bool // several options may be chosen
	FreeText bool // a text may be given; with a Deny it is the reason
}

// Answer is a person's answer: the chosen options, a text, or a Deny with its reason.
type Answer struct {
	Options []Option
	Text    string
}

// Words returns the answer as text.
func (a Answer) Words() string {
	labels := make([]string, len(a.Options))
	for i, o := range a.Options {
		labels[i] = o.Label
	}
	words := strings.Join(labels, ", ")
	switch {
	case a.Text == "":
		return words
	case words == "":
		return a.Text
	}
	return words + ": " + a.Text
}
