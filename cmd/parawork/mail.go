package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/password"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/notify/mail"
	"github.com/parawork/parawork/store"
)

// people makes the accounts of an instance, what lets people in, and the outbox they send through: the outbox seals with the accounts.
func people(cfg *config.Config, db *store.DB, ac accounts.Config, log *slog.Logger) (*accounts.Service, *signin.Service, *mail.Service) {
	var svc *accounts.Service
	post := mail.New(mail.Config{Server: mailServer(cfg.Mail), Store: store.NewMails(db), Sealer: sealer{func() *accounts.Service { return svc }},
		Log: log.With("room", "mail")})
	kept := store.NewAccounts(db)
	ac.Store, ac.Mailer, ac.PublicURL, ac.NoPassword = kept, post, cfg.Server.PublicURL, !cfg.Accounts.Password
	ac.Hasher, ac.Limits = password.NewHasher(rand.Reader), password.NewLimits(time.Now)
	svc = accounts.New(ac)
	in := signin.New(signin.Config{Store: kept, Directory: svc, Vault: svc, Hasher: ac.Hasher, Limits: ac.Limits, Changed: ac.Changed,
		Idle: time.Duration(cfg.Accounts.SessionIdleHours) * time.Hour, Absolute: time.Duration(cfg.Accounts.SessionMaxHours) * time.Hour,
		NoPassword: ac.NoPassword, NoPasskeys: !cfg.Accounts.Passkeys, Mailer: post, PublicURL: ac.PublicURL})
	return svc, in, post
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
