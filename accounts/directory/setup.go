package directory

import (
	"context"
	"crypto/subtle"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/password"
	"github.com/parawork/parawork/internal/fault"
)

// setupFor is how long a setup link works.
const setupFor = 30 * time.Minute

// settingSetup is the setting with the hash of the setup token and the time it expires.
const settingSetup = "setup_token_hash"

// SetupNeeded reports whether no user exists yet.
func (s *Service) SetupNeeded(ctx context.Context) (bool, error) {
	n, err := s.store.CountUsers(ctx)
	if err != nil {
		return false, fmt.Errorf("counting users: %w", err)
	}
	return n == 0, nil
}

// SetupToken makes a new one-time token for Setup while no user exists. Earlier ones stop working; only a hash is stored.
func (s *Service) SetupToken(ctx context.Context) (token string, needed bool, err error) {
	if needed, err = s.SetupNeeded(ctx); err != nil || !needed {
		return "", false, err
	}
	if token, err = password.NewSecret(s.cfg.Rand, 32); err != nil {
		return "", false, err
	}
	if err := s.store.SetSetting(ctx, settingSetup, password.Digest(token)+" "+strconv.FormatInt(s.cfg.Now().Add(setupFor).UnixMilli(), 10)); err != nil {
		return "", false, fmt.Errorf("storing the setup token: %w", err)
	}
	return token, true, nil
}

// Setup makes the first user, an operator, and the first team, which the user owns. It works once, with the token of SetupToken.
func (s *Service) Setup(ctx context.Context, req accounts.SetupRequest) (accounts.User, accounts.Team, error) {
	if err := s.checkSetupToken(ctx, req.Token); err != nil {
		return accounts.User{}, accounts.Team{}, err
	}
	team, err := s.newTeam(req.Team, "")
	if err != nil {
		return accounts.User{}, accounts.Team{}, err
	}
	u, err := s.newUser(ctx, accounts.NewUser{Email: req.Email, Name: req.Name, Password: req.Password, Operator: true}, team.Name)
	if err != nil {
		return accounts.User{}, accounts.Team{}, err
	}
	err = s.store.Tx(ctx, func(ctx context.Context) error {
		if err := s.checkSetupToken(ctx, req.Token); err != nil { // somebody may have been faster
			return err
		}
		if ok, err := s.store.InsertUser(ctx, u); err != nil {
			return err
		} else if !ok {
			return fault.New(fault.Conflict, "setup_done", "The first user exists already. Sign in.")
		}
		if team, err = s.insertTeam(ctx, team, u.ID, false); err != nil {
			return err
		}
		return s.store.DeleteSetting(ctx, settingSetup)
	})
	if err != nil {
		return accounts.User{}, accounts.Team{}, fmt.Errorf("setting up: %w", err)
	}
	return u, team, nil
}

func (s *Service) checkSetupToken(ctx context.Context, token string) error {
	if needed, err := s.SetupNeeded(ctx); err != nil {
		return err
	} else if !needed {
		return fault.New(fault.Conflict, "setup_done", "The first user exists already. Sign in.")
	}
	want, err := s.store.Setting(ctx, settingSetup)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return fmt.Errorf("reading the setup token: %w", err)
	}
	want, until, _ := strings.Cut(want, " ")
	if ends, err := strconv.ParseInt(until, 10, 64); want != "" && (err != nil || s.now() >= ends) {
		return fault.New(fault.Forbidden, "setup_link_ended",
			"The setup link has ended: it works for 30 minutes. Restart the server, which prints a new one, or run `parawork admin create-user` on it.")
	}
	if want == "" || subtle.ConstantTimeCompare([]byte(want), []byte(password.Digest(token))) != 1 {
		return fault.New(fault.Forbidden, "wrong_setup_token",
			"The setup link is not valid any more. Use the link the server printed when it last started.")
	}
	return nil
}
