package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
)

const (
	recordName = "kubernetes.json"
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
	Calls     string `json:"calls,omitempty"` // the uid of the pod whose guest calls this server; "" = none does
	Ready     bool   `json:"ready,omitempty"` // its guest was reached once
	Paused    bool   `json:"paused,omitempty"`
	Runs      int64  `json:"runs,omitempty"`  // ms UTC since when its present run lasts
	Ended     int64  `json:"ended,omitempty"` // ms UTC when its last run ended
}

// kept reports whether a sandbox's files outlive its pod.
func (r record) kept() bool { return r.Claim != "" || r.Box != "" && r.BoxDisk }

// removeFolder forgets a sandbox.
func (e *Executor) removeFolder(id string) error {
	e.mu.Lock()
	s := e.live[id]
	delete(e.live, id)
	e.mu.Unlock()
	if s != nil {
		s.shut(errEnded)
	}
	return e.files.Remove(id)
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
	name, err := e.files.Instance(instanceName, 12)
	if err != nil {
		return "", err
	}
	e.instance = name
	return name, nil
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
