package hostedtest

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

// Main runs the tests of a package, and removes the guest that was built for them.
func Main(m *testing.M) {
	code := m.Run()
	if path, err := Guest(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// GuestPath is the guest, built once.
func GuestPath(t testing.TB) string {
	t.Helper()
	path, err := Guest()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Log writes to the test's output.
func Log(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// PerFolder has a stand-in for each folder of an executor: the executor of a restarted server meets the same one. The zero value with New is
// ready.
type PerFolder[T any] struct {
	New func(t *testing.T) T
	all sync.Map
}

// Of returns the stand-in of a folder.
func (p *PerFolder[T]) Of(t *testing.T, dir string) T {
	t.Helper()
	if s, ok := p.all.Load(dir); ok {
		return s.(T)
	}
	s := p.New(t)
	p.all.Store(dir, s)
	return s
}

// Spec asks for a sandbox.
func Spec(t *testing.T, id string) executors.Spec {
	return executors.Spec{ID: id, TeamID: "team_1", WorkspaceID: "ws_1", Root: t.TempDir()}
}

// Hello greets a sandbox's guest by way of a client of its own.
func Hello(t *testing.T, sb executors.Sandbox) error {
	t.Helper()
	c := client.New(client.Config{Dial: sb.Dial, Token: sb.Token(), SandboxID: sb.Handle().ID, Now: time.Now, OnePipe: true})
	defer c.Close()
	h, err := c.Hello(t.Context())
	if err != nil {
		return err
	}
	return executors.CheckHello(h, sb.Handle().ID)
}

// Reason is why a place cannot serve, as an error says it; "" = it does not.
func Reason(err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		r, _ := f.Details["reason"].(string)
		return r
	}
	return ""
}
