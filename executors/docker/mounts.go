//go:build linux || darwin

package docker

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/mount"

	"github.com/parawork/parawork/executors"
)

// effective drops the mounts that a later one covers: Docker orders mounts by the depth of their targets and rejects two with one target.
func effective(mounts []executors.Mount) []executors.Mount {
	var out []executors.Mount
	for i, m := range mounts {
		hidden := slices.ContainsFunc(mounts[i+1:], func(over executors.Mount) bool { return within(m.Target, over.Target) })
		if !hidden {
			out = append(out, m)
		}
	}
	return out
}

// within reports whether path is dir or lies below it.
func within(path, dir string) bool {
	path, dir = filepath.Clean(path), filepath.Clean(dir)
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// binds converts mounts for the engine. A missing source is an error, and is not created.
func binds(mounts []executors.Mount) []mount.Mount {
	var out []mount.Mount
	for _, m := range effective(mounts) {
		out = append(out, mount.Mount{Type: mount.TypeBind, Source: m.Source, Target: filepath.Clean(m.Target), ReadOnly: m.ReadOnly,
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate}})
	}
	return out
}
