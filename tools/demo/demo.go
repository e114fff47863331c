// Package demo lets people who are not signed in run code in a sandbox of their own, within narrow limits. Each sandbox is one without a
// repository, of a team that has no members; see package sandboxes, whose loop ends it. What a visitor holds is a random token: its hash, and
// that of the visitor's address, are the sandbox's key, so that nothing but the sandbox's row has to survive the server.
//
// The package starts no goroutine. One lock guards what is being started, what runs, and how often who asked; it is not held during I/O.
package demo

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/network"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/tools/code"
	"github.com/parawork/parawork/tools/sandboxes"
)

// Limits bound the demo.
type Limits struct {
	Life          time.Duration // of a sandbox
	Idle          time.Duration // without use, until a sandbox ends
	AtOnce        int           // sandboxes of the instance
	PerAddress    int           // sandboxes of one address at once
	StartsPerHour int           // sandboxes of one address
	RunsPerMinute int           // in one sandbox
	RunTime       time.Duration // of one run
	OutputBytes   int           // that one run may print and display
	Sandbox       executors.Limits
}

// Sandboxes gives out sandboxes: package sandboxes.
type Sandboxes interface {
	Obtain(ctx context.Context, actor accounts.Actor, teamID string, r sandboxes.Request) (sandboxes.Sandbox, bool, error)
	// Open returns those of ctx's team of which something is left, ended ones too.
	Open(ctx context.Context) ([]sandboxes.Sandbox, error)
	Get(ctx context.Context, sandboxID string) (sandboxes.Sandbox, error)
	Use(ctx context.Context, sandboxID string) (sandboxes.Sandbox, error)
	End(ctx context.Context, sandboxID string) error
}

// Code runs code: package code.
type Code interface {
	Stream(ctx context.Context, req code.Request, fn func(code.Event) error) (code.Run, error)
}

// Teams stores the demo's team.
type Teams interface {
	// InsertTeam stores a new team; false when its short name is taken.
	InsertTeam(ctx context.Context, t accounts.Team) (bool, error)
	TeamByID(ctx context.Context, id string) (accounts.Team, error)
}

// Config configures a Service.
type Config struct {
	Executor  executors.Kind // isolates, and enforces what a sandbox reaches
	Limits    Limits
	Key       []byte // of the instance: hashes addresses
	Teams     Teams
	Sandboxes Sandboxes
	Code      Code
	// Confine bounds all sandboxes of a team and what they reach.
	Confine func(ctx context.Context, teamID, userID string, l executors.Limits, n executors.Network) error
	// Place says what an executor can do now.
	Place func(ctx context.Context, k executors.Kind) (executors.Capabilities, bool)
	Now   func() time.Time
	Log   *slog.Logger
}

// Service is the public demo. Safe for concurrent use.
type Service struct {
	cfg Config

	warned rate.Sometimes // anybody can ask as often as they like

	mu       sync.Mutex
	prepared bool                     // the team and the bounds of its sandboxes are stored
	all      *rate.Limiter            // starts of all addresses
	starting map[string]bool          // keys of sandboxes that are being made
	running  map[string]bool          // sandboxes in which code runs
	runs     map[string]*rate.Limiter // by sandbox
	starts   map[string]*rate.Limiter // by address
}

