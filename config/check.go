package config

import (
	"net"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	modelName  = regexp.MustCompile(`^[!-~]{1,200}$`)
	planName   = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)
	agentName  = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	headerName = regexp.MustCompile(`^[A-Za-z0-9-]{1,100}$`)
	stripeKey  = regexp.MustCompile(`^[sr]k_(live|test)_[A-Za-z0-9_]+$`)
	hostName   = regexp.MustCompile(`^(?i)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*(:\d+)?$`)
)

func (d *decoder) check(c *Config) {
	d.checkServer(&c.Server)
	d.checkOneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	d.checkOneOf("log.format", c.Log.Format, "text", "json")
	if !strings.HasPrefix(c.Database.URL, "sqlite") && !strings.HasPrefix(c.Database.URL, "postgres://") && !strings.HasPrefix(c.Database.URL, "postgresql://") {
		d.problem("database.url", `must be "sqlite", "sqlite:PATH" or "postgres://user:password@host/name"`)
	}
	d.checkLeast("accounts.sessionIdleHours", c.Accounts.SessionIdleHours, 1)
	d.checkLeast("accounts.sessionMaxHours", c.Accounts.SessionMaxHours, c.Accounts.SessionIdleHours)
	d.checkLeast("database.waitSeconds", c.Database.WaitSeconds, 0)
	d.checkLeast("audit.keepDays", c.Audit.KeepDays, 0)
	if c.Audit.KeepDays > 36500 {
		d.problem("audit.keepDays", "must be at most 36500")
	}
	d.checkSignIn(&c.Accounts)
	d.checkMail(c)
	d.checkMiB("history.maxSession", c.History.MaxSession)
	d.checkMiB("history.maxTeam", c.History.MaxTeam)
	d.checkLeast("history.keepDays", c.History.KeepDays, 0)
	if c.History.KeepDays > 36500 {
		d.problem("history.keepDays", "must be at most 36500")
	}
	if c.Artifacts.TeamQuotaBytes < 0 {
		d.problem("artifacts.teamQuotaBytes", "must not be negative")
	}
	d.checkLeast("browser.memoryMb", c.Browser.MemoryMB, 256)
	d.checkLeast("browser.idleMinutes", c.Browser.IdleMinutes, 1)
	d.checkLeast("artifacts.retentionDays", c.Artifacts.RetentionDays, 0)
	if c.Artifacts.RetentionDays > 36500 {
		d.problem("artifacts.retentionDays", "must be at most 36500")
	}
	d.checkArtifactStorage(c.Artifacts.Storage)
	d.checkLeast("trash.keepDays", c.Trash.KeepDays, 0)
	if c.Trash.KeepDays > 36500 {
		d.problem("trash.keepDays", "must be at most 36500")
	}
	d.checkSnapshots(c.Snapshots)
	d.checkRates(c.RateLimits)
	d.checkDemo(c.Demo)
	d.checkProjects(&c.Projects)
	for name, a := range c.Agents {
		d.checkAgent("agents."+name, name, a)
	}
	d.checkSandboxing(&c.Sandboxing)
	for _, n := range c.Outgoing.Allow {
		if _, err := proxy(n); err != nil {
			d.problem("outgoing.allow", "%q must be an IP address or a range such as 10.0.0.0/8", n)
		}
	}
	if h := c.Preview.BaseDomain; h != "" && !hostName.MatchString(h) {
		d.problem("preview.baseDomain", "must be the name of a host such as preview.example.com")
	}
	if at := c.Preview.Listen; at != "" {
		_, port, err := net.SplitHostPort(at)
		_, own, _ := net.SplitHostPort(c.Server.Listen)
		if n, perr := strconv.Atoi(port); err != nil || perr != nil || n < 0 || n > 65535 || port == own && n != 0 {
			d.problem("preview.listen", "must be an address such as 0.0.0.0:8081, with another port than server.listen")
		}
	}
	if c.Preview.ContentURL != "" {
		u, err := url.Parse(c.Preview.ContentURL)
		own, ownErr := url.Parse(c.Server.PublicURL)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil:
			d.problem("preview.contentUrl", "must be an address such as https://content.example.com, without a path")
		case c.Server.PublicURL == "":
			d.problem("preview.contentUrl", "needs server.publicUrl as well: that page alone may show what is there")
		case ownErr == nil && strings.EqualFold(u.Host, own.Host):
			d.problem("preview.contentUrl", "must have another host name or port than server.publicUrl")
		}
	}
	if g := c.Gateway; g.MaxBodyMB < 1 || g.MaxBodyMB > 256 {
		d.problem("gateway.maxBodyMB", "must be from 1 to 256")
	}
	if g := c.Gateway; g.FirstByteSeconds < 1 || g.FirstByteSeconds > 3600 {
		d.problem("gateway.firstByteSeconds", "must be from 1 to 3600")
	}
	if g := c.Gateway; g.MaxOutputTokens < 1000 || g.MaxOutputTokens > 10_000_000 {
		d.problem("gateway.maxOutputTokens", "must be from 1000 to 10000000")
	}
	if a := c.Agent; a.MaxSteps < 1 || a.MaxSteps > 10_000 {
		d.problem("agent.maxSteps", "must be from 1 to 10000")
	}
	if a := c.Agent; a.MaxMinutes < 1 || a.MaxMinutes > 7*24*60 {
		d.problem("agent.maxMinutes", "must be from 1 to 10080")
	}
	if a := c.Agent; a.MaxCostUSD < 0 || a.MaxCostUSD > 1_000_000 {
		d.problem("agent.maxCostUsd", "must be from 0 to 1000000")
	}
	if m := c.Memory.EmbeddingModel; m != "" && !modelName.MatchString(m) {
		d.problem("memory.embeddingModel", "must be the name of a model such as text-embedding-3-small")
	} else if m != "" && !c.Gateway.Enabled {
		d.problem("memory.embeddingModel", "needs gateway.enabled: the provider is asked through the model gateway")
	}
	s := c.Billing.Stripe
	if p := c.Billing.DefaultPlan; p != "" && !planName.MatchString(p) {
		d.problem("billing.defaultPlan", "must be the id of a plan such as free")
	}
	d.checkLeast("billing.graceSeconds", c.Billing.GraceSeconds, 0)
	if c.Billing.GraceSeconds > 3600 {
		d.problem("billing.graceSeconds", "must be at most 3600, not %d", c.Billing.GraceSeconds)
	}
	d.checkLeast("billing.pastDueDays", c.Billing.PastDueDays, 1)
	d.checkURL("billing.stripe.apiBase", s.APIBase, true)
	for _, w := range s.WebhookSecrets {
		if !strings.HasPrefix(w, "whsec_") || len(w) < len("whsec_")+8 { // as billing/stripe wants them
			d.problem("billing.stripe.webhookSecrets", `each must start with "whsec_" and have at least 8 more characters: copy the signing secret of the webhook endpoint`)
			break
		}
	}
	if k := s.SecretKey; k != "" && !stripeKey.MatchString(k) {
		d.problem("billing.stripe.secretKey", "must be a secret or restricted key, which starts with sk_live_, rk_live_, sk_test_ or rk_test_")
	}
	slices.Sort(d.problems) // agents come in no order
}

