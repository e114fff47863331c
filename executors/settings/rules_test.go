package settings_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/settings"
	"github.com/parawork/parawork/internal/fault"
)

// memory keeps rows in memory.
type memory struct {
	rows   map[string]settings.Row
	broken error
	reads  int
}

func newMemory() *memory { return &memory{rows: map[string]settings.Row{}} }

func (m *memory) PlaceSettings(_ context.Context, name string) (settings.Row, error) {
	m.reads++
	if m.broken != nil {
		return settings.Row{}, m.broken
	}
	r, ok := m.rows[name]
	if !ok {
		return r, fault.New(fault.NotFound, "not_found", "Nothing is kept.")
	}
	return r, nil
}

func (m *memory) SetPlaceSettings(_ context.Context, name string, r settings.Row) error {
	m.rows[name] = r
	return nil
}

func (m *memory) Tx(ctx context.Context, fn func(context.Context) error) error {
	before := map[string]settings.Row{}
	maps.Copy(before, m.rows)
	err := fn(ctx)
	if err != nil {
		m.rows = before
	}
	return err
}

func TestTheRulesOfEachSetting(t *testing.T) {
	t.Parallel()
	for name, values := range map[string]struct{ good, bad []any }{
		settings.DefaultExecutor:  {[]any{"auto", "e2b"}, []any{""}},
		settings.MonthlyBudgetUSD: {[]any{int64(0), int64(5)}, []any{int64(-1)}},
		settings.DefaultPlan:      {[]any{"", "free", "a-2"}, []any{"Free", "-a", "2a", "a b", strings.Repeat("a", 41)}},
		"e2b.domain":              {[]any{"", "e2b.app", "10.0.0.1"}, []any{"e2b app", "-e2b", "e2b.app.", "https://e2b.app", "a/b"}},
		"e2b.template":            {[]any{"parawork-base", "team/base:v1"}, []any{"", "Base", "a b", "/a", strings.Repeat("a", 129)}},
		"e2b.default_cpus":        {[]any{int64(1), int64(2), int64(64)}, []any{int64(0), int64(-2), int64(3), int64(63), int64(66)}},
		"e2b.default_memory_mb":   {[]any{int64(128), int64(4096)}, []any{int64(0), int64(126), int64(129)}},
		"e2b.max_session_minutes": {[]any{int64(1)}, []any{int64(0)}},
		"e2b.idle_minutes":        {[]any{int64(0), int64(5)}, []any{int64(-1)}},
		settings.PoolMin:          {[]any{int64(0), int64(10)}, []any{int64(-1), int64(11)}},
		settings.PoolMax:          {[]any{int64(3), int64(100)}, []any{int64(2), int64(101)}},
		"e2b.api_url":             {[]any{"", "https://api.e2b.app", "http://127.0.0.1:3000/v1"}, []any{"api.e2b.app", "https://", "ftp://a", "https://u:p@a", "https://a?b", "https://a#b", "https://a\x7f"}},
		"e2b.sandbox_url":         {[]any{"", "https://boxes.example.com"}, []any{"boxes", "https://u@a"}},
	} {
		s := settings.New(config(newMemory()))
		for _, v := range values.good {
			if err := set(t, s, map[string]any{name: v}); err != nil {
				t.Errorf("%s = %v: %v", name, v, err)
			}
		}
		before, of := s.Values(t.Context()), held(t, s)
		beside := map[string]any{settings.AllowUserChoice: false}
		if strings.HasPrefix(name, "e2b.") {
			beside = map[string]any{"e2b.fallback_to_local": true}
		}
		for _, v := range values.bad {
			changes := maps.Clone(beside)
			changes[name] = v
			err := set(t, s, changes)
			f, ok := errors.AsType[*fault.Error](err)
			if !ok || f.Code != "invalid_setting" || f.Kind != fault.Invalid {
				t.Errorf("%s = %v: %v", name, v, err)
				continue
			}
			// The pool's bounds are judged together, and told at its upper one.
			if field := f.Details["field"]; field != strings.TrimPrefix(name, "e2b.") && (name != settings.PoolMin || field != settings.PoolMax) {
				t.Errorf("%s = %v is reported as wrong at %v", name, v, field)
			}
		}
		if after := s.Values(t.Context()); after != before || !held(t, s).Equal(of) {
			t.Errorf("%s: what was refused changed %+v %+v to %+v %+v", name, before, of, after, held(t, s))
		}
	}
}

func TestWhatIsNoSettingIsRefused(t *testing.T) {
	t.Parallel()
	m := newMemory()
	s := settings.New(config(m))
	for _, changes := range []map[string]any{{"e2b.colour": "red"}, {settings.PoolEnabled: "perhaps"}, {"e2b.default_cpus": "two"}, {"e2b.idle_minutes": func() {}}} {
		if err := set(t, s, changes); fault.CodeOf(err) != "invalid_setting" {
			t.Errorf("%v: %v", changes, err)
		}
	}
	if len(m.rows) != 0 {
		t.Errorf("kept %+v", m.rows)
	}
}

