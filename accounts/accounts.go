// Package accounts knows users, teams, members and roles, login sessions, API tokens and agent accounts, and answers one
// question for every room: Can(actor, action, team).
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
	PasswordHash string // argon2id, PHC string
	Operator     bool
	CreatedAt    int64 // ms UTC
}

// Team is the tenant.
type Team struct {
	ID        string
	Slug      string
	Name      string
	CreatedAt int64
}

// Membership is a user's place in a team.
type Membership struct {
	Team Team
	Role Role
}

// Actor is who asks: a signed-in user with all memberships.
type Actor struct {
	User        User
	Memberships []Membership
	TokenID     string // set when an API token was used
	SessionHash string // set when a login cookie was used
}

// RoleIn returns the actor's role in the team with this id, "" when not a member.
func (a Actor) RoleIn(teamID string) Role {
	for _, m := range a.Memberships {
		if m.Team.ID == teamID {
			return m.Role
		}
	}
	return ""
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
)
