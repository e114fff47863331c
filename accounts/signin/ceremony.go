package signin

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/password"
	"github.com/parawork/parawork/internal/fault"
)

// CeremonyRequest begins a ceremony.
type CeremonyRequest struct {
	Kind   string
	UserID string // "" = not known yet
	Data   any    // kept as JSON, sealed
	Life   time.Duration
}

// BeginCeremony keeps what a sign-in needs until it goes on, and returns the value it goes on with and when it ends (ms UTC).
func (s *Service) BeginCeremony(ctx context.Context, req CeremonyRequest) (value string, expiresAt int64, err error) {
	if value, err = password.NewSecret(s.cfg.Rand, 32); err != nil {
		return "", 0, err
	}
	data, err := json.Marshal(req.Data)
	if err != nil {
		return "", 0, fmt.Errorf("keeping a sign-in under way: %w", err)
	}
	now := s.cfg.Now()
	c := accounts.Ceremony{Hash: password.Digest(value), Kind: req.Kind, UserID: req.UserID, CreatedAt: now.UnixMilli(), ExpiresAt: now.Add(req.Life).UnixMilli()}
	if c.Sealed, err = s.vault.Seal(sealName(c), string(data)); err != nil {
		return "", 0, err
	}
	if err := s.store.DropCeremonies(ctx, now.UnixMilli()); err != nil {
		return "", 0, fmt.Errorf("dropping old sign-ins: %w", err)
	}
	if err := s.store.InsertCeremony(ctx, c); err != nil {
		return "", 0, fmt.Errorf("keeping a sign-in under way: %w", err)
	}
	return value, c.ExpiresAt, nil
}

// sealName binds what a ceremony holds to it, so that it opens in no other.
func sealName(c accounts.Ceremony) string { return "ceremony\x00" + c.Kind + "\x00" + c.Hash }

// ReadCeremony reads what BeginCeremony stored into data. One of another kind, or that has ended, counts as missing: login_ended.
func (s *Service) ReadCeremony(ctx context.Context, kind, value string, data any) (accounts.Ceremony, error) {
	if value == "" || len(value) > 256 {
		return accounts.Ceremony{}, errLoginEnded
	}
	c, err := s.store.Ceremony(ctx, password.Digest(value))
	if fault.Is(err, fault.NotFound) || err == nil && (c.Kind != kind || s.now() >= c.ExpiresAt) {
		return accounts.Ceremony{}, errLoginEnded
	}
	if err != nil {
		return accounts.Ceremony{}, fmt.Errorf("reading a sign-in under way: %w", err)
	}
	raw, err := s.vault.Unseal(sealName(c), c.Sealed)
	if err != nil {
		return accounts.Ceremony{}, errLoginEnded // the key was changed meanwhile
	}
	if data != nil {
		if err := json.Unmarshal([]byte(raw), data); err != nil {
			return accounts.Ceremony{}, fmt.Errorf("reading a sign-in under way: %w", err)
		}
	}
	return c, nil
}

// TakeCeremony is ReadCeremony for a step that may happen only once: it deletes the ceremony.
func (s *Service) TakeCeremony(ctx context.Context, kind, value string, data any) (accounts.Ceremony, error) {
	c, err := s.ReadCeremony(ctx, kind, value, data)
	if err != nil {
		return accounts.Ceremony{}, err
	}
	if err := s.EndCeremony(ctx, c); err != nil {
		return accounts.Ceremony{}, err
	}
	return c, nil
}

// updateCeremony replaces what a ceremony holds.
func (s *Service) updateCeremony(ctx context.Context, c accounts.Ceremony, data any) error {
	raw, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("keeping a sign-in under way: %w", err)
	}
	if c.Sealed, err = s.vault.Seal(sealName(c), string(raw)); err != nil {
		return err
	}
	if err := s.store.UpdateCeremony(ctx, c.Hash, c.Sealed); err != nil {
		return fmt.Errorf("keeping a sign-in under way: %w", err)
	}
	return nil
}

// EndCeremony ends one; login_ended when somebody else did meanwhile.
func (s *Service) EndCeremony(ctx context.Context, c accounts.Ceremony) error {
	err := s.store.DeleteCeremony(ctx, c.Hash)
	if fault.Is(err, fault.NotFound) {
		return errLoginEnded
	}
	if err != nil {
		return fmt.Errorf("ending a sign-in under way: %w", err)
	}
	return nil
}
