package doctor

import (
	"context"
	"errors"
	"time"

	"github.com/parawork/parawork/accounts/sso"
	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/fault"
)

// signInTime bounds how long the providers are waited for.
const signInTime = 30 * time.Second

// signIn asks each provider people may sign in with whether it could be used.
func (r *report) signIn(ctx context.Context, cfg *config.Config) {
	providers := fromconfig.SignInProviders(cfg.Accounts)
	if len(providers) == 0 {
		return
	}
	if cfg.Server.PublicURL == "" {
		r.say(minor, "sign-in", "server.publicUrl is empty: providers get the address the browser asked for", "Set server.publicUrl to the address people use, as it is registered with the providers.")
	}
	ctx, cancel := context.WithTimeout(ctx, signInTime)
	defer cancel()
	asked := sso.New(sso.Config{Providers: providers, Client: egress.New(egress.Config{Allow: cfg.Outgoing.Networks()}).Client})
	for _, p := range asked.Try(ctx) {
		if p.Err == nil {
			r.say(good, "sign-in", p.Name+" answers", "")
			continue
		}
		words := p.Err.Error()
		if f, ok := errors.AsType[*fault.Error](p.Err); ok {
			words = f.Message
		}
		r.say(minor, "sign-in", words, "Nobody can sign in with it until this is fixed: docs/sso.md.")
	}
}
