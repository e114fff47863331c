package app

import (
	"bytes"
	"context"
	"time"

	"github.com/parawork/parawork/tools/artifacts"
	"github.com/parawork/parawork/tools/browser"
)

func newBrowsers(b *base, w *worktrees, s *sandboxes, saved *artifacts.Service) *browser.Service {
	cfg := b.cfg.Browser
	return browser.New(browser.Config{Sandboxes: s.chosen(), Workspaces: w.workspaces.Records, Memory: int64(cfg.MemoryMB) << 20, Idle: time.Duration(cfg.IdleMinutes) * time.Minute,
		AllowBare: cfg.AllowUnsandboxed, Log: b.logOf("browser"),
		Save: func(ctx context.Context, p browser.Picture) (string, error) {
			a, err := saved.Upload(ctx, artifacts.Maker{TeamID: p.TeamID, WorkspaceID: p.WorkspaceID, SessionID: p.SessionID, UserID: p.UserID}, artifacts.SaveRequest{Name: p.Name, MIME: p.MIME},
				bytes.NewReader(p.Data), int64(len(p.Data)), "")
			return a.ID, err
		}})
}
