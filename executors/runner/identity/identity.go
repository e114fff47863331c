// Package identity stores a machine's identity for each server it was connected to: its key, the server's, and the folder of its work. A
// machine may be connected to one server several times under different names, such as once in Docker and once without isolation: each counts
// as a machine of its own.
//
// Everything lies below one root, a folder only its owner can read:
//
//	<root>/<server>/<name>/machine.json    the identity, with its private key
//	<root>/<server>/<name>/...             files of the other packages
package identity

import (
	"cmp"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/atomicfile"
	"github.com/parawork/parawork/internal/fault"
)

// Identity is a machine's identity for one server.
type Identity struct {
	RunnerID   string             `json:"runner_id"`
	Name       string             `json:"name"`
	Team       string             `json:"team"`
	Server     string             `json:"server"` // its address, without a slash at the end
	Key        ed25519.PrivateKey `json:"key"`
	ServerKey  ed25519.PublicKey  `json:"server_key"`
	TokenHash  string             `json:"token_hash"` // of the latest enrolment token, so that the same line can run again
	EnrolledAt int64              `json:"enrolled_at"`
	// Mode is its mode since its first start. It never changes on its own: sandboxes made in one mode cannot be found in another.
	Mode wire.Mode `json:"mode,omitempty"`
	// Policy is the path of the policy file, if that is not the one in Dir.
	Policy string `json:"policy,omitempty"`
	// CA and Proxy say how to reach the server, as given at the enrolment.
	CA    string `json:"ca,omitempty"`
	Proxy string `json:"proxy,omitempty"`

	Dir string `json:"-"` // absolute: its own folder
}

const (
	fileName = "machine.json"
	maxFile  = 64 << 10
)

// Codes of errors about an identity.
const (
	codeNone    = "runner_not_enrolled"
	codeSeveral = "runner_ambiguous"
	codeBroken  = "runner_identity_broken"
)

// Root returns the root folder: PARAWORK_RUNNER_DIR, else .parawork/runner in the home folder. It is short on purpose: it contains sockets,
// whose paths may have 107 characters.
func Root(env func(string) string) (string, error) {
	if dir := env("PARAWORK_RUNNER_DIR"); dir != "" {
		return filepath.Abs(dir)
	}
	home, err := Home(env)
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".parawork", "runner"), nil
}

// Home returns the owner's home folder.
func Home(env func(string) string) (string, error) {
	home := env("HOME")
	if !filepath.IsAbs(home) {
		return "", fault.New(fault.Invalid, codeNone, "Your home folder is not known. Set HOME, or PARAWORK_RUNNER_DIR to a folder of yours.")
	}
	return home, nil
}

// Address checks a server's address and normalizes it.
func Address(text string) (string, error) {
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fault.New(fault.Invalid, "runner_server_invalid", "The server's address must be like https://parawork.example.com.")
	}
	return strings.ToLower(u.Scheme+"://"+u.Host) + strings.TrimRight(u.EscapedPath(), "/"), nil
}

// List returns every identity below root, by server and name. It leaves out unreadable ones and returns an error about them with the rest.
func List(root string) ([]*Identity, error) {
	found, err := filepath.Glob(filepath.Join(globSafe(root), "*", "*", fileName))
	if err != nil {
		return nil, err
	}
	var out []*Identity
	var bad []error
	for _, path := range found {
		id, err := read(filepath.Dir(path))
		if err != nil {
			bad = append(bad, err)
			continue
		}
		out = append(out, id)
	}
	slices.SortFunc(out, func(a, b *Identity) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Name, b.Name))
	})
	return out, errors.Join(bad...)
}

// globSafe escapes a path for use in a glob pattern.
func globSafe(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// Load returns the one identity that server and name choose; "" = any.
func Load(root, server, name string) (*Identity, error) {
	all, bad := List(root)
	var fit []*Identity
	for _, id := range all {
		if (server == "" || id.Server == server) && (name == "" || id.Name == name) {
			fit = append(fit, id)
		}
	}
	switch {
	case len(fit) == 1:
		return fit[0], nil
	case len(fit) > 1:
		var names []string
		for _, id := range fit {
			names = append(names, fmt.Sprintf("--server %s --name %q", id.Server, id.Name))
		}
		return nil, fault.New(fault.Invalid, codeSeveral, "This machine is connected more than once. Say which one is meant:\n  %s", strings.Join(names, "\n  "))
	case bad != nil:
		return nil, bad
	}
	return nil, fault.New(fault.NotFound, codeNone, `This machine is not connected%s. Choose "Connect a machine" on the Machines page of your server, and run the line it shows.`, to(server, name))
}

func to(server, name string) string {
	text := ""
	if server != "" {
		text += " to " + server
	}
	if name != "" {
		text += " as " + fmt.Sprintf("%q", name)
	}
	return text
}

func read(dir string) (*Identity, error) {
	path := filepath.Join(dir, fileName)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("reading who this machine is: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if st.Mode().Perm()&0o077 != 0 {
		return nil, fault.New(fault.Invalid, codeBroken, "Others can read this machine's key in %s. Give it a new one with \"New key\" on the Machines page, and run chmod 600 on that file.", path)
	}
	id := &Identity{Dir: dir}
	if err := json.Unmarshal(text, id); err != nil || id.RunnerID == "" || len(id.Key) != ed25519.PrivateKeySize || len(id.ServerKey) != ed25519.PublicKeySize {
		return nil, fault.New(fault.Invalid, codeBroken, "%s is damaged. Give this machine another with \"New key\" on the Machines page, and run the line it shows.", path)
	}
	return id, nil
}

// Save writes the identity, atomically.
func (id *Identity) Save() error {
	text, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteDurable(filepath.Join(id.Dir, fileName), append(text, '\n'), 0o600)
}

// Remove deletes the identity with its key. The rest of its folder stays.
func (id *Identity) Remove() error {
	if err := os.Remove(filepath.Join(id.Dir, fileName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
