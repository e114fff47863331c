package app

import (
	"bytes"
	"context"
	"path/filepath"
	"time"

	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/artifacts"
	"github.com/parawork/parawork/tools/browser"
	"github.com/parawork/parawork/tools/desktop"
)

func newBrowsers(b *base, w *worktrees, s *sandboxes, secrets tools.Secrets, saved *artifacts.Service) *browser.Service {
	cfg := b.cfg.Browser
	return browser.New(browser.Config{Sandboxes: s.chosen(), Workspaces: w.workspaces.Records, Memory: int64(cfg.MemoryMB) << 20, Idle: time.Duration(cfg.IdleMinutes) * time.Minute,
		Recordings: filepath.Join(b.cfg.DataDir, "browser-recordings"), RecordAlways: cfg.RecordAlways, AllowBare: cfg.AllowUnsandboxed, Secrets: secrets, Log: b.logOf("browser"),
		Save: func(ctx context.Context, f browser.File) (string, error) {
			a, err := saved.Upload(ctx, artifacts.Maker{TeamID: f.TeamID, WorkspaceID: f.WorkspaceID, SessionID: f.SessionID, UserID: f.UserID}, artifacts.SaveRequest{Name: f.Name, MIME: f.MIME}, f.Body, f.Size, "")
			return a.ID, err
		}})
}

func newDesktops(b *base, w *worktrees, s *sandboxes, saved *artifacts.Service) *desktop.Service {
	return desktop.New(desktop.Config{Sandboxes: s.chosen(), Workspaces: w.workspaces.Records, AllowBare: b.cfg.Browser.AllowUnsandboxed, Audit: b.audit, Log: b.logOf("desktop"),
		Save: func(ctx context.Context, p desktop.Picture) (string, error) {
			a, err := saved.Upload(ctx, artifacts.Maker{TeamID: p.TeamID, WorkspaceID: p.WorkspaceID, SessionID: p.SessionID, UserID: p.UserID}, artifacts.SaveRequest{Name: p.Name, MIME: p.MIME},
				bytes.NewReader(p.Data), int64(len(p.Data)), "")
			return a.ID, err
		}})
}
