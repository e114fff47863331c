package e2b_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/e2b"
	"github.com/parawork/parawork/executors/e2b/e2btest"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/hosted/hostedtest"
	"github.com/parawork/parawork/internal/guestbin"
)

// guest builds the guest once. Templates of the tests hold it already, as those that were built do.
var guest = sync.OnceValues(func() (string, error) {
	path, err := hostedtest.Guest()
	if err != nil {
		return "", err
	}
	hash, err := guestbin.Hash(path)
	if err != nil {
		return "", err
	}
	e2b.TemplateGuestAt(path + "-")
	return path, os.Link(path, path+"-"+hash)
})

// withGuest is a service whose sandboxes find the guest in their template.
func withGuest(t *testing.T, cfg e2btest.Config) e2btest.Config {
	t.Helper()
	cfg.Show = append(cfg.Show, filepath.Dir(guestPath(t)))
	return cfg
}

func guestPath(t *testing.T) string {
	t.Helper()
	path, err := guest()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMain(m *testing.M) { hostedtest.Main(m) }

// settings are those of a fake service.
func settings(s *e2btest.Server) e2b.Settings {
	return e2b.Settings{APIKey: s.Key(), APIURL: s.APIURL(), SandboxURL: s.SandboxURL(), Proxy: "none"}
}

// newExecutor makes an executor over a fake service.
func newExecutor(t *testing.T, s *e2btest.Server, dir string, change func(*e2b.Config)) *e2b.Executor {
	t.Helper()
	cfg := e2b.Config{Dir: dir, GuestPath: guestPath(t), Settings: func(context.Context) (e2b.Settings, error) { return settings(s), nil },
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))}
	if change != nil {
		change(&cfg)
	}
	e, err := e2b.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return e
}

func TestConformance(t *testing.T) {
	t.Parallel()
	executortest.Run(t, executortest.Config{Abilities: []string{"RemnantKeeper", "RunRecorder", "Sleeper", "Warmer"}, SandboxAbilities: []string{"Leased", "Metered", "Pauser", "SinglePipe"},
		Deliver: executortest.Deliver, New: func(t *testing.T, dir string) executors.Executor {
			return newExecutor(t, server(t, dir), dir, nil)
		}})
}

// servers are fake services, by the folder of the executor that uses one.
var servers sync.Map

// server is the service a folder's executors use: the same one after a restart.
func server(t *testing.T, dir string) *e2btest.Server {
	t.Helper()
	if s, ok := servers.Load(dir); ok {
		return s.(*e2btest.Server)
	}
	s := e2btest.New(t, withGuest(t, e2btest.Config{}))
	servers.Store(dir, s)
	return s
}
