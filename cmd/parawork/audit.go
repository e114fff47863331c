package main

import (
	"path/filepath"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/store"
)

// buildAudit makes the audit, which accounts write to and whose keys they seal.
func (h *house) buildAudit() {
	h.audit = audit.New(audit.Config{Store: store.NewAudit(h.db), Sealer: sealer{func() *accounts.Service { return h.accounts }},
		Heads: headsFile(h.cfg.DataDir), KeepDays: h.cfg.Audit.KeepDays, Log: h.log.With("room", "audit")})
}

// headsFile is where it is written down, apart from the database, how far the audit has come.
func headsFile(dataDir string) string { return filepath.Join(dataDir, "audit.heads") }

// sealer seals with accounts that are made after it.
type sealer struct{ accounts func() *accounts.Service }

func (s sealer) Seal(name, value string) (string, error) { return s.accounts().Seal(name, value) }

func (s sealer) Unseal(name, sealed string) (string, error) {
	return s.accounts().Unseal(name, sealed)
}
