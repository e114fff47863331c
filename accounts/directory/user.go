package directory

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/password"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// CreateUser makes a user. The caller has decided that it may: the command line, or an operator.
func (s *Service) CreateUser(ctx context.Context, req accounts.NewUser) (accounts.User, error) {
	u, err := s.newUser(ctx, req, "")
	if err != nil {
		return accounts.User{}, err
	}
	if ok, err := s.store.InsertUser(ctx, u); err != nil {
		return accounts.User{}, fmt.Errorf("storing a user: %w", err)
	} else if !ok {
		return accounts.User{}, fault.New(fault.Conflict, "email_taken", "A user with this e-mail address exists already.")
	}
	return u, nil
}

// newUser checks req and hashes its password; team is the name of the one the user joins, "" = none.
func (s *Service) newUser(ctx context.Context, req accounts.NewUser, team string) (accounts.User, error) {
	email, err := accounts.CleanEmail(req.Email)
	if err != nil {
		return accounts.User{}, err
	}
	name, err := accounts.CleanName("name", req.Name)
	if err != nil {
		return accounts.User{}, err
	}
	if req.NoPassword {
		return accounts.User{ID: id.New("usr"), Email: email, Name: name, Operator: req.Operator, CreatedAt: s.now()}, nil
	}
	if err := password.CheckNew(req.Password, email, name, team); err != nil {
		return accounts.User{}, err
	}
	hash, err := s.hasher.Hash(ctx, req.Password)
	if err != nil {
		return accounts.User{}, err
	}
	return accounts.User{ID: id.New("usr"), Email: email, Name: name, PasswordHash: hash, Operator: req.Operator, CreatedAt: s.now()}, nil
}

// UserByEmail returns the user with this address; fault.NotFound when there is none. For the command line and operators.
func (s *Service) UserByEmail(ctx context.Context, email string) (accounts.User, error) {
	clean, err := accounts.CleanEmail(email)
	if err != nil {
		return accounts.User{}, err
	}
	u, err := s.store.UserByEmail(ctx, clean)
	if fault.Is(err, fault.NotFound) {
		return accounts.User{}, fault.New(fault.NotFound, "user_not_found",
			"No user of this instance has that e-mail address. An operator makes one on the server with `parawork admin create-user`.")
	}
	return u, err
}

// Actor returns the user with all memberships.
func (s *Service) Actor(ctx context.Context, userID string) (accounts.Actor, error) {
	u, err := s.store.UserByID(ctx, userID)
	if err != nil {
		return accounts.Actor{}, fmt.Errorf("reading a user: %w", err)
	}
	m, err := s.store.Memberships(ctx, userID)
	if err != nil {
		return accounts.Actor{}, fmt.Errorf("reading memberships: %w", err)
	}
	return accounts.Actor{User: u, Memberships: m}, nil
}
