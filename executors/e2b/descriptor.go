package e2b

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/schema"
)

// mostMinutes bounds what people set as minutes, so that the nanoseconds of a time.Duration hold it.
const mostMinutes = 100_000

// Descriptor is the kind for the registry.
func Descriptor() executors.Descriptor {
	return executors.Descriptor{
		Kind: Kind, Label: "E2B", Rank: 4, Boundary: executors.MachineBoundary, Settings: settings, Docs: "docs/e2b.md",
		Regions: []string{"apiKey", "domain", "apiUrl", "sandboxUrl", "template", "priceVcpuSecond", "priceGibSecond"},
		Verbs:   []executors.Verb{buildVerb, listVerb},
		Idle:    executors.PaidIdle("autoShutdownIdle"),
		New: func(d executors.Deps) (executors.Executor, error) {
			return New(Config{Kind: d.Kind, Dir: d.Dir, GuestPath: d.GuestPath, Log: d.Log, Settings: func(ctx context.Context) (Settings, error) {
				v := d.Now(ctx)
				s := FromValues(v)
				s.Region, s.ProbeURL = cmp.Or(v.Text(executors.KeyRegionName), d.Kind.Region()), v.Text(executors.KeyProbeURL)
				return s, nil
			}})
		},
		Probe: func(v schema.Values) string { return probe(FromValues(v), v.Text(executors.KeyProbeURL)) },
		Price: func(v schema.Values) executors.Price {
			s := FromValues(v)
			return executors.Price{VCPUSecondNano: cmp.Or(s.PriceVCPU, priceVCPU), GiBSecondNano: cmp.Or(s.PriceGiB, priceGiB), Metered: true}
		},
		Fallback: func(v schema.Values) bool { return v.On("fallbackToLocal") },
		Test:     test,
	}
}

var (
	hostName     = regexp.MustCompile(`^(?i)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*(:\d+)?$`)
	templateName = regexp.MustCompile(`^[a-z0-9][a-z0-9/_.:-]{0,127}$`)
	headerName   = regexp.MustCompile(`^[A-Za-z0-9-]{1,100}$`)
)

