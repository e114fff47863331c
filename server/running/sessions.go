package running

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/money"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/history"
)

// SessionOf is a session as the API tells it.
func SessionOf(s sessions.Session) api.Session {
	argv := s.Argv
	if argv == nil {
		argv = []string{}
	}
	return api.Session{Watchers: rest.List(s.Watchers, WatcherOf), Id: s.ID, WorkspaceId: s.WorkspaceID, Agent: s.Agent, AgentName: s.AgentName, AccountId: s.AccountID, Permissions: api.SessionPermissions(cmp.Or(s.Permissions, agents.AskPermissions)), Argv: argv, State: api.SessionState(s.State),
		StateReason: s.StateReason, StateAt: s.StateAt,
		StateSource: api.SessionStateSource(s.Basis.Source), Attention: needsOf(s), Evidence: rest.List(s.Basis.Evidence, evidenceOf),
		Title: s.Title, Cols: int(s.Cols), Rows: int(s.Rows), Prompt: s.Prompt, CreatedBy: s.CreatedBy,
		StartedAt: s.StartedAt, EndedAt: rest.Ptr(s.EndedAt), ExitCode: s.ExitCode, ExitSignal: s.ExitSignal, Bytes: s.Bytes, CanResume: s.CanResume, Question: AskedOf(s.Question)}
}

// inPlace says how strongly the place of a session that has not ended keeps it in.
func inPlace(s api.Session, b *api.Boundary) api.Session {
	if s.EndedAt == nil {
		s.Boundary = b
	}
	return s
}

// WatcherOf is who looks at a session.
func WatcherOf(w sessions.Watcher) api.Watcher {
	return api.Watcher{UserId: w.UserID, Name: w.Name, Writer: w.Writer, Guest: w.Guest, Screens: w.Screens, Holds: w.Holds}
}

func (h Sessions) ListSessions(ctx context.Context, req api.ListSessionsRequestObject) (api.ListSessionsResponseObject, error) {
	all, err := h.cfg.Sessions.List(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	boundary := h.cfg.Standings.BoundaryOf(ctx, req.Id)
	items, err := h.completed(ctx, rest.List(all, func(s sessions.Session) api.Session { return inPlace(SessionOf(s), boundary) })...)
	return api.ListSessions200JSONResponse{Items: items}, err
}

// maxCells bounds columns and rows of a terminal.
const maxCells = 1000

// cells checks columns or rows that somebody asks for.
func cells(field string, n *int) (uint16, error) {
	if n == nil {
		return 0, nil
	}
	if *n < 1 || *n > maxCells {
		return 0, fault.New(fault.Invalid, "invalid_size", "%s must be a number from 1 to %d.", field, maxCells).With("field", field)
	}
	return uint16(*n), nil
}

func (h Sessions) CreateSession(ctx context.Context, req api.CreateSessionRequestObject) (api.CreateSessionResponseObject, error) {
	b := req.Body
	cols, err := cells("cols", b.Cols)
	if err != nil {
		return nil, err
	}
	rows, err := cells("rows", b.Rows)
	if err != nil {
		return nil, err
	}
	start := sessions.StartRequest{Agent: b.Agent, Prompt: rest.Val(b.Prompt), Argv: rest.Val(b.Argv), Cols: cols, Rows: rows, Env: rest.Val(b.Env), AccountID: rest.Val(b.AccountId),
		Permissions: string(rest.Val(b.Permissions)), ConfirmNoBoundary: rest.Val(b.ConfirmNoBoundary)}
	var s sessions.Session
	if from := rest.Val(b.FromSession); from != "" {
		if !rest.PlainID(from) {
			return nil, fault.New(fault.NotFound, "session_not_found", "The workspace has no such session.").With("field", "from_session")
		}
		s, err = h.cfg.Sessions.StartAfter(ctx, rest.CallOf(ctx).Actor, req.Id, start, sessions.From{ID: from, Notify: b.Prompt == nil, Stop: rest.Val(b.StopFromSession)})
	} else {
		s, err = h.cfg.Sessions.Start(ctx, rest.CallOf(ctx).Actor, req.Id, start)
	}
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "session", s.ID, s.Agent)
	audit.Note(ctx, "workspace_id", s.WorkspaceID)
	audit.Note(ctx, "permissions", start.Permissions)
	return api.CreateSession201JSONResponse(inPlace(SessionOf(s), h.cfg.Standings.BoundaryOf(ctx, s.WorkspaceID))), nil
}

func (h Sessions) GetSession(ctx context.Context, _ api.GetSessionRequestObject) (api.GetSessionResponseObject, error) {
	s := rest.CallOf(ctx).Session
	out, err := h.spentBy(ctx, s)
	if err != nil {
		return nil, err
	}
	return api.GetSession200JSONResponse(inPlace(out, h.cfg.Standings.BoundaryOf(ctx, s.WorkspaceID))), nil
}

// maxGrace is the longest a session may be given between TERM and KILL.
const maxGrace = 10 * time.Minute

func (h Sessions) StopSession(ctx context.Context, req api.StopSessionRequestObject) (api.StopSessionResponseObject, error) {
	grace := time.Duration(0)
	if req.Body != nil && req.Body.GraceMs != nil {
		ms := *req.Body.GraceMs
		if ms < 0 || ms > maxGrace.Milliseconds() {
			return nil, fault.New(fault.Invalid, "invalid_grace", "grace_ms must be from 0 to %d.", maxGrace.Milliseconds()).With("field", "grace_ms")
		}
		grace = max(time.Duration(ms)*time.Millisecond, time.Millisecond) // 0 = at once, but the service reads 0 as its default
	}
	s, err := h.cfg.Sessions.Stop(ctx, rest.CallOf(ctx).Actor, req.Id, grace)
	if err != nil {
		return nil, err
	}
	out, err := h.spentBy(ctx, s)
	return api.StopSession200JSONResponse(out), err
}

