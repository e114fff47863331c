package main

import (
	"context"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/billing/gateway"
	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
)

// buildTokens makes what counts the tokens of models.
func (h *house) buildTokens(publisher events.Publisher) {
	h.tokens = tokens.New(tokens.Config{Store: store.NewTokens(h.db), Events: publisher, Log: h.log.With("room", "tokens")})
}

// buildGateway makes what agents reach their models through.
func (h *house) buildGateway(key []byte) {
	client := egress.New(egress.Config{Allow: h.cfg.Outgoing.Networks(), Streams: true})
	h.gateway = gateway.New(gateway.Config{Store: store.NewGateway(h.db), Meter: h.tokens, Account: h.modelAccount, Budget: h.quota, MaxOutput: h.cfg.Gateway.MaxOutputTokens, Client: client.Client, Check: client.Check,
		Key: key, MaxBody: h.cfg.Gateway.MaxBodyMB << 20, FirstByte: time.Duration(h.cfg.Gateway.FirstByteSeconds) * time.Second, Log: h.log.With("room", "gateway")})
}

// modelAccount is the account of a session, with its key: looked up for each request, so that a key that was changed or taken back counts at once.
func (h *house) modelAccount(ctx context.Context, g gateway.Grant) (gateway.Account, error) {
	a, key, err := h.agentAccounts.SessionAccount(ctx, g.TeamID, g.UserID, g.AccountID)
	switch {
	case fault.Is(err, fault.NotFound):
		return gateway.Account{}, fault.New(fault.Invalid, "gateway_no_account", "The account this session works with is gone. Start the agent anew with another one.")
	case err != nil:
		return gateway.Account{}, err
	case a.Kind != accounts.APIKey || key == "":
		return gateway.Account{}, fault.New(fault.Invalid, "gateway_no_key", "The account this session works with has no API key: its agent asks its provider itself.")
	}
	return gateway.Account{ID: a.ID, Agent: a.Agent, BaseURL: a.BaseURL, Key: key}, nil
}

// recoverTokens adds the prices that came with the program, and marks what an earlier server left in the middle.
func (h *house) recoverTokens(ctx context.Context) error {
	ctx = tenant.All(ctx, "prices and cut requests are the instance's")
	if err := h.tokens.Seed(ctx); err != nil {
		return err
	}
	return h.tokens.Recover(ctx)
}
