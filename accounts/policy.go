package accounts

import (
	"cmp"
	"slices"

	"github.com/parawork/parawork/internal/fault"
)

// rank orders the roles: a role includes the rights of all below.
var rank = map[Role]int{Viewer: 1, Member: 2, Admin: 3, Owner: 4}

// policy is the whole of who may do what: the weakest role that has each right. An action that is not here is nobody's.
var policy = map[Action]Role{
	ViewTeam:        Viewer,
	ViewProject:     Viewer,
	ViewWorkspace:   Viewer,
	ViewTerminal:    Viewer,
	CreateWorkspace: Member,
	EditWorkspace:   Member,
	MergeWorkspace:  Member,
	AllowHost:       Admin, // who may type to an agent must not widen what it reaches
	ShareSession:    Member,
	ConnectRunner:   Member,
	ViewCosts:       Member,
	ManageQuotas:    Admin,
	InviteMember:    Admin,
	ManageMember:    Admin,
	ManageSecrets:   Admin,
	ReadAudit:       Admin,
	TypeTerminal:    Member,
	TakeTerminal:    Admin,
	AnswerQuestion:  Member,
	ManageProject:   Admin, // a project's setup script runs in everybody's workspaces
	ManageTeam:      Admin,
}

// words say what an action is in the sentence "Your role ... does not allow you to ...".
var words = map[Action]string{
	ViewTeam:        "see the team",
	ViewProject:     "see projects",
	ViewWorkspace:   "see workspaces",
	ViewTerminal:    "watch terminals",
	CreateWorkspace: "create workspaces",
	EditWorkspace:   "change workspaces",
	MergeWorkspace:  "merge workspaces",
	AllowHost:       "allow hosts for workspaces",
	TypeTerminal:    "start, stop or type into sessions",
	TakeTerminal:    "take the keyboard from who holds it",
	AnswerQuestion:  "answer what agents ask",
	ManageProject:   "manage projects",
	ManageTeam:      "manage the team",
	ShareSession:    "share a session by a link",
	ConnectRunner:   "connect machines",
	ViewCosts:       "see costs",
	ManageQuotas:    "change quotas and budgets",
	InviteMember:    "invite members",
	ManageMember:    "change or remove members",
	ManageSecrets:   "manage secrets of the team and its projects",
	ReadAudit:       "read the audit",
}

// Valid reports whether r is one of the roles.
func (r Role) Valid() bool { return rank[r] > 0 }

// AtLeast reports whether r has all the rights of other.
func (r Role) AtLeast(other Role) bool { return r.Valid() && rank[r] >= rank[other] }

// Can returns nil when actor may do action with the object; fault.NotFound when actor is no member of its team, or it is somebody
// else's alone, so that outsiders learn nothing; fault.Forbidden naming the right otherwise.
func Can(actor Actor, action Action, o Object) error {
	role := actor.RoleIn(o.TeamID)
	if o.TeamID == "" || !role.Valid() || o.hiddenFrom(actor, role) {
		return fault.New(fault.NotFound, "not_found", "It does not exist, or you do not have access to it.")
	}
	if actor.User.SuspendedAt != 0 { // also what is taken up in their name
		return ErrSuspended
	}
	least, known := policy[action]
	if known && role.AtLeast(least) {
		return admitted(actor, action, o.TeamID)
	}
	what := cmp.Or(words[action], "do this")
	return fault.New(fault.Forbidden, "forbidden", "Your role in this team, %s, does not allow you to %s. Ask an owner or admin of the team.", role, what).
		With("action", string(action)).With("role", string(role))
}

// ErrSuspended is the answer to a user who is suspended.
var ErrSuspended = fault.New(fault.Forbidden, "suspended", "This user is suspended on this server. Ask an operator of it.")

// hiddenFrom reports whether o is somebody else's alone. An object without an owner is for the team's owners and admins.
func (o Object) hiddenFrom(actor Actor, role Role) bool {
	if !o.Private {
		return false
	}
	if o.OwnerID == "" {
		return !role.AtLeast(Admin)
	}
	return o.OwnerID != actor.User.ID
}

// admitted checks the conditions besides the role: whether the team is open at all, asks for a second factor, and
// how far their credential reaches.
func admitted(actor Actor, action Action, teamID string) error {
	for _, m := range actor.Memberships {
		switch {
		case m.Team.ID != teamID:
		case m.Team.SuspendedAt != 0:
			return fault.New(fault.Forbidden, "team_suspended", "This team is suspended on this server: nothing of it is lost, and nothing of it can be used. Ask an operator of the server.")
		case m.Team.SecondFactor && !actor.SecondFactor && (actor.TokenID != "" || actor.SessionHash != ""): // not Parawork's own work in a user's name
			return fault.New(fault.Forbidden, "second_factor_required", "This team asks its members for a second factor. Set up an authenticator app or a passkey in your account's settings, or sign in with it.").
				With("team", m.Team.Slug)
		}
	}
	return NeedScope(actor, ScopeFor(action))
}

// Actions returns what a role may do, sorted.
func Actions(role Role) []Action {
	var out []Action
	for a, least := range policy {
		if role.AtLeast(least) {
			out = append(out, a)
		}
	}
	slices.Sort(out)
	return out
}
