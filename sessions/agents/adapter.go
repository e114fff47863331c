package agents

import (
	"cmp"
	"time"
)

// Delivery says how an initial prompt reaches an agent.
type Delivery string

// The ways of delivery.
const (
	PromptArgument Delivery = "argument" // the last argument of the command line
	PromptPaste    Delivery = "paste"    // pasted into the terminal once the screen is quiet
	PromptNone     Delivery = "none"     // the agent takes none
)

// Kinds of account, as stored.
const (
	APIKey        = "api_key"        // a key, handed over in the environment only
	Terminal      = "terminal"       // the person logs in inside the terminal
	ExistingLogin = "existing_login" // the login of the server's own user, copied
)

// Account is what an agent uses to reach its model. The zero Account is Terminal, in the home itself.
type Account struct {
	ID      string // names the folder of its own
	InHome  bool   // the agent's folder in the home itself is this account's
	Kind    string
	Secret  string // with APIKey
	BaseURL string // with APIKey; "" = the vendor's

	Gateway *Gateway // with APIKey: instead of Secret and BaseURL
}

// Launch is what a session knows when it asks for a plan.
type Launch struct {
	UserID       string // whose home is used
	UserName     string // for git
	UserEmail    string // for git
	SessionID    string
	WorkspaceID  string
	Worktree     string // absolute path, the working directory
	Prompt       string
	Args         []string // extra arguments of this session; for Command: the whole command
	Conversation string   // the agent's own id of a conversation: known when Resume, else one the agent may take, a UUID
	Resume       bool
	Known        bool // with Resume: Conversation is the agent's own, else one it may take
	Hooks        bool // the place hears the hooks of agents
	Account      Account
	Permissions  string  // AllPermissions, else it asks
	Inside       *Inside // nil: the home lies on this machine, one a user
	Brief        string  // what the agent is told of the place it works in, beside its own instructions; "" = nothing

	program string // absolute, or looked for in the place
	home    Home
	args    []string // of config
}

// Plan is how to start an agent.
type Plan struct {
	Argv         []string          // without secrets
	Env          map[string]string // without secrets
	Secrets      map[string]string // environment too; the values must be masked in what is printed
	ByKey        bool              // an account's key is among Secrets
	Drops        []string          // variables it must not be given by anybody else but the person who starts it
	Conversation string            // the agent's own id of the conversation where it is known beforehand
	Resumed      bool              // the agent goes on with its conversation; false where it had to start again
	Prompt       Delivery          // how Launch.Prompt is delivered; PromptArgument: it is in Argv already
}

// maxArgument bounds a prompt handed over as an argument: Linux takes 128 KiB for one.
const maxArgument = 100 << 10

// An adapter knows one agent. Adapters keep no state and are safe for concurrent use.
type adapter interface {
	// facts are what is true without looking.
	facts() facts
	// plan prepares the home and says how to start. It is called with program, home and args filled in.
	plan(l Launch) (Plan, error)
	// read says what a signal of the terminal means.
	read(s Signal) Hint
}

// A finder is an adapter that can tell the agent's own id of a conversation after it began.
type finder interface {
	find(home Home, f Find) (string, error)
}

// Find says which conversation is looked for.
type Find struct {
	UserID   string
	Inside   *Inside // as in Launch
	Worktree string
	Since    int64               // ms UTC of the session's start
	Taken    map[string]struct{} // ids other sessions hold
	Output   func() []byte       // the end of what was printed
}

type facts struct {
	agent       string   // its name in config.json and the API; "" = config.json's own
	name        string   // for people
	recipe      Recipe   // what it is made of
	command     string   // the program where recipe names none; "" = none of its own
	install     string   // the command that installs it where it is no package
	accounts    bool     // takes an account
	explicit    bool     // its signals tell working and idle, so a burst of bytes clears no question
	version     []string // arguments that print the version; nil = not asked
	login       string   // the file its login lies in, below the account's folder; "" = none
	permissions bool     // it asks for permissions, and can be told not to
	shared      []string // folders that all accounts of the agent share, so that a conversation goes on with another one
}

// program is what is started, "" = none of its own.
func (f facts) program() string { return cmp.Or(f.recipe.Program, f.command) }

// installing is the command that installs it, "" when there is none to give.
func (f facts) installing() string {
	if f.recipe.Package != "" {
		return "npm install -g " + f.recipe.Package
	}
	return f.install
}

// SignalKind is the kind of a thing a terminal was told beside text.
type SignalKind int

// The kinds of signal.
const (
	Title    SignalKind = iota // OSC 0 and 2
	Notify                     // OSC 9 with text, OSC 777;notify
	Progress                   // OSC 9;4: Text is "state;percent"
	Report                     // OSC 7501: Text is "key=value:key=value"
)

// Signal is what an agent told the terminal. Text is at most a few hundred bytes of valid UTF-8 without control characters.
type Signal struct {
	Kind SignalKind
	Text string
}

// Mood is what a signal says of the agent.
type Mood int

// The moods.
const (
	Unsaid  Mood = iota // nothing; of the screen: the question it showed is gone
	Busy                // working
	Asking              // needs a person
	Ready               // idle
	Trouble             // idle after an error
	Closing             // about to end: nothing more can be said
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

// Hint is what a signal means, or what another source says of an agent. Title is the title to show, where HasTitle.
type Hint struct {
	Source   Source // of a signal: filled in by Registry.Read
	Mood     Mood
	Weak     bool      // ends neither a question nor an error: it looks the same while one is open
	Vague    bool      // with Asking: it does not name the question, and leaves the words of a source that does
	At       time.Time // when it was true, for a source that lags; zero = now
	Reason   string    // in words; "" = the usual ones
	Title    string
	HasTitle bool
}
