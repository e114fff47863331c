// Package docker makes places in containers of a Docker engine on this machine.
//
// The guest is a container's first process and the only one Docker knows of: terminals, processes and their output are its own, so
// that nothing depends on Docker's streams. It has no network; it calls its host at a unix socket in a folder that is shown to
// this one container (see guest/reversedial), which costs no exec and no port, and finds the next server by itself. Worktree, objects
// and home are shown at the paths they have on this machine, or at those the workspace names.
//
// A container is found again by its name, and must carry the labels of this instance and of its sandbox; a container that has
// ended is gone, for all that matters lies on this machine's disk. An engine that does not answer is no proof of anything.
//
// Goroutines: one for each door (see guest/reversedial), from Create or Recover to Destroy or Close.
package docker

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/images/recipe"
)

// Kind is the kind of these places.
const Kind executors.Kind = "docker"

// Config is what an Executor is made of.
type Config struct {
	Dir       string        // absolute: one folder per sandbox below it (data/sandboxes)
	GuestPath string        // the guest binary
	Host      string        // address of the engine; "" = DOCKER_HOST, else the usual socket
	Image     string        // what containers are made from unless the workspace says otherwise
	Prepare   *Prepare      // fetches images and installs what they lack; nil = an image must be there and hold all
	Machine   bool          // this is a member's own machine, not a server: it is called so
	Remote    bool          // the engine sees nothing of this machine, although it says otherwise
	Runtime   string        // of containers, as the engine calls it; "" = the engine's own
	ReadyIn   time.Duration // how long a guest may take to call and say hello; default 30 s
	Grace     time.Duration // what processes get between TERM and KILL at Destroy; default 2 s
	Now       func() time.Time
	Rand      io.Reader // default crypto/rand
	Log       *slog.Logger
}

// Prepare says how an image gets what it lacks: an image of one's own is derived from it, once.
type Prepare struct {
	Agents  []recipe.Package // whose command lines are installed
	Network string           // of what installs: "" = the engine's usual one, "host"
	CA      []byte           // PEM: whom this machine trusts beside the usual ones, as where a proxy reads along
	Offline string           // why nothing is fetched, in words that end a sentence; "" = it is
}

// Validate checks the configuration and fills in the defaults.
func (c *Config) Validate() error {
	if !filepath.IsAbs(c.Dir) {
		return fmt.Errorf("docker executor: Dir %q must be absolute", c.Dir)
	}
	if c.Image == "" {
		return errors.New("docker executor: Image must be set")
	}
	if c.Prepare != nil {
		if err := recipe.Check(c.Prepare.Agents); err != nil {
			return fmt.Errorf("docker executor: an agent cannot be installed: %w", err)
		}
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
	c.Rand = cmp.Or(c.Rand, rand.Reader)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return nil
}

// either is the words for a server, or for a member's own machine.
func (c *Config) either(server, machine string) string {
	if c.Machine {
		return machine
	}
	return server
}

func (c *Config) here() string { return c.either("server", "machine") }
