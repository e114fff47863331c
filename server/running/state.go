package running

import (
	"context"

	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/state"
)

func evidenceOf(e state.Evidence) api.Evidence {
	return api.Evidence{Source: api.EvidenceSource(e.Source), Says: api.EvidenceSays(e.Says), Text: e.Text, At: e.At, Since: e.Since, Counts: e.Counts}
}

// needsOf says why a person should look at a session.
func needsOf(s sessions.Session) *api.Attention {
	why, reason, at := sessions.Attention(s)
	if why == "" {
		return nil
	}
	return &api.Attention{Reason: api.AttentionReason(why), Text: reason, At: at, SessionId: rest.Text(s.ID), Until: rest.Ptr(s.Basis.LimitEnd())}
}

func (h Sessions) CorrectState(ctx context.Context, req api.CorrectStateRequestObject) (api.CorrectStateResponseObject, error) {
	s, err := h.cfg.Sessions.Correct(ctx, rest.CallOf(ctx).Actor, req.Id, string(req.Body.State))
	if err != nil {
		return nil, err
	}
	return api.CorrectState200JSONResponse(SessionOf(s)), nil
}
