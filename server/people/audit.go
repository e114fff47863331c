package people

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

func auditEntryOf(r audit.Row) api.AuditEntry {
	data := r.Data
	if data == nil {
		data = map[string]string{}
	}
	return api.AuditEntry{Id: r.ID, Seq: r.Seq, At: r.At, Actor: api.AuditParty{Kind: r.Kind, Id: r.ActorID, Name: r.ActorName}, Credential: r.Credential, Ip: r.IP,
		Action: r.Action, Target: api.AuditParty{Kind: r.TargetKind, Id: r.TargetID, Name: r.TargetName}, Result: api.AuditEntryResult(r.Result), Code: r.Code,
		RequestId: r.RequestID, Data: data, Seal: r.Seal}
}

func (h Audit) listAudit(ctx context.Context, q audit.Query, limit *int, cursor *string) (api.AuditList, error) {
	q.Limit = rest.Val(limit)
	rows, next, err := h.cfg.Audit.List(ctx, q, rest.Val(cursor))
	return api.AuditList{Items: rest.List(rows, auditEntryOf), NextCursor: rest.Text(next)}, err
}

// ListTeamAudit answers with what was done in a team.
func (h Audit) ListTeamAudit(ctx context.Context, req api.ListTeamAuditRequestObject) (api.ListTeamAuditResponseObject, error) {
	p := req.Params
	page, err := h.listAudit(ctx, audit.Query{Chain: rest.CallOf(ctx).Team.ID, From: rest.Val(p.From), To: rest.Val(p.To), Actor: rest.Val(p.Actor), Action: rest.Val(p.Action),
		Target: rest.Val(p.Target), Result: audit.Result(rest.Val(p.Result))}, p.Limit, p.Cursor)
	return api.ListTeamAudit200JSONResponse(page), err
}

// ListInstanceAudit answers with what concerns no one team.
func (h Audit) ListInstanceAudit(ctx context.Context, req api.ListInstanceAuditRequestObject) (api.ListInstanceAuditResponseObject, error) {
	p := req.Params
	page, err := h.listAudit(ctx, audit.Query{Chain: audit.Instance, From: rest.Val(p.From), To: rest.Val(p.To), Actor: rest.Val(p.Actor), Action: rest.Val(p.Action),
		Target: rest.Val(p.Target), Result: audit.Result(rest.Val(p.Result))}, p.Limit, p.Cursor)
	return api.ListInstanceAudit200JSONResponse(page), err
}

// ExportTeamAudit answers with a file of what was done in a team.
func (h Audit) ExportTeamAudit(ctx context.Context, req api.ExportTeamAuditRequestObject) (api.ExportTeamAuditResponseObject, error) {
	p, team := req.Params, rest.CallOf(ctx).Team
	return h.exportAudit(ctx, audit.Query{Chain: team.ID, From: rest.Val(p.From), To: rest.Val(p.To), Actor: rest.Val(p.Actor), Action: rest.Val(p.Action),
		Target: rest.Val(p.Target), Result: audit.Result(rest.Val(p.Result))}, rest.Val(p.Format), team.Slug), nil
}

// ExportInstanceAudit answers with a file of what concerns no one team.
func (h Audit) ExportInstanceAudit(ctx context.Context, req api.ExportInstanceAuditRequestObject) (api.ExportInstanceAuditResponseObject, error) {
	p := req.Params
	return h.exportAudit(ctx, audit.Query{Chain: audit.Instance, From: rest.Val(p.From), To: rest.Val(p.To), Actor: rest.Val(p.Actor), Action: rest.Val(p.Action),
		Target: rest.Val(p.Target), Result: audit.Result(rest.Val(p.Result))}, api.ExportTeamAuditParamsFormat(rest.Val(p.Format)), audit.Instance), nil
}

func (h Audit) exportAudit(ctx context.Context, q audit.Query, format api.ExportTeamAuditParamsFormat, name string) auditFile {
	f := cmp.Or(audit.Format(format), audit.JSON)
	audit.Note(ctx, "format", string(f))
	return auditFile{ctx: ctx, log: h.cfg.Audit, q: q, format: f, name: audit.FileName(name, f, h.cfg.Now())}
}

// auditFile is a download that is read from the database while it is sent.
type auditFile struct {
	ctx    context.Context
	log    Auditor
	q      audit.Query
	format audit.Format
	name   string
}

// VisitExportTeamAuditResponse streams the file.
func (f auditFile) VisitExportTeamAuditResponse(w http.ResponseWriter) error { return f.send(w) }

// VisitExportInstanceAuditResponse streams the file.
func (f auditFile) VisitExportInstanceAuditResponse(w http.ResponseWriter) error { return f.send(w) }

// send writes the file. What fails before its first piece is a proper error; what fails later cuts the connection, since a short
// file must not look like a whole one.
func (f auditFile) send(w http.ResponseWriter) error {
	out := &rest.Download{Writer: w, Name: f.name, MIME: "application/json"}
	if f.format == audit.CSV {
		out.MIME = "text/csv; charset=utf-8"
	}
	err := f.log.Export(f.ctx, out, f.q, f.format)
	if err != nil && out.Begun {
		panic(http.ErrAbortHandler)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	return err
}

// Auditor remembers what was done. audit.Log is one.
type Auditor interface {
	audit.Appender
	// Record adds the entry of an operation that ended; often marks one that comes many times for one thing.
	Record(ctx context.Context, e audit.Entry, often bool) error
	List(ctx context.Context, q audit.Query, cursor string) (rows []audit.Row, next string, err error)
	// Export writes all that q asks for, oldest first. Nothing is written before the first entries were read.
	Export(ctx context.Context, w io.Writer, q audit.Query, f audit.Format) error
}
