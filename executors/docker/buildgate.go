//go:build linux || darwin

package docker

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// The steps of a build share the network of a container that has only a loopback, where the guest program offers a proxy that leads to the
// gate: a step reaches only what the gate allows. That container ends when its standard input closes, and so with this server, however that
// ends.

const (
	// emptyImage contains no file: the program that runs in it is mounted.
	emptyImage = "parawork-empty:1"
	wayOutIn   = 30 * time.Second
	// buildDisk limits what one step of a build may write, and diskLook is how often that is checked.
	buildDisk = 20 << 30
	diskLook  = 10 * time.Second
)

// wayOut starts that container for the folder of a gate. network is the network of build steps, proxy the proxy they use.
func (b *Builder) wayOut(ctx context.Context, gate string) (mode, proxy string, end func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, wayOutIn, errors.New("the way out of a build did not open in time"))
	defer cancel()
	id, err := b.empty(ctx)
	if err != nil {
		return "", "", nil, err
	}
	made, err := b.api.ContainerCreate(ctx, &container.Config{Image: id, Entrypoint: []string{executors.InsideGuest}, Cmd: []string{"egress", executors.InsideGateSock},
		User: "65534:65534", AttachStdin: true, AttachStdout: true, OpenStdin: true, StdinOnce: true, Labels: map[string]string{labelManaged: "true"}},
		&container.HostConfig{NetworkMode: network.NetworkNone, ReadonlyRootfs: true, CapDrop: []string{"ALL"}, AutoRemove: true,
			SecurityOpt: []string{"no-new-privileges:true"}, Runtime: b.of.cfg.Runtime, Resources: resources(executors.Limits{Processes: 256, MemoryMB: 256}),
			Mounts: binds([]executors.Mount{{Source: b.of.cfg.GuestPath, Target: executors.InsideGuest, ReadOnly: true}, {Source: gate, Target: executors.InsideGate, ReadOnly: true}})},
		nil, nil, "")
	if err != nil {
		return "", "", nil, refused(err, emptyImage, b.of.cfg.Runtime)
	}
	var hung func()
	end = func() {
		if hung != nil {
			hung()
		}
		ectx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		defer cancel()
		err := b.api.ContainerRemove(ectx, made.ID, container.RemoveOptions{Force: true})
		if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
			b.of.cfg.Log.WarnContext(ectx, "the way out of a build could not be removed", "container", made.ID, "error", err)
		}
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	c, err := b.api.ContainerAttach(ctx, made.ID, container.AttachOptions{Stream: true, Stdin: true, Stdout: true})
	if err != nil {
		return "", "", nil, inWords(err)
	}
	hung = c.Close
	if err := b.api.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		return "", "", nil, refused(err, emptyImage, b.of.cfg.Runtime)
	}
	stop := context.AfterFunc(ctx, c.Close)
	var said bytes.Buffer
	r := bufio.NewReader(c.Reader)
	for !strings.Contains(said.String(), "\n") && said.Len() < 4096 && err == nil {
		var head [8]byte
		if _, err = io.ReadFull(r, head[:]); err == nil {
			_, err = io.CopyN(&said, r, int64(head[6])<<8|int64(head[7]))
		}
	}
	stop()
	if err != nil || !strings.HasPrefix(said.String(), "http://") {
		return "", "", nil, fault.New(fault.Unavailable, "image_build_failed", "The way out of the build could not be opened: %s. Try again.", plain(fmt.Sprint(said.String(), " ", err), 200))
	}
	return "container:" + made.ID, strings.TrimSpace(said.String()), end, nil
}

// empty finds or makes the empty image.
func (b *Builder) empty(ctx context.Context) (id string, err error) {
	img, _, err := named(ctx, b.api, emptyImage)
	if err == nil || !errdefs.IsNotFound(err) {
		return img.ID, inWords(err)
	}
	var layer bytes.Buffer
	if err := tar.NewWriter(&layer).Close(); err != nil {
		return "", err
	}
	r, err := b.api.ImageImport(ctx, image.ImportSource{Source: &layer, SourceName: "-"}, emptyImage, image.ImportOptions{})
	if err != nil {
		return "", inWords(err)
	}
	defer r.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(r, 1<<20)); err != nil {
		return "", inWords(err)
	}
	img, _, err = named(ctx, b.api, emptyImage)
	return img.ID, inWords(err)
}

// watchDisk cancels a build whose step has written too much. It returns when ctx ends.
func (b *Builder) watchDisk(ctx context.Context, project string, end context.CancelCauseFunc) {
	tick := time.NewTicker(diskLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		list, err := b.api.ContainerList(ctx, container.ListOptions{Size: true, Filters: filters.NewArgs(filters.Arg("label", labelProject+"="+project))})
		if err != nil {
			continue // checked again next time
		}
		for _, c := range list {
			if c.Labels[labelSandbox] == "" && c.SizeRw > buildDisk {
				end(fault.New(fault.TooLarge, "image_too_large", "A step of the build wrote more than %d GiB. Write less in one step.", buildDisk>>30))
			}
		}
	}
}
