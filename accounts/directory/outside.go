package directory

import (
	"context"
	"fmt"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// CreateOutsideUser makes a user who signs in elsewhere and has no password here; it joins the transaction in ctx. A name that cannot be
// shown is replaced by the address.
func (s *Service) CreateOutsideUser(ctx context.Context, email, name string) (accounts.User, error) {
	email, err := accounts.CleanEmail(email)
	if err != nil {
		return accounts.User{}, err
	}
	if name, err = accounts.CleanName("name", name); err != nil {
		name, _, _ = strings.Cut(email, "@")
	}
	u := accounts.User{ID: id.New("usr"), Email: email, Name: name, CreatedAt: s.now()}
	if ok, err := s.store.InsertUser(ctx, u); err != nil {
		return accounts.User{}, fmt.Errorf("storing a user: %w", err)
	} else if !ok {
		return accounts.User{}, fault.New(fault.Conflict, "email_taken", "A user with this e-mail address exists already.")
	}
	return u, nil
}
