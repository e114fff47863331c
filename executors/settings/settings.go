// Package settings keeps what operators say in the browser about this server's places. What config.json or the environment says goes
// before it and is locked. Texts are kept as JSON, by the names the API uses, in a row for the instance and one for each kind of place; the
// secret of a kind is kept sealed beside them.
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
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/schema"
)

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

// rowInstance is the row of the settings that are of no kind of place, rowRegions the one with the names of the regions that operators added.
const (
	rowInstance = "instance"
	rowRegions  = "regions"
)

// KeyPurpose is what the secret of a kind of place is sealed for: this kind, and the addresses it was entered for. With other addresses the
// secret cannot be opened, whoever changed them, and on whichever server.
func KeyPurpose(kind string, v schema.Values) string {
	purpose := "place key of " + kind
	for _, f := range v.Schema() {
		if f.Address {
			purpose += "\x00" + f.Name + "=" + v.Text(f.Key)
		}
	}
	return purpose
}

// Group is settings that are kept in one row.
type Group struct {
	Base   schema.Values   // config.json with its defaults
	Locked map[string]bool // names of what config.json or the environment says
}

// Config is what a Service is made of. Store and Sealer are required.
type Config struct {
	Store    Store
	Sealer   Sealer
	Instance Group            // of the schema Instance; default its defaults
	Places   map[string]Group // by kind
	// Region returns the settings of a region, which operators may add by name, such as e2b@eu; false when its kind has no regions. Optional.
	Region func(kind string) (schema.Schema, bool)
	Now    func() time.Time
	Log    *slog.Logger
}

// Service keeps the settings. Safe for concurrent use.
type Service struct {
	cfg Config

	mu     sync.Mutex
	groups map[string]Group // by the name of the row; the map is never changed
	at     time.Time
	read   bool
	held   map[string]state
}

// state is what holds of one group.
type state struct {
	values   schema.Values
	lastFour string // the end of the secret
}

// fresh is how long what was read is good for.
const fresh = 5 * time.Second

// New makes a Service. Until Load has read what is kept, config.json alone holds.
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.Instance.Base.Schema() == nil {
		cfg.Instance.Base = Instance.Defaults()
	}
	s := &Service{cfg: cfg, groups: maps.Clone(cfg.Places), held: make(map[string]state)}
	if s.groups == nil {
		s.groups = make(map[string]Group)
	}
	s.groups[rowInstance] = cfg.Instance
	for name, g := range s.groups {
		s.held[name] = g.start()
	}
	return s
}

// start is what holds of a group when nothing is kept.
func (g Group) start() state {
	st := state{values: g.Base}
	if f, ok := g.Base.Schema().Secret(); ok {
		st.lastFour = lastFour(g.Base.Text(f.Key))
	}
	return st
}

// Values are what holds now, whoever said it. What cannot be read stays as it was last known.
func (s *Service) Values(ctx context.Context) Values { return valuesOf(s.now(ctx)[rowInstance].values) }

// Place is what holds of a kind of place, its secret in clear, and how that ends: "" without one. Each has the kind's own schema.
func (s *Service) Place(ctx context.Context, kind string) (v schema.Values, lastFour string) {
	st := s.now(ctx)[kind]
	return st.values, st.lastFour
}

// General is what holds of the settings that are of no kind.
func (s *Service) General(ctx context.Context) schema.Values { return s.now(ctx)[rowInstance].values }

func (s *Service) now(ctx context.Context) map[string]state {
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

// all are the groups that are known now.
func (s *Service) all() map[string]Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.groups
}

