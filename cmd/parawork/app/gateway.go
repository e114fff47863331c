package app

import (
	"context"
	"time"

	"github.com/parawork/parawork/billing/gateway"
	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
)

// buildTokens makes what counts the tokens of models.
func (h *App) buildTokens(publisher events.Publisher) {
	h.tokens = tokens.New(tokens.Config{Store: store.NewTokens(h.db), Events: publisher, Log: h.log.With("room", "tokens")})
}

// buildGateway makes what agents reach their models through.
func (h *App) buildGateway(key []byte) {
	client := egress.New(egress.Config{Allow: h.cfg.Outgoing.Networks(), Streams: true})
	h.gateway = gateway.New(gateway.Config{Store: store.NewGateway(h.db), Meter: h.tokens, Account: gateway.FromAccounts(h.agentAccounts), Budget: h.quota, MaxOutput: h.cfg.Gateway.MaxOutputTokens, Client: client.Client, Check: client.Check,
		Key: key, MaxBody: h.cfg.Gateway.MaxBodyMB << 20, FirstByte: time.Duration(h.cfg.Gateway.FirstByteSeconds) * time.Second, Log: h.log.With("room", "gateway")})
}

// recoverTokens adds the prices that came with the program, and marks what an earlier server left in the middle.
func (h *App) recoverTokens(ctx context.Context) error {
	ctx = tenant.All(ctx, "prices and cut requests are the instance's")
	if err := h.tokens.Seed(ctx); err != nil {
		return err
	}
	return h.tokens.Recover(ctx)
}
