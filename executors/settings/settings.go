// Package settings keeps what operators say in the browser about this server's places. What config.json or the environment says goes
// before it and is locked. Texts are kept as JSON, by the dotted names the API uses; the key of a place is kept sealed.
//
// A Service holds what is kept in memory and reads it again when it is older than a few seconds, so that several servers over one
// database agree soon. It starts no goroutine.
package settings

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// Values are what holds now, whoever said it.
type Values struct {
	DefaultExecutor  string // a kind, or auto
	AllowUserChoice  bool   // members may name a place
	MonthlyBudgetUSD int64  // of paid sandboxes of the whole instance; 0 = none may be made
	DefaultPlan      string // of teams that nobody gave one
	E2B              E2B
	Pool             Pool
}

// E2B is what is said about sandboxes of E2B.
type E2B struct {
	APIKey            string // in clear, in memory only
	Domain            string
	APIURL            string
	SandboxURL        string
	Template          string
	DefaultCPUs       int64
	DefaultMemoryMB   int64 // MiB
	MaxSessionMinutes int64
	IdleMinutes       int64 // 0 = never
	FallbackToLocal   bool
}

// Pool is how many sandboxes are made ahead of time.
type Pool struct {
	Enabled  bool
	Min, Max int64
}

// Names of the settings, as in the API.
const (
	DefaultExecutor  = "default_executor"
	AllowUserChoice  = "allow_user_choice"
	MonthlyBudgetUSD = "monthly_budget_usd"
	DefaultPlan      = "default_plan"
	E2BKey           = "e2b.key"
	E2BDomain        = "e2b.domain"
	E2BAPIURL        = "e2b.api_url"
	E2BSandboxURL    = "e2b.sandbox_url"
	E2BTemplate      = "e2b.template"
	E2BCPUs          = "e2b.default_cpus"
	E2BMemory        = "e2b.default_memory_mb"
	E2BMaxSession    = "e2b.max_session_minutes"
	E2BIdle          = "e2b.idle_minutes"
	E2BFallback      = "e2b.fallback_to_local"
	PoolEnabled      = "pool.enabled"
	PoolMin          = "pool.min"
	PoolMax          = "pool.max"
)

// fields leads from a name to where its value is kept.
var fields = map[string]func(*Values) any{
	DefaultExecutor:  func(v *Values) any { return &v.DefaultExecutor },
	AllowUserChoice:  func(v *Values) any { return &v.AllowUserChoice },
	MonthlyBudgetUSD: func(v *Values) any { return &v.MonthlyBudgetUSD },
	DefaultPlan:      func(v *Values) any { return &v.DefaultPlan },
	E2BDomain:        func(v *Values) any { return &v.E2B.Domain },
	E2BAPIURL:        func(v *Values) any { return &v.E2B.APIURL },
	E2BSandboxURL:    func(v *Values) any { return &v.E2B.SandboxURL },
	E2BTemplate:      func(v *Values) any { return &v.E2B.Template },
	E2BCPUs:          func(v *Values) any { return &v.E2B.DefaultCPUs },
	E2BMemory:        func(v *Values) any { return &v.E2B.DefaultMemoryMB },
	E2BMaxSession:    func(v *Values) any { return &v.E2B.MaxSessionMinutes },
	E2BIdle:          func(v *Values) any { return &v.E2B.IdleMinutes },
	E2BFallback:      func(v *Values) any { return &v.E2B.FallbackToLocal },
	PoolEnabled:      func(v *Values) any { return &v.Pool.Enabled },
	PoolMin:          func(v *Values) any { return &v.Pool.Min },
	PoolMax:          func(v *Values) any { return &v.Pool.Max },
}

// Row is what is kept under one name.
type Row struct {
	Settings   string // JSON
	Sealed     string // a secret, sealed; "" = none
	KeyVersion int
	LastFour   string
	UpdatedBy  string
	UpdatedAt  int64 // ms UTC
}

// Store keeps rows by name.
type Store interface {
	// PlaceSettings returns a row; fault.NotFound when there is none.
	PlaceSettings(ctx context.Context, name string) (Row, error)
	SetPlaceSettings(ctx context.Context, name string, r Row) error
	Tx(ctx context.Context, fn func(context.Context) error) error
}

// Sealer seals values of the instance.
type Sealer interface {
	Seal(name, value string) (string, error)
	Unseal(name, sealed string) (string, error)
}

// Rows of the store, and what the key of E2B is sealed for.
const (
	rowInstance = "instance"
	rowE2B      = "e2b"
	keyPurpose  = "e2b key"
)

// Config is what a Service is made of. Store and Sealer are required.
type Config struct {
	Store  Store
	Sealer Sealer
	Base   Values          // config.json with its defaults
	Locked map[string]bool // names of what config.json or the environment says
	// Changed is told of what holds from now on, at the first reading and whenever it is news. It must not block. Optional.
	Changed func(Values)
	Now     func() time.Time
	Log     *slog.Logger
}

// Service keeps the settings. Safe for concurrent use.
type Service struct {
	cfg Config

	mu   sync.Mutex
	at   time.Time
	read bool
	held Values
	four string // the end of the key
}

// fresh is how long what was read is good for.
const fresh = 5 * time.Second

// New makes a Service. Until Load has read what is kept, config.json alone holds.
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Service{cfg: cfg, held: cfg.Base, four: lastFour(cfg.Base.E2B.APIKey)}
}

// Locked reports whether config.json or the environment says it.
func (s *Service) Locked(name string) bool { return s.cfg.Locked[name] }

