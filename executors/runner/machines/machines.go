// Package machines is the room of members' own machines: which are known, how one becomes known (a token, exchanged once for a key of the
// machine's own), which are connected now and through what, and how each connection ended.
//
// The server's key signs what machines are told; it is made once and kept sealed. A machine has one connection: a newer one takes the place
// of the older at once. Whatever a machine says is checked here (check.go, feed.go) before anybody else sees it.
//
// Goroutines: each connection is served by the goroutine of its request (Connect); Run keeps what is seen of them in the store, ends them all
// when it ends and waits for them.
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
	Key    ed25519.PublicKey // nil: its key counts no more and it has not enrolled with a new one

	Hello    wire.Hello // what it last said of itself, checked
	Version  string     // of its program
	Protocol int

	Online        bool
	Leaving       bool // its owner asked to bring its sandboxes home and end them
	ConnectedAt   int64
	SeenAt        int64
	OfflineAt     int64 // 0 while it is online, and before it was ever connected
	OfflineReason string
	Questions     []wire.Question // its owner has not answered, oldest first

	CreatedAt int64
	UpdatedAt int64
	RevokedAt int64
}

// Revoked reports whether the machine counts no more.
func (m Machine) Revoked() bool { return m.RevokedAt != 0 }

// MayUse reports whether a member of the machine's team may choose it: its owner, and everybody where the owner shares it.
func (m Machine) MayUse(userID string) bool {
	return !m.Revoked() && (m.UserID == userID || m.Hello.Share == ShareTeam)
}

// Dangerous reports whether agents run there without isolation.
func (m Machine) Dangerous() bool { return m.Hello.Mode == wire.Direct }

// Who a machine is for.
const (
	ShareOwner = "owner"
	ShareTeam  = "team"
)

// Accounts is what the room needs to know of people.
type Accounts interface {
	Actor(ctx context.Context, userID string) (accounts.Actor, error)
}

// Sealer keeps a value of the instance sealed.
type Sealer interface {
	Seal(name, value string) (string, error)
	Unseal(name, sealed string) (string, error)
}

// Config is what a Service is made of.
type Config struct {
	Store    Store
	Accounts Accounts
	Sealer   Sealer
	Events   events.Publisher
	Enabled  bool          // whether members may connect machines
	Programs []string      // of agents: what a machine may say that it has
	TokenFor time.Duration // how long a token for one machine can be used; 0 = an hour
	Silence  time.Duration // without a sign of life for so long a machine is offline; 0 = 30 s
	Tick     time.Duration // how often what was seen is stored; 0 = 10 s
	Now      func() time.Time
	Rand     io.Reader
	Log      *slog.Logger
}

// Service is the door of the room. Safe for concurrent use. Order: New, Recover, Run beside Connect.
type Service struct {
	cfg    Config
	store  Store
	limits *attempts

	mu     sync.Mutex
	loaded bool
	all    map[string]*entry
	closed bool // no more connections are taken
	links  map[*tunnel.Link]struct{}
	conns  sync.WaitGroup

	keyMu sync.Mutex
	key   ed25519.PrivateKey

	hooksMu  sync.Mutex
	onChange []func(Machine)
	onEvent  []func(Machine, wire.Event)
}

// entry is one machine and its connection. Service.mu guards m, live and calls; turn is held while a connection is put in or taken out, or what
// it says is stored, so that the store hears of it in its order.
type entry struct {
	turn  sync.Mutex
	said  sync.Mutex // held while others are told, so that they hear the newest last
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

// OnChange adds who is told, after the fact, when a machine was connected, went, or said something new of itself other than its load. It is
// called by the machine's own goroutine, must return soon and change no machine from within. Before the first connection only.
func (s *Service) OnChange(fn func(Machine)) {
	s.hooksMu.Lock()
	defer s.hooksMu.Unlock()
	s.onChange = append(s.onChange, fn)
}

// OnEvent adds who is told what a connected machine says of its sandboxes, and that it wants to leave: events of the types sandbox and
// leaving, in their order. As for OnChange.
func (s *Service) OnEvent(fn func(Machine, wire.Event)) {
	s.hooksMu.Lock()
	defer s.hooksMu.Unlock()
	s.onEvent = append(s.onEvent, fn)
}

// Follow adds who is told both: as OnChange and OnEvent.
func (s *Service) Follow(changed func(Machine), said func(Machine, wire.Event)) {
	s.OnChange(changed)
	s.OnEvent(said)
}

// load reads all machines once; from then on memory is what holds, and each change is stored before it is seen.
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

// Recover reads what is known of machines and closes the connections an earlier server left: it was ended without a word, and they with it.
func (s *Service) Recover(ctx context.Context) error {
	const words = "The server was stopped without a word."
	if err := s.store.EndStaleConnections(ctx, words, s.now()); err != nil {
		return err
	}
	return s.load(ctx)
}

// Machines returns a team's machines, connected or not, without the revoked, by name. teamID "" = of all teams.
func (s *Service) Machines(ctx context.Context, teamID string) []Machine {
	if err := s.load(ctx); err != nil {
		s.cfg.Log.WarnContext(ctx, "machines not read", "error", err)
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

// Revoke ends a machine for good: its key counts no more and its connection is cut. What runs there goes on until its owner stops it.
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

// tell says that something of a machine changed, and returns how it looks now.
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

// publish tells browsers to look again.
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
		return accounts.Team{}, fault.New(fault.Forbidden, "runner_owner_gone", "The member this machine belongs to may not work in the team any more. Ask an admin of the team.")
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

// Recheck cuts a user's machines off, "" = everybody's, when they may not work in the machines' team any more. It is made for
// directory.Config.Changed, and does not wait for the end of what it cuts.
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
			l.end("Its owner may not work in the team any more.")
		}
	}
}
