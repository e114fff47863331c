package executortest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/id"
)

func testLife(t *testing.T, cfg Config) {
	t.Run("capabilities", func(t *testing.T) {
		b := newBox(t, cfg)
		c, err := b.ex.Capabilities(b.ctx)
		if err != nil || c.Kind != b.ex.Kind() || !c.Available || c.Name == "" || c.Isolation == "" {
			t.Errorf("Capabilities: %+v, %v", c, err)
		}
	})
	t.Run("hello", func(t *testing.T) {
		b := newBox(t, cfg)
		h, err := b.c.Hello(b.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := executors.CheckHello(h, b.spec.ID); err != nil {
			t.Error(err)
		}
		if h.Root == "" || h.Pid == 0 || h.StartedAt == 0 || h.Degraded != "" {
			t.Errorf("hello %+v", h)
		}
	})
	t.Run("figures", func(t *testing.T) {
		b := newBox(t, cfg)
		p := b.tty("echo ready; sleep 1000")
		b.watch(p.ID, "terminal", 0).expectText("ready")
		s, err := b.c.Stats(b.ctx)
		if err != nil || s.Processes < 1 || s.RSSBytes <= 0 || s.LastOutput == 0 {
			t.Errorf("Stats: %+v, %v", s, err)
		}
	})
	t.Run("create is idempotent", func(t *testing.T) {
		b := newBox(t, cfg)
		p := b.sh("sleep 1000")
		again, err := b.ex.Create(b.ctx, b.spec)
		if err != nil {
			t.Fatalf("Create again: %v", err)
		}
		if again.Handle().ID != b.sb.Handle().ID {
			t.Fatalf("another sandbox: %s", again.Handle().ID)
		}
		c, _ := newClient(again)
		defer c.Close()
		if got, err := c.Process(b.ctx, p.ID); err != nil || got.Pid != p.Pid {
			t.Errorf("the first sandbox's process is not there: %+v, %v", got, err)
		}
		if list, err := b.ex.List(b.ctx); err != nil || len(list) != 1 {
			t.Errorf("List: %+v, %v", list, err)
		}
	})
	t.Run("an error leaves nothing behind", func(t *testing.T) {
		t.Parallel()
		ctx := context.Background()
		ex := cfg.New(t, t.TempDir())
		spec := executors.Spec{ID: id.New("sbx"), TeamID: "team_1", WorkspaceID: "ws_1",
			Root: filepath.Join(t.TempDir(), "no", "such", "folder")}
		if sb, err := ex.Create(ctx, spec); err == nil {
			_ = sb.Destroy(ctx)
			t.Fatal("a root that does not exist was accepted")
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		spec.Root = cfg.Root(t)
		if sb, err := ex.Create(ended, spec); err == nil {
			_ = sb.Destroy(ctx)
			t.Fatal("Create went on after its context had ended")
		}
		if list, err := ex.List(ctx); err != nil || len(list) != 0 {
			t.Errorf("List: %+v, %v", list, err)
		}
	})
	t.Run("destroy twice", func(t *testing.T) {
		b := newBox(t, cfg)
		for range 2 {
			if err := b.sb.Destroy(b.ctx); err != nil {
				t.Fatalf("Destroy: %v", err)
			}
		}
		if list, err := b.ex.List(b.ctx); err != nil || len(list) != 0 {
			t.Errorf("List: %+v, %v", list, err)
		}
		if _, err := b.c.Hello(b.ctx); err == nil {
			t.Error("a destroyed guest answers")
		}
		if _, err := os.Stat(filepath.Join(b.spec.Root, "a.txt")); err != nil {
			t.Errorf("the worktree was touched: %v", err)
		}
	})
	t.Run("a destroyed sandbox is gone", func(t *testing.T) {
		b := newBox(t, cfg)
		if err := b.sb.Destroy(b.ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := b.ex.Recover(b.ctx, b.sb.Handle()); !errors.Is(err, executors.ErrGone) {
			t.Errorf("Recover after Destroy: %v", err)
		}
		if _, err := cfg.New(t, b.dir).Recover(b.ctx, b.sb.Handle()); !errors.Is(err, executors.ErrGone) {
			t.Errorf("Recover after Destroy and a restart: %v", err)
		}
		never := executors.Handle{Kind: b.ex.Kind(), ID: id.New("sbx"), Version: b.sb.Handle().Version}
		if _, err := b.ex.Recover(b.ctx, never); !errors.Is(err, executors.ErrGone) {
			t.Errorf("Recover of one that never was: %v", err)
		}
	})
	t.Run("a guest that was shut down is gone", func(t *testing.T) {
		b := newBox(t, cfg)
		if err := b.c.Shutdown(b.ctx); err != nil {
			t.Fatalf("Shutdown: %v", err)
		}
		eventually(t, "the sandbox is gone", func() bool {
			_, err := b.ex.Recover(b.ctx, b.sb.Handle())
			return errors.Is(err, executors.ErrGone)
		})
	})
	t.Run("a stranger is rejected", func(t *testing.T) {
		b := newBox(t, cfg)
		stranger, _ := newClient(withToken{b.sb})
		defer stranger.Close()
		if _, err := stranger.Hello(b.ctx); err == nil {
			t.Error("the guest answers without its token")
		}
	})
}

// withToken is a sandbox whose token is wrong.
type withToken struct{ executors.Sandbox }

func (withToken) Token() string { return "00000000000000000000000000000000" }
