package agents

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/parawork/parawork/internal/homedir"
)

// EnvArtifacts names the folder whose files the server keeps as artifacts.
const EnvArtifacts = "PARAWORK_ARTIFACTS"

// artifactsDir is the artifacts folder in a home that belongs to one workspace.
const artifactsDir = "artifacts"

// ArtifactsIn returns the artifacts folder of a workspace, relative to the home of its agents: shared means that other workspaces use the
// home too, own that it is a person's own home, in which the folder does not catch the eye.
func ArtifactsIn(workspaceID string, shared, own bool) string {
	switch {
	case own:
		return path.Join(".parawork", artifactsDir, workspaceID)
	case shared:
		return path.Join(artifactsDir, workspaceID)
	}
	return artifactsDir
}

// HostArtifacts is an artifacts folder of a workspace in a home on this server.
type HostArtifacts struct {
	Home   *homedir.Dir
	Dir    string // the home
	Name   string // of the folder in it
	UserID string // whose home; "" = the workspace's
}

// HostArtifacts opens the homes on this server that have an artifacts folder of a workspace. The caller closes them.
func (r *Registry) HostArtifacts(workspaceID string) ([]HostArtifacts, error) {
	if !plainName(workspaceID) {
		return nil, nil
	}
	var out []HostArtifacts
	add := func(dir, name, userID string) error {
		home, err := homedir.Open(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if st, err := home.Stat(name); err != nil || !st.IsDir() {
			return home.Close()
		}
		out = append(out, HostArtifacts{home, dir, name, userID})
		return nil
	}
	users, err := os.ReadDir(r.cfg.HomesDir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for _, u := range users {
		if u.IsDir() && plainName(u.Name()) {
			err = errors.Join(err, add(filepath.Join(r.cfg.HomesDir, u.Name()), ArtifactsIn(workspaceID, true, false), u.Name()))
		}
	}
	if dir := r.HostHome(workspaceID); dir != "" {
		err = errors.Join(err, add(dir, ArtifactsIn(workspaceID, false, false), ""))
	}
	return out, err
}
