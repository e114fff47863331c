package stripe

import (
	"context"
	"fmt"
	"sync"

	"github.com/parawork/parawork/internal/id"
)

// Metadata that our objects at the service carry. One account there may bill for several instances, and for other things than ours.
const (
	metaInstance = "parawork_instance"
	metaTeam     = "parawork_team"
	metaPlan     = "parawork_plan" // of prices, products and subscriptions
	metaKind     = "parawork_kind" // of prices: KindSeat, or the meter's name
)

// KindSeat is the price of a seat a month.
const KindSeat = "seat"

// PriceName returns the name under which the id of a plan's price is stored, see Store.Objects.
func PriceName(planID, kind string) string { return "price:" + planID + ":" + kind }

// PortalName is the name under which the id of the portal's configuration is stored.
const PortalName = "portal"

const markInstance = "stripe.instance"

type instance struct {
	mu sync.Mutex
	id string
}

// Instance is what this instance is known by at the service: letters and digits, made once.
func (s *Service) Instance(ctx context.Context) (string, error) {
	s.instance.mu.Lock()
	defer s.instance.mu.Unlock()
	if s.instance.id != "" {
		return s.instance.id, nil
	}
	var got string
	err := s.cfg.Store.Tx(ctx, func(ctx context.Context) (err error) {
		if got, err = s.cfg.Store.Mark(ctx, markInstance); err != nil || got != "" {
			return err
		}
		got = id.New("i")
		return s.cfg.Store.SetMark(ctx, markInstance, got)
	})
	if err != nil {
		return "", fmt.Errorf("reading what this instance is called at the payment service: %w", err)
	}
	s.instance.id = got
	return got, nil
}
