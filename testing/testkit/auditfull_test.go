package testkit_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/testing/testkit"
)

// fillDatabase takes all room of the data folder's disk, and what is left of it in SQLite's log, until empty is called.
func fillDatabase(t *testing.T, h *testkit.Instance) (empty func()) {
	t.Helper()
	db, err := store.Open(t.Context(), store.Config{URL: "sqlite", DataDir: h.DataDir()})
	must(t, err)
	defer db.Close()
	h.Wait("SQLite's log is empty", func() bool {
		var busy, pages, moved int
		must(t, db.QueryRow(t.Context(), `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &pages, &moved))
		return busy == 0
	})
	return fillDisk(t, h.DataDir(), 0)
}

// topUp takes what has become free since fillDisk.
func topUp(t *testing.T, dir string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "filler"), os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4<<10))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// Each request that a full disk refuses is in the audit, once, though the server is killed while the entries wait for room, and once more when
// it has stored them.
func TestWhatAFullDiskRefusesIsInTheAudit(t *testing.T) {
	t.Parallel()
	h := testkit.StartWith(t, testkit.With{Disk: smallDisk(t, "size=96m,nr_inodes=6000")})
	ws := h.Workspace(h.Sample(), "Work")
	reserve := filepath.Join(h.DataDir(), "audit.reserve")
	held := func() int {
		t.Helper()
		s, err := audit.LookAtReserve(reserve)
		must(t, err)
		return s.Held
	}
	empty := fillDatabase(t, h)
	failed := 0
	// refused asks for what a full disk refuses until one more entry waits. What the server frees meanwhile is taken, too.
	refused := func() {
		t.Helper()
		for i, before := 0, held(); held() <= before; i++ {
			if i == 20 { // refusals beyond a bound are counted, not recorded
				t.Fatal("no entry waits for room")
			}
			topUp(t, h.DataDir())
			err := h.Try("PATCH", "/workspaces/"+ws.ID, map[string]any{"name": fmt.Sprint("Full ", i)}, nil)
			if err != nil && !strings.Contains(err.Error(), "disk_full") {
				t.Fatal(err)
			}
			if err != nil {
				failed++
			}
		}
	}
	refused()
	refused()
	h.Refused(400, "", "PATCH", "/workspaces/"+ws.ID, map[string]any{"name": strings.Repeat("x", 5000)})
	if out := h.Doctor(); !strings.Contains(out, "for room in the database") {
		t.Errorf("the doctor does not say that entries wait:\n%s", out)
	}
	h.Kill()
	h.Boot()
	empty()
	h.DieAt(failpoint.AuditTaken, func() {
		empty := fillDatabase(t, h)
		refused()
		empty()
		_ = syscall.Kill(h.Pid(), syscall.SIGTERM) // it stores them when it ends, if not before
	})
	h.Wait("no entry waits", func() bool { return held() == 0 })
	var found struct {
		Items []struct {
			Result, Code string
			RequestID    string `json:"request_id"`
		}
	}
	h.API("GET", "/teams/"+h.Team+"/audit?action=workspace.update", nil, &found)
	by, requests := map[string]int{}, map[string]bool{}
	for _, e := range found.Items {
		by[e.Result]++
		requests[e.RequestID] = true
	}
	if by["failed"] != failed || by["refused"] != 1 || len(requests) != len(found.Items) {
		t.Errorf("of %d renames that failed and one that was refused the audit has %+v", failed, found.Items)
	}
	if out := h.Doctor("--audit"); strings.Contains(out, "FAIL  audit") || strings.Contains(out, "note  audit") {
		t.Errorf("the doctor says:\n%s", out)
	}
}