// Regions are the names of a kind's regions, such as e2b@eu: those of config.json and those that operators added.
func (s *Service) Regions(ctx context.Context, kind string) []string {
	s.now(ctx)
	var out []string
	for name := range s.all() {
		if strings.HasPrefix(name, kind+"@") {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// know makes the regions known that operators have added, and no others beside those of config.json.
func (s *Service) know(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.groups {
		if _, said := s.cfg.Places[name]; !said && strings.Contains(name, "@") && !slices.Contains(names, name) {
			s.groups = maps.Clone(s.groups)
			delete(s.groups, name)
		}
	}
	for _, name := range names {
		if _, ok := s.groups[name]; ok || s.cfg.Region == nil {
			continue
		}
		if sc, ok := s.cfg.Region(name); ok {
			s.groups = maps.Clone(s.groups)
			s.groups[name] = Group{Base: sc.Defaults()}
		}
	}
}

// addedRegions reads the names of the regions that operators added.
func (s *Service) addedRegions(ctx context.Context) ([]string, error) {
	kept, _, err := s.kept(ctx, rowRegions)
	return slices.Sorted(maps.Keys(kept)), err
}

// AddRegion makes a new region by name, such as e2b@eu. One that is there already stays as it is.
func (s *Service) AddRegion(ctx context.Context, by, name string) error {
	if _, ok := s.all()[name]; ok {
		return nil
	}
	if s.cfg.Region == nil {
		return fault.New(fault.Unsupported, "executor_unknown", "This server has no place %q.", name).With("field", "kind")
	}
	if _, ok := s.cfg.Region(name); !ok {
		return fault.New(fault.NotFound, "executor_unknown", "This server has no place %q. A region is named by its place and a short name of lower-case letters, digits and dashes, such as e2b@eu.",
			name).With("field", "kind")
	}
	err := s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		kept, row, err := s.kept(ctx, rowRegions)
		if err != nil {
			return err
		}
		kept[name] = true
		text, err := json.Marshal(kept)
		if err != nil {
			return err
		}
		row.Settings, row.UpdatedBy, row.UpdatedAt = string(text), by, s.cfg.Now().UnixMilli()
		return s.cfg.Store.SetPlaceSettings(ctx, rowRegions, row)
	})
	if err != nil {
		return fmt.Errorf("keeping the region %s: %w", name, err)
	}
	s.cfg.Log.Info("a region was added", "actor_id", by, "place", name)
	return s.Load(ctx)
}

// RemoveRegion forgets a region that operators added, with its key. One of config.json stays: it is removed there.
func (s *Service) RemoveRegion(ctx context.Context, by, name string) error {
	if err := s.MayRemove(ctx, name); err != nil {
		return err
	}
	err := s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		kept, row, err := s.kept(ctx, rowRegions)
		if err != nil {
			return err
		}
		delete(kept, name)
		text, err := json.Marshal(kept)
		if err != nil {
			return err
		}
		row.Settings, row.UpdatedBy, row.UpdatedAt = string(text), by, s.cfg.Now().UnixMilli()
		if err := s.cfg.Store.SetPlaceSettings(ctx, rowRegions, row); err != nil {
			return err
		}
		return s.cfg.Store.SetPlaceSettings(ctx, name, Row{Settings: "{}", UpdatedBy: by, UpdatedAt: row.UpdatedAt})
	})
	if err != nil {
		return fmt.Errorf("removing the region %s: %w", name, err)
	}
	s.cfg.Log.Info("a region was removed", "actor_id", by, "place", name)
	return s.Load(ctx)
}

// MayRemove refuses a name that is no region which operators added.
func (s *Service) MayRemove(ctx context.Context, name string) error {
	if _, ok := s.cfg.Places[name]; ok && strings.Contains(name, "@") {
		return fault.New(fault.Conflict, "setting_locked", "config.json says the region %s: remove sandboxing.%s there and restart the server.", name, name).With("field", "kind")
	}
	added, err := s.addedRegions(ctx)
	if err == nil && !slices.Contains(added, name) {
		err = fault.New(fault.NotFound, "executor_unknown", "Nobody added a region %q on this server.", name).With("field", "kind")
	}
	return err
}

// Locked reports whether config.json or the environment says a setting that is of no kind of place.
func (s *Service) Locked(name string) bool { return s.all()[rowInstance].Locked[name] }

