package app

import (
	"context"
	"errors"
	"log/slog"
	"net/url"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/tenant"
)

// noProxy is what config.json says for no proxy at all.
const noProxy = config.NoProxy

// reachable is what a workspace may reach now.
func (l *later) reachable(ctx context.Context, workspaceID string) (executors.Network, error) {
	if workspaceID == "" { // a build's: it keeps what it began with
		return executors.Network{}, errors.New("no workspace's gate")
	}
	return l.network.Load().Network(tenant.All(ctx, "gates of every team's sandboxes"), workspaceID)
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
