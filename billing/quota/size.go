package quota

import (
	"context"
	"slices"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
)

// Sizes are a place's, with those marked that a user of a team may not have. Where the default is one of them, the largest below it that
// they may have is the default for them.
func (s *Service) Sizes(ctx context.Context, teamID, userID string, c executors.Capabilities) ([]executors.Size, error) {
	if len(c.Sizes) == 0 || !c.Metered || teamID == "" {
		return c.Sizes, nil
	}
	a := asked{UsageInterval: executors.UsageInterval{TeamID: teamID, UserID: userID, Kind: c.Kind.Base()}}
	q, plan, err := s.Effective(tenant.In(ctx, teamID), teamID, userID)
	if err != nil {
		return nil, err
	}
	if q.CPUs == nil && q.MemoryMB == nil {
		return c.Sizes, nil
	}
	out := slices.Clone(c.Sizes)
	def, fits := -1, -1
	for i := range out {
		z := &out[i]
		a.CPUs, a.MemoryMB, a.PriceNano = z.CPUs, z.MemoryMB, z.PriceNano
		z.Refused, _ = a.tooLarge(q, plan).(*fault.Error)
		if z.Default {
			def = i
		}
		if z.Refused == nil && (def < 0 || def == i) {
			fits = i // the largest up to the default
		}
	}
	if def >= 0 && out[def].Refused != nil && fits >= 0 {
		out[def].Default, out[fits].Default = false, true
	}
	return out, nil
}
