package instance

import (
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/accounts/password"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/notify/mail"
	"github.com/parawork/parawork/store"
)

// People makes the directory of an instance, what lets people in, and the outbox they send through.
func People(cfg *config.Config, db *store.DB, sealed *vault.Vault, dc directory.Config, log *slog.Logger) (*directory.Service, *signin.Service, *mail.Service) {
	post := mail.New(mail.Config{Server: MailServer(cfg.Mail), Store: store.NewMails(db), Sealer: sealed, Log: log.With("component", "mail")})
	kept := store.NewAccounts(db)
	dc.Store, dc.Mailer, dc.PublicURL, dc.NoPassword = kept, post, cfg.Server.PublicURL, !cfg.Accounts.Password
	dc.Hasher, dc.Limits = password.NewHasher(rand.Reader), password.NewLimits(time.Now)
	who := directory.New(dc)
	in := signin.New(signin.Config{Store: kept, Directory: who, Vault: sealed, Hasher: dc.Hasher, Limits: dc.Limits, Changed: dc.Changed,
		Idle: time.Duration(cfg.Accounts.SessionIdleHours) * time.Hour, Absolute: time.Duration(cfg.Accounts.SessionMaxHours) * time.Hour,
		NoPassword: dc.NoPassword, NoPasskeys: !cfg.Accounts.Passkeys, Mailer: post, PublicURL: dc.PublicURL})
	return who, in, post
}

// MailServer is the mail server config.json names.
func MailServer(m config.Mail) mail.Server {
	return mail.Server{Host: m.Host, Port: m.Port, Username: m.Username, Password: m.Password, From: m.From, TLS: m.TLS}
}
