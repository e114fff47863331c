// Package machines manages members' own machines: which are known, how one is enrolled (a token, exchanged once for a key of the
// machine's own), which are connected now, and how each connection ended.
//
// The server's key signs the commands to machines; it is made once and stored sealed. A machine has one connection: a newer one replaces
// the older at once. Everything a machine sends is validated here (check.go, feed.go) before any other package sees it.
//
// Goroutines: each connection is served by the goroutine of its request (Connect); Run stores what was seen of them, ends them all
// when it ends, and waits for them.
package machines

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors/runner/tunnel"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
)

// Machine is a member's own machine as the server knows it. Times are ms UTC, 0 = never.
type Machine struct {
	ID     string
	TeamID string
	UserID string // whose it is
	Name   string
	Key    ed25519.PublicKey // nil: its key is no longer valid and it has not enrolled with a new one

	Hello    wire.Hello // its latest description of itself, validated
	Version  string     // of its program
	Protocol int

	Online        bool
	Leaving       bool // its owner asked the server to sync and end its sandboxes
	ConnectedAt   int64
	SeenAt        int64
	OfflineAt     int64 // 0 while it is online, and before its first connection
	OfflineReason string
	Questions     []wire.Question // not answered by its owner yet, oldest first

	CreatedAt int64
	UpdatedAt int64
	RevokedAt int64
}

// Revoked reports whether the machine was revoked.
func (m Machine) Revoked() bool { return m.RevokedAt != 0 }

// MayUse reports whether a member of the machine's team may choose it: its owner, and everybody where the owner shares it.
func (m Machine) MayUse(userID string) bool {
	return !m.Revoked() && (m.UserID == userID || m.Hello.Share == ShareTeam)
}

// Lost reports whether the machine is offline by itself: a server that stops or dies loses all of them for a moment.
func (m Machine) Lost() bool {
	return !m.Online && m.OfflineAt != 0 && m.OfflineReason != sayRestart && m.OfflineReason != sayDied
}

// Dangerous reports whether agents run there without isolation.
func (m Machine) Dangerous() bool { return m.Hello.Mode == wire.Direct }

// Who a machine is for.
const (
	ShareOwner = "owner"
	ShareTeam  = "team"
)

// Accounts answers what the package needs to know about users.
type Accounts interface {
	Actor(ctx context.Context, userID string) (accounts.Actor, error)
}

// Sealer encrypts a value of the instance.
type Sealer interface {
	Seal(name, value string) (string, error)
	Unseal(name, sealed string) (string, error)
}

// Config configures a Service.
type Config struct {
	Store    Store
	Accounts Accounts
	Sealer   Sealer
	Events   events.Publisher
	Enabled  bool          // whether members may connect machines
	Programs []string      // of agents: what a machine may report to have
	TokenFor time.Duration // how long a token for one machine is valid; 0 = an hour
	Silence  time.Duration // after this time without a sign of life a machine is offline; 0 = 30 s
	Tick     time.Duration // how often the latest state is stored; 0 = 10 s
	Now      func() time.Time
	Rand     io.Reader
	Log      *slog.Logger
}

// Service manages machines and their connections. Safe for concurrent use. Order: New, Recover, then Run and Connect concurrently.
type Service struct {
	cfg    Config
	store  Store
	limits *attempts

	mu     sync.Mutex
	loaded bool
	all    map[string]*entry
	closed bool // no more connections are accepted
	links  map[*tunnel.Link]struct{}
	conns  sync.WaitGroup

	keyMu sync.Mutex
	key   ed25519.PrivateKey

	hooksMu  sync.Mutex
	onChange []func(Machine)
	onEvent  []func(Machine, wire.Event)
}

// entry is one machine and its connection. Service.mu guards m, live and calls; turn is held while a connection is added or removed, or its
// machine's state is stored, so that the store gets changes in their order.
type entry struct {
	turn  sync.Mutex
	said  sync.Mutex // held during notifications, so that the newest comes last
	m     Machine
	live  *live
	calls bucket // connections
}

