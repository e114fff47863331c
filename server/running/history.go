package running

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/sessions/find"
	"github.com/parawork/parawork/sessions/history"
	"github.com/parawork/parawork/sessions/journal"
)

// Bounds of one page of GetJournal.
const (
	defaultEntries = 500
	maxEntries     = 5000
)

// GetJournal answers with what happened beside a session's output.
func (h History) GetJournal(ctx context.Context, req api.GetJournalRequestObject) (api.GetJournalResponseObject, error) {
	q := history.JournalQuery{From: rest.Val(req.Params.From), Limit: defaultEntries}
	if q.From < 0 {
		return nil, fault.New(fault.Invalid, "invalid_parameter", "from must be the number of an entry, 0 or more.").With("field", "from")
	}
	if req.Params.Limit != nil {
		if q.Limit = *req.Params.Limit; q.Limit < 1 || q.Limit > maxEntries {
			return nil, fault.New(fault.Invalid, "invalid_parameter", "limit must be a number of entries from 1 to %d.", maxEntries).With("field", "limit")
		}
	}
	if req.Params.Kinds != nil {
		q.Kinds = []journal.Kind{}
		for name := range strings.SplitSeq(*req.Params.Kinds, ",") {
			k, ok := journal.ParseKind(strings.TrimSpace(name))
			if !ok {
				return nil, fault.New(fault.Invalid, "invalid_parameter",
					"kinds is a list with commas of time, size, seat, input, state, question, answer, prompt, interrupt, control, files.").With("field", "kinds")
			}
			q.Kinds = append(q.Kinds, k)
		}
	}
	items, next, err := h.cfg.History.Journal(ctx, req.Id, q)
	if err != nil {
		return nil, err
	}
	out := api.GetJournal200JSONResponse{Items: rest.List(items, noteOf)}
	if next >= 0 {
		out.Next = &next
	}
	return out, nil
}

func noteOf(e journal.Entry) api.JournalEntry {
	out := api.JournalEntry{Seq: e.Seq, At: e.At, Offset: e.Offset, Kind: e.Kind.String()}
	if json.Valid(e.Data) {
		out.Data = &e.Data
	}
	return out
}

// Bounds of one page of SearchHistory.
const (
	defaultHits = 50
	maxHits     = 200
)

// SearchHistory looks for lines in what a workspace's sessions have printed.
func (h History) SearchHistory(ctx context.Context, req api.SearchHistoryRequestObject) (api.SearchHistoryResponseObject, error) {
	p := req.Params
	q := history.SearchQuery{Query: find.Query{Text: p.Q, Regex: rest.Val(p.Regex), Case: rest.Val(p.Case)}, Agent: rest.Val(p.Agent), Limit: defaultHits, Cursor: rest.Val(p.Cursor)}
	if p.Limit != nil {
		if q.Limit = *p.Limit; q.Limit < 1 || q.Limit > maxHits {
			return nil, fault.New(fault.Invalid, "invalid_parameter", "limit must be a number of lines from 1 to %d.", maxHits).With("field", "limit")
		}
	}
	found, err := h.cfg.History.Search(ctx, req.Id, q)
	if err != nil {
		return nil, err
	}
	return api.SearchHistory200JSONResponse{NextCursor: rest.Text(found.Next), Bytes: found.Bytes, Skipped: found.Skipped, Late: found.Late,
		Items: rest.List(found.Hits, func(h history.Hit) api.SearchHit {
			return api.SearchHit{SessionId: h.SessionID, Agent: h.Agent, AgentName: h.AgentName, Offset: h.Offset, At: h.At, Line: h.Line,
				Start: h.Start, End: h.End, Repeats: h.Repeats}
		})}, nil
}
