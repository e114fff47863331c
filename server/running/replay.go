package running

import (
	"bytes"
	"context"
	"net/http"
	"strconv"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/sessions/history"
	"github.com/parawork/parawork/sessions/journal"
)

// Bounds of GetTiming.
const (
	defaultMarks = 20_000
	maxMarks     = 50_000
)

// GetTiming answers with when a session's output came.
func (h Replay) GetTiming(ctx context.Context, req api.GetTimingRequestObject) (api.GetTimingResponseObject, error) {
	p, most := req.Params, defaultMarks
	if p.Limit != nil {
		if most = *p.Limit; most < 10 || most > maxMarks {
			return nil, fault.New(fault.Invalid, "invalid_parameter", "limit must be a number of marks from 10 to %d.", maxMarks).With("field", "limit")
		}
	}
	t, err := h.cfg.History.Timing(ctx, req.Id, rest.Val(p.From), rest.Val(p.To), most)
	if err != nil {
		return nil, err
	}
	return api.GetTiming200JSONResponse{First: t.First, End: t.End, At: deltas(t.At), Offset: deltas(t.Offset), Exact: t.Exact,
		Sizes: rest.List(t.Sizes, func(m journal.SizeMark) api.SizeMark {
			return api.SizeMark{At: m.At, Offset: m.Offset, Cols: int(m.Cols), Rows: int(m.Rows)}
		})}, nil
}

// deltas returns what each number adds to the one before.
func deltas(all []int64) []int64 {
	out := make([]int64, len(all))
	before := int64(0)
	for i, n := range all {
		out[i], before = n-before, n
	}
	return out
}

// GetMoment answers with the screen at an offset.
func (h Replay) GetMoment(ctx context.Context, req api.GetMomentRequestObject) (api.GetMomentResponseObject, error) {
	m, err := h.cfg.History.Moment(ctx, req.Id, req.Params.At)
	if err != nil {
		return nil, err
	}
	return momentAnswer(m), nil
}

// momentAnswer is a screen as the bytes that draw it.
type momentAnswer history.Moment

// VisitGetMomentResponse writes the bytes with what is to be known of them.
func (m momentAnswer) VisitGetMomentResponse(w http.ResponseWriter) error {
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="moment.bin"`)
	h.Set("X-Parawork-Offset", strconv.FormatInt(m.Offset, 10))
	h.Set("X-Parawork-Cols", strconv.Itoa(int(m.Cols)))
	h.Set("X-Parawork-Rows", strconv.Itoa(int(m.Rows)))
	return rest.Stream(w, bytes.NewReader(m.Snapshot), int64(len(m.Snapshot)))
}

// exports are the formats of an export: the ending of the file's name and its type. All are downloads, never shown.
var exports = map[history.Format][2]string{
	history.Asciicast: {".cast", "application/x-asciicast"},
	history.PlainText: {".txt", "text/plain; charset=utf-8"},
	history.RawBytes:  {".log", "application/octet-stream"},
}

// ExportSession answers with a file of everything a session printed.
func (h Replay) ExportSession(ctx context.Context, req api.ExportSessionRequestObject) (api.ExportSessionResponseObject, error) {
	if kind, ok := savedAs[rest.Val(req.Params.Format)]; ok {
		file, err := h.save(ctx, rest.CallOf(ctx).Session, *req.Params.Format)
		if err != nil {
			return nil, err
		}
		return exportAnswer{history.Export{ReadCloser: file, Size: -1}, "parawork-" + req.Id + kind[0], kind[1]}, nil
	}
	f := history.Asciicast
	if req.Params.Format != nil {
		f = history.Format(*req.Params.Format)
	}
	kind, ok := exports[f]
	if !ok {
		return nil, fault.New(fault.Invalid, "invalid_parameter", "format must be asciicast, text, raw, markdown, json or html.").With("field", "format")
	}
	file, err := h.cfg.History.Export(ctx, req.Id, f)
	if err != nil {
		return nil, err
	}
	return exportAnswer{file, "parawork-" + req.Id + kind[0], kind[1]}, nil
}

// exportAnswer is a download.
type exportAnswer struct {
	file       history.Export
	name, mime string
}

// VisitExportSessionResponse streams the file.
func (e exportAnswer) VisitExportSessionResponse(w http.ResponseWriter) error {
	defer e.file.Close()
	w.Header().Set("Content-Type", e.mime)
	w.Header().Set("Content-Disposition", `attachment; filename="`+e.name+`"`)
	return rest.Stream(w, e.file, e.file.Size)
}
