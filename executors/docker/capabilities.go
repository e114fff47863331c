//go:build linux || darwin

package docker

import (
	"context"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/system"

	"github.com/parawork/parawork/executors"
)

const (
	// askTimeout bounds one call to the engine about itself.
	askTimeout = 3 * time.Second
	// engineFor is how long the engine's information about itself is cached.
	engineFor = 10 * time.Second
)

// engine is the engine's information about itself.
type engine struct {
	info system.Info
	at   time.Time
}

// About returns the engine's information about itself, from the cache while it is fresh.
func (e *Executor) About(ctx context.Context) (system.Info, error) {
	e.mu.Lock()
	known := e.engine
	e.mu.Unlock()
	if now := e.cfg.Now(); !known.at.IsZero() && now.Sub(known.at) < engineFor {
		return known.info, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	info, err := e.api.Info(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		e.engine = engine{}
		return system.Info{}, err
	}
	e.engine, e.virtual = engine{info, e.cfg.Now()}, virtual(info)
	return info, nil
}

// Capabilities asks the engine what it can do.
func (e *Executor) Capabilities(ctx context.Context) (executors.Capabilities, error) {
	c := executors.Capabilities{Kind: e.cfg.Kind, Name: "Docker", Isolated: true, Boundary: executors.ContainerBoundary, Limits: true,
		Network: true, Pause: true, Ports: true, StartMs: 600,
		Isolation: "Container: its own processes, file system and network, on this " + e.cfg.here() + "'s kernel"}
	switch {
	case isGVisor(e.cfg.Runtime):
		c.Name, c.Boundary, c.StartMs = "Docker with gVisor", executors.KernelBoundary, 2000
		c.Isolation = "gVisor: a container with a kernel of its own in front of this " + e.cfg.here() + "'s"
	case isMachine(e.cfg.Runtime):
		c.Name, c.Boundary, c.StartMs = "Docker with Kata", executors.MachineBoundary, 4000
		c.Isolation = "MicroVM: a container in a virtual machine of its own"
	}
	refuse := func(reason, cure string) (executors.Capabilities, error) {
		c.Available, c.Reason, c.Cure = false, reason, cure
		return c, nil
	}
	remotely := func() {
		c.OwnDisk, c.Gated, c.StartMs = true, true, 2000
		switch {
		case e.remote != "":
			c.Isolation = "Container: its own processes, file system and network, on the Docker engine's machine"
		case e.cfg.Runtime == "":
			c.Isolation = "Container: its own processes, file system and network, in Docker's virtual machine"
		}
		if e.cfg.Root {
			c.Isolation = "Container in which agents are " + strings.Join(append([]string{"root"}, e.cfg.Capabilities...), ", ") + ": its own processes and file system, on this " + e.cfg.here() + "'s kernel"
		}
	}
	if e.remoteAsKnown() { // even while the engine does not answer
		remotely()
	}
	if info, err := os.Stat(e.cfg.GuestPath); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return refuse("the guest program is missing", e.cfg.either("Run make build, or point the server at its guest binary.", "Download the program again."))
	}
	info, err := e.About(ctx)
	if err != nil {
		reason, cure := whyUnreachable(err)
		if e.remote != "" {
			reason = "the Docker engine " + e.remote + " does not answer (" + plain(err.Error(), 200) + ")"
			cure = "See that the address is right and that this " + e.cfg.here() + " reaches it, over ssh without being asked for anything."
		}
		return refuse(reason, cure)
	}
	if info.OSType != "" && info.OSType != "linux" {
		return refuse("the Docker engine makes containers of "+info.OSType, "Use an engine that makes Linux containers.")
	}
	if e.remoteAsKnown() {
		remotely()
		if arch := goArch(info); arch != "" && arch != runtime.GOARCH {
			return refuse("the Docker engine's processor is another kind ("+arch+") than this "+e.cfg.here()+"'s", "Use an engine on a machine of the same kind.")
		}
	}
	if r := e.cfg.Runtime; r != "" {
		if _, ok := info.Runtimes[r]; !ok {
			return refuse("the Docker engine does not know the runtime "+r, runtimeCure(r))
		}
	}
	have, err := e.anyImage(ctx)
	if err != nil {
		return refuse("Docker did not tell its images: "+err.Error(), "Look into the log of the Docker engine.")
	}
	switch p := e.cfg.Prepare; {
	case have == "ours", p != nil && p.Offline == "": // a missing image is pulled
		if p != nil {
			c.MakeMs = prepareIn.Milliseconds()
		}
		c.Warning = warnings(info, false, e.cfg.Image)
	case p != nil:
		return refuse("the image "+e.cfg.Image+" is not on this machine, and it is not fetched: "+p.Offline, imageCure(e.cfg.Image, true))
	case have == "none":
		return refuse("the image "+e.cfg.Image+" is not on this server", imageCure(e.cfg.Image, false))
	default:
		c.Warning = warnings(info, true, e.cfg.Image)
	}
	c.Available = true
	return c, nil
}

func imageCure(name string, machine bool) string {
	if machine {
		return "Fetch it with `docker pull " + name + "`."
	}
	if base, _, _ := strings.Cut(name, ":"); base == agentImage {
		return "Build it on the server with `parawork docker build`."
	}
	return "Pull it on the server with `docker pull " + name + "`."
}

// anyImage says whether the configured image exists ("ours"), or only images built for projects ("others"), or "none".
func (e *Executor) anyImage(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err := e.api.ImageInspect(ctx, e.cfg.Image)
	if err == nil {
		return "ours", nil
	}
	if !errdefs.IsNotFound(err) {
		return "", err
	}
	list, err := e.api.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(filters.Arg("label", labelManaged+"=true"))})
	if err != nil {
		return "", err
	}
	if len(list) > 0 {
		return "others", nil
	}
	return "none", nil
}

// warnings lists what works less well on this engine than it could.
func warnings(info system.Info, imageMissing bool, name string) string {
	var w []string
	if imageMissing {
		w = append(w, "The image "+name+" is not on this server: only projects with an image of their own can be worked on. "+imageCure(name, false))
	}
	if !slices.ContainsFunc(info.SecurityOptions, func(o string) bool { return strings.Contains(o, "name=seccomp") }) {
		w = append(w, "The Docker engine filters no system calls: its kernel or its settings lack seccomp.")
	}
	if !info.MemoryLimit || !info.PidsLimit || !info.CPUCfsQuota {
		w = append(w, "The Docker engine cannot enforce every limit on this machine.")
	}
	if !info.LiveRestoreEnabled {
		w = append(w, `A restart of Docker ends its sandboxes: set "live-restore": true in Docker's daemon.json.`)
	}
	return strings.Join(w, " ")
}

// mapped says how the engine maps users: rootless, or with a user namespace for all containers.
func mapped(info system.Info) (rootless, userns bool) {
	for _, o := range info.SecurityOptions {
		rootless = rootless || strings.Contains(o, "name=rootless")
		userns = userns || strings.Contains(o, "name=userns")
	}
	return rootless, userns
}
