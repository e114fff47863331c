// Package docker makes sandboxes in containers of a Docker engine on this machine.
//
// The guest is a container's first process and the only one that Docker starts: terminals, processes and their output belong to the
// guest, so that nothing depends on Docker's streams. The container has no network; the guest calls its host at a unix socket in a folder
// mounted only in this container (see guest/reversedial), which needs no exec and no port, and connects to the next server on its own.
// Worktree, objects and home are mounted at the paths they have on this machine, or at those the workspace names.
//
// The executor finds a container by its name, and checks the labels of this instance and of its sandbox. A container that has
// ended is gone, because everything that matters lies on this machine's disk. An engine that does not answer proves nothing.
//
// Goroutines: one for each listener (see guest/reversedial), from Create or Recover to Destroy or Close.
package docker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/images/recipe"
)

// Kind is this executor's kind.
const Kind executors.Kind = "docker"

// Dial opens a connection to an engine.
type Dial func(context.Context) (net.Conn, error)

// Config configures an Executor.
type Config struct {
	Dir       string         // absolute: one folder per sandbox below it (data/sandboxes)
	GuestPath string         // the guest binary
	Kind      executors.Kind // default Kind
	Host      string         // address of the engine; "" = DOCKER_HOST, else the default socket
	Dial      Dial           // how the engine on another machine is reached, which Host names in messages; nil = by the address Host
	Image     string         // the image of containers whose workspace names none
	Prepare   *Prepare       // pulls images and installs what they lack; nil = an image must exist and contain everything
	Machine   bool           // this is a member's own machine, not a server: messages say so
	Remote    bool           // the engine does not share this machine's files, although it reports that it does
	// Root has programs be root in their containers, with the engine's usual capabilities and these. Such containers have a disk of their own:
	// files of this machine would come to belong to root.
	Root         bool
	Capabilities []string
	Runtime      string        // the container runtime, as the engine calls it; "" = the engine's default
	ReadyIn      time.Duration // how long a guest may take to call and say hello; default 30 s
	Grace        time.Duration // the time between SIGTERM and SIGKILL at Destroy; default 2 s
	Now          func() time.Time
	Rand         io.Reader // default crypto/rand
	Log          *slog.Logger
}

// Prepare says how an image gets what it lacks: a new image is derived from it, once.
type Prepare struct {
	Agents  []recipe.Package // the agents whose command lines are installed
	Network string           // the network of the installation: "" = the engine's default, "host"
	CA      []byte           // PEM: certificates this machine trusts in addition to the usual ones, as for an intercepting proxy
	Remote  bool             // the engine is on another machine: this one's proxy means nothing there
	System  []string         // packages of the image's own package manager, such as nmap
	Offline string           // why nothing may be pulled, as the end of a sentence; "" = it may
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
	if len(c.Capabilities) > 0 && !c.Root {
		return errors.New("docker executor: Capabilities are for Root")
	}
	c.Remote = c.Remote || c.Root
	if c.ReadyIn <= 0 {
		c.ReadyIn = 30 * time.Second
	}
	if c.Grace <= 0 {
		c.Grace = 2 * time.Second
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Kind, c.Rand = cmp.Or(c.Kind, Kind), cmp.Or(c.Rand, rand.Reader)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return nil
}

// either chooses the wording for a server, or for a member's own machine.
func (c *Config) either(server, machine string) string {
	if c.Machine {
		return machine
	}
	return server
}

func (c *Config) here() string { return c.either("server", "machine") }
