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
		settings.E2BDomain:        {[]any{"", "e2b.app", "10.0.0.1"}, []any{"e2b app", "-e2b", "e2b.app.", "https://e2b.app", "a/b"}},
		settings.E2BTemplate:      {[]any{"parawork-base", "team/base:v1"}, []any{"", "Base", "a b", "/a", strings.Repeat("a", 129)}},
		settings.E2BCPUs:          {[]any{int64(1), int64(2), int64(64)}, []any{int64(0), int64(-2), int64(3), int64(63), int64(66)}},
		settings.E2BMemory:        {[]any{int64(128), int64(4096)}, []any{int64(0), int64(126), int64(129)}},
		settings.E2BMaxSession:    {[]any{int64(1)}, []any{int64(0)}},
		settings.E2BIdle:          {[]any{int64(0), int64(5)}, []any{int64(-1)}},
		settings.PoolMin:          {[]any{int64(0), int64(10)}, []any{int64(-1), int64(11)}},
		settings.PoolMax:          {[]any{int64(3), int64(100)}, []any{int64(2), int64(101)}},
		settings.E2BAPIURL:        {[]any{"", "https://api.e2b.app", "http://127.0.0.1:3000/v1"}, []any{"api.e2b.app", "https://", "ftp://a", "https://u:p@a", "https://a?b", "https://a#b", "https://a\x7f"}},
		settings.E2BSandboxURL:    {[]any{"", "https://boxes.example.com"}, []any{"boxes", "https://u@a"}},
	} {
		s := settings.New(settings.Config{Store: newMemory(), Sealer: rot13{}, Base: base})
		for _, v := range values.good {
			if _, err := s.Set(t.Context(), "ada", map[string]any{name: v}); err != nil {
				t.Errorf("%s = %v: %v", name, v, err)
			}
		}
		before := s.Values(t.Context())
		for _, v := range values.bad {
			_, err := s.Set(t.Context(), "ada", map[string]any{name: v, settings.AllowUserChoice: false})
			f, ok := errors.AsType[*fault.Error](err)
			if !ok || f.Code != "invalid_setting" || f.Kind != fault.Invalid {
				t.Errorf("%s = %v: %v", name, v, err)
				continue
			}
			// The pool's bounds are judged together, and told at its upper one.
			if field := f.Details["field"]; field != name && (name != settings.PoolMin || field != settings.PoolMax) {
				t.Errorf("%s = %v is told as wrong at %v", name, v, field)
			}
		}
		if after := s.Values(t.Context()); after != before {
			t.Errorf("%s: what was refused changed %+v to %+v", name, before, after)
		}
	}
}

func TestWhatIsNoSettingIsRefused(t *testing.T) {
	t.Parallel()
	m := newMemory()
	s := settings.New(settings.Config{Store: m, Sealer: rot13{}, Base: base})
	for _, changes := range []map[string]any{{"e2b.colour": "red"}, {settings.PoolEnabled: "perhaps"}, {settings.E2BCPUs: "two"}, {settings.E2BIdle: func() {}}} {
		if v, err := s.Set(t.Context(), "ada", changes); err == nil || v != (settings.Values{}) {
			t.Errorf("%v: %+v, %v", changes, v, err)
		}
	}
	if len(m.rows) != 0 {
		t.Errorf("kept %+v", m.rows)
	}
}

func TestWhoSaysASetting(t *testing.T) {
	t.Parallel()
	m := newMemory()
	s := settings.New(settings.Config{Store: m, Sealer: rot13{}, Base: base, Locked: map[string]bool{settings.PoolMax: true}, Now: func() time.Time { return time.UnixMilli(7000) }})
	said := func(name string, want bool) {
		t.Helper()
		if got, err := s.Said(t.Context(), name); err != nil || got != want {
			t.Errorf("%s is said: %v, %v", name, got, err)
		}
	}
	said(settings.E2BIdle, false)
	said(settings.PoolMax, true) // the configuration says it
	if _, err := s.Set(t.Context(), "ada", map[string]any{settings.E2BIdle: base.E2B.IdleMinutes}); err != nil {
		t.Fatal(err)
	}
	said(settings.E2BIdle, true) // also what is as it was
	said(settings.E2BCPUs, false)
	if r := m.rows["instance"]; r.UpdatedBy != "ada" || r.UpdatedAt != 7000 {
		t.Errorf("kept as %+v", r)
	}
	m.broken = errors.New("the disk is gone")
	if _, err := s.Said(t.Context(), settings.E2BCPUs); !errors.Is(err, m.broken) {
		t.Errorf("where it cannot be read: %v", err)
	}
}

