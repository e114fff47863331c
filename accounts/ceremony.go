package accounts

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/parawork/parawork/accounts/password"
	"github.com/parawork/parawork/internal/fault"
)

// Ceremony is what a sign-in or a proof has begun and not ended yet. What it holds is sealed; the value it is known by is held by
// a browser, and only its hash is kept.
type Ceremony struct {
	Hash      string
	Kind      string
	UserID    string // "" = not known yet
	Sealed    string
	Failures  int
	CreatedAt int64
	ExpiresAt int64
}

// CeremonyStore keeps ceremonies.
type CeremonyStore interface {
	InsertCeremony(ctx context.Context, c Ceremony) error
	Ceremony(ctx context.Context, hash string) (Ceremony, error)
	// UpdateCeremony replaces what one holds.
	UpdateCeremony(ctx context.Context, hash, sealed string) error
	// FailCeremony counts a failure and returns how many there are now.
	FailCeremony(ctx context.Context, hash string) (int, error)
	// DeleteCeremony removes one; fault.NotFound when somebody was faster.
	DeleteCeremony(ctx context.Context, hash string) error
	// DeleteLoginsUnderWay removes those of a user.
	DeleteLoginsUnderWay(ctx context.Context, userID string) error
	// DropCeremonies removes those that ended before now.
	DropCeremonies(ctx context.Context, now int64) error
}

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
	c := Ceremony{Hash: password.Digest(value), Kind: req.Kind, UserID: req.UserID, CreatedAt: now.UnixMilli(), ExpiresAt: now.Add(req.Life).UnixMilli()}
	if c.Sealed, err = s.Seal(sealName(c), string(data)); err != nil {
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
func sealName(c Ceremony) string { return "ceremony\x00" + c.Kind + "\x00" + c.Hash }

// ReadCeremony reads what BeginCeremony kept into data. One of another kind, or that has ended, is not there: login_ended.
func (s *Service) ReadCeremony(ctx context.Context, kind, value string, data any) (Ceremony, error) {
	if value == "" || len(value) > 256 {
		return Ceremony{}, errLoginEnded
	}
	c, err := s.store.Ceremony(ctx, password.Digest(value))
	if fault.Is(err, fault.NotFound) || err == nil && (c.Kind != kind || s.now() >= c.ExpiresAt) {
		return Ceremony{}, errLoginEnded
	}
	if err != nil {
		return Ceremony{}, fmt.Errorf("reading a sign-in under way: %w", err)
	}
	raw, err := s.Unseal(sealName(c), c.Sealed)
	if err != nil {
		return Ceremony{}, errLoginEnded // the key was changed meanwhile
	}
	if data != nil {
		if err := json.Unmarshal([]byte(raw), data); err != nil {
			return Ceremony{}, fmt.Errorf("reading a sign-in under way: %w", err)
		}
	}
	return c, nil
}

// TakeCeremony is ReadCeremony for what goes on once only: it is gone afterwards, whoever asks.
func (s *Service) TakeCeremony(ctx context.Context, kind, value string, data any) (Ceremony, error) {
	c, err := s.ReadCeremony(ctx, kind, value, data)
	if err != nil {
		return Ceremony{}, err
	}
	if err := s.EndCeremony(ctx, c); err != nil {
		return Ceremony{}, err
	}
	return c, nil
}

// updateCeremony replaces what a ceremony holds.
func (s *Service) updateCeremony(ctx context.Context, c Ceremony, data any) error {
	raw, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("keeping a sign-in under way: %w", err)
	}
	if c.Sealed, err = s.Seal(sealName(c), string(raw)); err != nil {
		return err
	}
	if err := s.store.UpdateCeremony(ctx, c.Hash, c.Sealed); err != nil {
		return fmt.Errorf("keeping a sign-in under way: %w", err)
	}
	return nil
}

// EndCeremony ends one; login_ended when somebody else did meanwhile.
func (s *Service) EndCeremony(ctx context.Context, c Ceremony) error {
	err := s.store.DeleteCeremony(ctx, c.Hash)
	if fault.Is(err, fault.NotFound) {
		return errLoginEnded
	}
	if err != nil {
		return fmt.Errorf("ending a sign-in under way: %w", err)
	}
	return nil
}
