package settings_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/settings"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

var base = settings.Values{DefaultExecutor: "auto", AllowUserChoice: true, MonthlyBudgetUSD: 500,
	E2B: settings.E2B{Template: "parawork-base", DefaultCPUs: 2, DefaultMemoryMB: 2048, MaxSessionMinutes: 1440, IdleMinutes: 30}, Pool: settings.Pool{Min: 3, Max: 10}}

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
		var reported []settings.Values
		cfg := settings.Config{Store: store.NewPlaceSettings(db), Sealer: rot13{}, Base: base, Now: func() time.Time { return now },
			Changed: func(v settings.Values) { reported = append(reported, v) }}
		s := settings.New(cfg)
		cfg.Changed = nil
		other := settings.New(cfg)
		if got := other.Values(t.Context()); got != base {
			t.Errorf("before anything is said: %+v", got)
		}
		v, err := s.Set(t.Context(), "usr_1", map[string]any{settings.DefaultExecutor: "e2b", settings.E2BKey: "e2b_abcdefghijklmnop", settings.E2BIdle: int64(10), settings.PoolEnabled: true})
		if err != nil {
			t.Fatal(err)
		}
		want := base
		want.DefaultExecutor, want.E2B.APIKey, want.E2B.IdleMinutes, want.Pool.Enabled = "e2b", "e2b_abcdefghijklmnop", 10, true
		if v != want || s.KeyEnd() != "mnop" {
			t.Errorf("got %+v, key ends in %q", v, s.KeyEnd())
		}
		if len(reported) != 1 || reported[0] != want {
			t.Errorf("told %+v", reported)
		}
		var sealed []byte
		if err := db.QueryRow(t.Context(), `SELECT sealed FROM place_settings WHERE executor = 'e2b'`).Scan(&sealed); err != nil || strings.Contains(string(sealed), "abcdefghij") {
			t.Errorf("the key is kept as %q (%v)", sealed, err)
		}
		now = now.Add(6 * time.Second)
		if got := other.Values(t.Context()); got != want {
			t.Errorf("another server knows %+v", got)
		}
		// A key that is removed is gone; the rest stays.
		if v, err = s.Set(t.Context(), "usr_1", map[string]any{settings.E2BKey: ""}); err != nil || v.E2B.APIKey != "" || v.E2B.IdleMinutes != 10 || s.KeyEnd() != "" {
			t.Errorf("after its removal: %+v, %v", v, err)
		}
	})
}

func TestWhatTheConfigurationSaysIsLocked(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t)
	free := settings.New(settings.Config{Store: store.NewPlaceSettings(db), Sealer: rot13{}, Base: base})
	if _, err := free.Set(t.Context(), "usr_1", map[string]any{settings.E2BIdle: int64(10), settings.E2BKey: "e2b_abcdefghijklmnop"}); err != nil {
		t.Fatal(err)
	}
	// config.json says it from now on: what was kept before counts no more.
	mine := base
	mine.E2B.IdleMinutes, mine.E2B.APIKey = 45, "e2b_of_the_environment"
	s := settings.New(settings.Config{Store: store.NewPlaceSettings(db), Sealer: rot13{}, Base: mine, Locked: map[string]bool{settings.E2BIdle: true, settings.E2BKey: true}})
	if v := s.Values(t.Context()); v.E2B.IdleMinutes != 45 || v.E2B.APIKey != "e2b_of_the_environment" || s.KeyEnd() != "ment" {
		t.Errorf("got %+v", v)
	}
	_, err := s.Set(t.Context(), "usr_1", map[string]any{settings.E2BIdle: int64(5)})
	if fault.CodeOf(err) != "setting_locked" {
		t.Errorf("a locked setting: %v", err)
	}
}

func TestWhatCannotBeMeantIsRefusedWhole(t *testing.T) {
	t.Parallel()
	s := settings.New(settings.Config{Store: store.NewPlaceSettings(storetest.SQLite(t)), Sealer: rot13{}, Base: base})
	for name, bad := range map[string]any{settings.E2BAPIURL: "ftp://x", settings.E2BDomain: "a b", settings.E2BTemplate: "", settings.E2BCPUs: int64(0),
		settings.E2BMemory: int64(129), settings.MonthlyBudgetUSD: int64(-1), settings.PoolMax: int64(1), settings.DefaultExecutor: ""} {
		_, err := s.Set(t.Context(), "usr_1", map[string]any{name: bad, settings.E2BFallback: true})
		if fault.CodeOf(err) != "invalid_setting" {
			t.Errorf("%s = %v: %v", name, bad, err)
		}
	}
	if v := s.Values(context.Background()); v != base {
		t.Errorf("something was kept: %+v", v)
	}
}

func TestAKeyThatCannotBeOpenedIsNone(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t)
	cfg := settings.Config{Store: store.NewPlaceSettings(db), Sealer: rot13{}, Base: base}
	if _, err := settings.New(cfg).Set(t.Context(), "usr_1", map[string]any{settings.E2BKey: "e2b_abcdefghijklmnop"}); err != nil {
		t.Fatal(err)
	}
	cfg.Sealer = rot13{broken: true}
	s := settings.New(cfg)
	if v := s.Values(t.Context()); v.E2B.APIKey != "" || s.KeyEnd() != "" {
		t.Errorf("got %+v", v.E2B)
	}
}