func TestWhoSaysASetting(t *testing.T) {
	t.Parallel()
	m := newMemory()
	cfg := config(m)
	cfg.Instance = settings.Group{Base: settings.Instance.Defaults(), Locked: map[string]bool{settings.PoolMax: true}}
	cfg.Now = func() time.Time { return time.UnixMilli(7000) }
	s := settings.New(cfg)
	said := func(name string, want bool) {
		t.Helper()
		if got, err := s.Said(t.Context(), name); err != nil || got != want {
			t.Errorf("%s is said: %v, %v", name, got, err)
		}
	}
	said(settings.PoolMin, false)
	said(settings.PoolMax, true) // the configuration says it
	if _, err := s.Set(t.Context(), "ada", map[string]any{settings.PoolMin: int64(3)}); err != nil {
		t.Fatal(err)
	}
	said(settings.PoolMin, true) // also what is as it was
	said(settings.DefaultPlan, false)
	if r := m.rows["instance"]; r.UpdatedBy != "ada" || r.UpdatedAt != 7000 {
		t.Errorf("kept as %+v", r)
	}
	m.broken = errors.New("the disk is gone")
	if _, err := s.Said(t.Context(), settings.DefaultPlan); !errors.Is(err, m.broken) {
		t.Errorf("where it cannot be read: %v", err)
	}
}

// A server reads what others say only so often, and goes on with what it knows where it cannot.
func TestSettingsAreReadAgainAfterAWhile(t *testing.T) {
	t.Parallel()
	m, now := newMemory(), time.UnixMilli(1_000_000)
	var log strings.Builder
	cfg := config(m)
	cfg.Now, cfg.Log = func() time.Time { return now }, slog.New(slog.NewTextHandler(&log, nil))
	s := settings.New(cfg)
	other := settings.New(config(m))
	if v := held(t, s); !v.Equal(cloud.Defaults()) {
		t.Errorf("%+v", v)
	}
	if err := set(t, other, map[string]any{"e2b.idle_minutes": int64(7)}); err != nil {
		t.Fatal(err)
	}
	reads := m.reads
	now = now.Add(4 * time.Second)
	if n := held(t, s).Number("autoShutdownIdle"); n != 30*60 || m.reads != reads {
		t.Errorf("after 4 s: %d, %d reads", n, m.reads-reads)
	}
	now = now.Add(2 * time.Second)
	if n := held(t, s).Number("autoShutdownIdle"); n != 7*60 {
		t.Errorf("after 6 s: %d", n)
	}
	m.broken = errors.New("the disk is gone")
	now = now.Add(6 * time.Second)
	if n := held(t, s).Number("autoShutdownIdle"); n != 7*60 || !strings.Contains(log.String(), "the disk is gone") {
		t.Errorf("where it cannot be read: %d, the log says %q", n, log.String())
	}
	if err := s.Load(t.Context()); !errors.Is(err, m.broken) {
		t.Errorf("Load: %v", err)
	}
	if err := set(t, s, map[string]any{"e2b.idle_minutes": int64(8)}); !errors.Is(err, m.broken) {
		t.Errorf("Set: %v", err)
	}
}

// A newer version may have kept what this one does not know: it is left alone, also when something else is set.
func TestSettingsOfANewerVersionStay(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.rows["e2b"] = settings.Row{Settings: `{"colour":"red","idle_minutes":9}`}
	s := settings.New(config(m))
	if v := held(t, s); v.Number("autoShutdownIdle") != 9*60 {
		t.Errorf("%+v", v)
	}
	if err := set(t, s, map[string]any{"e2b.idle_minutes": int64(8)}); err != nil {
		t.Fatal(err)
	}
	if kept := m.rows["e2b"].Settings; !strings.Contains(kept, `"colour":"red"`) {
		t.Errorf("kept %s", kept)
	}
	for _, damaged := range []string{`{`, `{"idle_minutes":"soon"}`} {
		m.rows["e2b"] = settings.Row{Settings: damaged}
		if err := s.Load(t.Context()); err == nil {
			t.Errorf("%s was read", damaged)
		}
		if v := held(t, s); v.Number("autoShutdownIdle") != 8*60 {
			t.Errorf("%s changed %+v", damaged, v)
		}
	}
}

func TestWhatIsShownOfAKey(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{"e2b_0123456789": "6789", "short_key": "", "": ""} {
		with := config(newMemory())
		with.Places["e2b"] = settings.Group{Base: cloud.Defaults().With("apiKey", key)}
		if got := keyEnd(t, settings.New(with)); got != want {
			t.Errorf("%q of the configuration shows %q", key, got)
		}
		s := settings.New(config(newMemory()))
		if err := set(t, s, map[string]any{"e2b.api_key": key}); err != nil || keyEnd(t, s) != want {
			t.Errorf("%q shows %q, %v", key, keyEnd(t, s), err)
		}
	}
}