// settings are those of sandboxing.e2b.
var settings = schema.Schema{
	{Key: "apiKey", Name: "api_key", Type: schema.Secret, Env: "E2B_API_KEY", Label: "API key", Example: "e2b_…",
		Hint: "Kept sealed and never shown again. It is tried when it is saved. Keys are made at e2b.dev/dashboard."},
	{Key: "domain", Name: "domain", Type: schema.Text, Env: "E2B_DOMAIN", Address: true, Label: "Domain", Example: "e2b.app", Rare: true,
		Hint: "Empty for E2B's own.", Check: func(v any) string {
			if v != "" && (!hostName.MatchString(v.(string)) || len(v.(string)) > 253) {
				return "must be the name of a host such as e2b.app"
			}
			return ""
		}},
	// Plain http is taken, as by E2B's own clients: a server of one's own may be behind a proxy of its own.
	{Key: "apiUrl", Name: "api_url", Type: schema.Text, Env: "E2B_API_URL", Address: true, Label: "Address of the API", Example: "https://api.e2b.example.com", Rare: true,
		Hint: "Only where it is not api.<domain>.", Check: schema.WebAddress("https://api.e2b.app")},
	{Key: "sandboxUrl", Name: "sandbox_url", Type: schema.Text, Env: "E2B_SANDBOX_URL", Address: true, Label: "Address of sandboxes", Example: "https://sandbox.example.com",
		Rare: true, Hint: "Only where all are behind one.", Check: schema.WebAddress("https://api.e2b.app")},
	{Key: "template", Name: "template", Type: schema.Text, Default: defaultTemplate, Label: "Template",
		Hint: "What sandboxes are made from. Sizes have templates of their own, built from it.", Check: func(v any) string {
			if !templateName.MatchString(v.(string)) {
				return "must name a template such as " + defaultTemplate
			}
			return ""
		}},
	{Key: "defaultCpu", Name: "default_cpus", Type: schema.Number, Default: 2, Min: 1, Max: 64, Label: "CPUs", Unit: "vCPU",
		Hint: "Of sandboxes for which nobody chooses a size.", Check: func(v any) string {
			if n := v.(int64); n > 1 && n%2 != 0 { // E2B makes no others
				return "must be 1, or an even number up to 64"
			}
			return ""
		}},
	{Key: "defaultRam", Name: "default_memory_mb", Type: schema.Number, Default: 2048, Min: 128, Max: 1 << 20, Label: "Memory", Unit: "MiB",
		Hint: "Of sandboxes for which nobody chooses a size.", Check: func(v any) string {
			if v.(int64)%2 != 0 {
				return "must be an even number of MiB, at least 128"
			}
			return ""
		}},
	{Key: "maxSessionDuration", Name: "max_session_minutes", Type: schema.Number, Default: 86400, Min: 60, Max: mostMinutes * 60, Scale: 60, Label: "Longest run", Unit: "minutes",
		Hint: "Then the sandbox is saved, paused and goes on in a new run."},
	{Key: "autoShutdownIdle", Name: "idle_minutes", Type: schema.Number, Default: 1800, Max: mostMinutes * 60, Scale: 60, Label: "Suspend when idle", Unit: "minutes",
		Hint: "A sandbox that is suspended costs nothing. 0: never."},
	{Key: "fallbackToLocal", Name: "fallback_to_local", Type: schema.Boolean, Label: "A workspace may start on this server when E2B cannot serve",
		Hint: "Only where whoever made the workspace agreed. It is announced, because cost, isolation and where code goes change."},
	{Key: "debug", Type: schema.Boolean, Env: "E2B_DEBUG"},
	{Key: "requestTimeout", Type: schema.Number, Default: 60, Min: 1},
	{Key: "retries", Type: schema.Number, Default: 3},
	{Key: "proxy", Type: schema.Text, URL: true, Check: func(v any) string {
		if _, err := (Settings{Proxy: v.(string)}).proxy(); err != nil {
			return `must be an address such as http://proxy.example.com:3128, or "none"`
		}
		return ""
	}},
	{Key: "headers", Type: schema.Map, Check: func(v any) string {
		for name, text := range v.(map[string]string) {
			if !headerName.MatchString(name) || strings.ContainsAny(text, "\r\n\x00") {
				return fmt.Sprintf("%q must be the name of a header, and its value one line", name)
			}
		}
		return ""
	}},
	{Key: "priceVcpuSecond", Type: schema.Number, Default: priceVCPU},
	{Key: "priceGibSecond", Type: schema.Number, Default: priceGiB},
}

// probe is what browsers ask to measure how far a region is; "" where the settings cannot be used.
func probe(s Settings, said string) string {
	if said != "" {
		return said
	}
	s, err := s.Normal()
	if err != nil {
		return ""
	}
	return s.APIURL
}

// FromValues are the settings that config.json and operators give.
func FromValues(v schema.Values) Settings {
	s := Settings{APIKey: v.Text("apiKey"), Domain: v.Text("domain"), APIURL: v.Text("apiUrl"), SandboxURL: v.Text("sandboxUrl"), Debug: v.On("debug"),
		Template: v.Text("template"), CPUs: int(v.Number("defaultCpu")), MemoryMB: int(v.Number("defaultRam")),
		MaxRun:    time.Duration(v.Number("maxSessionDuration")) * time.Second,
		PriceVCPU: v.Number("priceVcpuSecond"), PriceGiB: v.Number("priceGibSecond"),
		RequestTimeout: time.Duration(v.Number("requestTimeout")) * time.Second, Retries: int(v.Number("retries")), Proxy: v.Text("proxy"), Headers: v.Map("headers")}
	if s.Retries == 0 {
		s.Retries = -1 // none, where 0 means the usual number
	}
	return s
}

// test tries a key and addresses before they are kept.
func test(ctx context.Context, v schema.Values) (string, error) {
	running, err := Check(ctx, FromValues(v))
	switch {
	case err != nil:
		return "", err
	case running == 0:
		return "no sandbox runs there now", nil
	case running == 1:
		return "1 sandbox runs there now", nil
	}
	return fmt.Sprintf("%d sandboxes run there now", running), nil
}
