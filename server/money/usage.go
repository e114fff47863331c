package money

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/billing/price"
	"github.com/parawork/parawork/billing/usage"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

// GetTeamUsage tells what a team used.
func (h Usage) GetTeamUsage(ctx context.Context, req api.GetTeamUsageRequestObject) (api.GetTeamUsageResponseObject, error) {
	p, team := req.Params, rest.CallOf(ctx).Team
	q := usage.Query{TeamID: team.ID, From: rest.Val(p.From), To: rest.Val(p.To), Group: usage.Group(rest.Val(p.Group))}
	return h.usage(ctx, q, string(rest.Val(p.Format)), team.Slug)
}

// GetInstanceUsage tells what all teams used.
func (h Usage) GetInstanceUsage(ctx context.Context, req api.GetInstanceUsageRequestObject) (api.GetInstanceUsageResponseObject, error) {
	p := req.Params
	q := usage.Query{From: rest.Val(p.From), To: rest.Val(p.To), Group: usage.Group(rest.Val(p.Group))}
	return h.usage(ctx, q, string(rest.Val(p.Format)), "instance")
}

func (h Usage) usage(ctx context.Context, q usage.Query, format, of string) (usageAnswer, error) {
	switch format {
	case "", "json", "csv":
	default:
		return usageAnswer{}, fault.New(fault.Invalid, "invalid_parameter", "format must be json or csv.").With("field", "format")
	}
	if format == "csv" {
		if err := h.Charge(ctx, rest.Exporting); err != nil {
			return usageAnswer{}, err
		}
	}
	if q.Group == usage.ByWorkspace {
		var err error
		if q.Hidden, err = h.HiddenIn(ctx, rest.CallOf(ctx).Actor, q.TeamID); err != nil {
			return usageAnswer{}, err
		}
	}
	r, err := h.cfg.Usage.Report(ctx, q)
	return usageAnswer{report: r, csv: format == "csv", of: of}, err
}

// usageAnswer is a report as JSON or as a file.
type usageAnswer struct {
	report usage.Report
	csv    bool
	of     string
}

// VisitGetTeamUsageResponse answers.
func (a usageAnswer) VisitGetTeamUsageResponse(w http.ResponseWriter) error { return a.send(w) }

// VisitGetInstanceUsageResponse answers.
func (a usageAnswer) VisitGetInstanceUsageResponse(w http.ResponseWriter) error { return a.send(w) }

