package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/parawork/parawork/cmd/parawork/instance"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/notify/mail"
)

// mail says whether the mail server takes our mail; nothing is sent.
func (r *report) mail(ctx context.Context, cfg *config.Config) {
	if cfg.Mail.Host == "" {
		r.say(good, "mail", "switched off: invites and links to choose a password are copied by hand (mail.host)", "")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := mail.New(mail.Config{Server: instance.MailServer(cfg.Mail)}).Check(ctx); err != nil {
		r.say(minor, "mail", err.Error(), "")
		return
	}
	r.say(good, "mail", fmt.Sprintf("%s takes mail from %s", cfg.Mail.Host, cfg.Mail.From), "")
}
