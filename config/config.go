// Package config reads config.json: strictly (a key it does not know stops the start and is named), with defaults, ${ENV}
// expansion, secrets from files (<key>File) and PARAWORK_* twins. It knows nothing of the packages that use it; cmd
// hands each its part, and gives it what kinds of places have settings of their own.
package config

import (
	"reflect"

	"github.com/parawork/parawork/internal/schema"
)

// Config is the whole of config.json. Load returns it checked and complete: paths are absolute.
type Config struct {
	Server     Server           `json:"server"`
	DataDir    string           `json:"dataDir"`
	Database   Database         `json:"database"`
	Log        Log              `json:"log"`
	Accounts   Accounts         `json:"accounts"`
	Audit      Audit            `json:"audit"`
	Mail       Mail             `json:"mail"`
	History    History          `json:"history"`
	Trash      Trash            `json:"trash"`
	Artifacts  Artifacts        `json:"artifacts"`
	Browser    Browser          `json:"browser"`
	Snapshots  Snapshots        `json:"snapshots"`
	Projects   Projects         `json:"projects"`
	Agents     map[string]Agent `json:"agents"`
	Sandboxing Sandboxing       `json:"sandboxing"`
	Outgoing   Outgoing         `json:"outgoing"`
	UI         UI               `json:"ui"`
	Preview    Preview          `json:"preview"`
	Billing    Billing          `json:"billing"`
	Gateway    Gateway          `json:"gateway"`
	Memory     Memory           `json:"memory"`
	Agent      OwnAgent         `json:"agent"`
	RateLimits RateLimits       `json:"rateLimits"`
	Demo       Demo             `json:"demo"`

	// File is where it was read from, "" without a file.
	File string `json:"-"`

	given map[string]bool `json:"-"`
}

// Server is how the server is reached.
type Server struct {
	Listen            string   `json:"listen"`
	PublicURL         string   `json:"publicUrl"`
	TrustedProxies    []string `json:"trustedProxies"`
	AllowInsecureHTTP bool     `json:"allowInsecureHttp"`
}

// Database says where everything is remembered.
type Database struct {
	URL     string `json:"url" secret:"url"`
	URLFile string `json:"urlFile" file:"url"`
	// WaitSeconds is how long a server that starts waits for a PostgreSQL that cannot be reached; 0 = not at all.
	WaitSeconds int `json:"waitSeconds"`
}

// Log is what the server says about itself.
type Log struct {
	Level  string `json:"level"`
	Format string `json:"format"`
}

// Accounts says how people may sign in, and bounds login sessions.
type Accounts struct {
	Password bool `json:"password"` // people may sign in with one
	Passkeys bool `json:"passkeys"`

	SessionIdleHours int `json:"sessionIdleHours"`
	SessionMaxHours  int `json:"sessionMaxHours"`

	Providers map[string]SignInProvider `json:"providers"`
}

// Mail is the server that takes mail; without a host none is sent.
type Mail struct {
	Host         string `json:"host"`
	Port         int    `json:"port"` // 0 = 465 with TLS, else 587
	Username     string `json:"username"`
	Password     string `json:"password" secret:"all"`
	PasswordFile string `json:"passwordFile" file:"password"`
	From         string `json:"from"`
	TLS          string `json:"tls"` // starttls, tls, none; "" = tls with port 465, else starttls
}

// Audit is how long is remembered who did what.
type Audit struct {
	KeepDays int `json:"keepDays"` // 0 = for ever
}

// History is how much of what sessions printed is kept; 0 = no cap.
type History struct {
	MaxSession int64 `json:"maxSession"` // MiB on disk of one session
	MaxTeam    int64 `json:"maxTeam"`    // MiB on disk of all sessions of a team
	KeepDays   int   `json:"keepDays"`   // after the end of a session
}

// Trash is how long what people deleted can be restored.
type Trash struct {
	KeepDays int `json:"keepDays"` // 0 = for ever
}

// Artifacts is how much of what agents save is kept.
type Artifacts struct {
	TeamQuotaBytes int64 `json:"teamQuotaBytes"` // of all artifacts of a team; 0 = no cap
	RetentionDays  int   `json:"retentionDays"`  // 0 = until somebody deletes them

	Storage ArtifactStorage `json:"storage"`
}

