package hosted

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/atomicfile"
	"github.com/parawork/parawork/internal/fault"
)

// Files of a sandbox's folder on this machine. Nothing in the sandbox sees it.
const (
	kindName   = "kind"
	tokenName  = "token"
	recordName = "machine.json"
	envName    = "env" // what all processes in it are given, for a guest that is started again
)

// record is the stored state of a sandbox. It becomes the handle's state: it contains no secret.
type record struct {
	Name     string `json:"name,omitempty"`    // of the machine, of this try to make it
	Machine  string `json:"machine,omitempty"` // the service's id; "" = its answer never came
	Account  string `json:"account,omitempty"`
	Root     string `json:"root,omitempty"`  // the worktree in it
	Guest    string `json:"guest,omitempty"` // the guest's program in it
	CPUs     int    `json:"cpus,omitempty"`
	MemoryMB int64  `json:"memory_mb,omitempty"`
	Ready    bool   `json:"ready,omitempty"` // its guest was reached once
	Runs     int64  `json:"runs,omitempty"`  // ms UTC since when its present run lasts
}

// checkID refuses ids that are not one plain path element: the id names a folder.
func checkID(id string) error {
	if !plain(id) || len(id) > 64 {
		return fault.New(fault.Invalid, "invalid_sandbox_id", "The sandbox id must have 1 to 64 letters, digits, dashes and underscores.")
	}
	return nil
}

func plain(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	}) < 0
}

func (e *Executor) dir(id string) string { return filepath.Join(e.cfg.Dir, id) }

// makeFolder makes the sandbox's folder. One that is there already is an error.
func (e *Executor) makeFolder(id string) error {
	if err := os.MkdirAll(e.cfg.Dir, 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(e.dir(id), 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(e.dir(id), kindName), []byte(e.cfg.Kind), 0o600)
}

// makeToken makes the guest's secret and keeps it.
func (e *Executor) makeToken(id string) (string, error) {
	token, err := e.random(32)
	if err != nil {
		return "", err
	}
	return token, atomicfile.WriteDurable(filepath.Join(e.dir(id), tokenName), []byte(token), 0o600)
}

// readToken returns the guest's secret; fs.ErrNotExist when it was lost.
func (e *Executor) readToken(id string) (string, error) {
	b, err := readSmall(filepath.Join(e.dir(id), tokenName))
	token := strings.TrimSpace(string(b))
	if err == nil && token == "" {
		err = fs.ErrNotExist
	}
	return token, err
}

func (e *Executor) writeRecord(id string, r record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return atomicfile.WriteDurable(filepath.Join(e.dir(id), recordName), b, 0o600)
}

// readRecord returns the stored record of a sandbox; fs.ErrNotExist when there is none.
func (e *Executor) readRecord(id string) (record, error) {
	var r record
	kind, err := readSmall(filepath.Join(e.dir(id), kindName))
	if err == nil && string(kind) != string(e.cfg.Kind) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return r, err
	}
	b, err := readSmall(filepath.Join(e.dir(id), recordName))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(b, &r)
}

// folders returns the ids of this kind's sandboxes that have a folder.
func (e *Executor) folders() ([]string, error) {
	entries, err := os.ReadDir(e.cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing sandboxes: %w", err)
	}
	var out []string
	for _, entry := range entries {
		if !entry.IsDir() || checkID(entry.Name()) != nil {
			continue
		}
		if b, err := readSmall(filepath.Join(e.cfg.Dir, entry.Name(), kindName)); err == nil && string(b) == string(e.cfg.Kind) {
			out = append(out, entry.Name())
		}
	}
	return out, nil
}

// removeFolder forgets a sandbox.
func (e *Executor) removeFolder(id string) error {
	e.mu.Lock()
	s := e.live[id]
	delete(e.live, id)
	e.mu.Unlock()
	if s != nil {
		s.cut(errEnded)
	}
	if b, err := readSmall(filepath.Join(e.dir(id), kindName)); err == nil && string(b) != string(e.cfg.Kind) {
		return nil // another place's
	}
	if err := os.RemoveAll(e.dir(id)); err != nil {
		return fmt.Errorf("removing the folder of sandbox %s: %w", id, err)
	}
	return nil
}

// Remnants: nothing of a sandbox that is gone stays on this machine.
func (e *Executor) Remnants(string) (string, bool) { return "", false }

// machinePrefix is what the names of all machines of this instance begin with.
func (e *Executor) machinePrefix() (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.instance == "" {
		path := filepath.Join(e.cfg.Dir, "."+string(e.cfg.Kind)+"-instance")
		b, err := readSmall(path)
		if errors.Is(err, fs.ErrNotExist) {
			var name string
			if name, err = e.random(6); err == nil {
				b = []byte(name)
				if err = os.MkdirAll(e.cfg.Dir, 0o700); err == nil {
					err = atomicfile.WriteDurable(path, b, 0o600)
				}
			}
		}
		if err != nil {
			return "", fmt.Errorf("naming this instance: %w", err)
		}
		name := strings.TrimSpace(string(b))
		if !plain(name) || strings.Contains(name, "-") {
			return "", fmt.Errorf("naming this instance: %s holds no name; remove it", path)
		}
		e.instance = name
	}
	return "parawork-" + e.instance + "-", nil
}

// attempt names a machine for a try to make a sandbox.
func (e *Executor) attempt(id string) (string, error) {
	prefix, err := e.machinePrefix()
	if err != nil {
		return "", err
	}
	try, err := e.random(4)
	return prefix + id + "-" + try, err
}

// sandboxOf is the sandbox a machine of this instance was made for.
func sandboxOf(prefix, name string) (id string, ok bool) {
	rest, ours := strings.CutPrefix(name, prefix)
	i := strings.LastIndexByte(rest, '-')
	if !ours || i < 0 || checkID(rest[:i]) != nil {
		return "", false
	}
	return rest[:i], true
}

func (e *Executor) random(n int) (string, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(e.cfg.Rand, b); err != nil {
		return "", fmt.Errorf("making a random name: %w", err)
	}
	return hex.EncodeToString(b), nil
}

func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 2<<20))
}

// guestFile is the guest's program as it was last looked at.
type guestFile struct {
	at   time.Time
	size int64
	hash string
}

// guestHash names the guest's program by what is in it.
func (e *Executor) guestHash() (string, error) {
	info, err := os.Stat(e.cfg.GuestPath)
	if err != nil {
		return "", fmt.Errorf("finding the guest: %w", err)
	}
	e.mu.Lock()
	g := e.guest
	e.mu.Unlock()
	if g.hash != "" && g.at.Equal(info.ModTime()) && g.size == info.Size() {
		return g.hash, nil
	}
	if g.hash, err = HashGuest(e.cfg.GuestPath); err != nil {
		return "", err
	}
	g.at, g.size = info.ModTime(), info.Size()
	e.mu.Lock()
	e.guest = g
	e.mu.Unlock()
	return g.hash, nil
}

// HashGuest names a guest's program by what is in it: an image that has it under ImageGuest and this name needs no upload.
func HashGuest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading the guest: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("reading the guest: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// GuestMissing says why the guest's program cannot be used; "" = it can.
func (e *Executor) GuestMissing() string {
	if info, err := os.Stat(e.cfg.GuestPath); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return "the guest program is missing"
	}
	return ""
}
