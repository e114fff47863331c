package app

import (
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/cmd/parawork/instance"
	"github.com/parawork/parawork/store"
)

// buildAudit makes the audit, whose keys the vault seals.
func (h *App) buildAudit() {
	h.audit = audit.New(audit.Config{Store: store.NewAudit(h.db), Sealer: h.vault,
		Heads: instance.HeadsFile(h.cfg.DataDir), Reserve: instance.ReserveFile(h.cfg.DataDir), KeepDays: h.cfg.Audit.KeepDays, Log: h.log.With("room", "audit")})
}
