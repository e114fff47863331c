package app

import (
	"context"
	"path/filepath"
	"time"

	"github.com/parawork/parawork/cmd/parawork/instance"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/tools/artifacts"
)

func newArtifacts(b *base, p *people, w *worktrees, s *sandboxes, on *work) (*artifacts.Service, error) {
	cfg, dir := b.cfg.Artifacts, filepath.Join(b.cfg.DataDir, "artifacts")
	contents, err := instance.ArtifactContents(b.cfg)
	if err != nil {
		return nil, err
	}
	return artifacts.New(artifacts.Config{Store: toolstore.NewArtifacts(b.db), Blobs: contents, Folders: artifactFolders{s.places, b.agents}, Worktrees: on.files,
		Workspaces: w.workspaces.Records, Sessions: on.sessions, Secrets: w.workspaces.SecretFiles, Actor: p.directory.Actor, Dir: filepath.Join(dir, "incoming"),
		TeamBytes: cfg.TeamQuotaBytes, Keep: time.Duration(cfg.RetentionDays) * 24 * time.Hour, Events: b.events, Log: b.logOf("artifacts")}), nil
}

// artifactFolders finds the artifacts folders of workspaces: in the sandbox's own home while it is live, otherwise in homes on this server.
type artifactFolders struct {
	places *manager.Manager
	agents *agents.Registry
}

// Of returns the folders of a workspace.
func (f artifactFolders) Of(ctx context.Context, workspaceID string) ([]artifacts.Folder, string, func(), error) {
	p, live := f.places.LiveAwake(workspaceID)
	root := ""
	if live {
		root = p.Hello.Root
	}
	if live && p.Hello.Home != "" {
		name := agents.ArtifactsIn(workspaceID, false, p.SharedHome)
		return []artifacts.Folder{{Files: p.Guest.Home(ctx), Name: name, Path: filepath.Join(p.Hello.Home, name)}}, root, func() {}, nil
	}
	homes, err := f.agents.HostArtifacts(workspaceID)
	done := func() {
		for _, h := range homes {
			_ = h.Home.Close() // it was only read
		}
	}
	if err != nil {
		done()
		return nil, "", nil, err
	}
	out := make([]artifacts.Folder, len(homes))
	for i, h := range homes {
		out[i] = artifacts.Folder{Files: h.Home, Name: h.Name, Path: filepath.Join(h.Dir, h.Name), UserID: h.UserID}
	}
	return out, root, done, nil
}
