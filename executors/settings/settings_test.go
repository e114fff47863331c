package settings_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/e2b"
	"github.com/parawork/parawork/executors/settings"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/schema"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

// cloud are the settings of a kind of place with a key.
var cloud = e2b.Descriptor().Settings

// config is that of a server whose config.json says nothing.
func config(store settings.Store) settings.Config {
	return settings.Config{Store: store, Sealer: rot13{}, Places: map[string]settings.Group{"e2b": {Base: cloud.Defaults()}, "local": {}}}
}

// set changes settings, those of the kind with its name before them. All go, or none.
func set(t *testing.T, s *settings.Service, changes map[string]any) error {
	t.Helper()
	general, of := map[string]any{}, map[string]any{}
	for name, v := range changes {
		if short, ok := strings.CutPrefix(name, "e2b."); ok {
			of[short] = v
		} else {
			general[name] = v
		}
	}
	if len(of) > 0 {
		if err := s.SetPlace(t.Context(), "ada", "e2b", of); err != nil {
			return err
		}
	}
	if len(general) == 0 {
		return nil
	}
	_, err := s.Set(t.Context(), "ada", general)
	return err
}

func held(t *testing.T, s *settings.Service) schema.Values {
	t.Helper()
	v, _ := s.Place(t.Context(), "e2b")
	return v
}

func keyEnd(t *testing.T, s *settings.Service) string {
	t.Helper()
	_, end := s.Place(t.Context(), "e2b")
	return end
}

// rot13 seals so that a test sees whether something was sealed.
type rot13 struct{ broken bool }

func (rot13) Seal(name, value string) (string, error) { return name + ":" + turn(value), nil }

func (r rot13) Unseal(name, sealed string) (string, error) {
	rest, ok := strings.CutPrefix(sealed, name+":")
	if !ok || r.broken {
		return "", errors.New("not sealed for this")
	}
	return turn(rest), nil
}

func turn(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return 'a' + (r-'a'+13)%26
		}
		return r
	}, s)
}

func TestSettingsAreKeptAndReadByOtherServers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		now := time.UnixMilli(1_000_000)
		cfg := config(store.NewPlaceSettings(db))
		cfg.Now = func() time.Time { return now }
		s, other := settings.New(cfg), settings.New(cfg)
		if got := other.Values(t.Context()); got != (settings.Values{DefaultExecutor: "auto", AllowUserChoice: true, MonthlyBudgetUSD: 500, Pool: settings.Pool{Min: 3, Max: 10}}) {
			t.Errorf("before anything is said: %+v", got)
		}
		if !held(t, other).Equal(cloud.Defaults()) {
			t.Errorf("before anything is said: %+v", held(t, other))
		}
		if err := set(t, s, map[string]any{settings.DefaultExecutor: "e2b", "e2b.api_key": "e2b_abcdefghijklmnop", "e2b.idle_minutes": int64(10), settings.PoolEnabled: true}); err != nil {
			t.Fatal(err)
		}
		want := cloud.Defaults().With("apiKey", "e2b_abcdefghijklmnop").With("autoShutdownIdle", 600)
		if v := s.Values(t.Context()); !held(t, s).Equal(want) || keyEnd(t, s) != "mnop" || v.DefaultExecutor != "e2b" || !v.Pool.Enabled {
			t.Errorf("got %+v %+v, key ends in %q", v, held(t, s), keyEnd(t, s))
		}
		var sealed []byte
		if err := db.QueryRow(t.Context(), `SELECT sealed FROM place_settings WHERE executor = 'e2b'`).Scan(&sealed); err != nil || strings.Contains(string(sealed), "abcdefghij") {
			t.Errorf("the key is kept as %q (%v)", sealed, err)
		}
		now = now.Add(6 * time.Second)
		if !held(t, other).Equal(want) || other.Values(t.Context()) != s.Values(t.Context()) {
			t.Errorf("another server knows %+v", held(t, other))
		}
		// A key that is removed is gone; the rest stays.
		if err := set(t, s, map[string]any{"e2b.api_key": ""}); err != nil || !held(t, s).Equal(want.With("apiKey", "")) || keyEnd(t, s) != "" {
			t.Errorf("after its removal: %+v, %v", held(t, s), err)
		}
	})
}