// LockedIn reports whether config.json or the environment says a setting of a kind of place.
func (s *Service) LockedIn(kind, name string) bool { return s.all()[kind].Locked[name] }

// Said reports whether config.json, the environment or an operator says a setting that is of no kind: else it is what the program came with.
func (s *Service) Said(ctx context.Context, name string) (bool, error) {
	if s.Locked(name) {
		return true, nil
	}
	kept, _, err := s.kept(ctx, rowInstance)
	_, said := kept[name]
	return said, err
}

// Load reads what is kept. A kind whose settings cannot be read stays as it was known, and the error names it.
func (s *Service) Load(ctx context.Context) error {
	if s.cfg.Region != nil {
		added, err := s.addedRegions(ctx)
		if err != nil {
			return err
		}
		s.know(added)
	}
	groups := s.all()
	held, wrong := make(map[string]state, len(groups)), []error(nil)
	for name, g := range groups {
		if len(g.Base.Schema().Shown()) == 0 { // nothing of it is ever kept
			held[name] = g.start()
			continue
		}
		kept, row, err := s.kept(ctx, name)
		if err != nil {
			return err
		}
		st, err := s.with(name, kept, row)
		if err != nil { // what was known of this kind stays, and the others are read
			wrong = append(wrong, err)
			continue
		}
		held[name] = st
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range groups {
		if _, ok := held[name]; !ok {
			held[name] = s.held[name]
		}
	}
	s.held, s.read, s.at = held, true, s.cfg.Now() // never changed: who got it may keep it
	return errors.Join(wrong...)
}

// kept reads a row.
func (s *Service) kept(ctx context.Context, name string) (map[string]any, Row, error) {
	kept := make(map[string]any)
	row, err := s.cfg.Store.PlaceSettings(ctx, name)
	if fault.Is(err, fault.NotFound) {
		return kept, Row{}, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(row.Settings), &kept)
	}
	if err != nil {
		return nil, Row{}, fmt.Errorf("reading the settings of places (%s): %w", name, err)
	}
	return kept, row, nil
}

// with puts what is kept over config.json, but for what is locked. Names of a newer version are left alone.
func (s *Service) with(name string, kept map[string]any, row Row) (state, error) {
	g := s.all()[name]
	st := g.start()
	for _, f := range g.Base.Schema().Shown() {
		raw, said := kept[f.Name]
		if !said || g.Locked[f.Name] || f.Type == schema.Secret {
			continue
		}
		value, wrong := f.In(raw)
		if wrong != "" {
			return st, fmt.Errorf("reading the setting %s of %s: it %s", f.Name, name, wrong)
		}
		st.values = st.values.With(f.Key, value)
	}
	f, ok := g.Base.Schema().Secret()
	if !ok || g.Locked[f.Name] || row.Sealed == "" {
		return st, nil
	}
	secret, err := s.cfg.Sealer.Unseal(KeyPurpose(name, st.values), row.Sealed)
	if err != nil {
		s.cfg.Log.Error("the secret that is kept of a place cannot be read: enter it again", "place", name, "setting", f.Name, "error", err)
		return st, nil
	}
	st.values, st.lastFour = st.values.With(f.Key, secret), row.LastFour
	return st, nil
}

// Set changes settings that are of no kind of place by name, all or none, and says what holds then. Errors: setting_locked, invalid_setting.
func (s *Service) Set(ctx context.Context, by string, changes map[string]any) (Values, error) {
	err := s.set(ctx, by, rowInstance, changes)
	if err != nil {
		return Values{}, err
	}
	return s.Values(ctx), nil
}

// SetPlace changes settings of a kind of place by name, all or none. An empty secret removes it. Errors: setting_locked, invalid_setting.
func (s *Service) SetPlace(ctx context.Context, by, kind string, changes map[string]any) error {
	return s.set(ctx, by, kind, changes)
}