// ArtifactStorage is where the contents of artifacts are: in the data folder, or in a bucket of an S3-compatible object storage.
type ArtifactStorage struct {
	Type                string `json:"type"` // folder or s3
	Bucket              string `json:"bucket"`
	Region              string `json:"region"`
	Endpoint            string `json:"endpoint"` // "" = that of AWS in the region
	Prefix              string `json:"prefix"`
	PathStyle           bool   `json:"pathStyle"`
	AccessKeyID         string `json:"accessKeyId"` // "" = as AWS's own tools find theirs
	SecretAccessKey     string `json:"secretAccessKey" secret:"all"`
	SecretAccessKeyFile string `json:"secretAccessKeyFile" file:"secretAccessKey"`
}

// Browser is what the browsers of sandboxes may use.
type Browser struct {
	MemoryMB         int  `json:"memoryMb"`         // of one browser
	IdleMinutes      int  `json:"idleMinutes"`      // without use, until it is closed
	RecordAlways     bool `json:"recordAlways"`     // every browser that agents use
	AllowUnsandboxed bool `json:"allowUnsandboxed"` // also where neither the place nor Chromium itself isolates web pages
}

// Snapshots is how long states of workspaces' files are kept that nobody pinned.
type Snapshots struct {
	PollDays int `json:"pollDays"` // of files that changed; 0 = as long as the workspace
	KeepDays int `json:"keepDays"` // of turns, commits, and what is taken before something; likewise
}

// Projects is where projects may come from and how workspaces are made of them.
type Projects struct {
	AllowedRoots  []string `json:"allowedRoots"`
	AllowFileURLs bool     `json:"allowFileUrls"`
	AllowGitURLs  bool     `json:"allowGitUrls"` // git://, which neither side can be sure of
	BranchPrefix  string   `json:"branchPrefix"`
	CopyIgnored   []string `json:"copyIgnored"`
}

// Sandboxing is where workspaces may live.
type Sandboxing struct {
	DefaultProvider  string   `json:"defaultProvider"`
	AllowUserChoice  bool     `json:"allowUserChoice"`
	MonthlyBudgetUSD int      `json:"monthlyBudgetUsd"`
	WeakestBoundary  string   `json:"weakestBoundary"` // no place weaker than this is used, whatever teams say; "" = any
	Caches           Caches   `json:"caches"`
	Sync             Sync     `json:"sync"`
	Commands         Commands `json:"commands"`
	IdleStopMinutes  *int     `json:"idleStopMinutes"` // nil: 30 for containers, never elsewhere; 0 = never
	Limits           Limits   `json:"limits"`
	Pool             Pool     `json:"pool"`
	Network          Network  `json:"network"`

	places map[string]schema.Values `json:"-"` // by kind; see Of
	tree   reflect.Value            `json:"-"` // of them, as config.json has them

	regions []string `json:"-"` // the names of the kinds that are regions
}

// Caches are what the workspaces of a team share of downloads and builds.
type Caches struct {
	Enabled bool  `json:"enabled"`
	MaxMB   int64 `json:"maxMB"` // of one team; 0 = no bound
}

// Sync bounds what the server copies back from a workspace whose sandbox has its own disk.
type Sync struct {
	MaxFileMB  int64 `json:"maxFileMB"`  // of one changed file
	MaxTotalMB int64 `json:"maxTotalMB"` // of all changed files of a workspace
}

// Commands are plain commands run in workspaces by the API.
type Commands struct {
	KeepMinutes    int `json:"keepMinutes"`    // how long the record of an ended command is kept
	QueueMinutes   int `json:"queueMinutes"`   // how long a command waits for a machine that is offline
	TimeoutSeconds int `json:"timeoutSeconds"` // how long a command may take that says nothing
}

// Network is what agents reach from places that isolate.
type Network struct {
	Mode         string   `json:"mode"`               // of projects that name none: open, allow or none
	Allow        []string `json:"allow"`              // names allowed in every project with a list
	AllowPrivate []string `json:"allowPrivate"`       // addresses and ranges, with or without a port, that are reached although they are not public
	Proxy        string   `json:"proxy" secret:"url"` // the server's own; "" = as the environment says, "none" = none
}

