package fromconfig

import (
	"log/slog"

	"github.com/parawork/parawork/config"
)

// WarnOpenLoopback says loudly when every sandbox may reach all of this machine's own services.
func WarnOpenLoopback(log *slog.Logger, n config.Network) {
	for _, e := range n.Private() {
		if e.Prefix.IsSingleIP() && e.Prefix.Addr().IsLoopback() && e.Port == 0 {
			log.Warn("sandboxes may reach every service on this machine's loopback, Parawork itself among them", "hint",
				"name the ports in sandboxing.network.allowPrivate, such as 127.0.0.1:11434")
		}
	}
}
