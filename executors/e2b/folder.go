package e2b

const (
	recordName = "e2b.json"
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

// removeFolder forgets a sandbox.
func (e *Executor) removeFolder(id string) error {
	e.mu.Lock()
	s := e.live[id]
	delete(e.live, id)
	e.mu.Unlock()
	if s != nil {
		s.cutAll(errEnded)
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
	name, err := e.files.Instance(instanceName, 16)
	if err != nil {
		return "", err
	}
	if region := e.cfg.Kind.Region(); region != "" {
		name += "-" + region // two regions may be two templates of one account: neither takes the other's sandboxes for strays
	}
	e.instance = name
	return e.instance, nil
}