func (d *decoder) checkOneOf(key, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		d.problem(key, "must be one of %s, not %q", strings.Join(allowed, ", "), value)
	}
}

func (d *decoder) checkLeast(key string, value, least int) {
	if value < least {
		d.problem(key, "must be at least %d, not %d", least, value)
	}
}

func (d *decoder) checkServer(s *Server) {
	for _, p := range s.TrustedProxies {
		if _, err := proxy(p); err != nil {
			d.problem("server.trustedProxies", "%q must be an IP address or a range such as 10.0.0.0/8", p)
		}
	}
	s.PublicURL = strings.TrimSuffix(s.PublicURL, "/")
	secure := false
	if s.PublicURL != "" {
		u, err := url.Parse(s.PublicURL)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "":
			d.problem("server.publicUrl", "must be an address such as https://parawork.example.com, without a path")
		case u.Scheme == "http" && !loopback(u.Hostname()) && !s.AllowInsecureHTTP:
			d.problem("server.publicUrl", "is plain http: passwords and everything typed would cross the network readable. Use https through a "+
				"reverse proxy (docs/operate.md), or set server.allowInsecureHttp to true.")
		default:
			secure = u.Scheme == "https"
		}
	}
	host, port, err := net.SplitHostPort(s.Listen)
	if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 0 || n > 65535 {
		d.problem("server.listen", "must be an address and a port such as 127.0.0.1:8080, not %q", s.Listen)
		return
	}
	proxied := secure && len(s.TrustedProxies) > 0
	if !loopback(host) && !s.AllowInsecureHTTP && !proxied {
		d.problem("server.listen", "%s can be reached from other machines, and Parawork itself speaks plain http: passwords and everything typed would "+
			"cross the network readable. Listen on 127.0.0.1 behind a reverse proxy with https (docs/operate.md); or, when the proxy is on another machine, set "+
			"server.publicUrl to its https address and server.trustedProxies to its own; or set server.allowInsecureHttp to true.", s.Listen)
	}
}

// loopback reports whether a host is this machine only.
func loopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

func proxy(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err
}

// Networks returns Allow as ranges.
func (o Outgoing) Networks() []netip.Prefix { return ranges(o.Allow) }