// Said reports whether config.json, the environment or an operator says it: else it is what the program came with.
func (s *Service) Said(ctx context.Context, name string) (bool, error) {
	if s.Locked(name) {
		return true, nil
	}
	kept, _, err := s.kept(ctx)
	_, said := kept[name]
	return said, err
}

// KeyEnd is the end of the key of E2B, "" without one.
func (s *Service) KeyEnd() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.four
}

// Values are what holds now. What cannot be read stays as it was last known.
func (s *Service) Values(ctx context.Context) Values {
	s.mu.Lock()
	now := s.cfg.Now()
	if s.read && now.Sub(s.at) < fresh {
		defer s.mu.Unlock()
		return s.held
	}
	s.at = now // one who asks reads; the others take what is there
	s.mu.Unlock()
	if err := s.Load(ctx); err != nil {
		s.cfg.Log.Warn("settings of places could not be read", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// Load reads what is kept.
func (s *Service) Load(ctx context.Context) error {
	kept, key, err := s.kept(ctx)
	if err != nil {
		return err
	}
	v, err := s.with(kept)
	if err != nil {
		return err
	}
	four := lastFour(s.cfg.Base.E2B.APIKey)
	if !s.Locked(E2BKey) && key.Sealed != "" {
		four = key.LastFour
		if v.E2B.APIKey, err = s.cfg.Sealer.Unseal(keyPurpose, key.Sealed); err != nil {
			s.cfg.Log.Error("the key of E2B that is kept cannot be read: enter it again", "error", err)
			v.E2B.APIKey, four = "", ""
		}
	}
	s.hold(v, four)
	return nil
}

func (s *Service) hold(v Values, four string) {
	s.mu.Lock()
	news := !s.read || s.held != v
	s.held, s.four, s.read, s.at = v, four, true, s.cfg.Now()
	s.mu.Unlock()
	if news && s.cfg.Changed != nil {
		s.cfg.Changed(v)
	}
}

// kept reads both rows.
func (s *Service) kept(ctx context.Context) (map[string]json.RawMessage, Row, error) {
	kept := make(map[string]json.RawMessage)
	all, err := s.cfg.Store.PlaceSettings(ctx, rowInstance)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, Row{}, fmt.Errorf("reading the settings of places: %w", err)
	}
	if err == nil {
		if err := json.Unmarshal([]byte(all.Settings), &kept); err != nil {
			return nil, Row{}, fmt.Errorf("reading the settings of places: %w", err)
		}
	}
	key, err := s.cfg.Store.PlaceSettings(ctx, rowE2B)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, Row{}, fmt.Errorf("reading the key of E2B: %w", err)
	}
	return kept, key, nil
}

// with puts what is kept over config.json, but for what is locked. Names of a newer version are left alone.
func (s *Service) with(kept map[string]json.RawMessage) (Values, error) {
	v := s.cfg.Base
	for name, raw := range kept {
		at := fields[name]
		if at == nil || s.Locked(name) {
			continue
		}
		if err := json.Unmarshal(raw, at(&v)); err != nil {
			return v, fmt.Errorf("reading the setting %s: %w", name, err)
		}
	}
	return v, nil
}

// Set changes settings by name, all or none, and says what holds then. A key is set with E2BKey: a string, "" removes it. Errors:
// setting_locked, invalid_setting.
func (s *Service) Set(ctx context.Context, by string, changes map[string]any) (Values, error) {
	for name := range changes {
		if s.Locked(name) {
			return Values{}, fault.New(fault.Conflict, "setting_locked", "config.json or the environment says %s: change it there and restart the server.", name).With("field", name)
		}
		if fields[name] == nil && name != E2BKey {
			return Values{}, fmt.Errorf("settings: no setting is called %q", name)
		}
	}
	err := s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		kept, _, err := s.kept(ctx)
		if err != nil {
			return err
		}
		for name, value := range changes {
			if name == E2BKey {
				continue
			}
			if kept[name], err = json.Marshal(value); err != nil {
				return err
			}
		}
		v, err := s.with(kept)
		if err != nil {
			return err
		}
		if err := v.check(); err != nil {
			return err
		}
		text, err := json.Marshal(kept)
		if err != nil {
			return err
		}
		now := s.cfg.Now().UnixMilli()
		if err := s.cfg.Store.SetPlaceSettings(ctx, rowInstance, Row{Settings: string(text), UpdatedBy: by, UpdatedAt: now}); err != nil {
			return err
		}
		key, ok := changes[E2BKey].(string)
		if !ok {
			return nil
		}
		row := Row{Settings: "{}", UpdatedBy: by, UpdatedAt: now}
		if key != "" {
			if row.Sealed, err = s.cfg.Sealer.Seal(keyPurpose, key); err != nil {
				return fmt.Errorf("sealing the key of E2B: %w", err)
			}
			row.KeyVersion, row.LastFour = 1, lastFour(key)
		}
		return s.cfg.Store.SetPlaceSettings(ctx, rowE2B, row)
	})
	if err != nil {
		if _, ok := errors.AsType[*fault.Error](err); ok {
			return Values{}, err
		}
		return Values{}, fmt.Errorf("keeping the settings of places: %w", err)
	}
	if err := s.Load(ctx); err != nil {
		return Values{}, err
	}
	names := make([]string, 0, len(changes))
	for name := range changes {
		names = append(names, name)
	}
	slices.Sort(names)
	s.cfg.Log.Info("settings of places were changed", "actor_id", by, "settings", names)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held, nil
}

// lastFour is the end of a key that is long enough not to be given away by it.
func lastFour(key string) string {
	if len(key) < 12 {
		return ""
	}
	return key[len(key)-4:]
}