// Limits are of every sandbox of the instance: what one has for which nobody says otherwise, and the most one may have.
type Limits struct {
	Default SandboxLimits `json:"default"`
	Maximum SandboxLimits `json:"maximum"`
	// DiskEverySeconds is how often it is looked at what a sandbox has on the disk.
	DiskEverySeconds int `json:"diskEverySeconds"`
}

// SandboxLimits bound one sandbox; 0 = no bound.
type SandboxLimits struct {
	CPUs        Cores `json:"cpus"`
	MemoryMB    int64 `json:"memoryMb"`
	Processes   int64 `json:"processes"` // and threads
	DiskMB      int64 `json:"diskMb"`
	WallMinutes int64 `json:"wallMinutes"`
}

// Cores are CPUs; in config.json a number of them, or a share of the machine such as "80%".
type Cores float64

// Pool is sandboxes made ahead of time, in places that can.
type Pool struct {
	Enabled bool `json:"enabled"`
	Min     int  `json:"min"` // of each size that is asked for
	Max     int  `json:"max"`
}

// Outgoing is what the server itself may reach at addresses that people enter: webhooks, push services, agents' base URLs, git hosts,
// providers people sign in with.
type Outgoing struct {
	Allow []string `json:"allow"` // addresses and ranges that are allowed although they are not public
}

// Gateway is what agents reach their models through.
type Gateway struct {
	Enabled          bool  `json:"enabled"`
	MaxBodyMB        int64 `json:"maxBodyMB"`        // of one request
	FirstByteSeconds int64 `json:"firstByteSeconds"` // until an answer begins
	MaxOutputTokens  int64 `json:"maxOutputTokens"`  // a budget holds back so many at most for an answer
}

// Memory is how agents find remembered facts.
type Memory struct {
	EmbeddingModel string `json:"embeddingModel"` // finds by meaning, too; "" = by words alone
}

// OwnAgent bounds a turn of Parawork's own agent.
type OwnAgent struct {
	MaxSteps   int64   `json:"maxSteps"`
	MaxMinutes int64   `json:"maxMinutes"`
	MaxCostUSD float64 `json:"maxCostUsd"` // 0 = no limit of its own
}

// UI is the web app.
type UI struct {
	Dir string `json:"dir"` // a built web app to serve instead of the one inside the binary; "" for that one
}

// Preview is the proxy to ports of sandboxes.
type Preview struct {
	BaseDomain string `json:"baseDomain"`
	Listen     string `json:"listen"`     // where ports are shown below a path while there is no base domain
	ContentURL string `json:"contentUrl"` // the origin of pages and PDFs that agents saved; "" = Parawork's own, in a sandbox
}

// Billing is how usage is bounded and paid for.
type Billing struct {
	DefaultPlan  string `json:"defaultPlan"`  // of teams that nobody gave one; "" = see Plan
	GraceSeconds int    `json:"graceSeconds"` // for how long work goes on after its limit, where a team says nothing
	PastDueDays  int    `json:"pastDueDays"`  // for how long a team goes on whose payment failed
	Stripe       Stripe `json:"stripe"`
}

// Plan is the default plan. Where nobody says, nothing binds a team of a server that takes no payments.
func (b Billing) Plan() string {
	switch {
	case b.DefaultPlan != "":
		return b.DefaultPlan
	case b.Stripe.SecretKey != "":
		return "free"
	}
	return "enterprise"
}

// Stripe is the account at Stripe.
type Stripe struct {
	SecretKey          string   `json:"secretKey" secret:"all"`
	SecretKeyFile      string   `json:"secretKeyFile" file:"secretKey"`
	WebhookSecrets     []string `json:"webhookSecrets" secret:"all"`
	WebhookSecretsFile string   `json:"webhookSecretsFile" file:"webhookSecrets"` // one a line
	APIBase            string   `json:"apiBase"`
	AutomaticTax       bool     `json:"automaticTax"` // Stripe works out taxes at checkout
}
