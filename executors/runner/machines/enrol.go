package machines

import (
	"context"
	"crypto/ed25519"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tenant"
)

// errToken is returned for every unknown token, so that nobody learns anything by trying.
var errToken = fault.New(fault.Unauthorized, "runner_token_invalid", "This server does not know the token: it was mistyped, or belongs to another server. Make a new one on the Machines page.")

// Enrol exchanges a token for the registration of a machine's key. It happens once for each key: a caller that repeats the same token and
// key,
// because the response was lost, gets the same answer. address is the caller's; failures are counted for it.
//
// Errors: runners_disabled, runner_token_invalid, runner_token_ended, invalid_key, invalid_name, runner_hello_invalid, runner_owner_gone,
// too_many_machines, runner_revoked, too_many_attempts.
func (s *Service) Enrol(ctx context.Context, e wire.Enrol, address string) (wire.Enrolled, error) {
	if !s.cfg.Enabled {
		return wire.Enrolled{}, errDisabled
	}
	if err := s.limits.begin(address); err != nil {
		return wire.Enrolled{}, err
	}
	done, err := s.enrol(tenant.All(ctx, "the token says which team it is for"), e)
	if err == nil {
		s.limits.succeeded(address)
	}
	return done, err
}

func (s *Service) enrol(ctx context.Context, e wire.Enrol) (wire.Enrolled, error) {
	tok, err := wire.ParseToken(strings.TrimSpace(e.Token))
	if err != nil {
		return wire.Enrolled{}, fault.Wrap(err, fault.Unauthorized, "runner_token_invalid", "This is not an enrolment token. Copy the whole of it, from pw_runner_ to its end.")
	}
	if len(e.PublicKey) != ed25519.PublicKeySize {
		return wire.Enrolled{}, fault.New(fault.Invalid, "invalid_key", "public_key must be an Ed25519 key of 32 bytes.").With("field", "public_key")
	}
	hello, err := checkHello(e.Hello, s.cfg.Programs)
	if err != nil {
		return wire.Enrolled{}, err
	}
	server, err := s.ServerKey(ctx)
	if err != nil {
		return wire.Enrolled{}, err
	}
	if err := s.load(ctx); err != nil {
		return wire.Enrolled{}, err
	}
	var m Machine
	var team accounts.Team
	err = s.store.Tx(ctx, func(ctx context.Context) error {
		m = Machine{}
		t, err := s.store.RunnerToken(ctx, tokenKind+"_"+tok.ID)
		if fault.Is(err, fault.NotFound) || err == nil && subtle.ConstantTimeCompare(t.Hash, hashOf(tok.Secret)) != 1 {
			return errToken
		}
		if err != nil {
			return err
		}
		if team, err = s.worksIn(ctx, t.TeamID, t.UserID); err != nil {
			return err
		}
		m, err = s.register(ctx, t, e, hello)
		return err
	})
	if err != nil {
		return wire.Enrolled{}, err
	}
	failpoint.Reach(failpoint.MachineEnrolled)
	s.mu.Lock()
	have := s.all[m.ID]
	var old *live
	if have == nil {
		have = &entry{m: m}
		s.all[m.ID] = have
	} else {
		if !have.m.Key.Equal(m.Key) {
			old = have.live
		}
		have.m.Key, have.m.Name, have.m.UpdatedAt = m.Key, m.Name, m.UpdatedAt
		if have.live == nil {
			have.m.Hello, have.m.Version = m.Hello, m.Version
		}
	}
	s.mu.Unlock()
	if old != nil {
		old.end("The machine was given a new key.")
	}
	s.notify(ctx, have)
	return wire.Enrolled{RunnerID: m.ID, Name: m.Name, Team: team.Slug, ServerKey: server.Public().(ed25519.PublicKey)}, nil
}

// register stores the machine a token enrols, or its new key. It runs in a transaction.
func (s *Service) register(ctx context.Context, t Token, e wire.Enrol, hello wire.Hello) (Machine, error) {
	now := s.now()
	if t.RunnerID != "" { // of one that was used, or renews
		have, err := s.store.Runner(ctx, t.RunnerID)
		switch {
		case err != nil && !fault.Is(err, fault.NotFound):
			return Machine{}, err
		case err == nil && !have.Revoked() && t.RevokedAt == 0 && have.Key.Equal(ed25519.PublicKey(e.PublicKey)):
			return have, nil // the response was lost
		case t.Renews && (err != nil || have.Revoked()):
			return Machine{}, fault.New(fault.Gone, "runner_revoked", "The machine was revoked. Connect it as a new one from the Machines page.")
		}
	}
	if why := t.over(now); why != "" {
		return Machine{}, fault.New(fault.Unauthorized, "runner_token_ended", "The token %s. Make a new one on the Machines page.", why)
	}
	m := Machine{ID: t.RunnerID, TeamID: t.TeamID, UserID: t.UserID, Key: ed25519.PublicKey(e.PublicKey), Hello: hello, Version: hello.Build, CreatedAt: now, UpdatedAt: now}
	if t.Renews {
		have, err := s.store.Runner(ctx, t.RunnerID)
		if err != nil {
			return Machine{}, err
		}
		if err := s.store.SetRunnerKey(ctx, m.ID, m.Key, now); err != nil {
			return Machine{}, err
		}
		have.Key, have.Hello, have.Version, have.UpdatedAt = m.Key, hello, hello.Build, now
		m = have
	} else {
		m.ID = id.New("rnr")
		var err error
		if m.Name, err = s.freeName(ctx, t, e); err != nil {
			return Machine{}, err
		}
		if err := s.store.InsertRunner(ctx, m); err != nil {
			return Machine{}, fmt.Errorf("storing a machine: %w", err)
		}
	}
	used, err := s.store.UseRunnerToken(ctx, t.ID, m.ID, now)
	if err == nil && !used {
		err = fault.New(fault.Unauthorized, "runner_token_ended", "The token was used already. Make a new one on the Machines page.")
	}
	return m, err
}

// freeName returns the name of a new machine: its own choice, else the token's, else its host name; with a number appended where its owner
// already has one of that name.
func (s *Service) freeName(ctx context.Context, t Token, e wire.Enrol) (string, error) {
	base := "Machine"
	for _, name := range []string{e.Name, t.Name, e.Hello.Hostname} {
		if clean, err := cleanName(name); err == nil {
			base = clean
			break
		} else if name != "" && name == e.Name {
			return "", err
		}
	}
	taken, err := s.store.RunnerNames(ctx, t.TeamID, t.UserID)
	if err != nil {
		return "", err
	}
	if len(taken) >= maxMachines {
		return "", fault.New(fault.Conflict, "too_many_machines", "You have %d machines in this team. Revoke those you no longer use.", len(taken))
	}
	name := base
	for n := 2; slices.Contains(taken, name); n++ {
		suffix := fmt.Sprintf(" %d", n)
		r := []rune(base)
		name = string(r[:min(len(r), maxName-len(suffix))]) + suffix
	}
	return name, nil
}

// refusal turns any error into a fault, for callers that need a message.
func refusal(err error) *fault.Error {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	return fault.Wrap(err, fault.Internal, "internal", "Something went wrong in the server.")
}
