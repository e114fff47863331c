// Package secrets stores the secrets of sessions and commands: environment variables, files and git credentials of a team, of a project
// or of a user. A value can be entered, replaced and deleted, but never read again through the API.
package secrets

// Scope says whose a secret is.
type Scope string

// The scopes. Where two secrets set the same variable or file, the one further down wins: the narrower scope has precedence.
const (
	Team     Scope = "team"
	Project  Scope = "project"
	Personal Scope = "personal"
)

// Kind says how a secret is given.
type Kind string

// The kinds.
const (
	Env  Kind = "env"  // an environment variable
	File Kind = "file" // a file below the home or the worktree, while a session runs
	Git  Kind = "git"  // user name and token for one host: the server uses it for the project's remote, a person's own for what they push
)

// Commands stands for plain commands in a list of agents: those that the API runs, outside of any session.
const Commands = "commands"

// Secret is what is known of a secret except its value. Times are ms UTC.
type Secret struct {
	ID        string
	TeamID    string // "" = a person's own
	ProjectID string // "" = the whole team's
	UserID    string // "" = a team's
	Kind      Kind
	Name      string   // of the variable; of a file or a credential: for people
	Target    string   // file: ~/path below the home, or a path below the worktree; git: host or host:port
	Username  string   // git
	InSandbox bool     // git: sandboxes get it too, because the project says so
	Agents    []string // which agents get it, and Commands; empty = every session and command
	LastFour  string   // of the value, to recognise it by; "" where it would tell too much
	CreatedBy string
	CreatedAt int64
	UpdatedAt int64
	RotatedAt int64 // when its value was last replaced; 0 = never
	UsedAt    int64 // when a session, a command or the server was last given it, to the minute

	SecretID string // of the sealed value
}

// Scope says whose it is.
func (s Secret) Scope() Scope {
	switch {
	case s.UserID != "":
		return Personal
	case s.ProjectID != "":
		return Project
	}
	return Team
}

// Version names the value a secret has now: it changes with every rotation.
func (s Secret) Version() int64 { return max(s.RotatedAt, s.CreatedAt) }

// Owner is whose secrets are meant: a team's, those of one project of it, or a person's.
type Owner struct{ TeamID, ProjectID, UserID string }

// NewSecret asks for a secret.
type NewSecret struct {
	Kind      Kind
	Name      string
	Value     string
	Target    string
	Username  string
	InSandbox bool
	Agents    []string
}

// Change changes a secret; nil leaves a thing as it is. A value replaces the one before it.
type Change struct {
	Name      *string
	Value     *string
	Target    *string
	Username  *string
	InSandbox *bool
	Agents    *[]string
}

// Ask describes who receives secrets: a session of an agent, or a command, of a user in a project.
type Ask struct {
	TeamID, ProjectID, UserID string
	Agent                     string // or Commands

	WorkspaceID string // where it runs
	Private     bool   // the workspace is the user's alone
}

// PlacedFile is a file to be written before an agent starts.
type PlacedFile struct {
	Home  bool   // Path is below the home, else below the worktree
	Path  string // with /, cleaned
	Value string
}

// Use says which value of which secret somebody was given.
type Use struct {
	ID      string `json:"id"`
	Version int64  `json:"version"`

	Sealed string `json:"sealed,omitempty"` // the value itself, among the sealed ones
	TeamID string `json:"team_id,omitempty"`
	UserID string `json:"user_id,omitempty"` // "" = it is the team's
	Kind   Kind   `json:"kind,omitempty"`
}

// Given is what one session or command is given.
type Given struct {
	Env   map[string]string
	Files []PlacedFile
	Git   []Credential // that the project lets into its sandboxes
	Masks []string     // every value that must not be shown: also those this one is not given
	Uses  []Use

	Personal bool // some of it is the user's own
	Withheld int  // how many of the user's own were kept out: others work there, and the user has not agreed
}

// Credential is a git credential, opened.
type Credential struct{ Host, Username, Token string }
