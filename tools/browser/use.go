package browser

import (
	"context"
	"slices"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
)

// use has work done in a tab on a caller's behalf, one caller at a time. num 0 is the active tab. With start there need be no browser yet.
func (s *Service) use(ctx context.Context, c tools.Caller, num int, start bool, do func(b *browser, t *tab) error) (*browser, *tab, error) {
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
	t, err := b.tabOf(num)
	if err != nil && num == 0 && start {
		t, err = b.newTab(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	if err := do(b, t); err != nil {
		return nil, nil, b.endedError(err)
	}
	b.retitle(ctx, t)
	b.mu.Lock()
	b.used = s.cfg.Now()
	b.mu.Unlock()
	return b, t, nil
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
	t.url, t.title = clean(got.Entries[got.Index].URL, 2000), clean(got.Entries[got.Index].Title, 300)
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
	return b.active, nil
}
