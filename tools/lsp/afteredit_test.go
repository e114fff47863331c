package lsp_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools/lsp"
)

// choice is what the project of a workspace chose.
type choice struct{ now lsp.AfterEdits }

func (c *choice) AfterEdits(context.Context, string) (lsp.AfterEdits, error) { return c.now, nil }

func (c *choice) SetAfterEdits(_ context.Context, _ string, a lsp.AfterEdits) error {
	c.now = a
	return nil
}

func (b *bench) afterEdit(turn bool, paths ...string) string {
	b.t.Helper()
	text, err := b.s.AfterEdit(b.t.Context(), b.caller, paths, turn)
	must(b.t, err)
	return text
}

// After an edit an agent gets a report of new errors once, when its project wants it.
func TestAfterAnEdit(t *testing.T) {
	c := &choice{}
	b := withScriptAnd(t, "good", func(cfg *lsp.Config) { cfg.Settings = c })
	const wrong = "a.go:1:1: error: wröng (7)"
	if got := b.afterEdit(false, b.root+"/a.go", "notes.txt", "../outside.go"); got != wrong {
		t.Errorf("after the first edit: %q", got)
	}
	b.write("a.go", "package a // edited\n")
	if got := b.afterEdit(false, "a.go"); got != "" {
		t.Errorf("reported again: %q", got)
	}
	if got := b.report(); !strings.Contains(got, wrong) {
		t.Errorf("a question of its own: %q", got)
	}
	c.now = lsp.OnDemand
	b.write("b.go", "package a\n")
	if got := b.afterEdit(false, "b.go") + b.afterEdit(true); got != "" {
		t.Errorf("on demand: %q", got)
	}
	c.now = lsp.TurnEnd
	if got := b.afterEdit(false, "b.go"); got != "" {
		t.Errorf("before the turn's end: %q", got)
	}
	if got := b.afterEdit(true); !strings.Contains(got, "b.go:1:1: error: wröng (7)") {
		t.Errorf("at the turn's end: %q", got)
	}
	if got := b.afterEdit(true); got != "" {
		t.Errorf("at the next turn's end: %q", got)
	}
	must(t, b.s.SetAfterEdits(t.Context(), "prj", lsp.Off))
	if _, err := b.s.Report(t.Context(), b.team, b.ws, "ses_1", nil); fault.CodeOf(err) != "languages_off" {
		t.Errorf("switched off: %v", err)
	}
	if err := b.s.SetAfterEdits(t.Context(), "prj", "always"); fault.CodeOf(err) != "after_edits_invalid" {
		t.Error(err)
	}
}

// A server that does not answer delays an edit for a bounded time, and says so once.
func TestAServerThatIsNotReadyDelaysNoEdit(t *testing.T) {
	b := withScript(t, "waits")
	began := time.Now()
	if got := b.afterEdit(false, "a.go"); !strings.Contains(got, "a.go: not checked: the language server for Go is not ready yet") {
		t.Errorf("%q", got)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if got := b.afterEdit(false, "a.go"); got != "" {
		t.Errorf("reported again: %q", got)
	}
}

// quick looks after servers often, and has one event at once.
func quick(cfg *lsp.Config) {
	cfg.After = func(d time.Duration) <-chan time.Time { return time.After(min(d, 20*time.Millisecond)) }
}

func TestServersOverTheirMemoryLimitAreEnded(t *testing.T) {
	b := withScriptAnd(t, "good", func(cfg *lsp.Config) {
		quick(cfg)
		cfg.MemoryMB = 1
	})
	b.report("a.go")
	until(t, func() bool {
		return len(b.processes()) == 0 && strings.Contains(b.status(t).Failure, "more than 1 MB of memory")
	})
}

func TestIdleServersAreEnded(t *testing.T) {
	var later atomic.Int64
	bus := &heard{}
	b := withScriptAnd(t, "good", func(cfg *lsp.Config) {
		quick(cfg)
		cfg.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		cfg.Events = bus
	})
	b.report("a.go")
	if st := b.status(t); st.State != "ready" || st.PID == 0 || st.Since == 0 {
		t.Errorf("%+v", st)
	}
	later.Store(int64(9 * time.Minute))
	before := b.processes()
	if b.report("a.go"); len(before) != 1 || b.processes()[0] != before[0] {
		t.Errorf("a server in use was ended: %v, %v", before, b.processes())
	}
	later.Store(int64(20 * time.Minute))
	until(t, func() bool { return len(b.processes()) == 0 })
	if st := b.status(t); st.Failure != "" {
		t.Errorf("idleness counts as a failure: %+v", st)
	}
	until(t, func() bool { return bus.of(b.ws) > 1 }) // it began, and ended
}

func (b *bench) status(t *testing.T) lsp.Status {
	t.Helper()
	for _, st := range b.s.Statuses(b.ws) {
		if st.Language == "go" {
			return st
		}
	}
	t.Fatal("Go has no state")
	return lsp.Status{}
}

// heard counts events about a workspace's servers.
type heard struct{ n atomic.Int64 }

func (h *heard) Publish(_ context.Context, e events.Event) {
	if e.Type == lsp.Changed && e.ID == e.WorkspaceID && e.TeamID != "" {
		h.n.Add(1)
	}
}

func (h *heard) of(string) int64 { return h.n.Load() }

func TestCompletionsAndCodeActions(t *testing.T) {
	b := withScript(t, "good")
	at := lsp.At{Path: "a.go", Line: 1, Symbol: "a"}
	found, err := b.s.Completions(t.Context(), b.team, b.ws, at)
	if err != nil || len(found) != 2 || found[0] != (lsp.Completion{Label: "first", Kind: "function", Detail: "func()", Insert: "first()"}) || found[1].Insert != "second" {
		t.Errorf("%+v, %v", found, err)
	}
	actions, err := b.s.Actions(t.Context(), b.team, b.ws, at)
	if err != nil || len(actions) != 1 || actions[0].Title != "Fix it" {
		t.Errorf("%+v, %v", actions, err)
	}
	if _, err := b.s.Apply(t.Context(), b.team, b.ws, at, "Fix it"); err != nil || b.read("a.go") != "// fixed\npackage a\n" {
		t.Errorf("%q, %v", b.read("a.go"), err)
	}
}
