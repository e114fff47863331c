package directory

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// settingChanged names the last change of what people may do that another process than the server made.
const settingChanged = "accounts_changed"

// Announce tells a server that runs as another process that users' rights have changed: the server reads Announced every few seconds.
func (s *Service) Announce(ctx context.Context) error {
	if err := s.store.SetSetting(ctx, settingChanged, id.New("chg")); err != nil {
		return fmt.Errorf("telling the server: %w", err)
	}
	return nil
}

// Announced names the last change another process announced, "" = none.
func (s *Service) Announced(ctx context.Context) (string, error) {
	v, err := s.store.Setting(ctx, settingChanged)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	return v, err
}
