package vercel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hosted"
	"github.com/parawork/parawork/internal/schema"
)

// Settings say which account of Vercel is used, and how. They are asked for again before each use, so that what people change holds at once.
type Settings struct {
	Token     string // "" = the OIDC token
	OIDCToken string // of `vercel env pull`, or of Vercel itself; it names its team and project
	Team      string
	Project   string
	APIURL    string // "" = Vercel's own

	Image   string // "" = the runtime
	Runtime string
	Region  string // "" = Vercel chooses
	CPUs    int    // Vercel gives 2 GiB of memory with each
	MaxRun  time.Duration

	PriceVCPU int64 // nano-USD a vCPU and second
	PriceGiB  int64
}

// Vercel's prices of November 2025: 0.128 USD an hour of active CPU and 0.0212 USD an hour and GB of memory.
const (
	priceVCPU = 35_556
	priceGiB  = 5_889
)

const (
	usualAPI = "https://vercel.com/api"
	// memoryPerCPU is what Vercel gives, MiB.
	memoryPerCPU = 2048
	mostMinutes  = 100_000
)

// Descriptor is the kind for the registry.
func Descriptor() executors.Descriptor {
	return executors.Descriptor{
		Kind: Kind, Label: "Vercel Sandbox", Rank: 5, Boundary: executors.MachineBoundary, Settings: settings, Docs: "docs/vercel.md",
		Idle: executors.PaidIdle("autoShutdownIdle"),
		New: func(d executors.Deps) (executors.Executor, error) {
			return New(Config{Dir: d.Dir, GuestPath: d.GuestPath, Log: d.Log, Settings: func(ctx context.Context) (Settings, error) { return FromValues(d.Now(ctx)), nil }})
		},
		Price: func(v schema.Values) executors.Price {
			s := FromValues(v)
			return executors.Price{VCPUSecondNano: cmp.Or(s.PriceVCPU, priceVCPU), GiBSecondNano: cmp.Or(s.PriceGiB, priceGiB), Metered: true}
		},
		Test: func(ctx context.Context, v schema.Values) (string, error) { return Check(ctx, FromValues(v)) },
		Examine: func(_ context.Context, v schema.Values, _ executors.Capabilities) []executors.Finding {
			s := FromValues(v)
			if c, ok := claimsOf(s.secret()); ok && c.Expires > 0 {
				return []executors.Finding{{Found: fmt.Sprintf("Vercel's token is one that ends by itself, at %s", time.Unix(c.Expires, 0).UTC().Format(time.RFC3339)),
					Cure: "Make one at vercel.com/account/tokens, and enter it with the team and the project in Settings, Places."}}
			}
			return nil
		},
	}
}

