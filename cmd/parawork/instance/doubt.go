package instance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/internal/atomicfile"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
)

// A database that has lost rows looks like one that never had them: numbers of the lost workspaces would be given
// again, and their agents go on without anybody who sees them. So whatever says that rows are missing is looked at before anything is recovered:
//
//   - SQLite's log, before SQLite reads it: it forgets all behind a bad frame
//   - its pages, where the last end was not clean
//   - the numbers of workspaces and the heads of the audit, which are noted beside the database
//
// What is found is noted in database.doubt, for SQLite's own opening takes its trace away. `admin adopt-leftovers` removes it.

// Doubt is what database.doubt holds.
type Doubt struct {
	Found []string `json:"found"`
	At    int64    `json:"at"`             // ms UTC
	Copy  string   `json:"copy,omitempty"` // folder with the database and its log as they were found
}

const goOn = "Nothing is ended or changed. Stop the server and run `parawork admin adopt-leftovers` to see what can be brought back, or put a backup of the data folder in its place."

// Err says what was found; nil when nothing was.
func (d *Doubt) Err() error {
	if d == nil || len(d.Found) == 0 {
		return nil
	}
	return fault.New(fault.Unavailable, "database_damaged", "The database has lost data: %s. %s", strings.Join(d.Found, "; "), goOn)
}

// DoubtFile is where what was found is noted.
func DoubtFile(dataDir string) string { return filepath.Join(dataDir, "database.doubt") }

// ReadDoubt reads what is noted: nothing, when there is no file.
func ReadDoubt(dataDir string) (*Doubt, error) {
	b, err := os.ReadFile(DoubtFile(dataDir))
	if errors.Is(err, fs.ErrNotExist) {
		return &Doubt{}, nil
	}
	d := &Doubt{}
	if err == nil {
		err = json.Unmarshal(b, d)
	}
	if err == nil && len(d.Found) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", DoubtFile(dataDir), err)
	}
	return d, nil
}

// Write replaces the file in one step.
func (d *Doubt) Write(dataDir string) error {
	d.At = time.Now().UnixMilli()
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteDurable(DoubtFile(dataDir), append(b, '\n'), 0o600)
}

// LookBefore looks at the files of a SQLite database that no process has open, before SQLite does. The caller holds the lock of the data folder.
func LookBefore(ctx context.Context, cfg *config.Config) (*Doubt, error) {
	d, err := ReadDoubt(cfg.DataDir)
	if err != nil || len(d.Found) > 0 {
		return d, err
	}
	path, err := store.SQLiteFile(store.Config{URL: cfg.Database.URL, DataDir: cfg.DataDir})
	if err != nil || path == "" {
		return d, err
	}
	w, err := store.CheckWAL(path)
	if err != nil || w.Frames == 0 { // a clean end leaves none
		return d, err
	}
	if w.Damaged() {
		d.Found = append(d.Found, fmt.Sprintf("its log is damaged after %d of %d pages, and %s behind that would be forgotten", w.Read, w.Frames, Count(w.Lost, "transaction")))
		if d.Copy, err = setAside(cfg.DataDir, path); err != nil {
			return nil, fmt.Errorf("copying the damaged database: %w", err)
		}
		return d, d.Write(cfg.DataDir)
	}
	wrong, err := store.Sound(ctx, path)
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "database_unreachable", "The database file %s cannot be read: %v.", path, err)
	}
	if wrong != "" { // and noted: the end of a server that only looks is clean, and the next one would check nothing
		d.Found = append(d.Found, "its pages do not fit together ("+wrong+")")
		return d, d.Write(cfg.DataDir)
	}
	return d, nil
}

// setAside copies a database and its log to a folder of their own.
func setAside(dataDir, path string) (dir string, err error) {
	dir = filepath.Join(dataDir, "damaged-"+time.Now().UTC().Format("20060102-150405"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	for _, end := range []string{"", "-wal"} {
		if err := copyFile(path+end, filepath.Join(dir, "parawork.db"+end)); err != nil {
			return "", err
		}
	}
	return dir, nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return atomicfile.CopyDurable(to, in, 0o600)
}
