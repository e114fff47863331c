package browser

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/tools"
)

// use has work done in a tab on a caller's behalf, one caller at a time. num 0 is the active tab. With start there need be no browser yet.
func (s *Service) use(ctx context.Context, c tools.Caller, num int, start bool, do func(ctx context.Context, b *browser, t *tab) error) (*browser, *tab, error) {
	if err := s.check(ctx, c.TeamID, c.WorkspaceID); err != nil {
		return nil, nil, err
	}
	b, err := s.browserOf(ctx, c.WorkspaceID, start)
	if err != nil {
		return nil, nil, err
	}
	defer b.place.Use()()
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	ctx, free, err := b.allow(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	defer free()
	t, err := b.tabOf(num)
	if err != nil && num == 0 && start {
		t, err = b.newTab(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	if c.SessionID != "" {
		b.screen.mu.Lock()
		b.screen.agentTab = t.num
		b.screen.mu.Unlock()
		b.screen.bump()
	}
	if err := do(ctx, b, t); err != nil {
		if taken := context.Cause(ctx); fault.CodeOf(taken) == "control_taken" {
			return nil, nil, taken
		}
		return nil, nil, b.endedError(err)
	}
	b.retitle(ctx, t)
	b.mu.Lock()
	b.used = s.cfg.Now()
	b.mu.Unlock()
	return b, t, nil
}

// allow refuses an agent while a person has control, and a person while another one has. What an agent does ends when somebody takes over.
func (b *browser) allow(ctx context.Context, c tools.Caller) (_ context.Context, free func(), err error) {
	lock := b.screen.lock
	state, changed := lock.State()
	if state.Taken() && (c.SessionID != "" || state.Person.ID != c.UserID) {
		return nil, nil, lock.Agent()
	}
	if b.s.cfg.RecordAlways {
		if err := b.screen.record(ctx, c.TeamID, c.SessionID, c.UserID, true); err != nil {
			b.s.cfg.Log.Warn("a browser cannot be recorded", "workspace_id", b.workspaceID, "error", err)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			if state, changed = lock.State(); state.Taken() && (c.SessionID != "" || state.Person.ID != c.UserID) {
				cancel(lock.Agent())
			}
		}
	})
	return ctx, func() { cancel(nil); watcher.Wait() }, nil
}

// retitle asks for a page's title, which Chromium reports late.
func (b *browser) retitle(ctx context.Context, t *tab) {
	var got struct {
		Index   int `json:"currentIndex"`
		Entries []struct {
			URL   string `json:"url"`
			Title string `json:"title"`
		} `json:"entries"`
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if b.conn.Call(ctx, t.session, "Page.getNavigationHistory", nil, &got) != nil || got.Index < 0 || got.Index >= len(got.Entries) {
		return // what is known stays
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	before, shown := t.title, t.url
	t.title = clean(got.Entries[got.Index].Title, 300)
	t.at(got.Entries[got.Index].URL)
	if t.url != shown || t.title != before {
		b.screen.bump()
	}
}

// retitleEvery is how often a page's title is asked for while somebody watches.
const retitleEvery = 300 * time.Millisecond

// retitleSoon asks for a page's title in a moment, for viewers, unless that is about to happen. The caller holds mu.
func (b *browser) retitleSoon(t *tab) {
	if b.retitling || b.cast != t {
		return
	}
	b.retitling = b.s.work.Go(func() {
		tasks.Sleep(b.s.life, retitleEvery)
		b.mu.Lock()
		b.retitling = false // what happens from now on is asked for again
		b.mu.Unlock()
		b.retitle(b.s.life, t)
	})
}

// newTab opens an empty tab and makes it the active one.
func (b *browser) newTab(ctx context.Context) (*tab, error) {
	b.mu.Lock()
	full := len(b.tabs) >= MaxTabs
	b.mu.Unlock()
	if full {
		return nil, fault.New(fault.Conflict, "browser_tabs_full", "%d tabs are open, which is the limit. Close one: browser_close with its number.", MaxTabs)
	}
	var got struct {
		Target string `json:"targetId"`
	}
	if err := b.call(ctx, "", "Target.createTarget", map[string]any{"url": "about:blank"}, &got); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.tabs, func(t *tab) bool { return t.target == got.Target }) // Chromium attaches before it answers
	if i < 0 {
		return nil, fault.New(fault.Unavailable, "browser_failed", "The browser opened no tab. Try again.")
	}
	b.active = b.tabs[i]
	b.recast()
	b.screen.bump()
	return b.active, nil
}
