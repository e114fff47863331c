package fromconfig

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors/e2b"
	"github.com/parawork/parawork/executors/settings"
)

// E2BSettings puts together what operators say of E2B in the browser, which config.json goes before, and what only config.json says.
func E2BSettings(cfg *config.Config, v settings.E2B) e2b.Settings {
	c := cfg.Sandboxing.E2B
	s := e2b.Settings{APIKey: v.APIKey, Domain: v.Domain, APIURL: v.APIURL, SandboxURL: v.SandboxURL, Debug: c.Debug, Template: v.Template,
		CPUs: int(v.DefaultCPUs), MemoryMB: int(v.DefaultMemoryMB), MaxRun: time.Duration(v.MaxSessionMinutes) * time.Minute,
		PriceVCPU: c.PriceVCPU, PriceGiB: c.PriceGiB, RequestTimeout: time.Duration(c.RequestTimeout) * time.Second, Retries: c.Retries, Proxy: c.Proxy, Headers: c.Headers}
	s.Retries = cmp.Or(s.Retries, -1) // none, where the room's 0 means its usual number
	return s
}

// E2BFromFile is how E2B is used without what is kept in the database.
func E2BFromFile(cfg *config.Config) e2b.Settings {
	v, _ := BaseSettings(cfg) // which of them config.json says is for who changes them
	return E2BSettings(cfg, v.E2B)
}

// newE2B makes the executor, which is there with a key or without: without one it says so.
func newE2B(cfg *config.Config, guest string, ask func(context.Context) e2b.Settings, log *slog.Logger) (*e2b.Executor, error) {
	return e2b.New(e2b.Config{Dir: filepath.Join(cfg.DataDir, "sandboxes"), GuestPath: guest, Log: log,
		Settings: func(ctx context.Context) (e2b.Settings, error) { return ask(ctx), nil }})
}
