package agent

import (
	"context"
	"strings"

	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/sessions/prompt"
)

var _ prompt.Hosts = (*Service)(nil)

// Give implements prompt.Hosts: a queued prompt is the message with its ID.
func (s *Service) Give(ctx context.Context, q prompt.Prompt, again bool) (working bool, err error) {
	host, ok := s.cfg.Sessions.Hosted(q.SessionID)
	if !ok {
		return false, errNotRunning
	}
	row := host.Row()
	ctx = tenant.In(ctx, row.TeamID)
	t, err := s.Open(ctx, row, optionsOf(row.Argv))
	if err != nil {
		return false, err
	}
	_, m, err := s.enter(ctx, t, Prompt{Text: q.Text, UserID: q.CreatedBy, id: "msg_" + strings.TrimPrefix(q.ID, "prm_"), first: true, again: again})
	return m.Seq != 0, err
}

// InterruptSession implements prompt.Hosts.
func (s *Service) InterruptSession(ctx context.Context, sessionID string) error {
	row, err := s.cfg.Sessions.Session(ctx, sessionID)
	if err != nil {
		return err
	}
	t, err := s.ThreadOf(ctx, row)
	if err == nil {
		s.Interrupt(t.ID)
	}
	return nothing(err)
}
