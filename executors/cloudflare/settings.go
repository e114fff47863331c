package cloudflare

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/schema"
)

// Settings say which worker is used. They are asked for again before each use, so that what people change holds at once.
type Settings struct {
	URL    string // of the worker
	APIKey string

	CPUs     int // of its instance_type: the worker decides, this is for prices and display
	MemoryMB int

	PriceVCPU int64 // nano-USD a vCPU and second
	PriceGiB  int64
}

// Cloudflare's prices of 2026: 0.00002 USD a second of active vCPU, 0.0000025 USD a second and GiB of memory.
const (
	priceVCPU = 20_000
	priceGiB  = 2_500
)

const mostMinutes = 100_000

// Descriptor is the kind for the registry.
func Descriptor() executors.Descriptor {
	return executors.Descriptor{
		Kind: Kind, Label: "Cloudflare", Rank: 5, Boundary: executors.MachineBoundary, Settings: settings, Docs: "docs/cloudflare.md",
		Idle: executors.PaidIdle("autoShutdownIdle"),
		New: func(d executors.Deps) (executors.Executor, error) {
			return New(Config{Dir: d.Dir, GuestPath: d.GuestPath, Log: d.Log, Settings: func(ctx context.Context) (Settings, error) { return FromValues(d.Now(ctx)), nil }})
		},
		Price: func(v schema.Values) executors.Price {
			s := FromValues(v)
			return executors.Price{VCPUSecondNano: cmp.Or(s.PriceVCPU, priceVCPU), GiBSecondNano: cmp.Or(s.PriceGiB, priceGiB), Metered: true}
		},
		Test: func(ctx context.Context, v schema.Values) (string, error) { return Check(ctx, FromValues(v)) },
		Examine: func(_ context.Context, v schema.Values, c executors.Capabilities) []executors.Finding {
			if v.Number("autoShutdownIdle") == 0 {
				return []executors.Finding{{Found: "Containers at Cloudflare are never ended when nobody uses them", Cure: "Set sandboxing.cloudflare.autoShutdownIdle."}}
			}
			return nil
		},
	}
}

// settings are those of sandboxing.cloudflare.
var settings = schema.Schema{
	{Key: "url", Name: "url", Type: schema.Text, Address: true, Label: "Address of the worker", Example: "https://parawork-sandboxes.example.workers.dev",
		Hint: "As `wrangler deploy` shows it. Empty: Cloudflare is off.", Check: schema.WebAddress("https://parawork-sandboxes.example.workers.dev")},
	{Key: "apiKey", Name: "api_key", Type: schema.Secret, Label: "Key", Hint: "The one that `wrangler secret put API_KEY` was given. Kept sealed, and tried when it is saved."},
	{Key: "cpus", Name: "cpus", Type: schema.Number, Default: 1, Min: 1, Max: 4, Label: "CPUs", Unit: "vCPU", Hint: "As the worker's instance_type says."},
	{Key: "memoryMb", Name: "memory_mb", Type: schema.Number, Default: 6144, Min: 256, Max: 12288, Label: "Memory", Unit: "MiB", Hint: "As the worker's instance_type says."},
	{Key: "autoShutdownIdle", Name: "idle_minutes", Type: schema.Number, Default: 1800, Max: mostMinutes * 60, Scale: 60, Label: "End when idle", Unit: "minutes",
		Hint: "Everything is synced first; nothing of the container stays. 0: never."},
	{Key: "priceVcpuSecond", Type: schema.Number, Default: priceVCPU},
	{Key: "priceGibSecond", Type: schema.Number, Default: priceGiB},
}

// FromValues are the settings that config.json and operators give.
func FromValues(v schema.Values) Settings {
	return Settings{URL: v.Text("url"), APIKey: v.Text("apiKey"), CPUs: int(v.Number("cpus")), MemoryMB: int(v.Number("memoryMb")),
		PriceVCPU: v.Number("priceVcpuSecond"), PriceGiB: v.Number("priceGibSecond")}
}

func (s Settings) on() bool { return s.URL != "" && s.APIKey != "" }

// normal fills in the defaults.
func (s Settings) normal() Settings {
	s.URL, s.APIKey = strings.TrimRight(strings.TrimSpace(s.URL), "/"), strings.TrimSpace(s.APIKey)
	s.CPUs, s.MemoryMB = cmp.Or(s.CPUs, 1), cmp.Or(s.MemoryMB, 6144)
	s.PriceVCPU, s.PriceGiB = cmp.Or(s.PriceVCPU, priceVCPU), cmp.Or(s.PriceGiB, priceGiB)
	return s
}

// account tells one worker from others: another key of it finds the same containers.
func (s Settings) account() string {
	h := sha256.Sum256([]byte(s.URL))
	return hex.EncodeToString(h[:6])
}

func (s Settings) priceNano() int64 {
	return 3600*s.PriceVCPU*int64(s.CPUs) + 3600*s.PriceGiB*int64(s.MemoryMB)/1024
}
