package quota

import (
	"fmt"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// refuse says no, with what programs and people need to go on.
func (a asked) refuse(kind fault.Kind, code, scope, format string, args ...any) *fault.Error {
	return fault.New(kind, code, format, args...).With("scope", scope).With("place", string(a.Kind)).
		With("price_nano_per_hour", a.PriceNano).With("ways", []string{executors.FreePlace, "upgrade"})
}

// elsewhere is what a refusal says of this server's places, where they do not count.
func (a asked) elsewhere(words string) string {
	if a.shared {
		return ""
	}
	return words
}

// tooLarge refuses a size beyond the quota.
func (a asked) tooLarge(q Quota, plan Plan) error {
	over := func(used, limit int64, unit, have string) error {
		return a.refuse(fault.Quota, "size_not_in_plan", "size", "This sandbox has %s, and %s is the most for you (plan %s). Choose a smaller size, use a place on this server, or choose a larger plan.",
			have, bound(limit, unit), plan.Name).With("reason", bound(limit, unit)+" is the most for you (plan "+plan.Name+")").
			With("hint", "Choose a smaller size, or a larger plan.").With("used", used).With("needed", used).With("limit", limit).With("unit", unit).With("resets_at", nil)
	}
	switch {
	case q.CPUs != nil && int64(a.CPUs) > *q.CPUs:
		return over(int64(a.CPUs), *q.CPUs, "cpus", bound(int64(a.CPUs), "cpus"))
	case q.MemoryMB != nil && a.MemoryMB > *q.MemoryMB:
		return over(a.MemoryMB, *q.MemoryMB, "memory_mb", bound(a.MemoryMB, "memory_mb"))
	}
	return nil
}

// over refuses a sandbox that costs least at the least where a budget has not that much left.
func (a asked) over(scope, what string, spent, reserved, limit, least int64, cure string) error {
	words := fmt.Sprintf("is spent: %s of %s this month", billing.Dollars(spent), billing.Dollars(limit))
	if spent < limit {
		words = fmt.Sprintf("has %s left of %s this month, and a sandbox is let in where its first minutes (%s) are paid for", billing.Dollars(limit-spent), billing.Dollars(limit), billing.Dollars(least))
	}
	if reserved > 0 {
		words += "; " + billing.Dollars(reserved) + " are held back for what has just begun"
	}
	return a.refuse(fault.Quota, "budget_exceeded", scope, "%s %s. This sandbox would cost %s an hour. %s", what, words, billing.Dollars(a.PriceNano), cure).
		With("used", spent).With("reserved", reserved).With("limit", limit).With("unit", "nano_usd").With("needed", a.PriceNano).With("resets_at", a.m.to)
}

func (a asked) noHours(st UserStanding, lease int64) error {
	words := "Your hours of paid sandboxes are used up: %s of %s this month. Work on this server is not limited: use a place there, ask an admin for more hours or a larger plan, or wait until %s."
	if a.shared {
		words = "Your hours of sandboxes are used up: %s of %s this month. Those of this server count, as several teams share it. Ask an admin for more hours or a larger plan, or wait until %s."
	}
	return a.counted(a.refuse(fault.Quota, "quota_exceeded", "user_hours", words, hours(st.UsedMs), hours(*st.LimitMs), day(st.ResetsAt))).
		With("used", st.UsedMs).With("reserved", st.ReservedMs).With("limit", *st.LimitMs).With("unit", "ms").With("needed", lease).With("resets_at", st.ResetsAt)
}

func (a asked) tooMany(scope, who string, n, limit int64, plan Plan) error {
	return a.counted(a.refuse(fault.RateLimited, "concurrency_limit", scope, "%s %s now, and no more than %d may run at once (plan %s). Pause one or wait until one ends,%s or choose a larger plan.",
		who, a.sandboxes(n), limit, plan.Name, a.elsewhere(" use a place on this server,"))).With("used", n).With("limit", limit).With("unit", "sandboxes").With("needed", int64(1)).With("resets_at", nil)
}

func (a asked) tooOften(scope, who string, n, limit, again int64) error {
	return a.counted(a.refuse(fault.RateLimited, "creation_rate_limit", scope, "%s made %s within an hour, and no more than %d may be made. Try again in %s%s.",
		who, a.sandboxes(n), limit, minutes(again), a.elsewhere(", or use a place on this server"))).With("used", n).With("limit", limit).With("unit", "sandboxes").With("needed", int64(1)).
		With("resets_at", a.m.now+again).With("retry_after_ms", again)
}

// counted leaves out the way to this server where its places count like any other.
func (a asked) counted(f *fault.Error) *fault.Error {
	if a.shared {
		return f.With("ways", []string{"upgrade"})
	}
	return f
}
