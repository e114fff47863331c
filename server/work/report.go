package work

import (
	"context"
	"net/http"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/sessions/report"
)

// GetReport tells what was done in a workspace.
func (h Report) GetReport(ctx context.Context, req api.GetReportRequestObject) (api.GetReportResponseObject, error) {
	format := rest.Val(req.Params.Format)
	switch format {
	case "", api.GetReportParamsFormatJson, api.GetReportParamsFormatMarkdown:
	default:
		return nil, fault.New(fault.Invalid, "invalid_parameter", "format must be json or markdown.").With("field", "format")
	}
	r, err := h.cfg.Report.Of(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	if rest.CallOf(ctx).Can(accounts.ViewCosts) != nil {
		r.HideCosts()
	}
	if format == api.GetReportParamsFormatMarkdown {
		return reportText(r.Markdown()), nil
	}
	return workReport(r), nil
}

// reportText is a report as Markdown. It is a file: nothing of an agent's is shown as a page of ours.
type reportText string

// VisitGetReportResponse answers.
func (t reportText) VisitGetReportResponse(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="report.md"`)
	_, err := strings.NewReader(string(t)).WriteTo(w)
	return err
}

// AttachReport makes a note of the report on the commit the workspace was merged as.
func (h Report) AttachReport(ctx context.Context, req api.AttachReportRequestObject) (api.AttachReportResponseObject, error) {
	r, err := h.cfg.Report.Of(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	if rest.CallOf(ctx).Can(accounts.ViewCosts) != nil { // else the note would tell them
		r.HideCosts()
	}
	commit, ref, err := h.cfg.Origin.Annotate(ctx, rest.CallOf(ctx).Actor, req.Id, r.Markdown())
	if err != nil {
		return nil, err
	}
	audit.Note(ctx, "commit", commit)
	return api.AttachReport200JSONResponse{Commit: commit, Ref: ref}, nil
}

func workReport(r report.Report) api.GetReport200JSONResponse {
	w, t, c := r.Workspace, r.Totals, r.Costs
	out := api.GetReport200JSONResponse{At: r.At, WorkspaceId: w.ID, Key: w.Key(), Name: w.Name, Branch: w.Branch, Base: w.Base, Project: r.Project, Place: r.Place}
	out.Totals.Prompts, out.Totals.Commands, out.Totals.Failed, out.Totals.Files, out.Totals.Outside = t.Prompts, t.Commands, t.Failed, t.Changes, t.Outside
	out.Totals.Reached, out.Totals.Refused, out.Totals.Additions, out.Totals.Deletions = t.Reached, t.Refused, t.Additions, t.Deletions
	out.Costs.RunMs, out.Costs.CostNano, out.Costs.TokensCostNano, out.Costs.TokensUnknown = c.RunMs, c.CostNano, c.TokensCostNano, c.TokensUnknown
	out.Costs.Shown, out.HostsKnown = r.CostsShown(), r.HostsKnown
	out.Costs.InputTokens, out.Costs.OutputTokens = c.Input, c.Output
	out.Sessions = rest.List(r.Sessions, func(s report.Session) api.ReportSession {
		return api.ReportSession{Id: s.ID, Agent: s.Agent, Title: s.Title, Permissions: s.Permissions, StartedBy: s.StartedBy, StartedAt: s.StartedAt, EndedAt: rest.Ptr(s.EndedAt), Ended: s.Ended, Recorded: s.Recorded}
	})
	out.Prompts = rest.List(r.Prompts, func(p report.Prompt) api.ReportPrompt {
		return api.ReportPrompt{At: p.At, SessionId: p.SessionID, Text: p.Text}
	})
	out.Commits = rest.List(r.Commits, commitOf)
	out.Files = rest.List(r.Changes, func(f report.Change) api.ReportFile {
		return api.ReportFile{Path: guest.EncodePath(f.Path), OldPath: rest.Text(guest.EncodePath(f.OldPath)), Status: f.Status, Additions: f.Additions, Deletions: f.Deletions, Binary: f.Binary}
	})
	out.Outside = rest.List(r.Outside, func(f report.Touched) api.ReportTouched {
		return api.ReportTouched{Path: guest.EncodePath(f.Path), SessionId: f.SessionID, Times: f.Times, LastAt: f.LastAt}
	})
	out.Commands = rest.List(r.Commands, func(c report.Command) api.ReportCommand {
		return api.ReportCommand{At: c.At, SessionId: c.SessionID, Text: c.Text, Status: c.Status, DurationMs: c.DurationMs}
	})
	out.Tests = rest.List(r.Tests, func(t report.Test) api.ReportTest {
		return api.ReportTest{Name: t.Name, Command: t.Command, State: t.State, Check: t.Check, Commit: t.Commit, At: t.At}
	})
	host := func(x report.Host) api.ReportHost {
		return api.ReportHost{Host: x.Host, Port: x.Port, Times: x.Times, FirstAt: x.FirstAt, LastAt: x.LastAt, Reason: rest.Text(x.Reason)}
	}
	out.Reached, out.Refused, out.Unknown = rest.List(r.Reached, host), rest.List(r.Refused, host), rest.List(r.Unknown, func(s string) string { return s })
	return out
}
