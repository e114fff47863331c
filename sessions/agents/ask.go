package agents

import "strings"

// AskKind is the kind of a question.
type AskKind string

// The kinds of question.
const (
	Permission AskKind = "permission" // may it do this
	Choice     AskKind = "choice"     // one or several of the options
	Text       AskKind = "text"       // words only
)

// Role says what an option of a question does, so that it can be drawn and answered without knowing the agent.
type Role string

// The roles of options.
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

// Ask is what an agent asks a person. All texts are the agent's: to be shown as plain text only.
type Ask struct {
	Kind     AskKind
	Title    string // one line
	Detail   string // several lines
	Options  []Option
	Multi    bool // several options may be chosen
	FreeText bool // a text may be given; beside a Deny it is the reason
}

// Answer is what a person answered: the chosen options, a text, or a Deny with its reason.
type Answer struct {
	Options []Option
	Text    string
}

// Words puts the answer into words.
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
