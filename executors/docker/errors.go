//go:build linux || darwin

package docker

import (
	"errors"
	"os"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"github.com/parawork/parawork/internal/fault"
)

// unreachable reports whether err means that the engine does not answer, rather than being its answer.
func unreachable(err error) bool {
	return client.IsErrConnectionFailed(err) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) ||
		errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// inWords explains the engine's error.
func inWords(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	if unreachable(err) {
		reason, cure := whyUnreachable(err)
		return fault.Wrap(err, fault.Unavailable, "docker_unreachable", "Docker cannot be reached: %s. %s", reason, cure)
	}
	return err
}

// whyUnreachable returns a reason and a cure.
func whyUnreachable(err error) (reason, cure string) {
	if errors.Is(err, os.ErrPermission) || strings.Contains(err.Error(), "permission denied") {
		return "the user this program runs as may not use the Docker engine's socket",
			"Add the user to the group docker and start the program anew from a new login, or use another place."
	}
	return "the Docker engine does not answer", "Install and start Docker on this machine (docker.io or docker-ce), or set DOCKER_HOST (a server: sandboxing.docker.host) to its address."
}

// refused converts the engine's refusal to make or start a container into a fault with a cure, where one is known.
func refused(err error, image, runtime string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	switch {
	case unreachable(err):
		return inWords(err)
	case runtime != "" && strings.Contains(text, "nknown") && strings.Contains(text, "untime"):
		return noRuntime(runtime, err)
	case errdefs.IsNotFound(err) && strings.Contains(text, "No such image"):
		return noImage(image, err)
	case strings.Contains(text, "bind source path does not exist"), strings.Contains(text, "invalid mount config"):
		return fault.Wrap(err, fault.Unavailable, "docker_no_mounts",
			"The Docker engine does not see this server's folders. It must run on the same machine, and outside of a container; or run the server's data folder at the same path inside it.")
	case strings.Contains(text, "exec format error"):
		return fault.Wrap(err, fault.Unavailable, "image_wrong_platform",
			"The image %q is for another kind of processor than this machine's. Build or choose one for this machine.", image)
	}
	return err
}

func noImage(image string, err error) error {
	cure := "Build it on the server with `parawork docker build`."
	if name, _, _ := strings.Cut(image, ":"); name != agentImage {
		cure = "Pull it on the server with `docker pull " + image + "`, or choose another image in the project's settings."
		if strings.HasPrefix(image, projectPrefix) {
			cure = "Build it again in the project's settings."
		}
	}
	return fault.Wrap(err, fault.Unavailable, "image_missing", "The image %q is not on this server. %s", image, cure)
}

func noRuntime(runtime string, err error) error {
	return fault.Wrap(err, fault.Unavailable, "docker_runtime_missing",
		"The Docker engine does not know the runtime %q. %s", runtime, runtimeCure(runtime))
}

func runtimeCure(runtime string) string {
	if isGVisor(runtime) {
		return "Install gVisor's runsc, add it to Docker's daemon.json with the argument --host-uds=open, and restart Docker; or empty sandboxing.docker.runtime."
	}
	return "Add it to Docker's daemon.json and restart Docker, or empty sandboxing.docker.runtime."
}

// isGVisor reports whether a runtime is gVisor, by its usual names.
func isGVisor(runtime string) bool { return strings.HasPrefix(runtime, "runsc") || runtime == "gvisor" }

// isMachine reports whether a runtime starts virtual machines, by their usual names.
func isMachine(runtime string) bool { return strings.Contains(runtime, "kata") }
