package main

import (
	"context"
	"crypto/rand"
	"fmt"
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

// people makes the directory of an instance, what lets people in, and the outbox they send through.
func people(cfg *config.Config, db *store.DB, sealed *vault.Vault, dc directory.Config, log *slog.Logger) (*directory.Service, *signin.Service, *mail.Service) {
	post := mail.New(mail.Config{Server: mailServer(cfg.Mail), Store: store.NewMails(db), Sealer: sealed, Log: log.With("room", "mail")})
	kept := store.NewAccounts(db)
	dc.Store, dc.Mailer, dc.PublicURL, dc.NoPassword = kept, post, cfg.Server.PublicURL, !cfg.Accounts.Password
	dc.Hasher, dc.Limits = password.NewHasher(rand.Reader), password.NewLimits(time.Now)
	who := directory.New(dc)
	in := signin.New(signin.Config{Store: kept, Directory: who, Vault: sealed, Hasher: dc.Hasher, Limits: dc.Limits, Changed: dc.Changed,
		Idle: time.Duration(cfg.Accounts.SessionIdleHours) * time.Hour, Absolute: time.Duration(cfg.Accounts.SessionMaxHours) * time.Hour,
		NoPassword: dc.NoPassword, NoPasskeys: !cfg.Accounts.Passkeys, Mailer: post, PublicURL: dc.PublicURL})
	return who, in, post
}

func mailServer(m config.Mail) mail.Server {
	return mail.Server{Host: m.Host, Port: m.Port, Username: m.Username, Password: m.Password, From: m.From, TLS: m.TLS}
}

// mail says whether the mail server takes our mail; nothing is sent.
func (r *report) mail(ctx context.Context, cfg *config.Config) {
	if cfg.Mail.Host == "" {
		r.say(good, "mail", "switched off: invites and links to choose a password are copied by hand (mail.host)", "")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := mail.New(mail.Config{Server: mailServer(cfg.Mail)}).Check(ctx); err != nil {
		r.say(minor, "mail", err.Error(), "")
		return
	}
	r.say(good, "mail", fmt.Sprintf("%s takes mail from %s", cfg.Mail.Host, cfg.Mail.From), "")
}
