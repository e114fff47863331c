package store_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/parawork/parawork/store"
)

// unclosed makes a database with n transactions in its log, as a killed program leaves it, and returns its path. Each transaction fills pages of
// its own, and one that all change.
func unclosed(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(dir, "live.db")+"?_journal_mode=WAL&_synchronous=FULL")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(`PRAGMA wal_autocheckpoint = 0; CREATE TABLE rows (n INTEGER PRIMARY KEY, text TEXT)`); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := db.Exec(`INSERT INTO rows VALUES (?, ?)`, i, fmt.Sprintf("%01000d", i)); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "left.db")
	for _, end := range []string{"", "-wal"} {
		b, err := os.ReadFile(filepath.Join(dir, "live.db"+end))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+end, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func rowsOf(t *testing.T, path string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow(`SELECT COUNT(*) FROM rows WHERE length(text) = 1000`).Scan(&n); err != nil {
		t.Log(err) // the table itself is gone
		return 0
	}
	return n
}

// spoil changes a byte of a log.
func spoil(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path+"-wal", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x55
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

const frame = 24 + 4096

// What SQLite would forget without a word is seen before it is opened, whichever frame is bad, and what is intact is brought back.
func TestABadFrameOfTheLogIsSeen(t *testing.T) {
	t.Parallel()
	whole := 0
	for _, bad := range []int64{0, 1, 2, 5, 9, 20, 40} {
		path := unclosed(t, 60)
		if w, err := store.CheckWAL(path); err != nil || w.Damaged() || w.Read != w.Frames || w.Frames < 60 {
			t.Fatalf("before: %+v %v", w, err)
		}
		spoil(t, path, 32+bad*frame+24+100)
		w, err := store.CheckWAL(path)
		if err != nil || !w.Damaged() || int64(w.Read) != bad || w.Lost < 10 {
			t.Fatalf("frame %d: read %d, lost %d, %v", bad, w.Read, w.Lost, err)
		}
		to := path + ".salvaged"
		if w, err = store.SalvageWAL(path, to); err != nil {
			t.Fatal(err)
		}
		if w.Whole() {
			whole++
			if wrong, err := store.Sound(t.Context(), to); wrong != "" || err != nil {
				t.Errorf("frame %d: %s, %v", bad, wrong, err)
			}
			if n := rowsOf(t, to); n != 60 {
				t.Errorf("frame %d: %d rows came back", bad, n)
			}
		}
		if n := rowsOf(t, path); n >= 60 { // what SQLite itself makes of it
			t.Errorf("frame %d: SQLite has %d rows: the test proves nothing", bad, n)
		}
	}
	if whole < 3 {
		t.Errorf("only %d came back whole", whole)
	}
}

// A last transaction that a loss of power tore had not ended: that is what the log is for.
func TestATornEndOfTheLogIsNoDamage(t *testing.T) {
	t.Parallel()
	path := unclosed(t, 60)
	w, err := store.CheckWAL(path)
	if err != nil {
		t.Fatal(err)
	}
	spoil(t, path, 32+int64(w.Frames-1)*frame+24+7)
	if w, err := store.CheckWAL(path); err != nil || w.Damaged() {
		t.Errorf("%+v %v", w, err)
	}
	info, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int64{1, frame / 2, frame, 3*frame + 9} {
		if err := os.Truncate(path+"-wal", info.Size()-cut); err != nil {
			t.Fatal(err)
		}
		if w, err := store.CheckWAL(path); err != nil || w.Damaged() {
			t.Errorf("cut by %d: %+v %v", cut, w, err)
		}
	}
	if err := os.Truncate(path+"-wal", 0); err != nil {
		t.Fatal(err)
	}
	if w, err := store.CheckWAL(path); err != nil || w.Damaged() {
		t.Errorf("empty: %+v %v", w, err)
	}
}

// A log whose header is damaged is forgotten whole by SQLite.
func TestABadHeaderOfTheLogIsSeen(t *testing.T) {
	t.Parallel()
	path := unclosed(t, 60)
	spoil(t, path, 17)
	if w, err := store.CheckWAL(path); err != nil || !w.Damaged() || w.Read != 0 || w.Whole() {
		t.Errorf("%+v %v", w, err)
	}
}
