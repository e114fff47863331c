// Package accounts defines users, teams, roles, actions, scopes, login sessions, API tokens and agents' accounts, and answers the
// authorization question Can(actor, action, object). It stores nothing and starts nothing. The packages below it do the work: directory
// manages users, teams and members, signin authenticates them, vault seals secrets, agentaccounts stores the accounts that agents use.
package accounts

// Role of a member in a team.
type Role string

// The roles, strongest first.
const (
	Owner  Role = "owner"
	Admin  Role = "admin"
	Member Role = "member"
	Viewer Role = "viewer"
)

// User is a person.
type User struct {
	ID           string
	Email        string // lower case
	Name         string
	PasswordHash string // argon2id, PHC string; "" = signs in another way
	Operator     bool
	CreatedAt    int64 // ms UTC
	SuspendedAt  int64 // ms UTC, 0 = not suspended
	// EmailUnverified says that the user typed the address themselves and nobody has seen to it: what is meant for its owner is not theirs.
	EmailUnverified bool
	Avatar          string // the version of their picture; "" = none
	LightTerminal   bool   // their terminals were light when a browser last said: new sessions begin with such colours
}

// Team is the tenant.
type Team struct {
	ID        string
	Slug      string
	Name      string
	CreatedAt int64

	SuspendedAt  int64 // ms UTC, 0 = not suspended
	SecondFactor bool  // its members need one
}

// DemoTeamID is the team that the sandboxes of the public demo belong to. It has no members.
const DemoTeamID = "team_demo"

// Membership is a user's membership of a team.
type Membership struct {
	Team Team
	Role Role
}

// Actor is the signed-in user of a request, with all memberships.
type Actor struct {
	User        User
	Memberships []Membership
	TokenID     string // set when an API token was used
	SessionHash string // set when a login cookie was used
	SessionID   string // likewise: what the login session is known by

	// Scopes bound what an API token may be used for; nil = all that its user may do.
	Scopes []Scope
	// TokenTeam is the only team an API token acts in; "" = all its user's.
	TokenTeam string
	// Client is the name of the OAuth client that the token was granted to; "" = none.
	Client string
	// SecondFactor says that more than a password vouches for this actor: the session was begun with a second factor, a passkey or a
	// provider that says so; for a token, that its user has one.
	SecondFactor bool
	// ConfirmedAt is when the actor last proved who they are in this session, ms UTC; 0 for tokens.
	ConfirmedAt int64
}

// Object is what an action is about.
type Object struct {
	TeamID  string
	OwnerID string // who made it; "" = it is the team's
	Private bool   // only its owner sees it; where that is nobody any more, the team's owners and admins
}

// InTeam is a team itself, and everything in it that has no owner.
func InTeam(teamID string) Object { return Object{TeamID: teamID} }

// RoleIn returns the actor's role in the team with this id, "" when not a member.
func (a Actor) RoleIn(teamID string) Role {
	for _, m := range a.Memberships {
		if m.Team.ID == teamID {
			return m.Role
		}
	}
	return ""
}

// TeamIDs are the teams the actor belongs to.
func (a Actor) TeamIDs() []string {
	ids := make([]string, len(a.Memberships))
	for i, m := range a.Memberships {
		ids[i] = m.Team.ID
	}
	return ids
}

// TeamBySlug returns the team the actor belongs to under this slug.
func (a Actor) TeamBySlug(slug string) (Team, bool) {
	for _, m := range a.Memberships {
		if m.Team.Slug == slug {
			return m.Team, true
		}
	}
	return Team{}, false
}

// Action is something a member may or may not do in a team.
type Action string

// The actions of the policy table.
const (
	ViewTeam        Action = "team.view"
	ManageTeam      Action = "team.manage"
	ViewProject     Action = "project.view"
	ManageProject   Action = "project.manage"
	ViewWorkspace   Action = "workspace.view"
	CreateWorkspace Action = "workspace.create"
	EditWorkspace   Action = "workspace.edit" // rename, archive, delete, restore, files, commit, exec
	MergeWorkspace  Action = "workspace.merge"
	AllowHost       Action = "workspace.allow_host" // let its agents reach a host beside the project's list
	ViewTerminal    Action = "terminal.view"
	TypeTerminal    Action = "terminal.type" // start, stop, type into sessions
	TakeTerminal    Action = "terminal.take" // take the keyboard from who holds it
	AnswerQuestion  Action = "question.answer"
	ShareSession    Action = "session.share" // make a link with which somebody without a login watches it
	ConnectRunner   Action = "runner.connect"
	ViewCosts       Action = "costs.view"
	ManageQuotas    Action = "quotas.manage"
	InviteMember    Action = "member.invite"
	ManageMember    Action = "member.manage"  // change roles, remove
	ManageSecrets   Action = "secrets.manage" // of the team and its projects
	ReadAudit       Action = "audit.read"
)

// Scope is what an API token is bound to.
type Scope string

// The scopes. Each includes those before it on its line: workspaces:write reads, too.
const (
	ScopeRead   Scope = "workspaces:read"
	ScopeWrite  Scope = "workspaces:write"
	ScopeAttach Scope = "sessions:attach" // see and type into terminals, answer agents
	ScopeBill   Scope = "billing:read"
	ScopeAdmin  Scope = "admin" // all its user may do, their account included
)
