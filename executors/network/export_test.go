package network

import "context"

// RefreshAll has the gates take all rules anew, as Run does now and then.
func (s *Service) RefreshAll(ctx context.Context) { s.refreshAll(ctx, s.cfg.Gates.Workspaces()) }