func TestWhatTheConfigurationSaysIsLocked(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t)
	cfg := config(store.NewPlaceSettings(db))
	if err := set(t, settings.New(cfg), map[string]any{"e2b.idle_minutes": int64(10), "e2b.api_key": "e2b_abcdefghijklmnop"}); err != nil {
		t.Fatal(err)
	}
	// config.json says it from now on: what was kept before counts no more.
	cfg.Places["e2b"] = settings.Group{Base: cloud.Defaults().With("autoShutdownIdle", 45*60).With("apiKey", "e2b_of_the_environment"), Locked: map[string]bool{"idle_minutes": true, "api_key": true}}
	s := settings.New(cfg)
	if v := held(t, s); v.Number("autoShutdownIdle") != 45*60 || v.Text("apiKey") != "e2b_of_the_environment" || keyEnd(t, s) != "ment" {
		t.Errorf("got %+v", v)
	}
	if !s.LockedIn("e2b", "idle_minutes") || s.LockedIn("e2b", "template") {
		t.Error("what is locked is not told")
	}
	if err := set(t, s, map[string]any{"e2b.idle_minutes": int64(5)}); fault.CodeOf(err) != "setting_locked" {
		t.Errorf("a locked setting: %v", err)
	}
}

func TestWhatCannotBeMeantIsRefusedWhole(t *testing.T) {
	t.Parallel()
	s := settings.New(config(store.NewPlaceSettings(storetest.SQLite(t))))
	general := s.Values(t.Context())
	for name, bad := range map[string]any{"e2b.api_url": "ftp://x", "e2b.domain": "a b", "e2b.template": "", "e2b.default_cpus": int64(0),
		"e2b.default_memory_mb": int64(129), settings.MonthlyBudgetUSD: int64(-1), settings.PoolMax: int64(1), settings.DefaultExecutor: ""} {
		beside := settings.AllowUserChoice
		if strings.HasPrefix(name, "e2b.") {
			beside = "e2b.fallback_to_local"
		}
		if err := set(t, s, map[string]any{name: bad, beside: beside != settings.AllowUserChoice}); fault.CodeOf(err) != "invalid_setting" {
			t.Errorf("%s = %v: %v", name, bad, err)
		}
	}
	if v := s.Values(t.Context()); v != general || !held(t, s).Equal(cloud.Defaults()) {
		t.Errorf("something was kept: %+v %+v", v, held(t, s))
	}
}

func TestAKeyThatCannotBeOpenedIsNone(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t)
	cfg := config(store.NewPlaceSettings(db))
	if err := set(t, settings.New(cfg), map[string]any{"e2b.api_key": "e2b_abcdefghijklmnop"}); err != nil {
		t.Fatal(err)
	}
	cfg.Sealer = rot13{broken: true}
	s := settings.New(cfg)
	if v := held(t, s); v.Text("apiKey") != "" || keyEnd(t, s) != "" {
		t.Errorf("got %+v", v)
	}
}

