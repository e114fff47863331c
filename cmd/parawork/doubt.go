package main

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

// doubt is what database.doubt holds.
type doubt struct {
	Found []string `json:"found"`
	At    int64    `json:"at"`             // ms UTC
	Copy  string   `json:"copy,omitempty"` // folder with the database and its log as they were found
}

const goOn = "Nothing is ended or changed. Stop the server and run `parawork admin adopt-leftovers` to see what can be brought back, or put a backup of the data folder in its place."

// err says what was found; nil when nothing was.
func (d *doubt) err() error {
	if d == nil || len(d.Found) == 0 {
		return nil
	}
	return fault.New(fault.Unavailable, "database_damaged", "The database has lost what it knew: %s. %s", strings.Join(d.Found, "; "), goOn)
}

func doubtFile(dataDir string) string { return filepath.Join(dataDir, "database.doubt") }

func readDoubt(dataDir string) (*doubt, error) {
	b, err := os.ReadFile(doubtFile(dataDir))
	if errors.Is(err, fs.ErrNotExist) {
		return &doubt{}, nil
	}
	d := &doubt{}
	if err == nil {
		err = json.Unmarshal(b, d)
	}
	if err == nil && len(d.Found) == 0 {
		err = errors.New("it says nothing")
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", doubtFile(dataDir), err)
	}
	return d, nil
}

// write replaces the file in one step.
func (d *doubt) write(dataDir string) error {
	d.At = time.Now().UnixMilli()
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteDurable(doubtFile(dataDir), append(b, '\n'), 0o600)
}

// lookBefore looks at the files of a SQLite database that no process has open, before SQLite does. The caller holds the lock of the data folder.
func lookBefore(ctx context.Context, cfg *config.Config) (*doubt, error) {
	d, err := readDoubt(cfg.DataDir)
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
		d.Found = append(d.Found, fmt.Sprintf("its log is damaged after %d of %d pages, and %s behind that would be forgotten", w.Read, w.Frames, count(w.Lost, "transaction")))
		if d.Copy, err = setAside(cfg.DataDir, path); err != nil {
			return nil, fmt.Errorf("keeping a copy of the damaged database: %w", err)
		}
		return d, d.write(cfg.DataDir)
	}
	wrong, err := store.Sound(ctx, path)
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "database_unreachable", "The database file %s cannot be read: %v.", path, err)
	}
	if wrong != "" { // and noted: the end of a server that only looks is clean, and the next one would check nothing
		d.Found = append(d.Found, "its pages do not fit together ("+wrong+")")
		return d, d.write(cfg.DataDir)
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

// lookAfter compares the opened database with what is noted beside it, and keeps what was found for as long as nobody has settled it.
func (h *house) lookAfter(ctx context.Context, d *doubt) error {
	if len(d.Found) == 0 {
		forgotten, err := h.workspaces.NumbersForgotten(ctx)
		if err != nil {
			return err
		}
		behind, err := h.audit.Behind(ctx)
		if err != nil {
			return err
		}
		if len(forgotten) > 0 {
			d.Found = append(d.Found, fmt.Sprintf("numbers of workspaces of %s would be given again", count(len(forgotten), "team")))
		}
		if len(behind) > 0 {
			d.Found = append(d.Found, fmt.Sprintf("the newest entries of %s of the audit are missing", count(len(behind), "chain")))
		}
		if len(d.Found) > 0 { // each login while operators look adds to the audit, which would hide that it has lost entries
			if err := d.write(h.cfg.DataDir); err != nil {
				return fmt.Errorf("noting what the database has lost: %w", err)
			}
		}
	}
	if err := d.err(); err != nil {
		h.doubt = err.Error()
	}
	return nil
}
