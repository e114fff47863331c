package hook_test

import (
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/hook"
)

// An agent runs one hook after the other: the guest must have taken the first before the second can speak, or it hears them in
// another order.
func TestHookIsTakenBeforeItEnds(t *testing.T) {
	t.Parallel()
	sock := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	left, taken := make(chan struct{}), make(chan guest.HookRequest, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		var req guest.HookRequest
		_ = json.NewDecoder(conn).Decode(&req)
		select {
		case <-left:
			t.Error("the hook left before it was taken")
		case <-time.After(200 * time.Millisecond): // that it stays cannot be waited for
		}
		taken <- req
	}()
	env := map[string]string{guest.EnvHooks: sock, guest.EnvHookToken: "token"}
	if err := hook.Run(t.Context(), []string{"codex"}, func(k string) string { return env[k] }, strings.NewReader(`{"n":1}`), nil); err != nil {
		t.Fatal(err)
	}
	close(left)
	if req := <-taken; req.Agent != "codex" || req.Waits || string(req.Event) != `{"n":1}` {
		t.Errorf("said %+v", req)
	}
}
