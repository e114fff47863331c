package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/notify/mail"
	"github.com/parawork/parawork/store"
)

// people makes the accounts of an instance and the mail room they send through: each needs the other.
func people(cfg *config.Config, db *store.DB, ac accounts.Config, log *slog.Logger) (*accounts.Service, *mail.Service) {
	var svc *accounts.Service
	post := mail.New(mail.Config{Server: mailServer(cfg.Mail), Store: store.NewMails(db), Sealer: sealer{func() *accounts.Service { return svc }},
		Log: log.With("room", "mail")})
	ac.Store, ac.Mailer, ac.PublicURL = store.NewAccounts(db), post, cfg.Server.PublicURL
	ac.Idle, ac.Absolute = time.Duration(cfg.Accounts.SessionIdleHours)*time.Hour, time.Duration(cfg.Accounts.SessionMaxHours)*time.Hour
	ac.NoPassword, ac.NoPasskeys = !cfg.Accounts.Password, !cfg.Accounts.Passkeys
	svc = accounts.New(ac)
	return svc, post
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
