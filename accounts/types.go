package accounts

// AccountKind says where an agent's own account comes from.
type AccountKind string

// The kinds of an agent's account.
const (
	APIKey        AccountKind = "api_key"        // a key kept here, encrypted
	Terminal      AccountKind = "terminal"       // the person logs in inside the terminal
	ExistingLogin AccountKind = "existing_login" // a copy of the login of the server's own user; operators only
)

// Token is the record of an API token. Its value is known only to its owner.
type Token struct {
	ID         string
	UserID     string
	Name       string
	CreatedAt  int64
	LastUsedAt int64 // ms UTC, to the minute; 0 = never used
	ExpiresAt  int64 // 0 = never

	Scopes     []Scope // nil = all that its user may do
	TeamID     string  // the only team it acts in, "" = all its user's
	LastUsedIP string

	ParentID    string // the token that made it and with which it ends, "" = none
	ParentName  string // not stored
	SessionID   string // the login session it was made in, "" = in none
	SessionName string // that session's browser
	ClientID    string // the OAuth client it was granted to, "" = none: a person or a script holds it
}

// TeamMember is a user's membership, seen from the team.
type TeamMember struct {
	User     User // without PasswordHash
	Role     Role
	JoinedAt int64
}

// LoginSession is the record of one signed-in browser.
type LoginSession struct {
	Hash      string // sha256 hex of the cookie's value
	ID        string // what it is known by; no secret
	UserID    string
	CreatedAt int64
	SeenAt    int64
	ExpiresAt int64 // the absolute end; the idle end is earlier
	UserAgent string
	IP        string

	Factors     []string // how who it is was proven: Proof... in the order given
	Provider    string   // that vouched, "" = none
	ConfirmedAt int64    // when who it is was last proven
}

// The ways by which somebody proves who they are.
const (
	ProofPassword = "password"
	ProofTOTP     = "totp"
	ProofRecovery = "recovery_code"
	ProofPasskey  = "passkey" // with the device's own check of its user
	ProofSSO      = "sso"
	ProofSSOMFA   = "sso_mfa" // a provider that says it asked for a second factor
	ProofLink     = "link"    // a setup, invite or reset link
)

// Meta says where a login comes from.
type Meta struct {
	IP, UserAgent string
	Device        string // what DeviceCookie gave this browser when somebody signed in with it, "" = nothing
}

// SetupRequest makes the first user and team.
type SetupRequest struct {
	Token, Name, Email, Password, Team string
}

// NewUser asks for a user.
type NewUser struct {
	Email, Name, Password string
	Operator              bool
	NoPassword            bool // who chooses one later, by a link, or signs in another way
}
