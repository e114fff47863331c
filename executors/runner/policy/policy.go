// Package policy decides what the server may do on a machine: the owner's file on the machine, runner.json, and the Keeper that is asked
// before
// anything is made, started, written or read there. Nothing the server sends changes or widens it.
//
// The Keeper returns nil or a fault with one of wire's codes. Where the owner wants to be asked it waits for their answer, which only
// somebody at the machine can give. It writes each request and its result to the consent log, a file of JSON lines.
//
// The Keeper reads the file again when it changes. A file that cannot be read or parsed allows nothing new until it is fixed: a typo
// must not open what the owner wanted closed.
//
// Goroutines: Keeper.Run, which watches the file and ends old questions.
package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostname"
)

// Networks of sandboxes, as in the file.
const (
	NetworkHost  = "host"  // the machine's own, with everything in its local network
	NetworkOpen  = "open"  // all public addresses, none of the local network
	NetworkAllow = "allow" // names on a list
	NetworkNone  = "none"
)

// Who may use a machine.
const (
	ShareOwner = "owner"
	ShareTeam  = "team"
)

// DefaultImage is the image of containers unless the owner sets another.
const DefaultImage = "ubuntu:latest"

// Policy is the owner's policy file.
type Policy struct {
	Modes         []wire.Mode `json:"modes"` // the first that works is used; direct also needs the flag --dangerous
	Image         string      `json:"image"`
	Docker        Docker      `json:"docker"`
	Paths         []string    `json:"paths"` // program folders and files mounted read-only in process sandboxes, in addition to the system's own
	Network       Network     `json:"network"`
	Access        wire.Access `json:"access"`
	Share         string      `json:"share"`
	Folders       []Folder    `json:"folders"`
	Limits        Limits      `json:"limits"`
	QuietHours    []Quiet     `json:"quietHours"`
	AnswerMinutes int         `json:"answerMinutes"` // how long a question waits for the owner
	Log           Log         `json:"log"`
}

// Docker says what agents may be and find in containers.
type Docker struct {
	Root         bool     `json:"root"`         // they are root there
	Capabilities []string `json:"capabilities"` // and may do this as well, such as NET_RAW; with root only
	Packages     []string `json:"packages"`     // installed in the image, such as nmap
}

// Network says which part of the network sandboxes may reach.
type Network struct {
	Mode  string   `json:"mode"`
	Allow []string `json:"allow"` // names, which may begin with "*." and end with ":port"; for mode allow
}

// Folder is one the server may know of.
type Folder struct {
	Path   string      `json:"path"` // absolute, or below the owner's home with ~/
	Name   string      `json:"name"`
	Access wire.Access `json:"access"` // full: fetched from and delivered to; read_only: fetched from
}

// Limits bound what sandboxes may use. 0 = unlimited.
type Limits struct {
	Sandboxes int     `json:"sandboxes"` // at once
	CPUs      float64 `json:"cpus"`      // of each
	MemoryMB  int64   `json:"memoryMb"`
	DiskMB    int64   `json:"diskMb"`
	Processes int64   `json:"processes"`
}

// Log limits the consent log.
type Log struct {
	KeepMB   int `json:"keepMb"`
	KeepDays int `json:"keepDays"` // 0 = for ever
}

// Default is the policy of an owner who sets nothing.
func Default() Policy {
	return Policy{Modes: []wire.Mode{wire.Docker, wire.Bubblewrap, wire.Direct}, Image: DefaultImage, Docker: Docker{Capabilities: []string{}, Packages: []string{}}, Paths: []string{}, Network: Network{Allow: []string{}}, Access: wire.Full, Share: ShareOwner,
		Folders: []Folder{}, Limits: Limits{Sandboxes: 8}, QuietHours: []Quiet{}, AnswerMinutes: 10, Log: Log{KeepMB: 50, KeepDays: 365}}
}

// maxFile is the file's maximum size in bytes.
const maxFile = 1 << 20

// Load reads the owner's file strictly: it rejects unknown keys by name. home is the folder that ~/ means.
func Load(path, home string) (Policy, error) {
	text, err := readPlain(path)
	if err != nil {
		return Policy{}, fault.Wrap(err, fault.Invalid, codeFile, "The owner's file %s cannot be read: %v.", path, err)
	}
	p, err := Parse(text, home)
	if err != nil {
		return Policy{}, fault.New(fault.Invalid, codeFile, "%s: %v. Fix it; until then nothing new is allowed.", path, err)
	}
	return p, nil
}

