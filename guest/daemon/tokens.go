package daemon

import (
	"crypto/rand"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/toolcmd"
)

const maxSocketPath = 100 // bytes of an address, everywhere

// tokens name processes to the guest: a program presents its token at the sockets for agents' hooks and for the tools.
type tokens struct {
	d   *Daemon
	bin string // the folder with the command line of the tools, "" without one

	mu sync.Mutex
	of map[string]string // process by token
}

func newTokens(d *Daemon) *tokens {
	t := &tokens{d: d, of: map[string]string{}}
	if d.cfg.Self != "" {
		t.bin = t.linkCommand()
	}
	return t
}

// commandName is the name of the tools' command line in a sandbox: the guest's own program under another name.
const commandName = "parawork"

// linkCommand makes the folder with the command line, for PATH: under its name, and under that of beads, which agents know. "" where
// it cannot be made.
func (t *tokens) linkCommand() string {
	self := t.d.cfg.Self
	dir := filepath.Join(t.d.cfg.Dir, "bin")
	err := os.MkdirAll(dir, 0o755)
	for name, verb := range map[string]string{commandName: "tool", toolcmd.Beads: toolcmd.Beads} {
		if err != nil {
			break
		}
		link := filepath.Join(dir, name)
		_ = os.Remove(link)                           // of an earlier guest, whose program may be gone
		if err = os.Symlink(self, link); err != nil { // a file system without links
			err = os.WriteFile(link, []byte("#!/bin/sh\nexec "+shellQuote(self)+" "+verb+" \"$@\"\n"), 0o755)
		}
	}
	if err != nil {
		t.d.cfg.Log.Warn("the command line of the tools cannot be offered", "error", err)
		return ""
	}
	return dir
}

// showCommand makes the command line known to a process's programs, under both of its names. Some systems' /etc/profile sets PATH anew, and bash is often
// started as a login shell. It takes functions from its environment, which needs no file in anybody's home.
func showCommand(dir string, env map[string]string) {
	env["PATH"] = strings.TrimSuffix(dir+":"+env["PATH"], ":")
	for _, name := range [...]string{commandName, toolcmd.Beads} {
		env["BASH_FUNC_"+name+"%%"] = "() { " + shellQuote(filepath.Join(dir, name)) + " \"$@\"\n}"
	}
}

// shellQuote makes s one word of a shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// environ adds the variables through which a process's programs reach the guest.
func (t *tokens) environ(process string, env map[string]string) {
	hooks, tools := t.d.hooks.address(), t.d.tools.Address()
	if hooks == "" && tools == "" {
		return
	}
	token := rand.Text()
	t.mu.Lock()
	t.of[token] = process
	t.mu.Unlock()
	env[guest.EnvGuest], env[guest.EnvHookToken] = t.d.cfg.Self, token
	if hooks != "" {
		env[guest.EnvHooks] = hooks
	}
	if tools != "" {
		env[guest.EnvTools] = tools
		if t.bin != "" {
			showCommand(t.bin, env)
		}
	}
}

// process finds the process that a token belongs to.
func (t *tokens) process(token string) (id string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id, ok = t.of[token]
	return id, ok
}

// forget ends the token of an ended process, then all that was opened with it.
func (t *tokens) forget(process string) {
	t.mu.Lock()
	for token, of := range t.of {
		if of == process {
			delete(t.of, token)
		}
	}
	t.mu.Unlock()
	t.d.hooks.forget(process)
	t.d.tools.Cut(process)
}

// listen opens the socket with that name, nil where none can be opened.
func (t *tokens) listen(name string) net.Listener {
	if t.d.cfg.Self == "" {
		return nil
	}
	l, err := listenInside(t.d.cfg.Dir, name)
	if err != nil {
		t.d.cfg.Log.Warn("a socket for the sandbox's programs could not be opened", "socket", name, "error", err)
		return nil
	}
	return l
}

// listenInside opens a socket that only the sandbox's user reaches, in a folder of its own: in the guest's, or in the temp folder
// where that path is too long.
func listenInside(dir, name string) (net.Listener, error) {
	dir = filepath.Join(dir, name)
	if len(dir) > maxSocketPath-2 {
		var err error
		if dir, err = os.MkdirTemp("", "parawork-"+name+"-"); err != nil {
			return nil, err
		}
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	sock := filepath.Join(dir, "s")
	if err := os.Remove(sock); err != nil && !errors.Is(err, os.ErrNotExist) { // left by a guest that was killed
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: sock, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(sock, 0o600); err != nil {
		_ = l.Close()
		return nil, err
	}
	return insideListener{l, dir}, nil
}

// insideListener removes its folder when it is closed.
type insideListener struct {
	*net.UnixListener
	dir string
}

func (l insideListener) Close() error {
	err := l.UnixListener.Close()
	_ = os.Remove(l.dir)
	return err
}
