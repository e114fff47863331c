package agents

import (
	"cmp"
	"time"

	"github.com/parawork/parawork/sessions/usagelimit"
)

// Delivery is how an initial prompt reaches an agent.
type Delivery string

// The values of Delivery.
const (
	PromptArgument Delivery = "argument" // the last argument of the command line
	PromptPaste    Delivery = "paste"    // pasted into the terminal once the screen is quiet
	PromptNone     Delivery = "none"     // the agent takes no prompt
)

// Kinds of account, as stored.
const (
	APIKey        = "api_key"        // a key, passed in the environment only
	Terminal      = "terminal"       // the person logs in inside the terminal
	ExistingLogin = "existing_login" // the login of the server's own user, copied
)

// Account is what an agent uses to access its model. The zero Account is Terminal, in the home itself.
type Account struct {
	ID      string // names its folder
	InHome  bool   // the agent's folder in the home itself belongs to this account
	Kind    string
	Secret  string // with APIKey
	BaseURL string // with APIKey; "" = the vendor's

	Gateway *Gateway // with APIKey: in place of Secret and BaseURL
}

// Launch is the input for a plan.
type Launch struct {
	UserID       string // whose home is used
	UserName     string // for git
	UserEmail    string // for git
	SessionID    string
	WorkspaceID  string
	Worktree     string // absolute path, the working directory
	Prompt       string
	Args         []string // extra arguments of this session; for Command: the whole command
	Conversation string   // the agent's ID of a conversation: an existing one with Resume, else a UUID the agent may use
	Resume       bool
	Known        bool // with Resume: Conversation is an existing ID of the agent's, not one it may use
	Light        bool // its terminal is light, not dark
	Hooks        bool // the sandbox's guest accepts hooks of agents
	Account      Account
	Permissions  string  // AllPermissions; otherwise it asks
	Inside       *Inside // nil: the home is on this server, one per user
	Tools        *Tools  // nil: the sandbox's guest offers none
	Brief        string  // a description of the agent's environment, added to its own instructions; "" = nothing

	program string // absolute, or looked up in the sandbox
	home    Home
	args    []string // from config.json
}

// Plan describes how to start an agent.
type Plan struct {
	Argv         []string          // without secrets
	Env          map[string]string // without secrets
	Secrets      map[string]string // also environment; the values must be masked in output
	ByKey        bool              // an account's key is among Secrets
	Drops        []string          // variables that only the person who starts it may set
	Conversation string            // the agent's ID of the conversation, where it is known in advance
	Resumed      bool              // the agent continues its conversation; false where it had to begin a new one
	Prompt       Delivery          // how Launch.Prompt is delivered; with PromptArgument it is already in Argv
}

// maxArgument bounds a prompt passed as an argument: Linux allows 128 KiB for one.
const maxArgument = 100 << 10

// An adapter knows one agent. Adapters are stateless and safe for concurrent use.
type adapter interface {
	// facts returns the agent's constant properties.
	facts() facts
	// plan prepares the home and describes how to start the agent. Its caller fills in program, home and args.
	plan(l Launch) (Plan, error)
	// read interprets a signal of the terminal.
	read(s Signal) Hint
}

// A finder is an adapter that can find the agent's ID of a conversation after it began.
type finder interface {
	find(home Home, f Find) (string, error)
}

// Find describes the conversation to look for.
type Find struct {
	UserID   string
	Inside   *Inside // as in Launch
	Worktree string
	Since    int64               // ms UTC of the session's start
	Taken    map[string]struct{} // IDs that other sessions have
	Output   func() []byte       // the end of the output
}

type facts struct {
	agent       string   // its name in config.json and the API; "" = that of config.json
	name        string   // display name
	recipe      Recipe   // its installation recipe
	command     string   // the program where recipe names none; "" = it has none
	install     string   // the command that installs it where it is not a package
	accounts    bool     // takes an account
	explicit    bool     // its signals report working and idle, so a burst of output clears no question
	version     []string // arguments that print the version; nil = do not ask
	login       string   // the file with its login, below the account's folder; "" = none
	permissions bool     // it asks for permissions, and this can be turned off
	hosted      bool     // it works in the server, which asks its model: its program in the sandbox is only its terminal
	shared      []string // folders that all accounts of the agent share, so that a conversation can continue with another one
}

// program is the program to start, "" = none.
func (f facts) program() string { return cmp.Or(f.recipe.Program, f.command) }

// installing is the command that installs it, "" when there is none.
func (f facts) installing() string {
	if f.recipe.Package != "" {
		return "npm install -g " + f.recipe.Package
	}
	return f.install
}

// SignalKind is the kind of a control message that a program sends to its terminal.
type SignalKind int

// The kinds of Signal.
const (
	Title    SignalKind = iota // OSC 0 and 2
	Notify                     // OSC 9 with text, OSC 777;notify
	Progress                   // OSC 9;4: Text is "state;percent"
	Report                     // OSC 7501: Text is "key=value:key=value"
)

// Signal is a control message from an agent to its terminal. Text is at most a few hundred bytes of valid UTF-8 without control
// characters.
type Signal struct {
	Kind SignalKind
	Text string
}

// Mood is what a signal says about the agent's state.
type Mood int

// The values of Mood.
const (
	Unsaid  Mood = iota // nothing; from the screen: the question it showed is gone
	Busy                // working
	Asking              // needs a person
	Ready               // idle
	Trouble             // idle after an error
	Closing             // about to end: no later state can be known
)

var moodNames = [...]string{"nothing", "working", "waiting", "idle", "failed", "ending"}

// String returns the mood's name in the API.
func (m Mood) String() string {
	if m < 0 || int(m) >= len(moodNames) {
		return moodNames[Unsaid]
	}
	return moodNames[m]
}

// MoodNamed returns the mood of that name in the API, Unsaid when there is none.
func MoodNamed(name string) Mood {
	for i, n := range moodNames {
		if n == name {
			return Mood(i)
		}
	}
	return Unsaid
}

// Hint is the meaning of a signal, or of another source of an agent's state. Title is the title to show, where HasTitle.
type Hint struct {
	Source   Source // for a signal: set by Registry.Read
	Mood     Mood
	Weak     bool      // clears neither a question nor an error: the signal looks the same while one is open
	Vague    bool      // with Asking: it does not name the question, and must not replace the text of a source that does
	At       time.Time // when it was true, for a source with a delay; zero = now
	Reason   string    // as text; "" = the default
	Title    string
	HasTitle bool
	Limit    *usagelimit.Limit // with Trouble: the limit of its provider that stopped it, nil when it was another error
}
