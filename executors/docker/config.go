// Package docker makes places in containers of a Docker engine on this machine.
//
// The guest is a container's first process and the only one Docker knows of: terminals, processes and their output are its own, so
// that nothing depends on Docker's streams. It has no network; it calls its host at a unix socket in a folder that is shown to
// this one container (see guest/call), which costs no exec and no port, and finds the next server by itself. Worktree, objects
// and home are shown at the paths they have on this machine, or at those the workspace names.
//
// A container is found again by its name, and must carry the labels of this instance and of its sandbox; a container that has
// ended is gone, for all that matters lies on this machine's disk. An engine that does not answer is no proof of anything.
//
// Goroutines: one for each door (see guest/call), from Create or Recover to Destroy or Close.
package docker

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/parawork/parawork/executors"
)

// Kind is the kind of these places.
const Kind executors.Kind = "docker"

// Config is what an Executor is made of.
type Config struct {
	Dir       string        // absolute: one folder per sandbox below it (data/sandboxes)
	GuestPath string        // the guest binary
	Host      string        // address of the engine; "" = DOCKER_HOST, else the usual socket
	Image     string        // what containers are made from unless the workspace says otherwise
	Runtime   string        // of containers, as the engine calls it; "" = the engine's own
	ReadyIn   time.Duration // how long a guest may take to call and say hello; default 30 s
	Grace     time.Duration // what processes get between TERM and KILL at Destroy; default 2 s
	Now       func() time.Time
	Rand      io.Reader // default crypto/rand
	Log       *slog.Logger
}

// Validate checks the configuration and fills in the defaults.
func (c *Config) Validate() error {
	if !filepath.IsAbs(c.Dir) {
		return fmt.Errorf("docker executor: Dir %q must be absolute", c.Dir)
	}
	if c.Image == "" {
		return errors.New("docker executor: Image must be set")
	}
	if c.ReadyIn <= 0 {
		c.ReadyIn = 30 * time.Second
	}
	if c.Grace <= 0 {
		c.Grace = 2 * time.Second
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}
