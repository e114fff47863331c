//go:build linux || darwin

package docker

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/internal/fault"
)

// On a member's own machine any image works. Parawork installs what it lacks - git, and the agents' command lines - once, in an image
// derived from it, which is found again by the base image's id and by what is installed. An image that lacks nothing is used as it is.

const (
	// preparedName is the name of derived images; the tag says from what and how they were made.
	preparedName = "parawork-prepared"
	labelBase    = "parawork.base" // the name of the image it was derived from

	// prepareIn bounds pulling an image, and installing what it lacks: many megabytes over a possibly slow line.
	prepareIn = 60 * time.Minute
	// partialFor is how long a derived image that lacks an agent is used before the installation is tried again.
	partialFor = time.Hour
	// partialSuffix ends the tag of such an image.
	partialSuffix = "-partial"
)

// image finds the image for a container. Where images are prepared, it pulls a missing one and installs what it lacks. It rejects an image
// that was built for another project, whatever its name.
func (e *Executor) image(ctx context.Context, name, project string) (image.InspectResponse, error) {
	p := e.cfg.Prepare
	img, _, err := named(ctx, e.api, name)
	switch {
	case errdefs.IsNotFound(err) && p == nil:
		return img, noImage(name, err)
	case errdefs.IsNotFound(err):
		ctx, cancel := context.WithTimeout(ctx, prepareIn)
		defer cancel()
		if err := e.pull(ctx, name); err != nil {
			return img, err
		}
		img, _, err = named(ctx, e.api, name)
	}
	if err == nil {
		err = ownImage(img, name, project)
	}
	if err != nil {
		return img, inWords(err)
	}
	if p == nil {
		return img, nil
	}
	ctx, cancel := context.WithTimeout(ctx, prepareIn)
	defer cancel()
	return e.prepared(ctx, name, img)
}

// PrepareImage pulls the configured image and installs what it lacks, as the first sandbox would.
func (e *Executor) PrepareImage(ctx context.Context) error {
	if e.cfg.Prepare == nil {
		return nil
	}
	_, err := e.image(ctx, e.cfg.Image, "")
	return err
}

// prepared returns an image that contains what is needed: img itself, or one derived from it.
func (e *Executor) prepared(ctx context.Context, name string, img image.InspectResponse) (image.InspectResponse, error) {
	p := e.cfg.Prepare
	tag := p.tag(img.ID)
	defer e.turns.Lock("image " + tag)() // two sandboxes do not install the same
	e.mu.Lock()
	whole := e.whole[img.ID]
	e.mu.Unlock()
	if whole {
		return img, nil
	}
	if made, err := e.api.ImageInspect(ctx, tag); err == nil {
		return made, nil
	}
	partial, perr := e.api.ImageInspect(ctx, tag+partialSuffix)
	if perr == nil {
		if at, err := time.Parse(time.RFC3339Nano, partial.Created); err == nil && e.cfg.Now().Sub(at) < partialFor {
			return partial, nil
		}
	}
	lacks, err := e.lacks(ctx, name, img.ID)
	if err != nil {
		return img, err
	}
	if len(lacks) == 0 && len(p.System) == 0 {
		e.mu.Lock()
		e.whole[img.ID] = true
		e.mu.Unlock()
		return img, nil
	}
	words := p.names(lacks)
	if p.Offline != "" {
		if !slices.Contains(lacks, "git") {
			executors.SayStep(ctx, executors.StepTools, "Look into the image "+name, "It has no "+words+", and nothing is installed: "+p.Offline)
			return img, nil // starting that agent reports that it is missing
		}
		return img, fault.New(fault.Unavailable, "image_incomplete",
			"The image %q has no %s, and it cannot be installed: %s. Choose an image that has it.", name, words, p.Offline)
	}
	made, err := e.derive(ctx, name, img, tag, lacks)
	if err != nil && perr == nil && ctx.Err() == nil {
		return partial, nil
	}
	return made, err
}

// tag names the image derived from another. A different recipe, or different agents, change the tag.
func (p *Prepare) tag(baseID string) string {
	h := sha256.New()
	fmt.Fprint(h, recipe.InstallScript, p.Agents, len(p.CA), string(p.CA), p.System)
	return preparedName + ":" + short(baseID) + "-" + hex.EncodeToString(h.Sum(nil)[:6])
}

func short(imageID string) string {
	_, sum, ok := strings.Cut(imageID, ":")
	if !ok {
		sum = imageID
	}
	return sum[:min(len(sum), 16)]
}

