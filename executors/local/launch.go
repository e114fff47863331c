//go:build linux || darwin

package local

import (
	"path/filepath"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hostproc"
)

// guestArgs returns the guest's command line. Its listener is fd 3; it reads its token from a file, so that no argument list and no
// environment shows it.
func guestArgs(s executors.Spec, dir string) []string {
	args := []string{"serve", "--sandbox", s.ID, "--root", real(s.Root), "--dir", dir, "--listen-fd", "3",
		"--token-file", filepath.Join(dir, hostproc.TokenName)}
	if s.MountSpec != nil && s.MountSpec.Home != "" { // on a machine whose files the server does not see
		args = append(args, "--home", s.MountSpec.Home)
	}
	return args
}

// real returns a folder's path without links. Programs look up settings for the worktree, such as that it is trusted, by the path that
// getcwd returns.
func real(dir string) string {
	if to, err := filepath.EvalSymlinks(dir); err == nil {
		return to
	}
	return dir
}
