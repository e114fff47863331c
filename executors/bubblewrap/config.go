// Package bubblewrap makes sandboxes on the server itself in which an agent sees only its own worktree, its home and the system's
// programs: bubblewrap makes namespaces of the host's kernel, without a daemon.
//
// The guest of each sandbox is the first process of a pid namespace, so that nothing survives it, and survives the server: it
// inherits its listener, and the server finds it by its record, as with a guest without a sandbox. A small program between the server and
// bubblewrap does what only the server may do: see guest/launch. A server that is root gives every sandbox a user of its
// own; otherwise sandboxes run as the server's user, and only the namespaces isolate them.
package bubblewrap

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/cgroup"
)

// Kind is this executor's kind.
const Kind executors.Kind = "bubblewrap"

// defaultTmpMB is how large a sandbox's own /tmp may grow.
const defaultTmpMB = 512

// Config configures an Executor.
type Config struct {
	Enabled   bool
	Dir       string          // absolute: one folder per sandbox below it (data/sandboxes)
	GuestPath string          // the guest binary
	Bwrap     string          // the program; "" = bwrap in PATH
	Paths     []string        // folders and files of the host mounted read-only, in addition to the system's
	TmpMB     int64           // how large /tmp may grow; default 512
	Groups    *cgroup.Tree    // the control groups for sandboxes; nil = none
	Env       func() []string // source of the language, the time zone and the PATH; default os.Environ
	ReadyIn   time.Duration   // how long a guest may take to answer its first hello; default 10 s
	Grace     time.Duration   // the time between SIGTERM and SIGKILL at Destroy; default 2 s
	Now       func() time.Time
	Rand      io.Reader // default crypto/rand
	Log       *slog.Logger
}

// Validate checks the configuration and fills in the defaults that hostproc does not.
func (c *Config) Validate() error {
	if !filepath.IsAbs(c.Dir) {
		return fmt.Errorf("bubblewrap executor: Dir %q must be absolute", c.Dir)
	}
	for _, p := range c.Paths {
		if !filepath.IsAbs(p) || filepath.Clean(p) == "/" {
			return fmt.Errorf("bubblewrap executor: path %q must be absolute and not the whole machine", p)
		}
	}
	if c.TmpMB <= 0 {
		c.TmpMB = defaultTmpMB
	}
	if c.Env == nil {
		c.Env = os.Environ
	}
	if c.ReadyIn <= 0 {
		c.ReadyIn = 10 * time.Second
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Texts about this executor that do not depend on the system.
func (c *Config) words() executors.Capabilities {
	return executors.Capabilities{Kind: Kind, Name: "Process sandbox", Boundary: executors.ProcessBoundary, Isolated: true, Host: true, Network: true,
		Ports: true, Isolation: "Process sandbox: agents see their own worktree, home and the system's programs, through the host's kernel"}
}