var (
	idOrSlug  = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)
	imageName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9/_.:@-]{0,254}$`)
)

func matching(re *regexp.Regexp, words string) func(any) string {
	return func(v any) string {
		if v != "" && !re.MatchString(v.(string)) {
			return words
		}
		return ""
	}
}

// settings are those of sandboxing.vercel.
var settings = schema.Schema{
	{Key: "token", Name: "token", Type: schema.Secret, Env: "VERCEL_TOKEN", Label: "Token",
		Hint: "Kept sealed and never shown again. It is tried when it is saved. Tokens are made at vercel.com/account/tokens."},
	{Key: "oidcToken", Type: schema.Secret, Env: "VERCEL_OIDC_TOKEN"},
	{Key: "team", Name: "team", Type: schema.Text, Env: "VERCEL_TEAM_ID", Label: "Team", Example: "team_…", Hint: "Its id, as its settings at vercel.com show it.",
		Check: matching(idOrSlug, "must be the id of a team such as team_abc")},
	{Key: "project", Name: "project", Type: schema.Text, Env: "VERCEL_PROJECT_ID", Label: "Project", Example: "prj_…", Hint: "Sandboxes belong to a project: its id or name.",
		Check: matching(idOrSlug, "must be the id or name of a project such as prj_abc")},
	{Key: "apiUrl", Name: "api_url", Type: schema.Text, Address: true, Label: "Address of the API", Rare: true, Hint: "Empty for Vercel's own.", Check: schema.WebAddress(usualAPI)},
	{Key: "image", Name: "image", Type: schema.Text, Default: "universal", Label: "Image", Hint: "Such as universal or node:24. Empty: the runtime.",
		Check: matching(imageName, "must name an image such as universal or node:24")},
	{Key: "runtime", Name: "runtime", Type: schema.Choice, Default: "node24", Label: "Runtime", Rare: true, Hint: "Where no image is named.",
		Options: []schema.Option{{Value: "node22", Label: "Node 22"}, {Value: "node24", Label: "Node 24"}, {Value: "node26", Label: "Node 26"}, {Value: "python3.13", Label: "Python 3.13"}}},
	{Key: "region", Name: "region", Type: schema.Text, Label: "Region", Example: "iad1", Rare: true, Hint: "Empty: Vercel chooses.",
		Check: matching(regexp.MustCompile(`^[a-z]{3}[0-9]{1,2}$`), "must be a region such as iad1 or cdg1")},
	{Key: "cpus", Name: "cpus", Type: schema.Number, Default: 2, Min: 1, Max: 32, Label: "CPUs", Unit: "vCPU", Hint: "Each brings 2 GiB of memory. Hobby allows 4, Pro 8."},
	{Key: "maxSessionDuration", Name: "max_session_minutes", Type: schema.Number, Default: 86400, Min: 600, Max: mostMinutes * 60, Scale: 60, Label: "Longest run", Unit: "minutes",
		Hint: "Then the sandbox is synced, stopped and goes on in a new session. Pro allows 1440, Hobby 45."},
	{Key: "autoShutdownIdle", Name: "idle_minutes", Type: schema.Number, Default: 1800, Max: mostMinutes * 60, Scale: 60, Label: "Stop when idle", Unit: "minutes",
		Hint: "Its disk is kept as a snapshot, and its programs end. 0: never."},
	{Key: "priceVcpuSecond", Type: schema.Number, Default: priceVCPU},
	{Key: "priceGibSecond", Type: schema.Number, Default: priceGiB},
}

// FromValues are the settings that config.json and operators give.
func FromValues(v schema.Values) Settings {
	return Settings{Token: v.Text("token"), OIDCToken: v.Text("oidcToken"), Team: v.Text("team"), Project: v.Text("project"), APIURL: v.Text("apiUrl"),
		Image: v.Text("image"), Runtime: v.Text("runtime"), Region: v.Text("region"), CPUs: int(v.Number("cpus")),
		MaxRun:    time.Duration(v.Number("maxSessionDuration")) * time.Second,
		PriceVCPU: v.Number("priceVcpuSecond"), PriceGiB: v.Number("priceGibSecond")}
}

// claims are what an OIDC token of Vercel says of itself.
type claims struct {
	Team    string `json:"owner_id"`
	Project string `json:"project_id"`
	Expires int64  `json:"exp"`
}

// claimsOf reads a token, whose signature is Vercel's business. ok says that it is one of OIDC.
func claimsOf(token string) (c claims, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c, false
	}
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	return c, err == nil && json.Unmarshal(b, &c) == nil && c.Team != ""
}

func (s Settings) secret() string {
	return cmp.Or(strings.TrimSpace(s.Token), strings.TrimSpace(s.OIDCToken))
}

// normal fills in the defaults, and what an OIDC token says. An error is for people.
func (s Settings) normal(now time.Time) (Settings, error) {
	s.Token = s.secret()
	s.OIDCToken = ""
	s.APIURL = cmp.Or(strings.TrimRight(strings.TrimSpace(s.APIURL), "/"), usualAPI)
	s.CPUs, s.MaxRun = cmp.Or(s.CPUs, 2), cmp.Or(s.MaxRun, 24*time.Hour)
	s.PriceVCPU, s.PriceGiB = cmp.Or(s.PriceVCPU, priceVCPU), cmp.Or(s.PriceGiB, priceGiB)
	s.Runtime = cmp.Or(s.Runtime, "node24")
	c, oidc := claimsOf(s.Token)
	if oidc {
		s.Team, s.Project = c.Team, cmp.Or(c.Project, s.Project)
	}
	switch {
	case s.Token == "" || s.Team == "" || s.Project == "":
		return s, troubles.CannotServe(nil, hosted.NoKey)
	case oidc && c.Expires > 0 && now.Unix() >= c.Expires:
		return s, troubles.CannotServe(fmt.Errorf("the OIDC token ended at %s", time.Unix(c.Expires, 0).UTC().Format(time.RFC3339)), hosted.BadKey)
	}
	return s, nil
}

// login is what tells one connection from another.
func (s Settings) login() [4]string { return [4]string{s.APIURL, s.Token, s.Team, s.Project} }

// account tells one project from others: a new token of it finds the same sandboxes.
func (s Settings) account() string {
	h := sha256.Sum256([]byte(s.APIURL + "\n" + s.Team + "\n" + s.Project))
	return hex.EncodeToString(h[:6])
}

// sizes are what can be chosen, the smallest first, with prices.
func (s Settings) sizes() []executors.Size {
	cpus := []int{2, 4, 8}
	if !slices.Contains(cpus, s.CPUs) {
		cpus = append(cpus, s.CPUs)
		slices.Sort(cpus)
	}
	var out []executors.Size
	for _, n := range cpus {
		out = append(out, executors.Size{CPUs: n, MemoryMB: int64(n) * memoryPerCPU, Default: n == s.CPUs, PriceNano: s.priceNano(n)})
	}
	return out
}

// priceNano is what an hour costs at most, in nano-USD: Vercel charges a processor only while it works.
func (s Settings) priceNano(cpus int) int64 {
	return 3600*s.PriceVCPU*int64(cpus) + 3600*s.PriceGiB*int64(cpus)*memoryPerCPU/1024
}
