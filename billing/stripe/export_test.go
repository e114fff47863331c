package stripe

import (
	"context"

	sdk "github.com/stripe/stripe-go/v76"
)

// Work acts on events and empties the outbox until nothing is due.
func (s *Service) Work(ctx context.Context) error {
	for {
		_, events, err := s.actOnEvents(ctx)
		if err != nil {
			return err
		}
		_, sent, err := s.empty(ctx)
		if err != nil {
			return err
		}
		if events+sent == 0 {
			return nil
		}
	}
}

// Sweep does what is done from time to time.
func (s *Service) Sweep(ctx context.Context) { s.sweepOnce(ctx) }

// NoPauses has the library not sleep before it tries again.
func (s *Service) NoPauses() {
	if s.calls != nil {
		s.calls.backend.(*sdk.BackendImplementation).SetNetworkRetriesSleep(false)
	}
}
