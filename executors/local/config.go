// Package local makes places on the server itself, without isolation: agents run with the rights of the server's user. It
// is for people who trust each other.
//
// Each sandbox is one guest process that outlives the server (a session of its own, its listener handed over) and a folder
// with its socket, its record and its logs. A guest is found again by its record: pid with start time and boot id, and it
// must answer on its socket with the right sandbox id; never by a pid alone.
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

// Config is what an Executor is made of.
type Config struct {
	Enabled   bool
	Dir       string                                 // absolute: one folder per sandbox below it (data/sandboxes)
	GuestPath string                                 // the guest binary
	TeamCount func(ctx context.Context) (int, error) // teams of the instance; nil = not asked
	Env       func() []string                        // what the guests' allow-list picks from; default os.Environ
	ReadyIn   time.Duration                          // how long a guest may take to answer its first hello; default 10 s
	Grace     time.Duration                          // what processes get between TERM and KILL at Destroy; default 2 s
	Groups    *cgroup.Tree                           // the control groups sandboxes get one of; nil = none
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
