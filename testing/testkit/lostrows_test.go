package testkit_test

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/mattn/go-sqlite3" // registers "sqlite3"

	"github.com/parawork/parawork/testing/testkit"
)

// A bad page early in SQLite's log: SQLite would forget everything behind it without a word. The server ends nothing and gives no number, operators
// look and read how to go on, and what is intact comes back, with the agents that went on meanwhile.
func TestADamagedLogOfTheDatabase(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t, `"database":{"url":"sqlite"}`)
	project := h.Sample()
	h.Workspace(project, "old")
	other := h.NewUser("bo@example.com", "Bo", "--team", h.Team)
	h.Terminate() // what is before is in the database itself
	h.Boot()
	young := h.Workspace(project, "young")
	echo := h.Run(young.ID, "sh", "-c", `while read x; do echo said $x; done`)
	h.Kill()

	log := filepath.Join(h.DataDir(), "parawork.db-wal")
	b, err := os.ReadFile(log)
	must(t, err)
	const frame = 24 + 4096
	if len(b) < 32+20*frame {
		t.Fatalf("the log has %d bytes: the test proves nothing", len(b))
	}
	b[32+2*frame+24+1000] ^= 0x55
	must(t, os.WriteFile(log, b, 0o600))

	why := h.BootLooking()
	if !strings.Contains(why, "would be forgotten") || !strings.Contains(why, "adopt-leftovers") {
		t.Errorf("the reason: %s", why)
	}
	var me struct{ User struct{ Email string } }
	h.API("GET", "/me", nil, &me)
	h.Refused(503, "database_in_doubt", "POST", "/teams/"+h.Team+"/workspaces", map[string]any{"project_id": project, "name": "w"})
	mine := h.Token
	h.Token = other
	h.Refused(503, "database_in_doubt", "GET", "/me", nil)
	h.Token = mine
	h.Terminate()
	if why := h.BootLooking(); !strings.Contains(why, "would be forgotten") {
		t.Errorf("at the next start: %s", why)
	}
	h.Terminate()

	out, err := h.AdminWith(nil, "adopt-leftovers")
	if err == nil || !strings.Contains(out, "is restored") || !strings.Contains(out, "Nothing was changed") {
		t.Errorf("a look: %v %s", err, out)
	}
	if out, err = h.AdminWith(nil, "adopt-leftovers", "--yes"); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	h.Boot()
	var got struct{ State string }
	h.API("GET", "/workspaces/"+young.ID, nil, &got)
	if got.State != "ready" {
		t.Errorf("the younger workspace is %q", got.State)
	}
	h.API("POST", "/sessions/"+echo.ID+"/input", map[string]any{"text": "on\r"}, nil)
	h.Wait("its agent goes on", func() bool { return bytes.Contains(h.Output(echo.ID, 0), []byte("said on")) })
	if w := h.Workspace(project, "next"); w.Key != "PW-3" {
		t.Errorf("the next workspace is %s", w.Key)
	}
}

// A database that came back older than it was, with nothing left to salvage: workspaces are made again of their folders and branches, and no
// number is given twice.
func TestADatabaseThatCameBackOlder(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t, `"database":{"url":"sqlite"}`)
	project := h.Sample()
	h.Workspace(project, "old")
	h.Terminate()
	file := filepath.Join(h.DataDir(), "parawork.db")
	older, err := os.ReadFile(file) // as a backup of it alone
	must(t, err)
	h.Boot()
	young := h.Workspace(project, "young")
	ticks := filepath.Join(h.Dir, "ticks")
	h.Run(young.ID, "sh", "-c", `echo mine > mine.txt; while sleep 0.2; do echo tick >> `+ticks+`; done`)
	h.Wait("it works", func() bool { b, _ := os.ReadFile(ticks); return len(b) > 0 })
	h.Kill()
	_ = os.Remove(file + "-wal")
	_ = os.Remove(file + "-shm")
	must(t, os.WriteFile(file, older, 0o600))

	if why := h.BootLooking(); !strings.Contains(why, "given again") {
		t.Errorf("the reason: %s", why)
	}
	if _, err := os.Stat(filepath.Join(h.DataDir(), "database.doubt")); err != nil { // operators who sign in add to the audit what would hide it
		t.Errorf("what was found is not noted: %v", err)
	}
	h.Terminate()
	out, err := h.AdminWith(nil, "adopt-leftovers")
	if err == nil || !strings.Contains(out, "workspace young of project") || !strings.Contains(out, "numbers up to 2") {
		t.Errorf("a look: %v %s", err, out)
	}
	if out, err = h.AdminWith(nil, "adopt-leftovers", "--yes"); err != nil || !strings.Contains(out, "restored 1 workspace") {
		t.Fatalf("%v %s", err, out)
	}
	h.Boot()
	var got struct{ State, Key, Branch string }
	h.API("GET", "/workspaces/"+young.ID, nil, &got)
	if got.State != "ready" || got.Key != "PW-3" || got.Branch != "parawork/young" {
		t.Errorf("it came back as %+v", got)
	}
	var read struct{ Stdout string }
	h.API("POST", "/workspaces/"+young.ID+"/exec", map[string]any{"command": "cat mine.txt"}, &read)
	if read.Stdout != "mine\n" {
		t.Errorf("its file holds %q", read.Stdout)
	}
	if w := h.Workspace(project, "next"); w.Key != "PW-4" {
		t.Errorf("the next workspace is %s", w.Key)
	}
}

// A page of the database itself is bad after an end that was not clean: the server only looks, at the next start too, whose end before was clean,
// and adopting leftovers settles nothing until a sound database is there.
func TestADatabaseWithABadPage(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t, `"database":{"url":"sqlite"}`)
	h.Workspace(h.Sample(), "old")
	h.Terminate()
	file := filepath.Join(h.DataDir(), "parawork.db")
	page := rootPage(t, file, "review_comments")
	h.Boot()
	h.NewUser("bo@example.com", "Bo", "--team", h.Team)
	h.Kill()
	sound := map[string][]byte{}
	for _, end := range []string{"", "-wal"} {
		b, err := os.ReadFile(file + end)
		must(t, err)
		sound[end] = b
	}
	bad := bytes.Clone(sound[""])
	copy(bad[(page-1)*4096:], bytes.Repeat([]byte{0xee}, 64))
	must(t, os.WriteFile(file, bad, 0o600))

	for range 2 {
		if why := h.BootLooking(); !strings.Contains(why, "do not fit together") {
			t.Errorf("the reason: %s", why)
		}
		h.Terminate()
	}
	if out, err := h.AdminWith(nil, "adopt-leftovers", "--yes"); err == nil || !strings.Contains(out, "Replace it with a backup of the database") {
		t.Fatalf("it settled a database that is not sound: %v %s", err, out)
	}
	_ = os.Remove(file + "-shm")
	for end, b := range sound {
		must(t, os.WriteFile(file+end, b, 0o600))
	}
	if out, err := h.AdminWith(nil, "adopt-leftovers", "--yes"); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	h.Boot()
}

// rootPage is the first page of a table, from 1.
func rootPage(t *testing.T, file, table string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+file)
	must(t, err)
	defer db.Close()
	must(t, db.QueryRow(`SELECT rootpage FROM sqlite_master WHERE name = ?`, table).Scan(&n))
	return n
}
