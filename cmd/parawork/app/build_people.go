package app

import (
	"github.com/parawork/parawork/accounts/agentaccounts"
	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/accounts/oauth"
	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/accounts/sso"
	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/cmd/parawork/instance"
	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/notify/mail"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/noticestore"
	"github.com/parawork/parawork/store/oauthstore"
)

// people groups the services for users: sign-in, secrets, their own machines and notifications.
type people struct {
	directory     *directory.Service
	signin        *signin.Service
	sso           *sso.Service
	oauth         *oauth.Service
	agentAccounts *agentaccounts.Service
	secrets       *secrets.Service
	machines      *machines.Service
	downloads     *machines.Downloads
	mail          *mail.Service
	notify        *notify.Service
}

func newPeople(b *base, seats *quota.Service) *people {
	p := &people{}
	entered := egress.New(egress.Config{Allow: b.cfg.Outgoing.Networks()}) // for addresses people enter
	p.directory, p.signin, p.mail = instance.People(b.cfg, b.db, b.vault, directory.Config{Changed: b.later.userChanged, Seats: seats.Seats}, b.log)
	p.sso = sso.New(sso.Config{Providers: fromconfig.SignInProviders(b.cfg.Accounts), Store: store.NewSSO(b.db), Directory: p.directory, SignIn: p.signin, Client: entered.Client,
		Audit: b.audit, Changed: b.later.userChanged, Log: b.logOf("sso")})
	p.oauth = oauth.New(oauth.Config{Store: oauthstore.New(b.db), Tokens: p.signin})
	p.agentAccounts = agentaccounts.New(agentaccounts.Config{Store: store.NewAccounts(b.db), Vault: b.vault, CheckAgent: b.agents.AccountCheck})
	p.secrets = secrets.New(secrets.Config{Store: store.NewSecrets(b.db), Vault: b.vault, Others: p.directory.OthersWork, Mask: b.later.mask, Log: b.logOf("secrets")})
	connect, downloads := fromconfig.Machines(b.cfg)
	p.machines = machines.New(machines.Config{Store: store.NewMachines(b.db), Accounts: p.directory, Sealer: b.vault, Events: b.events, Enabled: connect,
		Programs: recipe.Programs(agents.Packages()), Log: b.logOf("machines")})
	p.downloads = machines.NewDownloads(fromconfig.DownloadDirs(downloads)...)
	p.notify = notify.New(notify.Config{Store: store.NewNotify(b.db), Notices: noticestore.New(b.db), Events: b.events, Inbox: &b.later, Bus: b.bus, Secrets: b.vault, Client: entered, PublicURL: b.cfg.Server.PublicURL,
		Version: b.version, Log: b.logOf("notify")})
	return p
}