// New makes a Service. It starts nothing.
func New(cfg Config) *Service {
	if cfg.Teams == nil || cfg.Sandboxes == nil || cfg.Code == nil || cfg.Confine == nil || cfg.Place == nil || len(cfg.Key) == 0 {
		panic(errors.New("demo: Teams, Sandboxes, Code, Confine, Place and Key are required"))
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Service{cfg: cfg, warned: rate.Sometimes{Interval: time.Minute}, all: rate.NewLimiter(rate.Limit(float64(cfg.Limits.AtOnce)/time.Minute.Seconds()), 2*cfg.Limits.AtOnce), starting: map[string]bool{}, running: map[string]bool{},
		runs: map[string]*rate.Limiter{}, starts: map[string]*rate.Limiter{}}
}

// Limits returns what bounds the demo.
func (s *Service) Limits() Limits { return s.cfg.Limits }

// visitor is whom the demo's sandboxes are stored for: no user.
const visitor = "usr_demo"

func scope(ctx context.Context) context.Context { return tenant.In(ctx, accounts.DemoTeamID) }

// Start makes a sandbox for a visitor at an address, and returns it with the token that alone opens it. A token of a sandbox that lives
// returns that one.
func (s *Service) Start(ctx context.Context, token, address string) (sandboxes.Sandbox, string, error) {
	ctx = scope(ctx)
	open, err := s.cfg.Sandboxes.Open(ctx)
	if err != nil {
		return sandboxes.Sandbox{}, "", err
	}
	if sb, ok := s.find(open, token); ok {
		return sb, token, nil
	}
	if err := s.prepare(ctx); err != nil {
		s.warned.Do(func() { s.cfg.Log.WarnContext(ctx, "the public demo cannot start sandboxes", "error", err) })
		return sandboxes.Sandbox{}, "", unavailable(err)
	}
	from := s.hash(addressOf(address))
	token = rand.Text()
	key := from + "." + hash(token)
	if err := s.admit(open, from, key); err != nil {
		return sandboxes.Sandbox{}, "", err
	}
	defer func() {
		s.mu.Lock()
		delete(s.starting, key)
		s.mu.Unlock()
	}()
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	sb, _, err := s.cfg.Sandboxes.Obtain(ctx, accounts.Actor{User: accounts.User{ID: visitor}}, accounts.DemoTeamID, sandboxes.Request{Key: key, Purpose: executors.ForExecution,
		Executor: s.cfg.Executor, Idle: s.cfg.Limits.Idle, Life: s.cfg.Limits.Life, Network: &network.Policy{Mode: executors.NetworkNone}, Most: s.cfg.Limits.AtOnce})
	if err == nil {
		return sb, token, nil
	}
	if fault.CodeOf(err) == "sandbox_limit" { // another server was faster
		return sandboxes.Sandbox{}, "", s.full(time.Minute.Milliseconds())
	}
	if ctx.Err() != nil { // the visitor has left without the token, or it took too long: nobody would use the sandbox
		s.endLeft(context.WithoutCancel(ctx), key)
	}
	s.cfg.Log.WarnContext(ctx, "a sandbox of the public demo could not be made", "error", err)
	return sandboxes.Sandbox{}, "", unavailable(err)
}

// startTime is how long a sandbox may take to start.
const startTime = 2 * time.Minute

// endLeft ends the sandbox with a key, if there is one.
func (s *Service) endLeft(ctx context.Context, key string) {
	open, err := s.cfg.Sandboxes.Open(ctx)
	for _, sb := range open {
		if sb.Key == key {
			err = errors.Join(err, s.cfg.Sandboxes.End(ctx, sb.ID))
		}
	}
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "a sandbox of a visitor who left was not ended yet", "error", err)
	}
}