// A server reads what others say only so often, and goes on with what it knows where it cannot.
func TestSettingsAreReadAgainAfterAWhile(t *testing.T) {
	t.Parallel()
	m, now := newMemory(), time.UnixMilli(1_000_000)
	var reported []settings.Values
	var log strings.Builder
	s := settings.New(settings.Config{Store: m, Sealer: rot13{}, Base: base, Now: func() time.Time { return now }, Changed: func(v settings.Values) { reported = append(reported, v) },
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	other := settings.New(settings.Config{Store: m, Sealer: rot13{}, Base: base})
	if v := s.Values(t.Context()); v != base || len(reported) != 1 {
		t.Errorf("%+v, told %d times", v, len(reported))
	}
	if _, err := other.Set(t.Context(), "ada", map[string]any{settings.E2BIdle: int64(7)}); err != nil {
		t.Fatal(err)
	}
	reads := m.reads
	now = now.Add(4 * time.Second)
	if v := s.Values(t.Context()); v.E2B.IdleMinutes != 30 || m.reads != reads {
		t.Errorf("after 4 s: %d, %d reads", v.E2B.IdleMinutes, m.reads-reads)
	}
	now = now.Add(2 * time.Second)
	if v := s.Values(t.Context()); v.E2B.IdleMinutes != 7 || len(reported) != 2 || reported[1] != v {
		t.Errorf("after 6 s: %+v, told %d times", v, len(reported))
	}
	now = now.Add(6 * time.Second)
	if s.Values(t.Context()); len(reported) != 2 { // no news
		t.Errorf("told %d times", len(reported))
	}
	m.broken = errors.New("the disk is gone")
	now = now.Add(6 * time.Second)
	if v := s.Values(t.Context()); v.E2B.IdleMinutes != 7 || !strings.Contains(log.String(), "the disk is gone") {
		t.Errorf("where it cannot be read: %+v, the log says %q", v, log.String())
	}
	if err := s.Load(t.Context()); !errors.Is(err, m.broken) {
		t.Errorf("Load: %v", err)
	}
	if _, err := s.Set(t.Context(), "ada", map[string]any{settings.E2BIdle: int64(8)}); !errors.Is(err, m.broken) {
		t.Errorf("Set: %v", err)
	}
}

// A newer version may have kept what this one does not know: it is left alone, also when something else is set.
func TestSettingsOfANewerVersionStay(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.rows["instance"] = settings.Row{Settings: `{"e2b.colour":"red","e2b.idle_minutes":9}`}
	s := settings.New(settings.Config{Store: m, Sealer: rot13{}, Base: base})
	if v := s.Values(t.Context()); v.E2B.IdleMinutes != 9 {
		t.Errorf("%+v", v)
	}
	if _, err := s.Set(t.Context(), "ada", map[string]any{settings.E2BIdle: int64(8)}); err != nil {
		t.Fatal(err)
	}
	if kept := m.rows["instance"].Settings; !strings.Contains(kept, `"e2b.colour":"red"`) {
		t.Errorf("kept %s", kept)
	}
	for _, damaged := range []string{`{`, `{"e2b.idle_minutes":"soon"}`} {
		m.rows["instance"] = settings.Row{Settings: damaged}
		if err := s.Load(t.Context()); err == nil {
			t.Errorf("%s was read", damaged)
		}
		if v := s.Values(t.Context()); v.E2B.IdleMinutes != 8 {
			t.Errorf("%s changed %+v", damaged, v)
		}
	}
}

func TestWhatIsShownOfAKey(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{"e2b_0123456789": "6789", "short_key": "", "": ""} {
		with := base
		with.E2B.APIKey = key
		if got := settings.New(settings.Config{Store: newMemory(), Sealer: rot13{}, Base: with}).KeyEnd(); got != want {
			t.Errorf("%q of the configuration shows %q", key, got)
		}
		s := settings.New(settings.Config{Store: newMemory(), Sealer: rot13{}, Base: base})
		if _, err := s.Set(t.Context(), "ada", map[string]any{settings.E2BKey: key}); err != nil || s.KeyEnd() != want {
			t.Errorf("%q shows %q, %v", key, s.KeyEnd(), err)
		}
	}
}
