package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/atomicfile"
)

// The journal has one page per sandbox, written before the described step begins: whenever this program dies, the next one finds what
// exists.

// States of a page, beside those of wire.Sandbox.
const (
	making  = "making"
	running = "running"
	paused  = "paused"  // on purpose
	stopped = "stopped" // its programs were ended, its files still exist
	gone    = "gone"    // it ended itself on request
	ending  = "ending"  // it is being removed
)

// page is the stored state of a sandbox. Times are ms UTC.
type page struct {
	ID          string            `json:"id"`
	TeamID      string            `json:"team_id"`
	WorkspaceID string            `json:"workspace_id"`
	UserID      string            `json:"user_id,omitempty"`
	Key         string            `json:"key"`
	Slug        string            `json:"slug"`
	Folder      string            `json:"folder,omitempty"` // the folder whose repository it shares objects with
	Place       string            `json:"place"`            // its folder below workspaces
	UID         int               `json:"uid"`              // who owns the files its programs write; -1 = this program's own user
	Limits      executors.Limits  `json:"limits"`
	Env         map[string]string `json:"env,omitempty"`
	Token       string            `json:"token"` // the token the server presents to the guard
	State       string            `json:"state"`
	Reason      string            `json:"reason,omitempty"`
	MadeAt      int64             `json:"made_at"`
	Handle      executors.Handle  `json:"handle"`
}

// maxPage limits a page: an environment at its limit, and some more.
const maxPage = 8 << 20

func (m *Machine) pagePath(id string) string {
	return filepath.Join(m.cfg.Dir, journalDir, id+".json")
}

// write stores a page. After a crash the file is the old one or the new one.
func (m *Machine) write(p page) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := atomicfile.WriteDurable(m.pagePath(p.ID), b, 0o600); err != nil {
		return fmt.Errorf("writing the journal of sandbox %s: %w", p.ID, err)
	}
	return nil
}

// forget removes a page.
func (m *Machine) forget(id string) error {
	if err := os.Remove(m.pagePath(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the journal of sandbox %s: %w", id, err)
	}
	return atomicfile.SyncDir(filepath.Join(m.cfg.Dir, journalDir))
}

// readJournal makes a box of each page. An unreadable page is an error: its sandbox may run.
func (m *Machine) readJournal() error {
	dir := filepath.Join(m.cfg.Dir, journalDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the journal: %w", err)
	}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if strings.HasPrefix(e.Name(), atomicfile.Unfinished) { // left by a program that died while it wrote
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
		if !ok || guest.CheckID(id) != nil {
			continue
		}
		p, err := readPage(filepath.Join(dir, e.Name()))
		if err != nil || p.ID != id {
			return fmt.Errorf("reading the journal of sandbox %s: %w", id, errors.Join(err, errPage))
		}
		m.boxes[id] = newBox(m, p)
	}
	return nil
}

var errPage = errors.New("it is not what was written")

func readPage(path string) (page, error) {
	var p page
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return p, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return p, errors.Join(err, errPage)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxPage))
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(b, &p)
}
