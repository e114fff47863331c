// Package bubblewrap makes places on the server itself in which an agent sees its own worktree, home and the system's programs,
// and nothing else: namespaces of the host's kernel, made by bubblewrap, without a daemon.
//
// Each sandbox is one guest that is the first process of a pid namespace, so that nothing outlives it, and that outlives the
// server: its listener is handed over, and it is found again by its record, as a guest without a box is. What only the server may
// do, a small step between the server and bubblewrap does: see guest/launch. A server that is root gives every box a user of its
// own; one that is not runs them as itself, and then the namespaces are the wall.
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

// defaultTmpMB is how large a box's own /tmp may grow.
const defaultTmpMB = 512

// Config is what an Executor is made of.
type Config struct {
	Enabled   bool
	Dir       string          // absolute: one folder per sandbox below it (data/sandboxes)
	GuestPath string          // the guest binary
	Bwrap     string          // the program; "" = bwrap in PATH
	Paths     []string        // folders and files of the host shown read-only, beside the system's own
	TmpMB     int64           // how large /tmp may grow; default 512
	Groups    *cgroup.Tree    // the control groups sandboxes get one of; nil = none
	Env       func() []string // where the language, the time zone and the PATH are taken from; default os.Environ
	ReadyIn   time.Duration   // how long a guest may take to answer its first hello; default 10 s
	Grace     time.Duration   // what processes get between TERM and KILL at Destroy; default 2 s
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

// words about the place, the same wherever it can be had.
func (c *Config) words() executors.Capabilities {
	return executors.Capabilities{Kind: Kind, Name: "Process sandbox", Boundary: executors.ProcessBoundary, Isolated: true, Host: true, Network: true,
		Ports: true, Isolation: "Process sandbox: agents see their own worktree, home and the system's programs, through the host's kernel"}
}
