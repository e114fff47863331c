package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/gate"
	"github.com/parawork/parawork/executors/network"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
)

// buildGate joins the way out of sandboxes with who decides what leads there. The places are there.
func (h *App) buildGate(publisher events.Publisher, kept *store.Executors, env func(string) string) error {
	n := h.cfg.Sandboxing.Network
	out, err := gate.Upstream(n.Proxy, config.NoProxy, env)
	if err != nil {
		return err
	}
	h.gate, err = gate.New(gate.Config{Dir: filepath.Join(h.cfg.DataDir, "gates"), Allow: n.Private(), Upstream: out,
		Refused: func(r executors.Refusal) { h.network.Refused(r) },
		Reached: func(r executors.Reach) { h.network.Reached(r) },
		Fresh: func(ctx context.Context, id string) (executors.Network, error) {
			if id == "" { // a build's: it keeps what it began with
				return executors.Network{}, errors.New("no workspace's gate")
			}
			return h.network.Network(tenant.All(ctx, "gates of every team's sandboxes"), id)
		},
		Known: func(ctx context.Context) ([]string, error) {
			open, err := kept.OpenSandboxes(ctx)
			ids := make([]string, 0, len(open))
			for _, r := range open {
				ids = append(ids, r.Handle.ID)
			}
			return ids, err
		},
		Log: h.log.With("room", "gate")})
	if err != nil {
		return err
	}
	agents, urls := agentAddresses(h.cfg)
	h.network, err = network.New(network.Config{Store: store.NewNetwork(h.db), Gates: gates{h.gate, h}, Events: publisher, Mode: executors.NetworkMode(n.Mode),
		Allow: n.Allow, Agents: agents, AgentURLs: urls, Log: h.log.With("room", "network")})
	if err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	warnOpenLoopback(h.log, n)
	return nil
}

// warnOpenLoopback says loudly when every sandbox may reach all of this machine's own services.
func warnOpenLoopback(log *slog.Logger, n config.Network) {
	for _, e := range n.Private() {
		if e.Prefix.IsSingleIP() && e.Prefix.Addr().IsLoopback() && e.Port == 0 {
			log.Warn("sandboxes may reach every service on this machine's loopback, Parawork itself among them", "cure",
				"name the ports in sandboxing.network.allowPrivate, such as 127.0.0.1:11434")
		}
	}
}

// agentAddresses names the agents that can be started, and the addresses config.json gives them.
func agentAddresses(cfg *config.Config) (agents, urls []string) {
	for name, a := range cfg.Agents {
		if !a.Enabled {
			continue
		}
		agents = append(agents, name)
		for _, value := range a.Env {
			if u, err := url.Parse(value); err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
				urls = append(urls, value)
			}
		}
	}
	return agents, urls
}