// prepare stores the team once, and what bounds its sandboxes: before there is any.
func (s *Service) prepare(ctx context.Context) error {
	c, ok := s.cfg.Place(ctx, s.cfg.Executor)
	if !ok || !c.Available || !c.Isolated || !c.Network || !c.Limits {
		return fmt.Errorf("%q cannot be used now (isolates: %v, restricts the network: %v, enforces limits: %v): %s", s.cfg.Executor, c.Isolated, c.Network, c.Limits, cmp.Or(c.Reason, c.Warning))
	}
	if err := s.allowed(ctx); fault.Is(err, fault.NotFound) {
		// False: another server has stored it, or the short name is a real team's.
		if _, err := s.cfg.Teams.InsertTeam(ctx, accounts.Team{ID: accounts.DemoTeamID, Slug: "demo", Name: "Public demo", CreatedAt: s.cfg.Now().UnixMilli()}); err != nil {
			return fmt.Errorf("storing the team of the public demo: %w", err)
		}
		if err := s.allowed(ctx); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	s.mu.Lock()
	prepared := s.prepared
	s.mu.Unlock()
	if prepared {
		return nil
	}
	if err := s.cfg.Confine(ctx, accounts.DemoTeamID, visitor, s.cfg.Limits.Sandbox, executors.Network{Mode: executors.NetworkNone}); err != nil {
		return fmt.Errorf("bounding the sandboxes of the public demo: %w", err)
	}
	s.mu.Lock()
	s.prepared = true
	s.mu.Unlock()
	return nil
}

// allowed refuses while an operator has suspended the demo's team.
func (s *Service) allowed(ctx context.Context) error {
	t, err := s.cfg.Teams.TeamByID(ctx, accounts.DemoTeamID)
	if err == nil && t.SuspendedAt != 0 {
		err = errors.New("an operator has suspended its team")
	}
	return err
}

// Find returns the live sandbox that a token opens.
func (s *Service) Find(ctx context.Context, token string) (sandboxes.Sandbox, bool, error) {
	if token == "" {
		return sandboxes.Sandbox{}, false, nil
	}
	open, err := s.cfg.Sandboxes.Open(scope(ctx))
	sb, ok := s.find(open, token)
	return sb, ok, err
}

func (s *Service) find(open []sandboxes.Sandbox, token string) (sandboxes.Sandbox, bool) {
	for _, sb := range open {
		if s.opens(token, sb) {
			return sb, true
		}
	}
	return sandboxes.Sandbox{}, false
}

// opens reports whether a token is that of a sandbox that lives.
func (s *Service) opens(token string, sb sandboxes.Sandbox) bool {
	_, want, ok := strings.Cut(sb.Key, ".")
	return ok && token != "" && sb.TeamID == accounts.DemoTeamID && sb.EndedAt == 0 && sb.EndsBy > s.cfg.Now().UnixMilli() && hmac.Equal([]byte(hash(token)), []byte(want))
}

// get returns the live sandbox with an id, if a token opens it.
func (s *Service) get(ctx context.Context, token, sandboxID string) (sandboxes.Sandbox, error) {
	sb, err := s.cfg.Sandboxes.Get(ctx, sandboxID)
	if err == nil && !s.opens(token, sb) || fault.Is(err, fault.NotFound) {
		return sandboxes.Sandbox{}, fault.New(fault.NotFound, "demo_sandbox_ended", "This sandbox has ended, or it is not yours. Start another one.")
	}
	return sb, err
}

// End ends a visitor's sandbox.
func (s *Service) End(ctx context.Context, token, sandboxID string) error {
	ctx = scope(ctx)
	sb, err := s.get(ctx, token, sandboxID)
	if err != nil {
		return err
	}
	return s.cfg.Sandboxes.End(ctx, sb.ID)
}

// maxCode is how many bytes of code a visitor may run at once.
const maxCode = 32 << 10

// errOutput interrupts a run that printed too much.
var errOutput = errors.New("too much output")

// Run runs code in a visitor's sandbox. fn, which may be nil, hears of outputs as they come.
func (s *Service) Run(ctx context.Context, token, sandboxID string, language code.Language, text string, fn func(code.Event) error) (code.Run, error) {
	ctx = scope(ctx)
	sb, err := s.get(ctx, token, sandboxID)
	if err != nil {
		return code.Run{}, err
	}
	if len(text) > maxCode {
		return code.Run{}, fault.New(fault.Invalid, "demo_code_too_long", "The demo runs at most %d KiB of code at once. Sign in to run more.", maxCode>>10).With("field", "code")
	}
	if err := s.allowed(ctx); err != nil {
		return code.Run{}, unavailable(err)
	}
	done, err := s.begin(sb.ID)
	if err != nil {
		return code.Run{}, err
	}
	defer done()
	ctx, cancel := context.WithDeadline(ctx, time.Now().Add(time.UnixMilli(sb.EndsBy).Sub(s.cfg.Now())))
	defer cancel()
	if _, err := s.cfg.Sandboxes.Use(ctx, sb.ID); err != nil {
		return code.Run{}, err
	}
	printed := 0
	run, err := s.cfg.Code.Stream(ctx, code.Request{TeamID: sb.TeamID, WorkspaceID: sb.WorkspaceID, UserID: visitor, Language: language, Code: text, TimeoutMs: s.cfg.Limits.RunTime.Milliseconds()},
		func(e code.Event) error {
			if o := e.Output; o != nil {
				printed += len(o.Text)
				for _, data := range o.Data {
					printed += len(data)
				}
				if printed > s.cfg.Limits.OutputBytes {
					return errOutput
				}
			}
			if fn == nil {
				return nil
			}
			return fn(e)
		})
	if errors.Is(err, errOutput) {
		run.Cause, run.Truncated = fmt.Sprintf("The code was interrupted: the demo shows at most %d KiB of output.", s.cfg.Limits.OutputBytes>>10), true
		return run, nil
	}
	return run, err
}

func unavailable(cause error) error {
	return fault.Wrap(cause, fault.Unavailable, "demo_unavailable", "The demo cannot start a sandbox now. Try again in a minute.").With("retry_after_ms", time.Minute.Milliseconds())
}

// hash is what is stored of a token.
func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// hash is what is stored of an address: without the instance's key, nobody can find it by trying all there are.
func (s *Service) hash(address string) string {
	h := hmac.New(sha256.New, s.cfg.Key)
	h.Write([]byte("demo address " + address))
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// addressOf is what counts as one address: of IPv6, the /64 that one customer usually has.
func addressOf(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return "unknown"
	}
	a = a.Unmap().WithZone("")
	if a.Is4() {
		return a.String()
	}
	p, _ := a.Prefix(64)
	return p.String()
}
