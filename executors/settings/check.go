package settings

import (
	"net/url"
	"regexp"

	"github.com/parawork/parawork/internal/fault"
)

var (
	hostName     = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9.-]{0,251}[a-zA-Z0-9])?$`)
	planName     = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)
	templateName = regexp.MustCompile(`^[a-z0-9][a-z0-9/_.:-]{0,127}$`)
)

func wrong(name, words string) error {
	return fault.New(fault.Invalid, "invalid_setting", "%s %s.", name, words).With("field", name)
}

// check refuses values that cannot be meant.
func (v Values) check() error {
	e := v.E2B
	switch {
	case v.DefaultExecutor == "":
		return wrong(DefaultExecutor, `must name a place, or be "auto"`)
	case v.MonthlyBudgetUSD < 0:
		return wrong(MonthlyBudgetUSD, "must not be negative; 0 means that nothing may be spent")
	case v.DefaultPlan != "" && !planName.MatchString(v.DefaultPlan):
		return wrong(DefaultPlan, "must be the id of a plan such as free")
	case e.Domain != "" && !hostName.MatchString(e.Domain):
		return wrong(E2BDomain, "must be the name of a host such as e2b.app")
	case e.Template == "" || !templateName.MatchString(e.Template):
		return wrong(E2BTemplate, "must name a template such as parawork-base")
	case e.DefaultCPUs < 1 || e.DefaultCPUs > 64 || e.DefaultCPUs > 1 && e.DefaultCPUs%2 != 0: // E2B makes no others
		return wrong(E2BCPUs, "must be 1, or an even number up to 64")
	case e.DefaultMemoryMB < 128 || e.DefaultMemoryMB%2 != 0:
		return wrong(E2BMemory, "must be an even number of MiB, at least 128")
	case e.MaxSessionMinutes < 1:
		return wrong(E2BMaxSession, "must be at least 1")
	case e.IdleMinutes < 0:
		return wrong(E2BIdle, "must not be negative; 0 means never")
	case v.Pool.Min < 0 || v.Pool.Max < v.Pool.Min || v.Pool.Max > 100:
		return wrong(PoolMax, "must be at least pool.min and at most 100")
	}
	for name, text := range map[string]string{E2BAPIURL: e.APIURL, E2BSandboxURL: e.SandboxURL} {
		if text == "" {
			continue
		}
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return wrong(name, "must be an address such as https://api.e2b.app")
		}
	}
	return nil
}