// Check refuses changes that Set or SetPlace would refuse, and returns what holds and what would hold with them.
func (s *Service) Check(ctx context.Context, kind string, changes map[string]any) (held, with schema.Values, err error) {
	read, err := s.parse(kind, changes)
	if err != nil {
		return held, with, err
	}
	held, _ = s.Place(ctx, kind)
	with = held
	for f, value := range read {
		with = with.With(f, value)
	}
	return held, with, check(with)
}

// parse reads changes of one group, as Values hold them, by key.
func (s *Service) parse(name string, changes map[string]any) (map[string]any, error) {
	g, ok := s.all()[name]
	if !ok {
		return nil, fmt.Errorf("settings: there is no kind of place %q", name)
	}
	out := make(map[string]any, len(changes))
	for _, n := range slices.Sorted(maps.Keys(changes)) {
		f, known := g.Base.Schema().Named(n)
		switch {
		case !known:
			return nil, fault.New(fault.Invalid, "invalid_setting", "There is no setting %q.", n).With("field", n)
		case g.Locked[n]:
			return nil, fault.New(fault.Conflict, "setting_locked", "config.json or the environment says %s: change it there and restart the server.", n).With("field", n)
		}
		value, words := f.In(changes[n])
		if words != "" {
			return nil, wrong(n, words)
		}
		out[f.Key] = value
	}
	return out, nil
}

func (s *Service) set(ctx context.Context, by, name string, changes map[string]any) error {
	read, err := s.parse(name, changes)
	if err != nil {
		return err
	}
	secret, hasSecret := s.all()[name].Base.Schema().Secret()
	err = s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		kept, row, err := s.kept(ctx, name)
		if err != nil {
			return err
		}
		_, again := changes[secret.Name]
		again = again && hasSecret
		before, err := s.with(name, kept, row)
		if err != nil {
			return err
		}
		for n, value := range changes {
			if !again || n != secret.Name {
				kept[n] = value
			}
		}
		held := row
		if again {
			held.Sealed = "" // another takes its place
		}
		st, err := s.with(name, kept, Row{})
		if err != nil {
			return err
		}
		if err := check(st.values); err != nil {
			return err
		}
		text, err := json.Marshal(kept)
		if err != nil {
			return err
		}
		row.Settings, row.UpdatedBy, row.UpdatedAt = string(text), by, s.cfg.Now().UnixMilli()
		if KeyPurpose(name, before.values) != KeyPurpose(name, st.values) && held.Sealed != "" {
			return fault.New(fault.Invalid, "key_needed", "Enter the key as well to use it at another address.").With("field", secret.Name)
		}
		if key, ok := read[secret.Key].(string); ok && again {
			if row.Sealed, row.KeyVersion, row.LastFour, err = s.seal(KeyPurpose(name, st.values), key); err != nil {
				return err
			}
		}
		return s.cfg.Store.SetPlaceSettings(ctx, name, row)
	})
	if err != nil {
		if _, ok := errors.AsType[*fault.Error](err); ok {
			return err
		}
		return fmt.Errorf("keeping the settings of places: %w", err)
	}
	if err := s.Load(ctx); err != nil {
		return err
	}
	s.cfg.Log.Info("settings of places were changed", "actor_id", by, "place", name, "settings", slices.Sorted(maps.Keys(changes)))
	return nil
}

// seal seals a secret; "" is none.
func (s *Service) seal(purpose, key string) (sealed string, version int, end string, err error) {
	if key == "" {
		return "", 0, "", nil
	}
	if sealed, err = s.cfg.Sealer.Seal(purpose, key); err != nil {
		return "", 0, "", fmt.Errorf("sealing the secret of a place: %w", err)
	}
	return sealed, 1, lastFour(key), nil
}

// lastFour is the end of a key that is long enough not to be given away by it.
func lastFour(key string) string {
	if len(key) < 12 {
		return ""
	}
	return key[len(key)-4:]
}
