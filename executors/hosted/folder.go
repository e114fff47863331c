package hosted

import (
	"os"
	"strings"

	"github.com/parawork/parawork/executors/sandboxdir"
)

const (
	recordName = "machine.json"
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

// removeFolder forgets a sandbox.
func (e *Executor) removeFolder(id string) error {
	e.mu.Lock()
	s := e.live[id]
	delete(e.live, id)
	e.mu.Unlock()
	if s != nil {
		s.cut(errEnded)
	}
	return e.files.Remove(id)
}

// Remnants: nothing of a sandbox that is gone stays on this machine.
func (e *Executor) Remnants(string) (string, bool) { return "", false }

// machinePrefix is what the names of all machines of this instance begin with.
func (e *Executor) machinePrefix() (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.instance == "" {
		name, err := e.files.Instance("."+string(e.cfg.Kind)+"-instance", 6)
		if err != nil {
			return "", err
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
	try, err := e.files.Random(4)
	return prefix + id + "-" + try, err
}

// sandboxOf is the sandbox a machine of this instance was made for.
func sandboxOf(prefix, name string) (id string, ok bool) {
	rest, ours := strings.CutPrefix(name, prefix)
	i := strings.LastIndexByte(rest, '-')
	if !ours || i < 0 || sandboxdir.CheckID(rest[:i]) != nil {
		return "", false
	}
	return rest[:i], true
}

// GuestMissing says why the guest's program cannot be used; "" = it can.
func (e *Executor) GuestMissing() string {
	if info, err := os.Stat(e.cfg.GuestPath); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return "the guest program is missing"
	}
	return ""
}