// Proxies returns TrustedProxies as ranges.
func (s Server) Proxies() []netip.Prefix { return ranges(s.TrustedProxies) }

func ranges(all []string) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range all {
		if r, err := proxy(p); err == nil { // checked by Load
			out = append(out, r)
		}
	}
	return out
}

func (d *decoder) checkProjects(p *Projects) {
	const odd = " ~^:?*[\\\x7f"
	control := func(r rune) bool { return r < ' ' }
	if b := p.BranchPrefix; strings.ContainsAny(b, odd) || strings.ContainsFunc(b, control) || strings.Contains(b, "..") ||
		strings.Contains(b, "//") || strings.Contains(b, "@{") || strings.HasPrefix(b, "-") || strings.HasPrefix(b, "/") || strings.HasPrefix(b, ".") ||
		strings.Contains(b, "/.") || strings.Contains(b, ".lock/") || len(b) > 100 {
		d.problem("projects.branchPrefix", "%q is not a valid start of a git branch name", b)
	}
	for _, c := range p.CopyIgnored {
		if c == "" || path.IsAbs(c) || slices.Contains(strings.Split(c, "/"), "..") {
			d.problem("projects.copyIgnored", "%q must be a name or pattern inside the repository, such as .env", c)
		}
	}
}

func (d *decoder) checkSandboxing(s *Sandboxing) {
	d.checkOneOf("sandboxing.defaultProvider", s.DefaultProvider, providers(d.kinds)...)
	d.checkNetwork(&s.Network)
	d.checkOneOf("sandboxing.weakestBoundary", s.WeakestBoundary, "", "none", "process", "container", "gvisor", "microvm")
	d.checkMiB("sandboxing.caches.maxMB", s.Caches.MaxMB)
	if m := s.Sync.MaxFileMB; m < 1 || m > 4096 {
		d.problem("sandboxing.sync.maxFileMB", "must be from 1 to 4096")
	}
	if m := s.Commands.KeepMinutes; m < 1 || m > 365*24*60 {
		d.problem("sandboxing.commands.keepMinutes", "must be between 1 and 525600")
	}
	if m := s.Commands.QueueMinutes; m < 1 || m > 7*24*60 {
		d.problem("sandboxing.commands.queueMinutes", "must be between 1 and 10080")
	}
	if m := s.Commands.TimeoutSeconds; m < 1 || m > 24*60*60 {
		d.problem("sandboxing.commands.timeoutSeconds", "must be between 1 and 86400")
	}
	if m := s.Sync.MaxTotalMB; m < s.Sync.MaxFileMB || m > 1<<20 {
		d.problem("sandboxing.sync.maxTotalMB", "must be at least sandboxing.sync.maxFileMB, and at most 1048576")
	}
	if m := s.IdleStopMinutes; m != nil {
		d.checkLeast("sandboxing.idleStopMinutes", *m, 0)
	}
	d.checkLeast("sandboxing.monthlyBudgetUsd", s.MonthlyBudgetUSD, 0)
	d.checkLeast("sandboxing.pool.min", s.Pool.Min, 0)
	d.checkLeast("sandboxing.pool.max", s.Pool.Max, s.Pool.Min)
	d.checkLimits("sandboxing.limits.default", s.Limits.Default)
	d.checkLimits("sandboxing.limits.maximum", s.Limits.Maximum)
	d.checkLeast("sandboxing.limits.diskEverySeconds", s.Limits.DiskEverySeconds, 1)
}

// checkURL checks an optional address that secrets are sent to: https, or this machine.
func (d *decoder) checkURL(key, value string, secret bool) {
	if value == "" {
		return
	}
	u, err := url.Parse(value)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https":
		d.problem(key, "must be an address such as https://api.example.com")
	case secret && u.Scheme == "http" && !loopback(u.Hostname()):
		d.problem(key, "must be https: a secret key is sent there")
	}
}

// checkMiB checks a size in MiB: large enough to be of use, small enough to count in bytes; 0 = none.
func (d *decoder) checkMiB(path string, n int64) {
	if n < 0 || n > 1<<40 {
		d.problem(path, "must be a number of MiB: 0 (no cap) or more")
	}
}

// checkSnapshots checks how long snapshots are kept. Those of changed files are many: the others outlive them.
func (d *decoder) checkSnapshots(s Snapshots) {
	for name, days := range map[string]int{"snapshots.pollDays": s.PollDays, "snapshots.keepDays": s.KeepDays} {
		d.checkLeast(name, days, 0)
		if days > 36500 {
			d.problem(name, "must be at most 36500")
		}
	}
	if s.KeepDays > 0 && (s.PollDays == 0 || s.PollDays > s.KeepDays) {
		d.problem("snapshots.keepDays", "must be at least snapshots.pollDays: snapshots taken before an operation must outlive those of changed files")
	}
}
