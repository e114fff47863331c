//go:build linux || darwin

package docker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hostproc"
)

// Entries of a sandbox's folder. Only guest is mounted writable in the container.
const (
	guestName = "guest" // the guest's own folder
	callName  = "call"  // with the socket the guest calls
	etcName   = "etc"   // names of users, for programs that look them up
)

func (e *Executor) dir(id string) string      { return filepath.Join(e.cfg.Dir, id) }
func (e *Executor) guestDir(id string) string { return filepath.Join(e.dir(id), guestName) }
func (e *Executor) callDir(id string) string  { return filepath.Join(e.dir(id), callName) }

// ours reports whether a sandbox's folder belongs to this executor.
func (e *Executor) ours(id string) bool {
	kind, err := hostproc.ReadSmall(filepath.Join(e.dir(id), hostproc.KindName))
	return err == nil && executors.Kind(kind) == e.cfg.Kind
}

// record is the stored state of a sandbox, next to its folder's other entries. It becomes the handle's state.
type record struct {
	Engine    string `json:"engine,omitempty"`    // the engine's id
	Container string `json:"container,omitempty"` // the container's id
	Image     string `json:"image,omitempty"`     // as asked for
	Runtime   string `json:"runtime,omitempty"`

	// For a container with a disk of its own.
	Remote bool   `json:"far,omitempty"`
	AsRoot bool   `json:"as_root,omitempty"` // its programs are root
	Root   string `json:"root,omitempty"`    // inside
	Home   string `json:"home,omitempty"`
	Gate   string `json:"gate,omitempty"` // host folder with the socket of the way out
}

// owner is the user who owns a sandbox's writable files and runs its programs.
type owner struct{ uid, gid int }

func ownerOf(b *executors.MountSpec) owner {
	if b == nil || b.UID < 0 {
		return owner{os.Getuid(), os.Getgid()}
	}
	return owner{b.UID, b.GID}
}

// give hands a file or folder of ours to the sandbox's user.
func (o owner) give(path string) error {
	if o.uid == os.Getuid() && o.gid == os.Getgid() {
		return nil
	}
	return os.Lchown(path, o.uid, o.gid)
}

// furnish makes the sandbox's folder and everything in it, and returns the token.
func (e *Executor) furnish(s executors.Spec, o owner, home string) (token string, err error) {
	dir, err := hostproc.MakeFolder(e.cfg.Dir, s.ID, e.cfg.Kind)
	if err != nil {
		return "", err
	}
	if token, err = hostproc.MakeToken(dir, e.cfg.Rand); err != nil {
		return "", err
	}
	guest, etc := e.guestDir(s.ID), filepath.Join(dir, etcName)
	for path, mode := range map[string]os.FileMode{guest: 0o700, e.callDir(s.ID): 0o755, etc: 0o755} {
		if err := os.Mkdir(path, mode); err != nil {
			return "", err
		}
	}
	// The guest's copy: it is removed before an agent's first program runs.
	copied := filepath.Join(guest, hostproc.TokenName)
	if err := os.WriteFile(copied, []byte(token), 0o400); err != nil {
		return "", err
	}
	for _, path := range []string{copied, guest} {
		if err := o.give(path); err != nil {
			return "", err
		}
	}
	passwd, group := names(o, home)
	if err := os.WriteFile(filepath.Join(etc, "passwd"), []byte(passwd), 0o644); err != nil {
		return "", err
	}
	return token, os.WriteFile(filepath.Join(etc, "group"), []byte(group), 0o644)
}

// names are the users and groups that programs in the container see: none of this machine's.
func names(o owner, home string) (passwd, group string) {
	passwd, group = "root:x:0:0:root:/root:/bin/sh\n", "root:x:0:\n"
	if o.uid != 0 {
		passwd += fmt.Sprintf("agent:x:%d:%d:agent:%s:/bin/sh\n", o.uid, o.gid, home)
	} else {
		passwd = fmt.Sprintf("root:x:0:%d:root:%s:/bin/sh\n", o.gid, home)
	}
	if o.gid != 0 {
		group += fmt.Sprintf("agent:x:%d:\n", o.gid)
	}
	return passwd + "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n", group + "nogroup:x:65534:\n"
}

// hideToken removes the guest's copy of the token, which the guest has read.
func (e *Executor) hideToken(id string) error {
	root, err := os.OpenRoot(e.guestDir(id))
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Remove(hostproc.TokenName); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
