// Package people has the operations of the HTTP API about who people are: accounts and how they sign in, teams, invites, operators, quotas,
// secrets, notifications and the audit. A handler maps the request, calls one service and maps the answer. It starts no goroutine and takes
// no lock.
package people

import (
	"time"

	"github.com/parawork/parawork/accounts/agentaccounts"
	"github.com/parawork/parawork/accounts/avatars"
	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/accounts/sso"
	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/executors/settings"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/notify/mail"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/workspaces/assembly"
)

// Config is what the operations are made of.
type Config struct {
	Directory     *directory.Service
	SignIn        *signin.Service
	AgentAccounts *agentaccounts.Service
	SSO           *sso.Service
	Workspaces    *assembly.Workspaces
	Quota         *quota.Service
	Sessions      *sessions.Service
	Notify        *notify.Service
	Secrets       *secrets.Service
	Avatars       *avatars.Service
	Mail          *mail.Service
	Audit         Auditor
	Settings      *settings.Service // what operators say about places

	Now func() time.Time
}

// group is what all operations of the package stand on.
type group struct {
	rest.Shared
	cfg Config
}

// The operations, a type for each subject.
type (
	// Accounts are who people are here.
	Accounts struct{ *group }
	// SigningIn is how somebody comes in.
	SigningIn struct{ *group }
	// MySignIn is how one signs in oneself: factors, passkeys, sessions, tokens.
	MySignIn struct{ *group }
	// SSO leads to providers and back.
	SSO struct{ *group }
	// AgentAccounts are accounts at those who make agents.
	AgentAccounts struct{ *group }
	// Teams are teams and their members.
	Teams struct{ *group }
	// Invites are links by which people join a team.
	Invites struct{ *group }
	// Operators look after the instance's users and teams.
	Operators struct{ *group }
	// Quotas are what teams and people may use, and plans.
	Quotas struct{ *group }
	// Secrets are what sandboxes are given and nobody reads again.
	Secrets struct{ *group }
	// Mail is the server's way to send mail.
	Mail struct{ *group }
	// Notifications are messages about what waits for people.
	Notifications struct{ *group }
	// Audit is what was done.
	Audit struct{ *group }
)

// People has all operations of the package.
type People struct {
	Accounts
	SigningIn
	MySignIn
	SSO
	AgentAccounts
	Teams
	Invites
	Operators
	Quotas
	Secrets
	Mail
	Notifications
	Audit
}

// New makes the operations.
func New(cfg Config, shared rest.Shared) People {
	g := &group{shared, cfg}
	return People{Accounts{g}, SigningIn{g}, MySignIn{g}, SSO{g}, AgentAccounts{g}, Teams{g}, Invites{g}, Operators{g}, Quotas{g}, Secrets{g}, Mail{g}, Notifications{g}, Audit{g}}
}