// codeFile is the code of an unusable policy file.
const codeFile = "runner_file_invalid"

// readPlain reads a regular file that nobody else may write.
func readPlain(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case st.Mode().Perm()&0o002 != 0: // a group per user is common
		return nil, fmt.Errorf("everybody may write to it: run chmod o-w %s", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = errors.New("it is larger than a megabyte")
	}
	return text, err
}

// Parse reads a policy from JSON and checks it.
func Parse(text []byte, home string) (Policy, error) {
	p := Default()
	p.Modes, p.Limits = nil, Limits{} // a list or a section in the file replaces the default as a whole
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return Policy{}, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Policy{}, errors.New("something stands behind the closing brace")
	}
	var given map[string]json.RawMessage
	_ = json.Unmarshal(text, &given) // it was parsed just now
	if _, ok := given["modes"]; !ok {
		p.Modes = Default().Modes
	}
	if _, ok := given["limits"]; !ok {
		p.Limits = Default().Limits
	}
	return p, p.Complete(home)
}

// Complete validates a policy and makes paths absolute. The error names the key and its valid values.
func (p *Policy) Complete(home string) error {
	if len(p.Modes) == 0 {
		return errors.New("modes must name at least one of docker, bubblewrap and direct")
	}
	for _, m := range p.Modes {
		if !slices.Contains([]wire.Mode{wire.Docker, wire.Bubblewrap, wire.Direct}, m) {
			return fmt.Errorf("modes: %q must be docker, bubblewrap or direct", m)
		}
	}
	p.Image = cmp.Or(p.Image, DefaultImage)
	if !slices.Contains([]wire.Access{wire.Full, wire.Ask, wire.ReadOnly}, p.Access) {
		return fmt.Errorf("access: %q must be full, ask or read_only", p.Access)
	}
	if p.Share != ShareOwner && p.Share != ShareTeam {
		return fmt.Errorf("share: %q must be owner or team", p.Share)
	}
	if p.AnswerMinutes < 1 || p.AnswerMinutes > 24*60 {
		return errors.New("answerMinutes must be from 1 to 1440")
	}
	if p.Log.KeepMB < 1 || p.Log.KeepMB > 10000 || p.Log.KeepDays < 0 {
		return errors.New("log: keepMb must be from 1 to 10000, and keepDays not negative")
	}
	for i, path := range p.Paths {
		abs, err := absolute(path, home)
		if err != nil {
			return fmt.Errorf("paths: %w", err)
		}
		if abs == "/" || abs == filepath.Clean(home) {
			return fmt.Errorf("paths: %s as a whole cannot be shown to sandboxes; name the folders programs lie in", abs)
		}
		p.Paths[i] = abs
	}
	return errors.Join(p.docker(), p.network(), p.folders(home), p.limits(), p.quiet())
}

// capabilities are those a container may be given without a way out of it.
var capabilities = []string{"IPC_LOCK", "NET_ADMIN", "NET_RAW", "SYS_NICE", "SYS_PTRACE"}

var packageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9+._-]{0,99}$`)

func (p *Policy) docker() error {
	d := &p.Docker
	if len(d.Capabilities) > 0 && !d.Root {
		return errors.New("docker.capabilities need docker.root: nobody else in a container has any")
	}
	for i, c := range d.Capabilities {
		d.Capabilities[i] = strings.TrimPrefix(strings.ToUpper(c), "CAP_")
		if !slices.Contains(capabilities, d.Capabilities[i]) {
			return fmt.Errorf("docker.capabilities: %q must be one of %s; others lead out of the container", c, strings.Join(capabilities, ", "))
		}
	}
	for _, name := range d.Packages {
		if !packageName.MatchString(name) {
			return fmt.Errorf("docker.packages: %q is no name of a package", name)
		}
	}
	return nil
}

// Words say in plain words what is unusual of it, "" = nothing.
func (d Docker) Words() string {
	if !d.Root {
		return ""
	}
	words := "agents are root in their containers"
	if len(d.Capabilities) > 0 {
		words += ", with " + strings.Join(d.Capabilities, ", ")
	}
	return words + ". A fault of the kernel or of Docker that root can use would let them out."
}

func (p *Policy) network() error {
	n := p.Network
	if !slices.Contains([]string{"", NetworkHost, NetworkOpen, NetworkAllow, NetworkNone}, n.Mode) {
		return fmt.Errorf("network.mode: %q must be host, open, allow or none", n.Mode)
	}
	if (n.Mode == NetworkAllow) != (len(n.Allow) > 0) {
		return errors.New("network.allow lists the names that are reached in mode allow, and belongs to that mode alone")
	}
	for _, name := range n.Allow {
		if _, err := hostname.Parse(name); err != nil {
			return fmt.Errorf("network.allow: %q %v", name, err)
		}
	}
	return nil
}

func (p *Policy) folders(home string) error {
	seen := map[string]bool{}
	for i := range p.Folders {
		f := &p.Folders[i]
		var err error
		if f.Path, err = absolute(f.Path, home); err != nil {
			return fmt.Errorf("folders: %w", err)
		}
		if f.Path == "/" {
			return errors.New("folders: the whole machine cannot be allowed; name the folders you work in")
		}
		if seen[f.Path] {
			return fmt.Errorf("folders: %q is listed twice", f.Path)
		}
		seen[f.Path] = true
		f.Access = cmp.Or(f.Access, wire.Full)
		if !slices.Contains([]wire.Access{wire.Full, wire.Ask, wire.ReadOnly}, f.Access) {
			return fmt.Errorf("folders: access %q of %s must be full, ask or read_only", f.Access, f.Path)
		}
		if f.Name == "" {
			f.Name = filepath.Base(f.Path)
		}
	}
	return nil
}

// absolute expands a path of the file.
func absolute(path, home string) (string, error) {
	switch {
	case path == "~" || strings.HasPrefix(path, "~/"):
		if !filepath.IsAbs(home) {
			return "", fmt.Errorf("%q: your home folder is not known; write the whole path", path)
		}
		path = filepath.Join(home, path[1:])
	case !filepath.IsAbs(path):
		return "", fmt.Errorf("%q must be an absolute path, or begin with ~/", path)
	}
	return filepath.Clean(path), nil
}

func (p *Policy) limits() error {
	l := p.Limits
	if l.Sandboxes < 0 {
		return errors.New("limits.sandboxes must not be negative")
	}
	check := executors.Limits{CPUs: l.CPUs, MemoryMB: l.MemoryMB, DiskMB: l.DiskMB, Processes: l.Processes}
	if err := check.Check(executors.Limits{}); err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	return nil
}

func (p *Policy) quiet() error {
	for i := range p.QuietHours {
		if err := p.QuietHours[i].complete(); err != nil {
			return fmt.Errorf("quietHours: %w", err)
		}
	}
	return nil
}

// Wire converts the limits for the machine's description of itself.
func (l Limits) Wire() wire.Limits {
	return wire.Limits{Sandboxes: l.Sandboxes, CPUs: l.CPUs, MemoryMB: l.MemoryMB, DiskMB: l.DiskMB, Processes: l.Processes}
}

// Executors converts the limits for the executor of one sandbox.
func (l Limits) Executors() executors.Limits {
	return executors.Limits{CPUs: l.CPUs, MemoryMB: l.MemoryMB, DiskMB: l.DiskMB, Processes: l.Processes}
}

// JSON encodes the policy in the format of its file.
func (p Policy) JSON() []byte {
	text, _ := json.MarshalIndent(p, "", "  ") // only texts and numbers
	return append(text, '\n')
}

// NetworkFor returns the network of sandboxes in a mode, which has a default of its own where the owner sets nothing. Without isolation no
// network can be restricted: a request for less is an error.
func (p Policy) NetworkFor(m wire.Mode) (Network, error) {
	n := p.Network
	if m != wire.Direct {
		n.Mode = cmp.Or(n.Mode, NetworkOpen)
		return n, nil
	}
	if n.Mode != "" && n.Mode != NetworkHost {
		return n, fault.New(fault.Invalid, codeFile,
			"Without isolation (--dangerous) the network cannot be limited to %q: agents have your own. Leave the network out, or run in Docker.", n.Mode)
	}
	return Network{Mode: NetworkHost, Allow: []string{}}, nil
}