// New returns a Service. It starts nothing.
func New(cfg Config) *Service {
	if cfg.TokenFor <= 0 {
		cfg.TokenFor = time.Hour
	}
	if cfg.Silence <= 0 {
		cfg.Silence = 30 * time.Second
	}
	if cfg.Tick <= 0 {
		cfg.Tick = 10 * time.Second
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Rand = cmp.Or(cfg.Rand, rand.Reader)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Service{cfg: cfg, store: cfg.Store, limits: newAttempts(cfg.Now), all: map[string]*entry{}, links: map[*tunnel.Link]struct{}{}}
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }

// Enabled reports whether members may connect machines.
func (s *Service) Enabled() bool { return s.cfg.Enabled }

// OnChange adds a function that is called after a machine connected, disconnected, or changed its description other than its load. The
// machine's own goroutine calls it: it must return soon and change no machine. Call OnChange before the first connection.
func (s *Service) OnChange(fn func(Machine)) {
	s.hooksMu.Lock()
	defer s.hooksMu.Unlock()
	s.onChange = append(s.onChange, fn)
}

// OnEvent adds a function that gets a connected machine's events about its sandboxes, and that it wants to leave: events of the types
// sandbox and leaving, in their order. The rules of OnChange apply.
func (s *Service) OnEvent(fn func(Machine, wire.Event)) {
	s.hooksMu.Lock()
	defer s.hooksMu.Unlock()
	s.onEvent = append(s.onEvent, fn)
}

// Follow adds a receiver for both: as OnChange and OnEvent.
func (s *Service) Follow(changed func(Machine), said func(Machine, wire.Event)) {
	s.OnChange(changed)
	s.OnEvent(said)
}

// load reads all machines once; from then on memory is authoritative, and each change is stored before it becomes visible.
func (s *Service) load(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loaded {
		return nil
	}
	rows, err := s.store.Runners(tenant.All(ctx, "memory holds the machines of all teams"))
	if err != nil {
		return err
	}
	for _, m := range rows {
		s.all[m.ID] = &entry{m: m}
	}
	s.loaded = true
	return nil
}

// Recover reads the known machines and closes the connections of an earlier server that was killed.
func (s *Service) Recover(ctx context.Context) error {
	if err := s.store.EndStaleConnections(ctx, sayDied, s.now()); err != nil {
		return err
	}
	return s.load(ctx)
}

// Machines returns a team's machines by name, connected or not, without revoked ones. teamID "" = of all teams.
func (s *Service) Machines(ctx context.Context, teamID string) []Machine {
	if err := s.load(ctx); err != nil {
		s.cfg.Log.WarnContext(ctx, "the machines could not be read", "error", err)
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Machine
	for _, e := range s.all {
		if (teamID == "" || e.m.TeamID == teamID) && !e.m.Revoked() {
			out = append(out, e.show())
		}
	}
	slices.SortFunc(out, func(a, b Machine) int {
		if c := strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out
}

// Machine returns one; false when there is none, or it was revoked.
func (s *Service) Machine(ctx context.Context, id string) (Machine, bool) {
	m, err := s.Known(ctx, id)
	return m, err == nil && !m.Revoked()
}

// Known returns one, also when it was revoked. Errors: not_found.
func (s *Service) Known(ctx context.Context, id string) (Machine, error) {
	e, err := s.entry(ctx, id)
	if err != nil {
		return Machine{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.show(), nil
}

var errNotFound = fault.New(fault.NotFound, "not_found", "There is no such machine, or it is not yours to see.")

func (s *Service) entry(ctx context.Context, id string) (*entry, error) {
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.all[id]; e != nil {
		return e, nil
	}
	return nil, errNotFound
}

// show returns the machine as others see it. Service.mu is held.
func (e *entry) show() Machine {
	m := e.m
	m.Online = e.live != nil
	if m.Online {
		m.Leaving, m.Questions = e.live.leaving, slices.Clone(e.live.questions)
	}
	return m
}

// Work is a workspace that lives on a machine.
type Work struct {
	RunnerID, ID, Key, Name, State string
}

// Work returns a team's workspaces that live on machines, newest first.
func (s *Service) Work(ctx context.Context, teamID string) ([]Work, error) {
	return s.store.RunnerWork(ctx, teamID)
}

// Rename gives a machine another name. Errors: invalid_name, runner_name_taken.
func (s *Service) Rename(ctx context.Context, id, name string) (Machine, error) {
	name, err := cleanName(name)
	if err != nil {
		return Machine{}, err
	}
	e, err := s.entry(ctx, id)
	if err != nil {
		return Machine{}, err
	}
	at := s.now()
	if err := s.store.RenameRunner(ctx, id, name, at); err != nil {
		if fault.Is(err, fault.Conflict) {
			return Machine{}, fault.New(fault.Conflict, "runner_name_taken", "You have a machine with that name already. Choose another one.").With("field", "name")
		}
		return Machine{}, err
	}
	s.mu.Lock()
	e.m.Name, e.m.UpdatedAt = name, at
	s.mu.Unlock()
	return s.notify(ctx, e), nil
}

// Revoke revokes a machine: its key is no longer valid and its connection is cut. What runs there goes on until its owner stops it.
func (s *Service) Revoke(ctx context.Context, id string) error {
	e, err := s.entry(ctx, id)
	if err != nil {
		return err
	}
	at := s.now()
	if err := s.store.RevokeRunner(ctx, id, at); err != nil {
		return err
	}
	s.mu.Lock()
	e.m.RevokedAt, e.m.UpdatedAt = at, at
	l := e.live
	s.mu.Unlock()
	if l != nil {
		l.end(tunnel.ReasonRevoked)
	}
	s.notify(ctx, e)
	return nil
}

// History returns a page of a machine's connections, newest first.
func (s *Service) History(ctx context.Context, id string, pg Page) ([]Connection, string, error) {
	return s.store.RunnerConnections(ctx, id, pg)
}

// notify notifies others that a machine changed, and returns its current state.
func (s *Service) notify(ctx context.Context, e *entry) Machine {
	e.said.Lock()
	defer e.said.Unlock()
	s.mu.Lock()
	m := e.show()
	s.mu.Unlock()
	s.publish(ctx, m)
	s.hooksMu.Lock()
	hooks := s.onChange
	s.hooksMu.Unlock()
	for _, fn := range hooks {
		fn(m)
	}
	return m
}

// publish makes browsers read again.
func (s *Service) publish(ctx context.Context, m Machine) {
	s.cfg.Events.Publish(context.WithoutCancel(ctx), events.Event{Type: "runner.updated", ID: m.ID, TeamID: m.TeamID, Version: s.now()})
}

// worksIn returns a team while a user may have machines in it. Errors: runner_owner_gone.
func (s *Service) worksIn(ctx context.Context, teamID, userID string) (accounts.Team, error) {
	actor, err := s.cfg.Accounts.Actor(ctx, userID)
	if err == nil {
		err = accounts.Can(actor, accounts.CreateWorkspace, accounts.InTeam(teamID))
	}
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Forbidden) || fault.Is(err, fault.Unauthorized) {
		return accounts.Team{}, fault.New(fault.Forbidden, "runner_owner_gone", "The member this machine belongs to may no longer work in the team. Ask an admin of the team.")
	}
	if err != nil {
		return accounts.Team{}, err
	}
	for _, m := range actor.Memberships {
		if m.Team.ID == teamID {
			return m.Team, nil
		}
	}
	return accounts.Team{}, nil
}

// Recheck disconnects a user's machines, "" = everybody's, whose owner may no longer work in the machines' team. It is made for
// directory.Config.Changed, and does not wait for the connections to end.
func (s *Service) Recheck(ctx context.Context, userID string) {
	s.mu.Lock()
	mine := map[*live]string{} // whose
	for _, e := range s.all {
		if (userID == "" || e.m.UserID == userID) && e.live != nil {
			mine[e.live] = e.m.UserID
		}
	}
	s.mu.Unlock()
	for l, whose := range mine {
		if _, err := s.worksIn(ctx, l.teamID, whose); fault.Is(err, fault.Forbidden) {
			l.end("Its owner may no longer work in the team.")
		}
	}
}
