//go:build linux || darwin

package docker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// labelProject names the project an image was built for.
const labelProject = "parawork.project"

// Limits of one step of a build.
const (
	buildMemory = 4 << 30
	buildCPUs   = 2
)

// Builder builds images with an engine, wherever that is.
type Builder struct {
	api *client.Client
	of  *Executor // nil for a Builder without an executor, which has no gate
}

// NewBuilder makes a Builder of the engine at host; "" = DOCKER_HOST, else the default socket. It makes no call.
func NewBuilder(host string) (*Builder, error) {
	api, _, err := connect(host, nil)
	if err != nil {
		return nil, err
	}
	return &Builder{api: api}, nil
}

// Builder returns a Builder of the executor's engine.
func (e *Executor) Builder() *Builder { return &Builder{e.api, e} }

// Images is the executor's engine.
func (e *Executor) Images() executors.ImageEngine { return e.Builder() }

// Close gives back what the Builder opened.
func (b *Builder) Close() error { return b.api.Close() }

// Build builds an image and writes what the engine says to log. The image has its tag once everything has succeeded, and not before.
func (b *Builder) Build(ctx context.Context, s executors.ImageBuild, log io.Writer) error {
	labels := map[string]string{labelManaged: "true"}
	if s.Project != "" {
		labels[labelProject] = s.Project
	}
	maps.Copy(labels, s.Labels)
	o := build.ImageBuildOptions{Version: build.BuilderV1, Tags: []string{s.Tag}, Dockerfile: s.Dockerfile, Target: s.Target, Labels: labels,
		NoCache: s.NoCache, PullParent: s.Pull, Remove: true, ForceRemove: true, NetworkMode: s.Network, BuildArgs: map[string]*string{}}
	for name, value := range s.Args {
		o.BuildArgs[name] = &value
	}
	if s.Bounded {
		files := mostFiles()
		o.Memory, o.MemorySwap, o.CPUPeriod, o.CPUQuota = buildMemory, buildMemory, 100_000, buildCPUs*100_000
		o.Ulimits = []*container.Ulimit{{Name: "nofile", Soft: files, Hard: files}, {Name: "core", Soft: 0, Hard: 0}}
	}
	if s.Gate != "" {
		remote, err := b.of.isRemote(ctx)
		if err != nil {
			return err
		}
		o.NetworkMode = network.NetworkNone
		if remote {
			fmt.Fprintln(log, "Note: the Docker engine does not see this machine's files, so the steps of this build have no network. An operator can name one in sandboxing.docker.buildNetwork.")
		} else {
			mode, proxy, end, err := b.wayOut(ctx, s.Gate)
			if err != nil {
				return err
			}
			defer end()
			o.NetworkMode = mode
			none := "localhost,127.0.0.1,::1"
			for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
				o.BuildArgs[name] = &proxy
			}
			o.BuildArgs["NO_PROXY"], o.BuildArgs["no_proxy"] = &none, &none
		}
	}
	if s.Bounded && s.Project != "" {
		var stop context.CancelCauseFunc
		ctx, stop = context.WithCancelCause(ctx)
		var watch sync.WaitGroup
		watch.Go(func() { b.watchDisk(ctx, s.Project, stop) })
		defer watch.Wait()
		defer stop(nil)
	}
	resp, err := b.api.ImageBuild(ctx, s.Context, o)
	if err != nil {
		if cause := context.Cause(ctx); fault.CodeOf(cause) == "image_too_large" {
			return cause
		}
		if unreachable(err) {
			return inWords(err)
		}
		return buildFailed(err.Error())
	}
	defer resp.Body.Close()
	return follow(ctx, resp.Body, log, s.Progress)
}

// said is one message from the engine.
type said struct {
	Stream   string `json:"stream"`
	Status   string `json:"status"`
	ID       string `json:"id"`
	Progress string `json:"progress"`
	Error    string `json:"error"`
}

// maxSaid limits the size of one message from the engine.
const maxSaid = 4 << 20

// follow writes the engine's output to log, and returns the build's error.
func follow(ctx context.Context, r io.Reader, log io.Writer, progress bool) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, maxSaid)
	states := map[string]string{} // of downloads
	var last time.Time
	for sc.Scan() {
		var m said
		if err := json.Unmarshal(sc.Bytes(), &m); err != nil {
			continue // not a message it understands
		}
		switch {
		case m.Error != "":
			return buildFailed(m.Error)
		case m.Stream != "":
			if _, err := io.WriteString(log, m.Stream); err != nil {
				return err
			}
		case m.Status != "" && (states[m.ID] != m.Status || m.ID == "" || progress && m.Progress != "" && time.Since(last) > time.Second):
			states[m.ID] = m.Status
			last = time.Now()
			fmt.Fprintln(log, strings.TrimSpace(strings.TrimLeft(m.ID+": "+m.Status+" "+m.Progress, ": ")))
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return sc.Err()
}

func buildFailed(text string) error {
	text = plain(text, 800)
	cure := "See what it printed, fix the Dockerfile, commit, and build again."
	switch {
	case strings.Contains(text, "BuildKit"), strings.Contains(text, "--mount"):
		cure = "Parawork builds with the engine's classic builder, which has no BuildKit features such as RUN --mount. Write that step without them."
	case strings.Contains(text, "No such image"), strings.Contains(text, "not found"), strings.Contains(text, "pull access denied"):
		cure = "Check the name after FROM, and that the Docker engine can reach the registry."
	case strings.Contains(text, "no such host"), strings.Contains(text, "i/o timeout"), strings.Contains(text, "connection refused"), strings.Contains(text, "network is unreachable"):
		cure = "The Docker engine does not reach the registry: check its network and proxy settings."
	}
	return fault.New(fault.Unavailable, "image_build_failed", "The image could not be built: %s. %s", strings.TrimSuffix(text, "."), cure)
}

// Remove removes an image by its tag. It leaves one that containers still use, and ignores one that does not exist.
func (b *Builder) Remove(ctx context.Context, tag string) error {
	_, err := b.api.ImageRemove(ctx, tag, image.RemoveOptions{PruneChildren: true})
	if err == nil || errdefs.IsNotFound(err) || errdefs.IsConflict(err) || errors.Is(err, context.Canceled) {
		return nil
	}
	return inWords(err)
}