func (h Sessions) ResumeSession(ctx context.Context, req api.ResumeSessionRequestObject) (api.ResumeSessionResponseObject, error) {
	s, err := h.cfg.Sessions.Resume(ctx, rest.CallOf(ctx).Actor, req.Id)
	if err != nil {
		return nil, err
	}
	return api.ResumeSession201JSONResponse(SessionOf(s)), nil
}

func (h Sessions) SendInput(ctx context.Context, req api.SendInputRequestObject) (api.SendInputResponseObject, error) {
	if err := h.cfg.Sessions.Input(ctx, rest.CallOf(ctx).Actor, req.Id, req.Body.Text); err != nil {
		return nil, err
	}
	return api.SendInput204Response{}, nil
}

// Bounds of one answer of GetOutput.
const (
	defaultOutput = 1 << 20
	maxOutput     = 16 << 20
)

func (h Sessions) GetOutput(ctx context.Context, req api.GetOutputRequestObject) (api.GetOutputResponseObject, error) {
	from, limit := rest.Val(req.Params.From), defaultOutput
	if from < 0 {
		return nil, fault.New(fault.Invalid, "invalid_parameter", "from must be an offset, 0 or more.").With("field", "from")
	}
	if req.Params.Limit != nil {
		limit = *req.Params.Limit
		if limit < 1 || limit > maxOutput {
			return nil, fault.New(fault.Invalid, "invalid_parameter", "limit must be a number of bytes from 1 to %d.", maxOutput).With("field", "limit")
		}
	}
	b, offset, end, err := h.cfg.History.Output(ctx, req.Id, from, limit)
	if err != nil {
		return nil, err
	}
	return outputAnswer{b, offset, end, req.Id}, nil
}

// outputAnswer is a piece of a terminal's output: hostile bytes, to be saved and never shown.
type outputAnswer struct {
	bytes       []byte
	offset, end int64
	session     string
}

// VisitGetOutputResponse writes the bytes with where they lie.
func (o outputAnswer) VisitGetOutputResponse(w http.ResponseWriter) error {
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="`+o.session+`.log"`)
	h.Set("X-Parawork-Offset", strconv.FormatInt(o.offset, 10))
	h.Set("X-Parawork-End", strconv.FormatInt(o.end, 10))
	return rest.Stream(w, bytes.NewReader(o.bytes), int64(len(o.bytes)))
}

func (h Sessions) GetScrollback(ctx context.Context, req api.GetScrollbackRequestObject) (api.GetScrollbackResponseObject, error) {
	p := req.Params
	got, err := h.cfg.History.Scrollback(ctx, rest.CallOf(ctx).Session.ID,
		history.ScrollbackQuery{Before: rest.Val(p.Before), Limit: rest.Val(p.Limit), Plain: rest.Val(p.Style) != api.Sgr})
	if err != nil {
		return nil, err
	}
	return api.GetScrollback200JSONResponse{Items: append([]string{}, got.Lines...), NextCursor: rest.Text(got.Next)}, nil
}

func (h Sessions) GetScreen(ctx context.Context, req api.GetScreenRequestObject) (api.GetScreenResponseObject, error) {
	shown, tail, err := h.cfg.History.Screen(ctx, rest.CallOf(ctx).Session.ID, rest.Val(req.Params.Tail))
	if err != nil {
		return nil, err
	}
	out := api.GetScreen200JSONResponse{Cols: shown.Cols, Rows: shown.Rows, Lines: shown.Lines, Title: shown.Title, AltScreen: shown.AltScreen}
	out.Cursor.X, out.Cursor.Y = shown.Cursor.X, shown.Cursor.Y
	if req.Params.Tail != nil {
		tail = append([]string{}, tail...) // asked for: there, even when there is nothing
		out.Tail = &tail
	}
	return out, nil
}

// completed adds what other services know of sessions.
func (h Sessions) completed(ctx context.Context, all ...api.Session) ([]api.Session, error) {
	ids := make([]string, len(all))
	for i, s := range all {
		ids[i] = s.Id
	}
	parents, err := h.cfg.Parents(ctx, ids...)
	if err != nil {
		return nil, err
	}
	for i, s := range all {
		all[i].ParentSessionId = rest.Text(parents[s.Id])
	}
	return h.spent(ctx, all...)
}

// spent adds what sessions asked of models, for who may see costs.
func (h Sessions) spent(ctx context.Context, all ...api.Session) ([]api.Session, error) {
	if len(all) == 0 || rest.CallOf(ctx).Can(accounts.ViewCosts) != nil {
		return all, nil
	}
	ids := make([]string, len(all))
	for i, s := range all {
		ids[i] = s.Id
	}
	sums, err := h.cfg.Tokens.OfSessions(ctx, ids...)
	if err != nil {
		return nil, err
	}
	for i, s := range all {
		if sum, ok := sums[s.Id]; ok {
			all[i].Tokens = new(money.SpentOf(sum))
		}
	}
	return all, nil
}

// spentBy is a session with what it asked of models.
func (h Sessions) spentBy(ctx context.Context, s sessions.Session) (api.Session, error) {
	all, err := h.completed(ctx, SessionOf(s))
	if err != nil {
		return api.Session{}, err
	}
	return all[0], nil
}