// names are programs as people call them.
func (p *Prepare) names(programs []string) string {
	var out []string
	for _, name := range programs {
		if i := slices.IndexFunc(p.Agents, func(a recipe.Package) bool { return a.Program == name }); i >= 0 {
			name = p.Agents[i].Name
		}
		out = append(out, name)
	}
	return strings.Join(append(out, p.System...), ", ")
}

// lacks checks which programs an image lacks, by starting a container of it without access to this machine.
func (e *Executor) lacks(ctx context.Context, name, imageID string) ([]string, error) {
	executors.SayStep(ctx, executors.StepTools, "Look into the image "+name, "")
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, fmt.Errorf("the image %q does not start", name))
	defer cancel()
	instance, err := e.ourInstance()
	if err != nil {
		return nil, err
	}
	want := []string{"git"}
	for _, a := range e.cfg.Prepare.Agents {
		want = append(want, a.Program)
	}
	const end = "looked"
	script := "PATH=$PATH:/usr/local/bin:/usr/bin:/bin; for p in " + strings.Join(want, " ") + "; do command -v $p >/dev/null 2>&1 || echo $p; done; echo " + end
	made, err := e.api.ContainerCreate(ctx, &container.Config{Image: imageID, Entrypoint: []string{"/bin/sh", "-c", script}, AttachStdout: true,
		Labels: map[string]string{labelManaged: "true", labelInstance: instance}, Healthcheck: &container.HealthConfig{Test: []string{"NONE"}}},
		&container.HostConfig{NetworkMode: network.NetworkNone, ReadonlyRootfs: true, CapDrop: []string{"ALL"}, AutoRemove: true,
			SecurityOpt: []string{"no-new-privileges:true"}, Runtime: e.cfg.Runtime, Resources: resources(executors.Limits{Processes: 64})}, nil, nil, "")
	if err != nil {
		return nil, refused(err, name, e.cfg.Runtime)
	}
	defer func() { // it has removed itself, or never ran
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		defer cancel()
		if err := e.api.ContainerRemove(rctx, made.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}); err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
			e.cfg.Log.WarnContext(rctx, "a container that was only asked something could not be removed", "container", made.ID, "error", err)
		}
	}()
	said, err := e.api.ContainerAttach(ctx, made.ID, container.AttachOptions{Stream: true, Stdout: true})
	if err != nil {
		return nil, inWords(err)
	}
	defer said.Close()
	defer context.AfterFunc(ctx, said.Close)()
	if err := e.api.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		if strings.Contains(err.Error(), "/bin/sh") {
			return nil, fault.New(fault.Unavailable, "image_incomplete", "The image %q has no shell (/bin/sh). Choose another image.", name)
		}
		return nil, refused(err, name, e.cfg.Runtime)
	}
	var out bytes.Buffer
	demultiplex(&out, io.LimitReader(said.Reader, 64<<10))
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	found := strings.Fields(out.String())
	if len(found) == 0 || found[len(found)-1] != end {
		return nil, fault.New(fault.Unavailable, "image_incomplete", "The image %q has no shell (/bin/sh) that works: %s. Choose another image.", name,
			cmp.Or(plain(out.String(), 200), "it said nothing"))
	}
	return slices.DeleteFunc(want, func(p string) bool { return !slices.Contains(found[:len(found)-1], p) }), nil
}

