package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// Address is where messages about one thing go, such as the end of a job. No webhook of the team is.
type Address struct{ URL, Key string }

// Bounds of the key of an address, in bytes.
const (
	minKey = 16
	maxKey = 256
)

// Post is one message to an address.
type Post struct {
	TeamID   string
	About    string // what it is about: the same for all messages of it
	Kind     string
	SecretID string // of KeepAddress
	Body     string
}

func addressName(about string) string { return "address " + about }

// KeepAddress keeps, sealed, where messages about something go and what they are signed with, until its message has arrived or was given up.
// shown is what people may see of the URL. Errors: those of the URL, invalid_webhook_secret.
func (s *Service) KeepAddress(ctx context.Context, teamID, about, by string, a Address) (shown, secretID string, err error) {
	a.URL = strings.TrimSpace(a.URL)
	if err := s.cfg.Client.Check(a.URL); err != nil {
		if f, ok := errors.AsType[*fault.Error](err); ok {
			return "", "", f.With("field", "webhook.url")
		}
		return "", "", err
	}
	if len(a.Key) < minKey || len(a.Key) > maxKey {
		return "", "", fault.New(fault.Invalid, "invalid_webhook_secret", "The secret that messages are signed with must have %d to %d bytes.", minKey, maxKey).With("field", "webhook.secret")
	}
	value, err := marshal(sealed(a))
	if err != nil {
		return "", "", err
	}
	secretID, err = s.cfg.Secrets.KeepTeamSecret(ctx, teamID, addressName(about), value, by)
	return shownURL(a.URL), secretID, err
}

// DropAddress forgets an address. One that is gone is no error.
func (s *Service) DropAddress(ctx context.Context, teamID, secretID string) error {
	return s.cfg.Secrets.DropTeamSecret(ctx, secretID, teamID)
}

// Post has a message sent soon: it is in the outbox once ctx's transaction is.
func (s *Service) Post(ctx context.Context, p Post) error {
	now := s.now()
	err := s.cfg.Store.InsertDelivery(ctx, Delivery{ID: id.New("dlv"), TeamID: p.TeamID, SecretID: p.SecretID, ItemID: p.About, Kind: p.Kind, Body: p.Body, State: Pending, NextAt: now, CreatedAt: now})
	poke(s.post)
	return err
}

// Sent returns the messages about something, newest first.
func (s *Service) Sent(ctx context.Context, about string) ([]Delivery, error) {
	return s.cfg.Store.DeliveriesAbout(ctx, about)
}

// tryAddress posts a message to its address.
func (s *Service) tryAddress(ctx context.Context, d Delivery) outcome {
	raw, err := s.cfg.Secrets.TeamSecret(ctx, d.SecretID, d.TeamID, addressName(d.ItemID))
	if fault.Is(err, fault.NotFound) {
		return outcome{state: Dropped, err: "its address was forgotten"}
	}
	var a sealed
	if err == nil {
		err = json.Unmarshal([]byte(raw), &a)
	}
	if err != nil {
		return unreadable(err)
	}
	return s.send(ctx, a, d)
}

// finish stores how an attempt went. The address of a message that has arrived, or was given up, is forgotten.
func (s *Service) finish(ctx context.Context, d Delivery) error {
	if d.SecretID == "" || d.State == Pending {
		return s.cfg.Store.UpdateDelivery(ctx, d)
	}
	return s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		if err := s.cfg.Store.UpdateDelivery(ctx, d); err != nil {
			return err
		}
		if err := s.DropAddress(ctx, d.TeamID, d.SecretID); err != nil {
			return fmt.Errorf("forgetting the address of %s: %w", d.ItemID, err)
		}
		return nil
	})
}
