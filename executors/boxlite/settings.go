package boxlite

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/schema"
)

// Settings say which BoxLite server is used, and how. They are asked for again before each use, so that what people change holds at once.
type Settings struct {
	URL    string // without /v1; "" = the place is off
	APIKey string // "" = the server asks for none

	CPUs     int
	MemoryMB int
	DiskGB   int

	CodeImage    string // of sandboxes that were asked for single commands
	AppImage     string // of agents and of programs that people look at
	DesktopImage string

	PriceVCPU int64 // nano-USD a vCPU and second; 0 = free
	PriceGiB  int64
}

// mostMinutes bounds what people set as minutes.
const mostMinutes = 100_000

// Descriptor is the kind for the registry.
func Descriptor() executors.Descriptor {
	return executors.Descriptor{
		Kind: Kind, Label: "BoxLite", Rank: 5, Boundary: executors.MachineBoundary, Settings: settings, Docs: "docs/boxlite.md",
		Idle: executors.PaidIdle("autoShutdownIdle"),
		New: func(d executors.Deps) (executors.Executor, error) {
			return New(Config{Dir: d.Dir, GuestPath: d.GuestPath, Log: d.Log, Settings: func(ctx context.Context) (Settings, error) { return FromValues(d.Now(ctx)), nil }})
		},
		Price: func(v schema.Values) executors.Price {
			return executors.Price{VCPUSecondNano: v.Number("priceVcpuSecond"), GiBSecondNano: v.Number("priceGibSecond"), Metered: true}
		},
		Test: func(ctx context.Context, v schema.Values) (string, error) { return Check(ctx, FromValues(v)) },
		Examine: func(_ context.Context, v schema.Values, _ executors.Capabilities) []executors.Finding {
			s := FromValues(v).normal()
			if u, err := url.Parse(s.URL); err == nil && u.Scheme == "http" && s.APIKey != "" && !slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, u.Hostname()) {
				return []executors.Finding{{Found: "BoxLite's API key and the code of workspaces go to " + u.Host + " unencrypted",
					Cure: "Put the BoxLite server behind https, or reach it through a private network."}}
			}
			return nil
		},
	}
}

var imageName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9/_.:@-]{0,254}$`)

func checkImage(v any) string {
	if !imageName.MatchString(v.(string)) {
		return "must name an image such as node:20-slim"
	}
	return ""
}

// settings are those of sandboxing.boxlite.
var settings = schema.Schema{
	{Key: "url", Name: "url", Type: schema.Text, Env: "BOXLITE_REST_URL", Address: true, Label: "Address", Example: "http://127.0.0.1:8100",
		Hint: "Of the server that `boxlite serve` runs, without /v1. Empty: BoxLite is off.", Check: schema.WebAddress("http://127.0.0.1:8100")},
	{Key: "apiKey", Name: "api_key", Type: schema.Secret, Optional: true, Env: "BOXLITE_API_KEY", Label: "API key",
		Hint: "Kept sealed and never shown again. Empty where the server asks for none."},
	{Key: "cpus", Name: "cpus", Type: schema.Number, Default: 2, Min: 1, Max: 32, Label: "CPUs", Unit: "vCPU", Hint: "Of boxes for which nobody chooses a size."},
	{Key: "memoryMib", Name: "memory_mib", Type: schema.Number, Default: 1024, Min: 128, Max: 1 << 20, Label: "Memory", Unit: "MiB", Hint: "Of boxes for which nobody chooses a size."},
	{Key: "diskSizeGb", Name: "disk_size_gb", Type: schema.Number, Default: 4, Min: 1, Max: 1 << 14, Label: "Disk", Unit: "GB"},
	{Key: "appImage", Name: "app_image", Type: schema.Text, Default: "node:20-slim", Label: "Image of agents and apps", Check: checkImage,
		Hint: "What it lacks of git is installed in each box; agents' programs must be in it."},
	{Key: "codeImage", Name: "code_image", Type: schema.Text, Default: "python:3.12-slim", Label: "Image of single commands", Check: checkImage},
	{Key: "desktopImage", Name: "desktop_image", Type: schema.Text, Default: "boxlite/desktop:latest", Label: "Image of desktops", Check: checkImage},
	{Key: "autoShutdownIdle", Name: "idle_minutes", Type: schema.Number, Default: 1800, Max: mostMinutes * 60, Scale: 60, Label: "Stop when idle", Unit: "minutes",
		Hint: "Its disk is kept, and its programs end. 0: never."},
	{Key: "priceVcpuSecond", Type: schema.Number},
	{Key: "priceGibSecond", Type: schema.Number},
}

// FromValues are the settings that config.json and operators give.
func FromValues(v schema.Values) Settings {
	return Settings{URL: v.Text("url"), APIKey: v.Text("apiKey"), CPUs: int(v.Number("cpus")), MemoryMB: int(v.Number("memoryMib")), DiskGB: int(v.Number("diskSizeGb")),
		CodeImage: v.Text("codeImage"), AppImage: v.Text("appImage"), DesktopImage: v.Text("desktopImage"),
		PriceVCPU: v.Number("priceVcpuSecond"), PriceGiB: v.Number("priceGibSecond")}
}

// normal fills in the defaults.
func (s Settings) normal() Settings {
	s.URL = strings.TrimSuffix(strings.TrimRight(strings.TrimSpace(s.URL), "/"), "/v1")
	s.APIKey = strings.TrimSpace(s.APIKey)
	s.CPUs, s.MemoryMB, s.DiskGB = cmp.Or(s.CPUs, 2), cmp.Or(s.MemoryMB, 1024), cmp.Or(s.DiskGB, 4)
	s.CodeImage, s.AppImage, s.DesktopImage = cmp.Or(s.CodeImage, "python:3.12-slim"), cmp.Or(s.AppImage, "node:20-slim"), cmp.Or(s.DesktopImage, "boxlite/desktop:latest")
	return s
}

// account tells one key at one server from others, without telling the key.
func (s Settings) account() string {
	h := sha256.Sum256([]byte(s.URL + "\n" + s.APIKey))
	return hex.EncodeToString(h[:6])
}

// image is what a box for a purpose is made from.
func (s Settings) image(p executors.Purpose) string {
	switch p {
	case executors.ForExecution:
		return s.CodeImage
	case executors.ForDesktop:
		return s.DesktopImage
	default:
		return s.AppImage
	}
}

// ladder are the sizes that are offered beside the default one.
var ladder = []executors.Size{{CPUs: 1, MemoryMB: 1024}, {CPUs: 2, MemoryMB: 2048}, {CPUs: 4, MemoryMB: 4096}, {CPUs: 8, MemoryMB: 8192}}

// sizes are what can be chosen, the smallest first, with prices.
func (s Settings) sizes() []executors.Size {
	return executors.SizesWith(s.CPUs, int64(s.MemoryMB), ladder, s.priceNano)
}

func (s Settings) priceNano(cpus int, memoryMB int64) int64 {
	return 3600*s.PriceVCPU*int64(cpus) + 3600*s.PriceGiB*memoryMB/1024
}