// A server that has not read yet that there is a key, or that has other addresses, sends it nowhere else.
func TestAKeyGoesToNoAddressItWasNotEnteredFor(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		now := time.UnixMilli(1_000_000)
		cfg := config(store.NewPlaceSettings(db))
		cfg.Now = func() time.Time { return now }
		s, behind := settings.New(cfg), settings.New(cfg)
		held(t, behind) // it reads now, and not again for a while
		if err := set(t, s, map[string]any{"e2b.api_key": "e2b_abcdefghijklmnop"}); err != nil {
			t.Fatal(err)
		}
		if err := set(t, behind, map[string]any{"e2b.api_url": "https://elsewhere.example"}); fault.CodeOf(err) != "key_needed" {
			t.Errorf("by a server that does not know of the key: %v", err)
		}
		if v := held(t, s); v.Text("apiKey") == "" || v.Text("apiUrl") != "" {
			t.Errorf("after it was refused: %+v", v)
		}
		other := config(store.NewPlaceSettings(db))
		other.Places["e2b"] = settings.Group{Base: cloud.Defaults().With("apiUrl", "https://elsewhere.example"), Locked: map[string]bool{"api_url": true}}
		if v := held(t, settings.New(other)); v.Text("apiKey") != "" {
			t.Errorf("a server whose config.json names another address has %+v", v)
		}
		if err := set(t, behind, map[string]any{"e2b.api_url": "https://elsewhere.example", "e2b.api_key": "e2b_another_key_1"}); err != nil {
			t.Fatal(err)
		}
		if v := held(t, settings.New(cfg)); v.Text("apiKey") != "e2b_another_key_1" {
			t.Errorf("with the key again: %+v", v)
		}
	})
}

// A row that cannot be read is that kind's trouble alone.
func TestARegionIsForgottenWithItsKey(t *testing.T) {
	t.Parallel()
	const eu, said = "e2b@eu", "e2b@us"
	region := schema.Schema{{Key: "apiKey", Name: "api_key", Type: schema.Secret}}
	cfg := config(newMemory())
	cfg.Places[said] = settings.Group{Base: region.Defaults()}
	cfg.Region = func(kind string) (schema.Schema, bool) { return region, strings.HasPrefix(kind, "e2b@") }
	s, other := settings.New(cfg), settings.New(cfg)
	if err := s.AddRegion(t.Context(), "ada", eu); err != nil {
		t.Fatal(err)
	}
	if err := s.SetPlace(t.Context(), "ada", eu, map[string]any{"api_key": "e2b_abcdefghijklmnop"}); err != nil {
		t.Fatal(err)
	}
	if err := other.Load(t.Context()); err != nil || len(other.Regions(t.Context(), "e2b")) != 2 {
		t.Fatal(other.Regions(t.Context(), "e2b"), err)
	}
	if err := s.RemoveRegion(t.Context(), "ada", said); fault.CodeOf(err) != "setting_locked" {
		t.Errorf("a region of config.json: %v", err)
	}
	if err := s.RemoveRegion(t.Context(), "ada", "e2b"); !fault.Is(err, fault.NotFound) {
		t.Errorf("the place itself: %v", err)
	}
	if err := s.RemoveRegion(t.Context(), "ada", eu); err != nil {
		t.Fatal(err)
	}
	if err := other.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*settings.Service{s, other} {
		if got := s.Regions(t.Context(), "e2b"); len(got) != 1 || got[0] != said {
			t.Errorf("left: %v", got)
		}
	}
	if err := s.AddRegion(t.Context(), "ada", eu); err != nil {
		t.Fatal(err)
	}
	if v, end := s.Place(t.Context(), eu); v.Text("apiKey") != "" || end != "" {
		t.Error("its key was kept")
	}
}

func TestARowThatCannotBeReadLeavesTheOthers(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t)
	cfg := config(store.NewPlaceSettings(db))
	if err := set(t, settings.New(cfg), map[string]any{settings.DefaultExecutor: "local", "e2b.idle_minutes": int64(10)}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), `UPDATE place_settings SET settings = '{"idle_minutes":"soon"}' WHERE executor = 'e2b'`); err != nil {
		t.Fatal(err)
	}
	s := settings.New(cfg)
	if err := s.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "idle_minutes of e2b") {
		t.Errorf("what cannot be read is not named: %v", err)
	}
	if v := s.Values(t.Context()); v.DefaultExecutor != "local" || !held(t, s).Equal(cloud.Defaults()) {
		t.Errorf("got %+v %+v", v, held(t, s))
	}
}
