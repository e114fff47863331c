package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/runner/wire"
)

func TestUpdate(t *testing.T) {
	t.Parallel()
	p, id, out := connected(t, wire.Bubblewrap)
	const next = "the next program"
	sum := sha256.Sum256([]byte(next))
	o := offered{OS: runtime.GOOS, Arch: runtime.GOARCH, File: "parawork-x", Available: true, SHA256: hex.EncodeToString(sum[:])}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+downloadsPath, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"items": []offered{{OS: "plan9", Arch: "386"}, o}})
	})
	mux.HandleFunc("GET "+downloadsPath+"/parawork-x", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(next)) })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	id.Server = s.URL
	if err := id.Save(); err != nil {
		t.Fatal(err)
	}
	var runs error
	p.Exec = func(_ context.Context, name string, args ...string) (string, error) {
		if text, err := os.ReadFile(name); err != nil || string(text) != next || len(args) != 1 || args[0] != "version" {
			t.Errorf("tried %s %q: %q, %v", name, args, text, err)
		}
		return "parawork runner 2", runs
	}
	self, err := p.Self()
	if err != nil {
		t.Fatal(err)
	}
	update := func(code int, said, now string) {
		t.Helper()
		out.Reset()
		if got := p.Run(t.Context(), []string{"update"}); got != code || !strings.Contains(out.String(), said) {
			t.Errorf("%d, wanted %d and %q\n%s", got, code, said, out)
		}
		if text, err := os.ReadFile(self); err != nil || string(text) != now {
			t.Errorf("the program is %q, %v", text, err)
		}
		if rest, err := filepath.Glob(self + ".*"); err != nil || len(rest) > 0 {
			t.Errorf("left behind: %q", rest)
		}
	}
	good := o.SHA256
	o.SHA256 = strings.Repeat("0", 64)
	update(1, "is not what the server says it is", "the program")
	o.SHA256 = "../x"
	update(1, "is invalid", "the program")
	o.SHA256, o.Available, o.Reason = good, false, "It is being built."
	update(1, "It is being built.", "the program")
	o.Available, o.OS = true, "plan9"
	update(1, "offers no program", "the program")
	o.OS, runs = runtime.GOOS, errors.New("exec format error")
	update(1, "does not run on this machine", "the program")
	runs = nil
	update(0, "Updated", next)
	update(0, "is already the one the server offers", next)
	id.Server = "http://parawork.example.com"
	if err := id.Save(); err != nil {
		t.Fatal(err)
	}
	update(1, "is not encrypted", next)
}
