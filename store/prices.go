package store

import (
	"context"

	"github.com/parawork/parawork/billing/price"
)

// Prices keeps the price book, which is the instance's.
type Prices struct{ db *DB }

var _ price.Store = (*Prices)(nil)

// NewPrices returns the storage of the price book in db.
func NewPrices(db *DB) *Prices { return &Prices{db} }

const priceColumns = `id, executor, vcpu_second_nano, gib_second_nano, metered, effective_from, created_by, created_at`

// Prices returns all rows.
func (s *Prices) Prices(ctx context.Context) ([]price.Row, error) {
	rows, err := s.db.Query(ctx, `SELECT `+priceColumns+` FROM prices ORDER BY executor, effective_from`)
	return Collect(rows, err, func(r Scanner) (p price.Row, err error) {
		return p, r.Scan(&p.ID, &p.Executor, &p.VCPUSecondNano, &p.GiBSecondNano, &p.Metered, &p.EffectiveFrom, &p.CreatedBy, &p.CreatedAt)
	})
}

// InsertPrice stores a new one; false when the executor has a row of the same time.
func (s *Prices) InsertPrice(ctx context.Context, p price.Row) (bool, error) {
	return inserted(s.db.Exec(ctx, `INSERT INTO prices (`+priceColumns+`) VALUES (?,?,?,?,?,?,?,?) ON CONFLICT (executor, effective_from) DO NOTHING`, p.ID, p.Executor,
		p.VCPUSecondNano, p.GiBSecondNano, p.Metered, p.EffectiveFrom, p.CreatedBy, p.CreatedAt))
}