func (a usageAnswer) send(w http.ResponseWriter) error {
	if !a.csv {
		return api.GetTeamUsage200JSONResponse(usageReport(a.report)).VisitGetTeamUsageResponse(w)
	}
	out := &rest.Download{Writer: w, Name: a.report.FileName(a.of), MIME: "text/csv; charset=utf-8"}
	err := a.report.CSV(out)
	if err != nil && out.Begun { // a short file must not look like a whole one
		panic(http.ErrAbortHandler)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	return err
}

func usageReport(r usage.Report) api.UsageReport {
	f := r.Forecast
	return api.UsageReport{From: r.From, To: r.To, Group: string(r.Group), Totals: usageAmounts(r.Totals), Items: rest.List(r.Items, usageItem),
		Forecast: api.UsageForecast{Period: f.Period, EndsAt: f.EndsAt, CostNano: f.CostNano, TokensCostNano: f.TokensCostNano, Basis: api.UsageForecastBasis(f.Basis), Days: f.Days}}
}

func usageAmounts(a usage.Amounts) api.UsageAmounts {
	return api.UsageAmounts{RunMs: a.RunMs, MeteredMs: a.MeteredMs, VcpuMs: a.VCPUMs, MibMs: a.MiBMs, CostNano: a.CostNano, TokensCostNano: a.TokensCostNano,
		TokensUnknown: a.TokensUnknown, InputTokens: a.InputTokens, OutputTokens: a.OutputTokens}
}

func usageItem(i usage.Item) api.UsageItem {
	return api.UsageItem{Key: i.Key, Name: i.Name, RunMs: i.RunMs, MeteredMs: i.MeteredMs, VcpuMs: i.VCPUMs, MibMs: i.MiBMs, CostNano: i.CostNano,
		TokensCostNano: i.TokensCostNano, TokensUnknown: i.TokensUnknown, InputTokens: i.InputTokens, OutputTokens: i.OutputTokens}
}

// GetWorkspaceCosts tells what a workspace has cost, and costs now.
func (h Usage) GetWorkspaceCosts(ctx context.Context, req api.GetWorkspaceCostsRequestObject) (api.GetWorkspaceCostsResponseObject, error) {
	c, err := h.cfg.Usage.Workspace(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	out := api.GetWorkspaceCosts200JSONResponse{CostNano: c.CostNano, TokensCostNano: c.TokensCostNano, TokensUnknown: c.TokensUnknown, RunMs: c.RunMs,
		RateNanoPerHour: c.HourNano, BySession: rest.List(c.Sessions, sessionCosts), Grace: h.graces.GraceOf(req.Id)}
	box, err := h.cfg.Places.Sandbox(ctx, req.Id)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, fmt.Errorf("reading the sandbox of workspace %s: %w", req.Id, err)
	}
	if err == nil && box.EndedAt == 0 {
		out.IdleAt = rest.Ptr(box.IdleAt)
	}
	if c.HourNano > 0 {
		if out.ExhaustedAt, err = h.exhausts(ctx, rest.CallOf(ctx).Workspace.TeamID, box.UserID); err != nil {
			return nil, fmt.Errorf("reading when the budget or the hours are used up: %w", err)
		}
	}
	return out, nil
}

// exhausts is when the first of a team's budget and a user's hours is used up if it goes on like now; nil = not this month.
func (h Usage) exhausts(ctx context.Context, teamID, userID string) (*int64, error) {
	team, err := h.cfg.Quota.TeamStanding(ctx, teamID)
	if err != nil || userID == "" {
		return team.ExhaustedAt, err
	}
	user, err := h.cfg.Quota.UserStanding(ctx, teamID, userID)
	if err != nil {
		return nil, err
	}
	if team.ExhaustedAt == nil || user.ExhaustedAt != nil && *user.ExhaustedAt < *team.ExhaustedAt {
		return user.ExhaustedAt, nil
	}
	return team.ExhaustedAt, nil
}

func sessionCosts(c usage.SessionCosts) api.SessionCosts {
	return api.SessionCosts{SessionId: c.ID, Agent: c.Agent, RunMs: c.RunMs, CostNano: c.CostNano, TokensCostNano: c.TokensCostNano, TokensUnknown: c.TokensUnknown,
		InputTokens: c.InputTokens, OutputTokens: c.OutputTokens}
}

// ListPrices answers with the price book.
func (h Usage) ListPrices(context.Context, api.ListPricesRequestObject) (api.ListPricesResponseObject, error) {
	return api.ListPrices200JSONResponse{Items: rest.List(h.cfg.Prices.List(), h.price)}, nil
}

// AddPrice writes what a place costs from a time on.
func (h Usage) AddPrice(ctx context.Context, req api.AddPriceRequestObject) (api.AddPriceResponseObject, error) {
	b := req.Body
	r, err := h.cfg.Prices.Add(ctx, price.Row{Executor: b.Executor, VCPUSecondNano: b.VcpuSecondNano, GiBSecondNano: b.GibSecondNano, Metered: b.Metered,
		EffectiveFrom: rest.Val(b.EffectiveFrom), CreatedBy: rest.CallOf(ctx).Actor.User.ID})
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "price", r.ID, r.Executor)
	for name, v := range map[string]any{"vcpu_second_nano": r.VCPUSecondNano, "gib_second_nano": r.GiBSecondNano, "metered": r.Metered, "effective_from": r.EffectiveFrom} {
		audit.Note(ctx, name, fmt.Sprint(v))
	}
	return api.AddPrice201JSONResponse(h.price(r)), nil
}

func (h Usage) price(r price.Row) api.Price {
	now, ok := h.cfg.Prices.At(r.Executor, h.cfg.Ledger.Now())
	return api.Price{Id: r.ID, Executor: r.Executor, VcpuSecondNano: r.VCPUSecondNano, GibSecondNano: r.GiBSecondNano, Metered: r.Metered, EffectiveFrom: r.EffectiveFrom,
		Holds: ok && now.ID == r.ID, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt}
}
