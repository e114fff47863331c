package e2b

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
	recordName = "e2b.json"
	envName    = "env" // what all processes in it are given, for a guest that is started again
	// instanceName is the file that tells our sandboxes from those of other servers that use the same key.
	instanceName = ".e2b-instance"
)

// record is the stored state of a sandbox. It becomes the handle's state: it contains no secret.
type record struct {
	Attempt  string `json:"attempt,omitempty"`  // the try it was made by, as its metadata says
	Sandbox  string `json:"sandbox,omitempty"`  // E2B's id; "" = its answer never came
	Domain   string `json:"domain,omitempty"`   // where its envd is, when not at the usual place
	Envd     string `json:"envd,omitempty"`     // version
	Template string `json:"template,omitempty"` // it was made from
	Account  string `json:"account,omitempty"`  // which key at which server
	Root     string `json:"root,omitempty"`     // the worktree in it
	Guest    string `json:"guest,omitempty"`    // the guest's program in it
	CPUs     int    `json:"cpus,omitempty"`
	MemoryMB int64  `json:"memory_mb,omitempty"`
	Warm     bool   `json:"warm,omitempty"`  // nobody's yet
	Ready    bool   `json:"ready,omitempty"` // its guest was reached once
	Runs     int64  `json:"runs,omitempty"`  // ms UTC since when its present run lasts
}

// checkID refuses ids that are not one plain path element: the id names a folder.
func checkID(id string) error {
	if !plainID(id) || len(id) > 64 {
		return fault.New(fault.Invalid, "invalid_sandbox_id", "The sandbox id must have 1 to 64 letters, digits, dashes and underscores.")
	}
	return nil
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

// folders returns the ids of our sandboxes that have a folder.
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
		s.cutAll(errEnded)
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

// ourInstance returns this instance's name, made at first use.
func (e *Executor) ourInstance() (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.instance != "" {
		return e.instance, nil
	}
	path := filepath.Join(e.cfg.Dir, instanceName)
	b, err := readSmall(path)
	if errors.Is(err, fs.ErrNotExist) {
		var name string
		if name, err = e.random(16); err == nil {
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
	if !plainID(name) {
		return "", fmt.Errorf("naming this instance: %s is no name; remove it", path)
	}
	if region := e.cfg.Kind.Region(); region != "" {
		name += "-" + region // two regions may be two templates of one account: neither takes the other's sandboxes for strays
	}
	e.instance = name
	return e.instance, nil
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
	path string
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
	if g.hash != "" && g.path == e.cfg.GuestPath && g.at.Equal(info.ModTime()) && g.size == info.Size() {
		return g.hash, nil
	}
	if g.hash, err = HashGuest(e.cfg.GuestPath); err != nil {
		return "", err
	}
	g.path, g.at, g.size = e.cfg.GuestPath, info.ModTime(), info.Size()
	e.mu.Lock()
	e.guest = g
	e.mu.Unlock()
	return g.hash, nil
}

// HashGuest names a guest's program by what is in it: a template that has this one needs no upload.
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