// derive builds the image that adds what base lacks.
func (e *Executor) derive(ctx context.Context, name string, base image.InspectResponse, tag string, lacks []string) (image.InspectResponse, error) {
	p := e.cfg.Prepare
	title := "Install what the image " + name + " lacks: " + p.names(lacks)
	executors.SayStep(ctx, executors.StepTools, title, "")
	var agents []recipe.Package
	for _, a := range p.Agents {
		if slices.Contains(lacks, a.Program) {
			agents = append(agents, a)
		}
	}
	build := func(tag string, agents []recipe.Package) (*buildProgress, error) {
		files, err := p.context(base, slices.Contains(lacks, "git"), agents)
		if err != nil {
			return nil, err
		}
		t := &buildProgress{ctx: ctx, title: title}
		return t, e.Builder().Build(ctx, executors.ImageBuild{Tag: tag, Dockerfile: "Dockerfile", Args: p.args(), Network: p.network(), Bounded: true,
			Labels: map[string]string{labelBase: name}, Context: files}, t)
	}
	t, err := build(tag, agents)
	var without []string
	for err != nil && t != nil && t.agent != "" && ctx.Err() == nil {
		// One agent that cannot be installed must not prevent work with the others, nor work without agents.
		gone := func(a recipe.Package) bool { return t.agent == everyAgent || a.Program == t.agent }
		for _, a := range agents {
			if gone(a) {
				without = append(without, a.Name+" ("+t.why(err)+")")
				e.cfg.Log.WarnContext(ctx, "an agent could not be installed", "image", name, "agent", a.Name, "error", err, "reason", t.why(err))
			}
		}
		agents = slices.DeleteFunc(slices.Clone(agents), gone)
		tag = strings.TrimSuffix(tag, partialSuffix) + partialSuffix
		t, err = build(tag, agents)
	}
	if ctx.Err() != nil {
		return image.InspectResponse{}, context.Cause(ctx)
	}
	if err != nil {
		why := err.Error()
		if t != nil {
			why = t.why(err)
		}
		e.cfg.Log.WarnContext(ctx, "what an image lacks could not be installed", "image", name, "error", err)
		return image.InspectResponse{}, fault.New(fault.Unavailable, "image_incomplete",
			"The image %q has no %s, and installing it failed: %s. See that the machine's containers reach the network, or choose an image that has it.", name, p.names(lacks), why)
	}
	if len(without) > 0 {
		executors.SayStep(ctx, executors.StepTools, "", "Not installed: "+strings.Join(without, "; "))
	}
	e.forgetOlder(ctx, name, tag)
	made, err := e.api.ImageInspect(ctx, tag)
	return made, inWords(err)
}

// context returns the build context of the derived image.
func (p *Prepare) context(base image.InspectResponse, tools bool, agents []recipe.Package) (io.Reader, error) {
	d := recipe.Derived{Base: base.ID, Root: base.Config != nil && base.Config.User != "", Tools: tools, System: p.System, Packages: agents}
	if p.args()[registryArg] != "" {
		d.Args = []string{registryArg}
	}
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	for file, content := range map[string]string{"Dockerfile": d.Dockerfile(), "install/install.sh": recipe.InstallScript, "install/ca.pem": string(p.CA)} {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: file, Mode: 0o644, Size: int64(len(content))}); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(t, content); err != nil {
			return nil, err
		}
	}
	return &b, t.Close()
}

// registryArg names the npm registry, where it is not the default.
const registryArg = "NPM_CONFIG_REGISTRY"

// args are the proxy and the registry of this machine, unless the engine is on another: it does not store the proxy in the image.
func (p *Prepare) args() map[string]string {
	out := map[string]string{}
	if p.Remote {
		return out
	}
	for _, entry := range executors.ProxyEnv(os.Environ()) {
		name, value, _ := strings.Cut(entry, "=")
		out[name] = value
	}
	for _, name := range []string{registryArg, strings.ToLower(registryArg)} {
		if v := os.Getenv(name); v != "" {
			out[registryArg] = v
		}
	}
	return out
}

// maxTrusted limits the size of a certificate file.
const maxTrusted = 2 << 20

// TrustedHere reads the certificates this machine trusts in addition to the usual ones, if its owner named them in the environment:
// Prepare.CA.
func TrustedHere() ([]byte, error) {
	path := cmp.Or(os.Getenv("SSL_CERT_FILE"), os.Getenv("NODE_EXTRA_CA_CERTS"))
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the certificates this machine trusts: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxTrusted+1))
	if err == nil && len(b) > maxTrusted {
		err = errors.New("the file is too large")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the certificates this machine trusts: %s: %w", path, err)
	}
	return b, nil
}

// network returns the network of the installation: a proxy at this machine's own address is reachable only through the machine's own
// network.
func (p *Prepare) network() string {
	if p.Remote {
		return p.Network
	}
	for _, entry := range executors.ProxyEnv(os.Environ()) {
		if p.Network == "" && (strings.Contains(entry, "://127.") || strings.Contains(entry, "://localhost") || strings.Contains(entry, "://[::1]")) {
			return network.NetworkHost
		}
	}
	return p.Network
}

// forgetOlder removes images derived from name earlier that no container uses.
func (e *Executor) forgetOlder(ctx context.Context, name, keep string) {
	list, err := e.api.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(filters.Arg("label", labelBase+"="+name))})
	if err != nil {
		return // they stay until the next time
	}
	for _, img := range list {
		for _, tag := range img.RepoTags {
			if strings.HasPrefix(tag, preparedName+":") && tag != keep {
				_ = e.Builder().Remove(ctx, tag) // an image in use stays
			}
		}
	}
}
