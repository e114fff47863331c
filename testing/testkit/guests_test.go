package testkit_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

// killGuests kills every guest of an instance, found by the records in its data folder.
func killGuests(t *testing.T, h *testkit.Instance) {
	t.Helper()
	records, err := filepath.Glob(filepath.Join(h.DataDir(), "sandboxes", "*", "guest.json"))
	if err != nil || len(records) == 0 {
		t.Fatalf("no guests: %v", err)
	}
	for _, r := range records {
		b, err := os.ReadFile(r)
		must(t, err)
		var g struct{ Pid int }
		must(t, json.Unmarshal(b, &g))
		must(t, syscall.Kill(g.Pid, syscall.SIGKILL))
	}
}
