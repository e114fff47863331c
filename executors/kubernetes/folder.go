package kubernetes

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

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/atomicfile"
	"github.com/parawork/parawork/internal/fault"
)

// Files of a sandbox's folder on this machine. Nothing in the sandbox sees it.
const (
	kindName   = "kind"
	tokenName  = "token"
	recordName = "kubernetes.json"
	envName    = "env" // what all processes in it are given
	// instanceName is the file that tells our pods from those of other servers that use the same namespace.
	instanceName = ".kubernetes-instance"
)

// record is the stored state of a sandbox. It becomes the handle's state: it contains no secret.
type record struct {
	Cluster   string `json:"cluster,omitempty"` // where it is: see cluster.address
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`      // its name, decided before it is made
	Claim     string `json:"claim,omitempty"`    // of its volume; "" = its files end with the pod
	Box       string `json:"box,omitempty"`      // its SandboxClaim, where agent-sandbox makes its pods
	Sandbox   string `json:"sandbox,omitempty"`  // the Sandbox that the SandboxClaim got; "" = none yet
	BoxDisk   bool   `json:"box_disk,omitempty"` // the template of its pods has a volume
	Attempt   string `json:"attempt,omitempty"`  // the making of the present pod
	Team      string `json:"team,omitempty"`
	Workspace string `json:"workspace,omitempty"`
	Image     string `json:"image,omitempty"`
	Root      string `json:"root,omitempty"` // the worktree in it
	Gate      string `json:"gate,omitempty"` // folder of this machine with the socket of the only way out
	CPUs      int    `json:"cpus,omitempty"`
	MemoryMB  int64  `json:"memory_mb,omitempty"`
	Warm      bool   `json:"warm,omitempty"`  // nobody's yet
	Class     string `json:"class,omitempty"` // what a warm one was made like
	Why       string `json:"why,omitempty"`   // its pod ended although nobody here paused it
	Up        string `json:"up,omitempty"`    // the uid of the pod the guest was brought into
	Ready     bool   `json:"ready,omitempty"` // its guest was reached once
	Paused    bool   `json:"paused,omitempty"`
	Runs      int64  `json:"runs,omitempty"`  // ms UTC since when its present run lasts
	Ended     int64  `json:"ended,omitempty"` // ms UTC when its last run ended
}

// kept reports whether a sandbox's files outlive its pod.
func (r record) kept() bool { return r.Claim != "" || r.Box != "" && r.BoxDisk }

// checkID refuses ids that are not one plain path element: the id names a folder.
func checkID(id string) error {
	if len(id) == 0 || len(id) > 64 || strings.IndexFunc(id, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	}) >= 0 {
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
	return os.WriteFile(filepath.Join(e.dir(id), kindName), []byte(Kind), 0o600)
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
	if err == nil && string(kind) != string(Kind) {
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
		if b, err := readSmall(filepath.Join(e.cfg.Dir, entry.Name(), kindName)); err == nil && string(b) == string(Kind) {
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
		s.shut(errEnded)
	}
	if b, err := readSmall(filepath.Join(e.dir(id), kindName)); err == nil && string(b) != string(Kind) {
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
		if name, err = e.random(12); err == nil {
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
	if checkID(name) != nil || !labelValue.MatchString(name) {
		return "", fmt.Errorf("naming this instance: %s holds no name; remove it", path)
	}
	e.instance = name
	return name, nil
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

// names of a sandbox's pod and volume: of its id, so that whoever looks at the cluster finds it, and never another's.
func objectName(instance, id string) string {
	sum := sha256.Sum256([]byte(instance + "\x00" + id))
	plain := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, id), "-")
	return "pw-" + strings.Trim(plain[:min(len(plain), 40)], "-") + "-" + hex.EncodeToString(sum[:4])
}

// program is the guest's program as it was when it was last looked at.
type program struct {
	at   time.Time
	size int64
	hash string
	gz   func() ([]byte, error) // it, packed to be sent
}

// State of a handle.
func handleOf(id string, r record) executors.Handle {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // a struct of strings and numbers always encodes
	}
	return executors.Handle{Kind: Kind, ID: id, Version: handleVersion, State: b}
}
