// Package local makes sandboxes on the server itself, without isolation: agents run with the rights of the server's user. It
// is for people who trust each other.
//
// Each sandbox is one guest process that survives the server (it has a session of its own and inherits its listener) and a folder
// with its socket, its record and its logs. The server finds a guest by its record, pid with start time and boot id, and the guest
// must answer on its socket with the right sandbox id; a pid alone never suffices.
package local

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/parawork/parawork/internal/cgroup"
)

// Config configures an Executor.
type Config struct {
	Enabled   bool
	Dir       string                                 // absolute: one folder per sandbox below it (data/sandboxes)
	GuestPath string                                 // the guest binary
	TeamCount func(ctx context.Context) (int, error) // counts the teams of the instance; nil = unknown
	Env       func() []string                        // the environment from which guests get the allowed names; default os.Environ
	ReadyIn   time.Duration                          // how long a guest may take to answer its first hello; default 10 s
	Grace     time.Duration                          // the time between SIGTERM and SIGKILL at Destroy; default 2 s
	Groups    *cgroup.Tree                           // the control groups for sandboxes; nil = none
	Now       func() time.Time
	Rand      io.Reader // default crypto/rand
	Log       *slog.Logger
}

// Validate checks the configuration and fills in the defaults that hostproc does not.
func (c *Config) Validate() error {
	if !filepath.IsAbs(c.Dir) {
		return fmt.Errorf("local executor: Dir %q must be absolute", c.Dir)
	}
	if c.Env == nil {
		c.Env = os.Environ
	}
	return nil
}
