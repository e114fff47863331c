package app

import (
	"context"
	"path/filepath"
	"time"

	"github.com/parawork/parawork/tools/artifacts"
	"github.com/parawork/parawork/tools/browser"
)

func newBrowsers(b *base, w *worktrees, s *sandboxes, saved *artifacts.Service) *browser.Service {
	cfg := b.cfg.Browser
	return browser.New(browser.Config{Sandboxes: s.chosen(), Workspaces: w.workspaces.Records, Memory: int64(cfg.MemoryMB) << 20, Idle: time.Duration(cfg.IdleMinutes) * time.Minute,
		Recordings: filepath.Join(b.cfg.DataDir, "browser-recordings"), RecordAlways: cfg.RecordAlways, AllowBare: cfg.AllowUnsandboxed, Log: b.logOf("browser"),
		Save: func(ctx context.Context, f browser.File) (string, error) {
			a, err := saved.Upload(ctx, artifacts.Maker{TeamID: f.TeamID, WorkspaceID: f.WorkspaceID, SessionID: f.SessionID, UserID: f.UserID}, artifacts.SaveRequest{Name: f.Name, MIME: f.MIME}, f.Body, f.Size, "")
			return a.ID, err
		}})
}
