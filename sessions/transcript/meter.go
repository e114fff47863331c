package transcript

import (
	"context"
	"slices"

	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/conversation"
)

// Meter counts requests to models; tokens.Meter implements it.
type Meter interface {
	Record(ctx context.Context, r tokens.Request) error
}

// maxUncounted bounds the answers that wait to be counted while the storage fails.
const maxUncounted = 10_000

// count reports the model's answers in the record to the meter. Requests through the gateway are counted there. An answer that
// could not be counted is reported again with the next; one that was counted before, by an earlier server too, counts once.
func (r *reading) count(ctx context.Context) {
	all := append(r.uncounted, r.reader.Replies()...)
	r.uncounted = nil
	cfg := &r.s.all.cfg
	if cfg.Meter == nil || len(all) == 0 {
		return
	}
	row := r.s.host.Row()
	if row.Metered {
		return
	}
	if r.project == "" {
		w, err := cfg.Workspace(ctx, row.WorkspaceID)
		if err != nil {
			r.uncounted = all[:min(len(all), maxUncounted)]
			r.complain(err)
			return
		}
		r.project = w.ProjectID
	}
	for i, a := range all {
		if err := cfg.Meter.Record(ctx, requestOf(row, r.project, a)); err != nil {
			r.uncounted = slices.Clone(all[i:min(len(all), i+maxUncounted)])
			r.complain(err)
			return
		}
	}
}

// maxCount bounds the tokens believed for one answer: a thousand times the largest context there is.
const maxCount = 1_000_000_000

// requestOf converts an answer for counting. An agent without a key works with a person's own login, which is billed separately.
func requestOf(row Row, project string, a conversation.Reply) tokens.Request {
	n := func(v int64) *int64 {
		if v < 0 || v > maxCount { // the record is the agent's
			return nil
		}
		return &v
	}
	u := a.Usage
	api := "responses"
	if row.Agent == agents.ClaudeCode {
		api = "messages"
	}
	hour := min(max(a.Hour, 0), max(u.CacheWrite, 0))
	return tokens.Request{TeamID: row.TeamID, WorkspaceID: row.WorkspaceID, ProjectID: project, SessionID: row.ID, UserID: row.CreatedBy, Agent: row.Agent, AccountID: row.AccountID,
		Source: tokens.FromTranscript, ExternalID: a.ID, API: api, Model: a.Model, Status: 200, At: a.At, Subscription: !row.ByKey,
		Tokens: tokens.Tokens{Input: n(u.Input), Output: n(u.Output), CacheRead: n(u.CacheRead), CacheWrite: n(u.CacheWrite - hour), CacheWriteHour: n(hour), Reasoning: n(u.Reasoning)}}
}
